"""Answers of a runtime as values."""

from fractions import Fraction

import pytest

from interpose.core.model.kubernetes_names import CONTAINER_NAME
from interpose.core.model.pod import ContainerState
from interpose.cri.messages import cri
from interpose.node.pods.spec import ResourceRequirements
from interpose.node.pods.status.annotations import ContainerAnnotations
from interpose.node.pods.status.lister import addresses, container_status, pod_status, sandbox_status
from interpose.node.pods.status.runtime_pod import RuntimePod
from interpose.node.pods.status.types import ContainerStatus, SandboxStatus


def test_a_sandbox_with_its_network() -> None:
    """All addresses, and whose network it is."""
    message = cri.PodSandboxStatus(
        id="s",
        metadata=cri.PodSandboxMetadata(name="n", attempt=2),
        created_at=5,
        network=cri.PodSandboxNetworkStatus(ip="10.0.0.1", additional_ips=[cri.PodIP(ip="fd00::1"), cri.PodIP()]),
        labels={"a": "b"},
        annotations={"c": "d"},
        runtime_handler="kata",
    )
    found = sandbox_status(message)
    assert found == SandboxStatus(
        id="s",
        attempt=2,
        created_at=5,
        ip="10.0.0.1",
        additional_ips=("fd00::1",),
        labels={"a": "b"},
        annotations={"c": "d"},
        runtime_handler="kata",
    )
    assert addresses(found) == ("10.0.0.1", "fd00::1")


def test_a_sandbox_without_a_network_says_nothing_of_it() -> None:
    """That is not the same as one without an address."""
    assert sandbox_status(cri.PodSandboxStatus(id="s")).ip is None
    assert sandbox_status(cri.PodSandboxStatus(id="s", network=cri.PodSandboxNetworkStatus())).ip == ""


@pytest.mark.parametrize(
    "sandbox",
    [
        SandboxStatus(id="s", ip="10.0.0.1", ready=False),
        SandboxStatus(id="s", ip="10.0.0.1", host_network=True),
        SandboxStatus(id="s", ip=""),
        SandboxStatus(id="s"),
    ],
)
def test_who_cannot_be_reached_has_no_addresses(sandbox: SandboxStatus) -> None:
    """Not ready, in the node's network, or without."""
    assert addresses(sandbox) == ()


def _message(state: int) -> cri.ContainerStatus:
    return cri.ContainerStatus(
        id="c",
        metadata=cri.ContainerMetadata(name="meta", attempt=1),
        state=state,  # type: ignore[arg-type]
        created_at=1,
        started_at=2,
        finished_at=3,
        exit_code=4,
        reason="Error",
        message="said",
        image=cri.ImageSpec(image="full", user_specified_image="short"),
        labels={CONTAINER_NAME: "main"},
    )


def test_only_what_has_happened_is_told() -> None:
    """A container that was not started has no start, one that runs no end."""
    notes = ContainerAnnotations(hash="h", restart_count=3)
    created, running, exited = (container_status(_message(n), notes, message="words") for n in range(3))
    assert (created.started_at, created.finished_at, created.exit_code) == (0, 0, 0)
    assert (running.started_at, running.finished_at, running.reason, running.message) == (2, 0, "", "")
    assert (exited.finished_at, exited.exit_code, exited.reason, exited.message) == (3, 4, "Error", "said: words")
    assert (exited.name, exited.hash, exited.restart_count, exited.image) == ("main", "h", 3, "short")


def test_a_container_of_others_has_what_it_was_made_with() -> None:
    """Name, image and number, without labels and annotations of ours."""
    message = cri.ContainerStatus(
        id="c", metadata=cri.ContainerMetadata(name="meta", attempt=7), image=cri.ImageSpec(image="full")
    )
    found = container_status(message, ContainerAnnotations())
    assert (found.name, found.image, found.restart_count) == ("meta", "full", 7)


def test_what_was_asked_for_last_counts() -> None:
    """Before what the container was made with."""
    old, new = (ResourceRequirements(requests={"cpu": Fraction(n)}) for n in (1, 2))
    message = cri.ContainerStatus(id="c")
    assert container_status(message, ContainerAnnotations(resources=old)).resources == old
    assert container_status(message, ContainerAnnotations(resources=old), resources=new).resources == new


def test_the_active_containers_are_those_of_the_newest_sandbox_if_it_is_ready() -> None:
    """And only then the pod has addresses."""
    pod = RuntimePod(uid="u", name="web", namespace="ns")
    new, old = SandboxStatus(id="new", attempt=1, ip="10.0.0.2"), SandboxStatus(id="old", ip="10.0.0.1")
    inside, outside = (
        ContainerStatus(id=one, name="main", sandbox_id=one, state=ContainerState.RUNNING) for one in ("new", "old")
    )
    found = pod_status(pod, [new, old], [inside, outside])
    assert (found.ips, found.active) == (("10.0.0.2",), (inside,))
    dead = SandboxStatus(id="new", attempt=1, ready=False)
    found = pod_status(pod, [dead, old], [inside, outside])
    assert (found.ips, found.active) == ((), ())
    assert pod_status(pod, [], []).ips == ()
