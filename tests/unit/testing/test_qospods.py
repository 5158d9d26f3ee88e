"""Pods of co-location: what plugins read of them, and what they have before any plugin."""

from collections import Counter

import pytest

from interpose.core.model.cgroup import UNLIMITED, KubeQos, Parameter, kube_qos_of
from interpose.core.model.qos import QosClass, qos_of
from interpose.hooks.server.pods.pod_annotations import extended_resources, resource_status
from interpose.testing.fakenode import FakeNode
from interpose.testing.kernel.cgroup import FakeKernel
from interpose.testing.qospods import GIB, be_pod, ls_pod, lsr_pod, populate
from interpose.testing.runtime.state import FakeSandbox


@pytest.fixture
def node() -> FakeNode:
    """Of v1, whose values are exact."""
    return FakeNode(FakeKernel(1))


def classes(sandbox: FakeSandbox) -> tuple[QosClass | None, KubeQos]:
    """Both kinds."""
    return qos_of(sandbox.config.labels), kube_qos_of(sandbox.config.linux.cgroup_parent)


def cpu(node: FakeNode, directory: str) -> tuple[object, ...]:
    """Shares, quota and memory limit."""
    parameters = (Parameter.CPU_SHARES, Parameter.CPU_QUOTA, Parameter.MEMORY_LIMIT)
    return tuple(node.tree.read(directory, one) for one in parameters)


def test_best_effort_pod(node: FakeNode) -> None:
    """What it asks for is in the annotation alone."""
    sandbox = be_pod(node, "spark", batch_cpu=1500, batch_memory=GIB, containers=("a", "b"), labels={"x": "y"})
    assert classes(sandbox) == (QosClass.BE, KubeQos.BEST_EFFORT)
    assert sandbox.config.labels["x"] == "y"
    asked = extended_resources(sandbox.config.annotations)
    assert set(asked) == {"a", "b"}
    assert asked["a"].limits == {"kubernetes.io/batch-cpu": 1500, "kubernetes.io/batch-memory": GIB}
    assert cpu(node, node.pod_directory(sandbox)) == (4, UNLIMITED, UNLIMITED)
    assert cpu(node, node.directory(sandbox.containers[0])) == (2, UNLIMITED, UNLIMITED)


def test_best_effort_pod_without_limits(node: FakeNode) -> None:
    """Requests only."""
    asked = extended_resources(be_pod(node, "spark", limits=False).config.annotations)
    assert (bool(asked["main"].requests), bool(asked["main"].limits)) == (True, False)


def test_latency_sensitive_pod(node: FakeNode) -> None:
    """The pod has the sums; unlimited if one container is."""
    sandbox = ls_pod(node, "web", cpu_request=500, cpu_limit=1000, containers=("a", "b"))
    assert classes(sandbox) == (QosClass.LS, KubeQos.BURSTABLE)
    assert cpu(node, node.pod_directory(sandbox)) == (1024, 200_000, 2 * GIB)
    free = ls_pod(node, "free", cpu_limit=0, memory_limit=0)
    assert cpu(node, node.pod_directory(free)) == (512, UNLIMITED, UNLIMITED)


def test_pod_with_cpus_of_its_own(node: FakeNode) -> None:
    """The scheduler's annotation says which."""
    sandbox = lsr_pod(node, "db", cpuset="2-3,6", annotations={"a": "b"})
    assert classes(sandbox) == (QosClass.LSR, KubeQos.GUARANTEED)
    status = resource_status(sandbox.config.annotations)
    assert (status.cpuset, [(one.node, int(one.resources["cpu"])) for one in status.numa]) == ("2-3,6", [(0, 3)])
    assert sandbox.config.annotations["a"] == "b"
    assert cpu(node, node.pod_directory(sandbox)) == (3072, 300_000, 2 * GIB)


def test_many_pods_of_all_classes(node: FakeNode) -> None:
    """Exclusive CPUs are given once."""
    made = populate(node, 60, exclusive=6)
    assert Counter(qos_of(one.config.labels) for one in made) == {QosClass.BE: 30, QosClass.LS: 27, QosClass.LSR: 3}
    sets = [resource_status(one.config.annotations).cpuset for one in made]
    assert [one for one in sets if one] == ["0-1", "2-3", "4-5"]
    assert len({one.config.metadata.uid for one in made}) == 60
