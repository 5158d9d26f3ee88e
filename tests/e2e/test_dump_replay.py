"""Recordings replayed: on a real containerd, through a relay, and as a runtime that answers from the recording."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from interpose._pb import cri_pb2 as cri
from tests.support.lab.cri import CriClient
from tests.support.lab.dumps import calls, dump, dump_child, live
from tests.support.lab.images import TEST_IMAGE
from tests.support.lab.pods import LabPod, remove_groups
from tests.support.lab.processes import wait_for
from tests.support.lab.relay import Relay

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.lab.containerd import Containerd

pytestmark = pytest.mark.e2e

# Pods and containers of the recording at its end: (pod, state, exit code).
AT_THE_END = [("short", "CONTAINER_EXITED", 3), ("stays", "CONTAINER_RUNNING", 0)]


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A recording, the ids of what runs at its end, and the cgroups that its pods are in."""

    file: Path
    pod: str
    container: str
    groups: tuple[str, ...]


@pytest.fixture(scope="module")
def recorded(containerd: Containerd) -> Iterator[Recorded]:
    """One pod came and went, one runs, one has ended by itself; then somebody looked around."""
    folder = Path(tempfile.mkdtemp(prefix="interpose-"))
    file = folder / "pods.crirec"
    with (
        CriClient(containerd.socket) as direct,
        Relay(folder, containerd.socket, ("--record", str(file))) as relay,
        CriClient(relay.socket) as client,
        LabPod(client, "stays") as stays,
        LabPod(client, "short", ["/bin/sh", "-c", "exit 3"]) as short,
    ):
        gone = LabPod(client, "gone")
        live(gone)
        wait_for(lambda: short.status().state == cri.CONTAINER_EXITED, what="the container to end")
        look_around(client, stays)
        found = Recorded(
            file=file,
            pod=stays.sandbox_id,
            container=stays.container_id,
            groups=tuple(one.cgroup_parent for one in (gone, stays, short)),
        )
        assert relay.child.stop() == 0
        for pod in (stays, short):
            pod.client = direct  # not part of the recording
    yield found
    shutil.rmtree(folder, ignore_errors=True)


def look_around(client: CriClient, pod: LabPod) -> None:
    """What `crictl version`, `pods`, `ps`, `inspectp`, `inspect`, `images` and `info` ask."""
    for method in ("Version", "ListPodSandbox", "ListContainers", "ListImages", "Status"):
        client.call(method)
    pod.sandbox_status()
    pod.info()


def there(runtime: CriClient) -> list[tuple[str, str, int]]:
    """Containers of the runtime: their pods, states and exit codes."""
    found = []
    for container in runtime.call("ListContainers").containers:
        request = cri.ContainerStatusRequest(container_id=container.id)
        status = runtime.call("ContainerStatus", request).status
        pod = status.labels.get("io.kubernetes.pod.name") or pod_name(runtime, container.pod_sandbox_id)
        found.append((pod, cri.ContainerState.Name(status.state), status.exit_code))
    return sorted(found)


def pod_name(runtime: CriClient, pod_id: str) -> str:
    """The name of a pod."""
    reply = runtime.call("PodSandboxStatus", cri.PodSandboxStatusRequest(pod_sandbox_id=pod_id))
    return str(reply.status.metadata.name)


@pytest.fixture
def empty(runtime: CriClient, recorded: Recorded) -> Iterator[CriClient]:
    """A runtime without pods, before and after."""
    assert not runtime.call("ListPodSandbox").items
    yield runtime
    for pod in runtime.call("ListPodSandbox").items:
        runtime.call("StopPodSandbox", cri.StopPodSandboxRequest(pod_sandbox_id=pod.id))
        runtime.call("RemovePodSandbox", cri.RemovePodSandboxRequest(pod_sandbox_id=pod.id))
    for group in recorded.groups:
        for suffix in ("", "-r1", "-r2"):  # as pods are renamed whose uid is taken
            remove_groups(group + suffix)


def replay(recorded: Recorded, socket: Path, *options: str) -> Any:
    """What a replay that comes out as recorded reports."""
    return json.loads(dump("replay", recorded.file, "--to", f"unix://{socket}", "-o", "json", *options))


def test_the_same_states_twice(recorded: Recorded, containerd: Containerd, empty: CriClient) -> None:
    """A second run beside the first makes the same once more; cleaning up leaves what others made."""
    replay(recorded, containerd.socket)
    assert there(empty) == AT_THE_END
    first = {one.id for one in empty.call("ListContainers").containers}
    assert recorded.container not in first
    replay(recorded, containerd.socket, "--exec", "--reads")
    assert there(empty) == sorted(AT_THE_END * 2)
    replay(recorded, containerd.socket, "--cleanup", "~p short")
    assert there(empty) == sorted(AT_THE_END * 2)
    assert first < {one.id for one in empty.call("ListContainers").containers}


def test_through_a_relay(recorded: Recorded, containerd: Containerd, empty: CriClient, scratch: Path) -> None:
    """A replay is a client like others, and leaves nothing behind; a dry run makes nothing in the first place."""
    again = scratch / "again.crirec"
    with Relay(scratch, containerd.socket, ("--record", str(again))) as relay:
        planned = replay(recorded, relay.socket, "--dry-run")
        replay(recorded, relay.socket, "--cleanup")
        assert not empty.call("ListPodSandbox").items
        assert not empty.call("ListContainers").containers
        assert relay.child.stop() == 0
    steps = [one["method"] for one in planned["calls"]]
    made = [one["method"] for one in calls(again) if one["method"] in steps]
    assert Counter(made)["CreateContainer"] == Counter(steps)["CreateContainer"] == 3
    assert Counter(made)["RemovePodSandbox"] >= Counter(made)["RunPodSandbox"] == 3


def test_a_runtime_that_differs(recorded: Recorded, own_containerd: Containerd) -> None:
    """It has no images: the exit code says so, each call says how it ended, and nothing is left."""
    out = dump("replay", recorded.file, "~p stays", "--to", own_containerd.socket, "--cleanup", code=1)
    assert "RunPodSandbox" in out
    assert "0 ended as recorded" in out
    with CriClient(own_containerd.socket) as direct:
        assert not direct.call("ListPodSandbox").items


@pytest.mark.parametrize("version", ["v1", "v1alpha2"])
def test_a_runtime_that_answers_from_the_recording(recorded: Recorded, scratch: Path, version: str) -> None:
    """What somebody looked at can be looked at again, also through a relay; nothing runs."""
    socket, log = scratch / "served.sock", scratch / "serve.log"
    with dump_child(log, "replay", recorded.file, "--serve", socket) as server:
        server.wait_listening(socket)
        with (
            Relay(scratch, socket) as relay,
            CriClient(socket, version) as direct,
            CriClient(relay.socket, version) as relayed,
        ):
            for client in (direct, relayed):
                assert client.call("Version").runtime_name == "containerd"
                pods = client.call("ListPodSandbox").items
                assert sorted(pod.metadata.name for pod in pods) == ["short", "stays"]
                assert recorded.container in {one.id for one in client.call("ListContainers").containers}
                assert TEST_IMAGE in {tag for one in client.call("ListImages").images for tag in one.repo_tags}
                pod = LabPod(client, "stays")
                pod.sandbox_id, pod.container_id = recorded.pod, recorded.container
                assert pod.sandbox_status().status.metadata.name == "stays"
                assert pod.info()["pid"] > 0
                assert pod.status().state == cri.CONTAINER_RUNNING
                unknown = cri.ContainerStatusRequest(container_id="nowhere")
                assert client.outcome("ContainerStatus", unknown).code == "NOT_FOUND"
        assert server.stop() == 0
    assert "Serving" in log.read_text()
    assert not socket.exists()
