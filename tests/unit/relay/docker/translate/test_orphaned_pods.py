"""Pods whose sandbox is gone: which there are, and what is known of them."""

from typing import Any

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.cri.store import convert
from interpose.relay.docker.translate.orphaned_pods import find_orphaned, is_wanted, write_listed, write_status

OF_POD = {"io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "shop", "io.kubernetes.pod.uid": "u-1"}


def container(container_id: str, pod_id: str, created_at: int = 1, **labels: str) -> cri.Container:
    """A container in a list."""
    return cri.Container(id=container_id, pod_sandbox_id=pod_id, created_at=created_at, labels={**OF_POD, **labels})


def test_a_pod_is_orphaned_if_only_its_containers_are_there() -> None:
    """Its oldest container stands for it; a part of an id names a sandbox as well as the whole."""
    sandboxes = [cri.PodSandbox(id="abc")]
    containers = [
        container("4", "gone", 7),
        container("3", "gone", 5),
        container("2", "abc"),
        container("1", "ab"),
        container("0", ""),
    ]
    assert {pod: one.id for pod, one in find_orphaned(sandboxes, containers).items()} == {"gone": "3"}


def test_it_is_listed_as_a_pod_that_is_not_ready() -> None:
    """With the names that its container has, and no label that is the container's own."""
    message = cri.ListPodSandboxResponse()
    write_listed(message, {"gone": container("3", "gone", 5, app="web")})
    (item,) = message.items
    assert (item.id, item.state, item.created_at, dict(item.labels)) == ("gone", cri.SANDBOX_NOTREADY, 5, OF_POD)
    (listed,) = convert.listed_pods(message.SerializeToString())
    assert listed == ("gone", False, "shop", "web", "u-1", 0)


@pytest.mark.parametrize(
    ("inspected", "parent"),
    [
        ({"HostConfig": {"CgroupParent": "/kubepods/podu-1"}}, "/kubepods/podu-1"),
        ({"HostConfig": {"CgroupParent": "kubepods-podu_1.slice"}}, "/kubepods.slice/kubepods-podu_1.slice"),
        ({"HostConfig": {"CgroupParent": 1}}, ""),
        ({"HostConfig": None}, ""),
    ],
)
def test_its_status_makes_a_record(inspected: dict[str, Any], parent: str) -> None:
    """The cgroup is where its container is."""
    message = cri.PodSandboxStatusResponse()
    write_status(message, "gone", container("3", "gone"), inspected)
    pod = convert.pod_of_status(message.SerializeToString())
    assert (pod.id, pod.name, pod.namespace, pod.uid, pod.ready) == ("gone", "web", "shop", "u-1", False)
    assert (pod.cgroup_parent, pod.runtime_handler) == (parent, "docker")


def test_a_container_may_say_nothing_about_its_pod() -> None:
    """Then nothing is known."""
    message = cri.PodSandboxStatusResponse()
    write_status(message, "gone", cri.Container(id="3", pod_sandbox_id="gone"), {})
    assert (message.status.metadata.name, dict(message.status.labels)) == ("", {})


@pytest.mark.parametrize(
    ("wanted", "passes"),
    [
        (cri.PodSandboxFilter(), True),
        (cri.PodSandboxFilter(id="go"), True),
        (cri.PodSandboxFilter(id="other"), False),
        (cri.PodSandboxFilter(state=cri.PodSandboxStateValue(state=cri.SANDBOX_NOTREADY)), True),
        (cri.PodSandboxFilter(state=cri.PodSandboxStateValue(state=cri.SANDBOX_READY)), False),
        (cri.PodSandboxFilter(label_selector={"io.kubernetes.pod.uid": "u-1"}), True),
        (cri.PodSandboxFilter(label_selector={"io.kubernetes.pod.uid": "u-2"}), False),
        (cri.PodSandboxFilter(label_selector={"app": ""}), False),
    ],
)
def test_filters(wanted: cri.PodSandboxFilter, passes: bool) -> None:
    """By id, state and labels."""
    message = cri.ListPodSandboxResponse()
    write_listed(message, {"gone": container("3", "gone")})
    assert is_wanted(message.items[0], wanted) is passes
