"""A real containerd behind the relay does all that it does without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interpose._pb import cri_pb2
from tests.support.lab.images import PAUSE_IMAGE, TEST_IMAGE
from tests.support.lab.load.websocket import run_exec
from tests.support.lab.pods import LabPod

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.protobuf.message import Message

    from tests.support.lab.cri import CriClient

pytestmark = pytest.mark.e2e

NO_SUCH_ID = "0123456789abcdef" * 4


@pytest.fixture
def pod(client: CriClient) -> Iterator[LabPod]:
    """A running pod with one container, made through the relay."""
    with LabPod(client, "life") as running:
        yield running


def test_full_pod_life(client: CriClient, direct: CriClient) -> None:
    """Run, create, start, status, list, stop and remove through the relay; containerd itself agrees at each step."""
    pod = LabPod(client, "full")
    try:
        pod.run()
        sandbox = cri_pb2.PodSandboxStatusRequest(pod_sandbox_id=pod.sandbox_id)
        assert client.call("PodSandboxStatus", sandbox).status.state == cri_pb2.SANDBOX_READY
        pod.create()
        assert pod.status().state == cri_pb2.CONTAINER_CREATED
        pod.start()
        assert pod.status().state == cri_pb2.CONTAINER_RUNNING
        only_this = cri_pb2.ListContainersRequest(filter=cri_pb2.ContainerFilter(pod_sandbox_id=pod.sandbox_id))
        assert [c.id for c in client.call("ListContainers", only_this).containers] == [pod.container_id]
        assert client.call("ListContainers", only_this) == direct.call("ListContainers", only_this)
        client.call("StopContainer", cri_pb2.StopContainerRequest(container_id=pod.container_id, timeout=0))
        assert pod.status().state == cri_pb2.CONTAINER_EXITED
        client.call("RemoveContainer", cri_pb2.RemoveContainerRequest(container_id=pod.container_id))
        assert not direct.call("ListContainers", only_this).containers
        client.call("StopPodSandbox", cri_pb2.StopPodSandboxRequest(pod_sandbox_id=pod.sandbox_id))
        assert client.call("PodSandboxStatus", sandbox).status.state == cri_pb2.SANDBOX_NOTREADY
        client.call("RemovePodSandbox", cri_pb2.RemovePodSandboxRequest(pod_sandbox_id=pod.sandbox_id))
        assert direct.outcome("PodSandboxStatus", sandbox).code == "NOT_FOUND"
    finally:
        pod.remove()


def test_exec_sync_carries_output_and_exit_code(pod: LabPod) -> None:
    """ExecSync brings back both outputs and the exit code."""
    reply = pod.exec("sh", "-c", "echo out; echo err >&2; exit 3")
    assert (reply.stdout, reply.stderr, reply.exit_code) == (b"out\n", b"err\n", 3)


def test_exec_over_the_returned_url(client: CriClient, pod: LabPod) -> None:
    """The URL that Exec returns leads to the runtime and works with WebSocket v4."""
    request = cri_pb2.ExecRequest(
        container_id=pod.container_id, cmd=["sh", "-c", "echo streamed; echo wrong >&2"], stdout=True, stderr=True
    )
    result = run_exec(client.call("Exec", request).url)
    assert (result.stdout, result.stderr) == (b"streamed\n", b"wrong\n")
    assert result.status["status"] == "Success"


def test_update_resources_reaches_the_cgroup(client: CriClient, pod: LabPod) -> None:
    """UpdateContainerResources through the relay changes the container's control files."""
    shares = pod.cgroup_file("cpu", "cpu.shares")
    assert shares.read_text() == "512\n"
    resources = cri_pb2.LinuxContainerResources(cpu_shares=2048, cpuset_cpus="0")
    request = cri_pb2.UpdateContainerResourcesRequest(container_id=pod.container_id, linux=resources)
    client.call("UpdateContainerResources", request)
    assert shares.read_text() == "2048\n"
    assert pod.cgroup_file("cpuset", "cpuset.cpus").read_text() == "0\n"


def test_stats(client: CriClient, pod: LabPod) -> None:
    """Stats of the container arrive, alone and in the list."""
    one = client.call("ContainerStats", cri_pb2.ContainerStatsRequest(container_id=pod.container_id)).stats
    assert one.attributes.id == pod.container_id
    assert one.memory.working_set_bytes.value > 0
    listed = client.call("ListContainerStats").stats
    assert pod.container_id in [stats.attributes.id for stats in listed]


def test_images(client: CriClient, direct: CriClient) -> None:
    """The image service passes: list, status of a present image, and of an absent one."""
    tags = {tag for image in client.call("ListImages").images for tag in image.repo_tags}
    assert {PAUSE_IMAGE, TEST_IMAGE} <= tags
    present = cri_pb2.ImageStatusRequest(image=cri_pb2.ImageSpec(image=TEST_IMAGE), verbose=True)
    assert client.call("ImageStatus", present).image.repo_tags == [TEST_IMAGE]
    assert client.call("ImageStatus", present).image == direct.call("ImageStatus", present).image
    absent = cri_pb2.ImageStatusRequest(image=cri_pb2.ImageSpec(image="localhost/absent:latest"))
    assert client.outcome("ImageStatus", absent) == direct.outcome("ImageStatus", absent)


@pytest.mark.parametrize(
    ("method", "request_message", "code"),
    [
        ("ContainerStatus", cri_pb2.ContainerStatusRequest(container_id=NO_SUCH_ID), "NOT_FOUND"),
        ("PodSandboxStatus", cri_pb2.PodSandboxStatusRequest(pod_sandbox_id=NO_SUCH_ID), "NOT_FOUND"),
        ("StopContainer", cri_pb2.StopContainerRequest(container_id=NO_SUCH_ID), "NOT_FOUND or OK"),  # OK from 1.7 on
        ("RemovePodSandbox", cri_pb2.RemovePodSandboxRequest(pod_sandbox_id=NO_SUCH_ID), "OK"),
        ("RunPodSandbox", cri_pb2.RunPodSandboxRequest(), "UNKNOWN"),
        ("Version", b"", "OK"),
        ("/runtime.v1.RuntimeService/NotInventedYet", b"", "UNIMPLEMENTED"),
        ("/no.such.Service/Call", b"", "UNIMPLEMENTED"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_answers_are_those_of_the_runtime(
    client: CriClient, direct: CriClient, method: str, request_message: Message | bytes, code: str
) -> None:
    """Code, message, metadata, trailers and reply bytes through the relay equal those of a direct call."""
    through = client.outcome(method, request_message)
    assert through == direct.outcome(method, request_message)
    assert through.code in code.split(" or ")


def test_events_are_those_of_the_runtime(client: CriClient, direct: CriClient) -> None:
    """Refused by 1.6; a stream that goes on for as long as the client wants, from 1.7 on."""
    codes = {one.outcome("GetContainerEvents", timeout=1).code for one in (client, direct)}
    # Either end may be the first to see that the time is over.
    assert codes == {"UNIMPLEMENTED"} or codes <= {"DEADLINE_EXCEEDED", "CANCELLED"}


def test_a_large_request_is_refused_by_the_runtime_itself(client: CriClient, direct: CriClient) -> None:
    """A request above the runtime's own limit gets the runtime's own words; the relay has no limit to add."""
    request = b"\x0a\x80\x80\x80\x0a" + b"x" * (20 * 1024 * 1024)
    through = client.outcome("Version", request)
    assert through == direct.outcome("Version", request)
    assert through.code == "RESOURCE_EXHAUSTED"
