"""The class of a pod, and what a request is."""

from fractions import Fraction

import pytest

from interpose.core.model.cgroup import KubeQos
from interpose.node.pods.cri_config.qos import is_sidecar, pod_qos, requested, sidecars
from interpose.node.pods.spec import ContainerSpec, PodSpec, ResourceRequirements, RestartPolicy

FULL = ResourceRequirements(limits={"cpu": Fraction(1), "memory": Fraction(2)})
SOME = ResourceRequirements(requests={"cpu": Fraction(1)})


NONE = ResourceRequirements()


def container(name: str, resources: ResourceRequirements = NONE, policy: RestartPolicy | None = None) -> ContainerSpec:
    """A container with these requests and limits."""
    return ContainerSpec(name=name, image="i", resources=resources, restart_policy=policy)


def test_containers_and_init_containers_count() -> None:
    """An init container without limits takes the guarantee from the pod."""
    assert pod_qos(PodSpec(name="p", uid="u", containers=(container("a", FULL),))) is KubeQos.GUARANTEED
    pod = PodSpec(name="p", uid="u", containers=(container("a", FULL),), init_containers=(container("i"),))
    assert pod_qos(pod) is KubeQos.BURSTABLE


def test_ephemeral_containers_do_not_count() -> None:
    """They come later and ask for nothing."""
    pod = PodSpec(name="p", uid="u", containers=(container("a", FULL),), ephemeral_containers=(container("e"),))
    assert pod_qos(pod) is KubeQos.GUARANTEED


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (FULL, KubeQos.GUARANTEED),
        (SOME, KubeQos.BURSTABLE),
        (ResourceRequirements(limits={"a.b/c": Fraction(1)}), KubeQos.BEST_EFFORT),
        (ResourceRequirements(), KubeQos.BURSTABLE),
    ],
)
def test_amounts_of_the_pod_decide_alone(own: ResourceRequirements, expected: KubeQos) -> None:
    """If there are some; an empty group is as none."""
    pod = PodSpec(name="p", uid="u", containers=(container("a", SOME),), resources=own)
    assert pod_qos(pod) is expected


def test_sidecars_are_init_containers_that_stay() -> None:
    """A regular container with a policy of its own is none."""
    always = RestartPolicy.ALWAYS
    side, init, main = container("s", policy=always), container("i"), container("m", policy=always)
    pod = PodSpec(name="p", uid="u", containers=(main,), init_containers=(init, side))
    assert list(sidecars(pod)) == [side]
    assert [is_sidecar(pod, one) for one in (side, init, main)] == [True, False, False]


def test_a_missing_request_is_the_limit() -> None:
    """A request of zero is one."""
    resources = ResourceRequirements(requests={"cpu": Fraction(0)}, limits={"cpu": Fraction(2), "memory": Fraction(5)})
    assert [requested(resources, name) for name in ("cpu", "memory", "other")] == [0, 5, 0]
