"""The class of a pod, and what a request is."""

from fractions import Fraction

import pytest

from interpose.core.model.cgroup import KubeQos
from interpose.node.pods.cri_config.qos import is_sidecar, pod_qos, requested, sidecars
from interpose.node.pods.spec import Container, Pod, Resources, RestartPolicy

FULL = Resources(limits={"cpu": Fraction(1), "memory": Fraction(2)})
SOME = Resources(requests={"cpu": Fraction(1)})


def container(name: str, resources: Resources = Resources(), policy: RestartPolicy | None = None) -> Container:  # noqa: B008
    """A container."""
    return Container(name=name, image="i", resources=resources, restart_policy=policy)


def test_containers_and_init_containers_count() -> None:
    """An init container without limits takes the guarantee from the pod."""
    assert pod_qos(Pod(name="p", uid="u", containers=(container("a", FULL),))) is KubeQos.GUARANTEED
    pod = Pod(name="p", uid="u", containers=(container("a", FULL),), init_containers=(container("i"),))
    assert pod_qos(pod) is KubeQos.BURSTABLE


def test_ephemeral_containers_do_not_count() -> None:
    """They come later and ask for nothing."""
    pod = Pod(name="p", uid="u", containers=(container("a", FULL),), ephemeral_containers=(container("e"),))
    assert pod_qos(pod) is KubeQos.GUARANTEED


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (FULL, KubeQos.GUARANTEED),
        (SOME, KubeQos.BURSTABLE),
        (Resources(limits={"a.b/c": Fraction(1)}), KubeQos.BEST_EFFORT),
        (Resources(), KubeQos.BURSTABLE),
    ],
)
def test_amounts_of_the_pod_decide_alone(own: Resources, expected: KubeQos) -> None:
    """If there are some; an empty group is as none."""
    pod = Pod(name="p", uid="u", containers=(container("a", SOME),), resources=own)
    assert pod_qos(pod) is expected


def test_sidecars_are_init_containers_that_stay() -> None:
    """A regular container with a policy of its own is none."""
    always = RestartPolicy.ALWAYS
    side, init, main = container("s", policy=always), container("i"), container("m", policy=always)
    pod = Pod(name="p", uid="u", containers=(main,), init_containers=(init, side))
    assert list(sidecars(pod)) == [side]
    assert [is_sidecar(pod, one) for one in (side, init, main)] == [True, False, False]


def test_a_missing_request_is_the_limit() -> None:
    """A request of zero is one."""
    resources = Resources(requests={"cpu": Fraction(0)}, limits={"cpu": Fraction(2), "memory": Fraction(5)})
    assert [requested(resources, name) for name in ("cpu", "memory", "other")] == [0, 5, 0]
