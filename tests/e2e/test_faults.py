"""The runtime or the relay breaks under load: what clients see is bounded, and it heals by itself.

Each test breaks real processes of its own.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest

from interpose._pb import cri_pb2
from interpose.testing.eventually import WAIT_LIMIT
from tests.support.lab.containerd import Containerd
from tests.support.lab.cri import CriClient
from tests.support.lab.load.load import Load
from tests.support.lab.pods import LabPod
from tests.support.lab.processes import wait_for
from tests.support.lab.relay import Relay

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_runtime_restarts_under_load(own_containerd: Containerd, own_relay: Relay, how: str) -> None:
    """A runtime that goes away costs UNAVAILABLE while it is away and nothing after; clients stay connected."""
    with Load(own_relay.socket) as load:
        load.wait_ok(50, since=0)
        broken = time.monotonic()
        own_containerd.stop() if how == "stop" else own_containerd.kill()
        load.wait_failed(8, since=broken)
        own_containerd.start()
        back = time.monotonic()
        healed = load.wait_ok(50, since=back)
        load.wait_ok(50, since=healed)
    assert {sample.code for sample in load.failures()} == {"UNAVAILABLE"}
    assert all(sample.ended >= broken for sample in load.failures())
    assert load.failures(since=healed) == []
    assert [state for state in load.states if state not in ("IDLE", "CONNECTING")] == ["READY"]


def test_a_call_without_runtime_fails_before_its_deadline(own_containerd: Containerd, own_relay: Relay) -> None:
    """Without a runtime a call waits for the next dial, and then says UNAVAILABLE."""
    own_containerd.stop()
    with CriClient(own_relay.socket) as client:
        outcome = client.outcome("Version")
    assert outcome.code == "UNAVAILABLE"
    assert str(own_containerd.socket) in outcome.details


def test_runtime_hangs(own_containerd: Containerd, own_relay: Relay) -> None:
    """A runtime that hangs costs callers their own deadline only, and calls work again when it wakes."""
    with Load(own_relay.socket, timeout=0.5) as load:
        load.wait_ok(50, since=0)
        hung = time.monotonic()
        own_containerd.child.pause()
        try:
            load.wait_failed(8, since=hung)
        finally:
            own_containerd.child.resume()
        awake = time.monotonic()
        load.wait_ok(50, since=awake)
    assert {sample.code for sample in load.failures()} == {"DEADLINE_EXCEEDED"}
    assert [state for state in load.states if state not in ("IDLE", "CONNECTING")] == ["READY"]


def test_relay_killed_under_load(scratch: Path, containerd: Containerd) -> None:
    """After kill -9 a new relay takes the same path, the same client heals, and containers never notice."""
    with (
        Relay(scratch, containerd.socket) as relay,
        CriClient(containerd.socket) as direct,
        LabPod(direct, "k9") as pod,
    ):
        before = pod.status()
        with Load(relay.socket) as load:
            load.wait_ok(50, since=0)
            killed = time.monotonic()
            relay.kill()
            load.wait_failed(4, since=killed)
            relay.start()
            back = time.monotonic()
            healed = load.wait_ok(50, since=back)
            load.wait_ok(50, since=healed)
        assert {sample.code for sample in load.failures()} == {"UNAVAILABLE"}
        assert load.failures(since=healed) == []
        with CriClient(relay.socket) as client:
            request = cri_pb2.ContainerStatusRequest(container_id=pod.container_id)
            after = client.call("ContainerStatus", request).status
        assert after.state == cri_pb2.CONTAINER_RUNNING
        assert (after.id, after.started_at) == (before.id, before.started_at)


def test_relay_killed_in_the_middle_of_starts(scratch: Path, containerd: Containerd) -> None:
    """The caller does not hear of it, but containerd is not left alone half-way: each container runs.

    What the kubelet repeats afterwards is answered by containerd as CRI asks for.
    """
    with Relay(scratch, containerd.socket) as relay, CriClient(containerd.socket) as direct:
        for number in range(5):
            pod = LabPod(direct, f"start{number}")
            with pod.removed_at_the_end():
                pod.run()
                pod.create()
                relay.child.wait_until(lambda: _children(relay.child.pid), what="the connection for starts to be held")
                request = cri_pb2.StartContainerRequest(container_id=pod.container_id)
                with CriClient(relay.socket) as client:
                    client.call("Version")
                    call = client.raw("StartContainer")(request.SerializeToString(), timeout=WAIT_LIMIT)
                    task = containerd.folder / "state/io.containerd.runtime.v2.task/k8s.io" / pod.container_id
                    wait_for(task.exists, what="containerd to be at it", every=0.001)
                    relay.kill()
                    assert call.code().name in ("UNAVAILABLE", "OK")
                wait_for(partial(_runs, pod), what="the container to run", every=0.02)
                relay.start()
                with CriClient(relay.socket) as client:
                    again = client.outcome("StartContainer", request)
                    assert again == direct.outcome("StartContainer", request)
                    assert again.code == "UNKNOWN"
                    stop = cri_pb2.StopContainerRequest(container_id=pod.container_id, timeout=0)
                    remove = cri_pb2.RemoveContainerRequest(container_id=pod.container_id)
                    calls = (("StopContainer", stop), ("RemoveContainer", remove))
                    assert [client.outcome(name, one).code for name, one in calls for _ in range(2)] == ["OK"] * 4


def _runs(pod: LabPod) -> bool:
    return bool(pod.status().state == cri_pb2.CONTAINER_RUNNING)


def _children(pid: int) -> str:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text()


def test_relay_upgraded_under_load(own_relay: Relay) -> None:
    """A successor with --take-over replaces the running relay; not one call of the clients fails."""
    with Load(own_relay.socket, threads=8) as load:
        load.wait_ok(100, since=0)
        old = own_relay.take_over()
        replaced = time.monotonic()
        load.wait_ok(100, since=replaced)
    assert old.exit_code == 0
    assert load.failures() == []


def test_calls_in_flight_survive_an_upgrade(scratch: Path, containerd: Containerd) -> None:
    """A call that takes longer than the hand-over itself ends well on the old relay."""
    with (
        Relay(scratch, containerd.socket) as relay,
        CriClient(relay.socket) as client,
        LabPod(client, "upgrade") as pod,
    ):
        command = ["sh", "-c", "echo begun >/tmp/begun; sleep 2; echo done"]
        request = cri_pb2.ExecSyncRequest(container_id=pod.container_id, cmd=command)
        slow = client.raw("ExecSync")(request.SerializeToString(), timeout=WAIT_LIMIT)
        wait_for(lambda: pod.exec("cat", "/tmp/begun").exit_code == 0, what="the command to begin")
        relay.take_over()
        reply = cri_pb2.ExecSyncResponse.FromString(slow.result())
    assert (reply.stdout, reply.exit_code) == (b"done\n", 0)


def test_relay_starts_before_the_runtime(scratch: Path) -> None:
    """The relay listens without a runtime and serves as soon as there is one, over the same client connection."""
    if reason := Containerd.missing():
        pytest.skip(f"no containerd: {reason}")
    folder = scratch / "c"
    with Relay(scratch, folder / "containerd.sock") as relay, Load(relay.socket, threads=2) as load:
        load.wait_failed(1, since=0)
        with Containerd(folder):
            up = time.monotonic()
            load.wait_ok(20, since=up)
    assert load.samples()[0].code == "UNAVAILABLE"
    assert {sample.code for sample in load.samples()} == {"OK", "UNAVAILABLE"}
    assert [state for state in load.states if state not in ("IDLE", "CONNECTING")] == ["READY"]
