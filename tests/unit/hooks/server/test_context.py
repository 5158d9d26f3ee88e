"""Contexts: what they know of their subject, and responses that collect wishes."""

import pytest

from interpose.core.model.cgroup import CLEAR, KubeQos, Parameter
from interpose.core.model.pod import Container, Pod
from interpose.core.model.qos import QOS_LABEL, QosClass
from interpose.hooks.server.context import ContainerContext, PodContext, Response, Wish

BE = Pod(id="p", labels={QOS_LABEL: "BE"}, annotations={"a": "1"}, cgroup_parent="/kubepods/besteffort/pod1")
PLAIN = Pod(id="p", cgroup_parent="/kubepods/pod1")


def test_response_has_what_was_set_last() -> None:
    """A plugin may change its mind."""
    response = Response()
    response.set(Parameter.CPU_SHARES, 2, "first")
    response.set(Parameter.CPU_SHARES, 3, "second")
    response.set(Parameter.CPUSET_CPUS, CLEAR, "all of them")
    response.set_env("A", "1", "for it")
    assert response.wishes == {
        Parameter.CPU_SHARES: Wish(3, "second"),
        Parameter.CPUSET_CPUS: Wish(CLEAR, "all of them"),
    }
    assert response.envs == {"A": ("1", "for it")}


@pytest.mark.parametrize(
    ("pod", "qos", "kube"), [(BE, QosClass.BE, KubeQos.BEST_EFFORT), (PLAIN, None, KubeQos.GUARANTEED)]
)
def test_classes_of_a_pod(pod: Pod, qos: QosClass | None, kube: KubeQos) -> None:
    """One from its label, the other from where it is in the tree."""
    context = PodContext(request=pod)
    assert (context.qos, context.kube_qos) == (qos, kube)


def test_container_has_the_classes_of_its_pod() -> None:
    """And its annotations."""
    context = ContainerContext(pod=BE, request=Container(id="c"))
    assert (context.qos, context.kube_qos, context.annotations) == (QosClass.BE, KubeQos.BEST_EFFORT, {"a": "1"})


def test_container_elsewhere_has_the_class_of_its_own_place() -> None:
    """A caller may put one container into another cgroup than its pod."""
    elsewhere = Container(id="c", cgroup_parent="/kubepods/burstable/pod2")
    assert ContainerContext(pod=BE, request=elsewhere).kube_qos is KubeQos.BURSTABLE
