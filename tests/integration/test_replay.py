"""Recordings once more: `interpose dump replay` as a process, against a runtime and as one."""

import asyncio
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.dump.model.frames import MessageSide
from interpose.net.grpc.server import serve
from interpose.net.grpc.status import Code
from interpose.testing.eventually import WAIT_LIMIT, eventually
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.grpcpeer import grpc_channel
from interpose.testing.pods import pod_config, run_request
from interpose.testing.recordings import write_recording
from interpose.testing.serve import serve_runtime
from tests.support.dump.recorded_node import RecordedNode
from tests.support.lab.processes import Child, accepts
from tests.support.lab.relay import Relay, program

RUNTIME = "/runtime.v1.RuntimeService"


async def node() -> RecordedNode:
    """A pod that stays with a container that was stopped, and a pod that came and went; somebody looked at it all."""
    found = RecordedNode()
    _, (app, side) = await found.start_pod("web", "app", "side", namespace="shop")
    sandbox, _ = await found.start_pod("gone", "app")
    await found.remove_pod(sandbox)
    await found.call("StopContainer", cri.StopContainerRequest(container_id=side, timeout=1))
    await found.call("StartContainer", cri.StartContainerRequest(container_id="f" * 64))
    await found.look(app)
    await found.call("Version", cri.VersionRequest(version="0.1.0"))
    await found.call("ListContainers", cri.ListContainersRequest())
    await found.call("ListPodSandbox", cri.ListPodSandboxRequest())
    return found


def command(path: Path, *arguments: object) -> list[str]:
    """The command line."""
    return [str(program()), "dump", "replay", str(path), *map(str, arguments)]


class Ended:
    """What a command said."""

    def __init__(self, code: int | None, out: bytes, err: bytes) -> None:
        self.code = code
        self.out = out.decode()
        self.err = err.decode()


async def begin(*words: str) -> asyncio.subprocess.Process:
    """Start a command whose output is kept."""
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(*words, stdout=pipe, stderr=pipe)


async def run(*words: str) -> Ended:
    """Run a command to its end, while runtimes of this process answer."""
    process = await begin(*words)
    out, err = await process.communicate()
    return Ended(process.returncode, out, err)


async def test_a_day_is_lived_again(scratch: Path, runtime_path: Path) -> None:
    """At another runtime: other ids, the same states. A second time it works as well, and cleans up."""
    recorded = await node()
    path = write_recording(scratch / "node.crirec", recorded.script.frames)
    runtime = FakeRuntime(seed=99)
    async with serve_runtime(runtime_path, runtime):
        first = await run(*command(path, "--to", runtime_path, "-o", "json"))
        report = json.loads(first.out)
        assert (first.code, first.err) == (0, "")
        assert report["summary"]["different"] == report["summary"]["states_different"] == 0
        assert {(one["subject"], one["found"]) for one in report["states"]} == {
            ("shop/web", "running"),
            ("shop/web:app", "running"),
            ("shop/web:side", "exited (143)"),
            ("default/gone", "gone"),
            ("default/gone:app", "gone"),
        }
        assert not set(runtime.containers) & set(recorded.runtime.containers)
        second = await run(*command(path, "--to", f"unix://{runtime_path}", "--cleanup"))
        assert second.code == 0, second.out + second.err
        assert "uids of pods got the suffix '-r1'" in second.out
        assert len(runtime.sandboxes) == 1
    uids = [one.config.metadata.uid for one in runtime.requests_of("RunPodSandbox")]
    assert uids[2:] == [f"{uid}-r1" for uid in uids[:2]]


async def test_what_comes_out_otherwise_is_told(scratch: Path, runtime_path: Path) -> None:
    """With the text of the runtime, and 1 as the exit code."""
    path = write_recording(scratch / "node.crirec", (await node()).script.frames)
    runtime = FakeRuntime()
    runtime.fail("CreateContainer", Code.RESOURCE_EXHAUSTED, "disk is full", times=1)
    async with serve_runtime(runtime_path, runtime):
        ended = await run(*command(path, "--to", runtime_path, "--settle", 0))
    assert ended.code == 1
    assert "RESOURCE_EXHAUSTED  differs" in ended.out
    assert "disk is full" in ended.out
    assert "was not made this time" in ended.out
    assert "1 otherwise" in ended.out


async def test_an_older_runtime_is_called_in_its_version(scratch: Path, runtime_path: Path) -> None:
    """Whatever was recorded; with --api v1 it is not."""
    path = write_recording(scratch / "node.crirec", (await node()).script.frames)
    runtime = FakeRuntime()
    server = await serve(runtime_path, runtime.handlers(versions=("v1alpha2",)))
    try:
        assert (await run(*command(path, "--to", runtime_path, "--cleanup"))).code == 0
        ended = await run(*command(path, "--to", runtime_path, "--api", "v1"))
    finally:
        await server.close()
    assert ended.code == 1
    assert "UNIMPLEMENTED" in ended.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_stopping_leaves_nothing_behind(scratch: Path, runtime_path: Path, number: signal.Signals) -> None:
    """What is in flight ends first, what was made is removed."""
    path = write_recording(scratch / "node.crirec", (await node()).script.frames)
    runtime = FakeRuntime()
    stall = runtime.stall("CreateContainer")
    async with serve_runtime(runtime_path, runtime):
        process = await begin(*command(path, "--to", runtime_path, "--cleanup", "--settle", 0))
        await runtime.wait_for_calls("CreateContainer")
        process.send_signal(number)
        assert process.stderr is not None
        assert b"Waiting" in await process.stderr.readline()
        stall.release()
        out, err = await process.communicate()
    assert process.returncode == 1
    assert b"stopped before its end" in out
    assert err == b""
    assert not runtime.sandboxes
    assert not runtime.containers


async def test_stopping_twice_cuts_off(scratch: Path, runtime_path: Path) -> None:
    """A call that never ends does not keep us; what is known is removed."""
    path = write_recording(scratch / "node.crirec", (await node()).script.frames)
    runtime = FakeRuntime()
    runtime.stall("CreateContainer")
    async with serve_runtime(runtime_path, runtime):
        process = await begin(*command(path, "--to", runtime_path, "--cleanup"))
        await runtime.wait_for_calls("CreateContainer")
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        await process.stderr.readline()
        process.send_signal(signal.SIGINT)
        await process.communicate()
        assert process.returncode == 1
        assert not runtime.sandboxes


class Served:
    """A recording that is served, seen through grpcio."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel

    async def call(self, name: str, request: Any, version: str = "v1") -> Any:
        """What crictl would get."""
        service = "ImageService" if "Image" in name else "RuntimeService"
        reply = getattr(cri, f"{name}Response")
        method = self._channel.unary_unary(
            f"/runtime.{version}.{service}/{name}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=reply.FromString,
        )
        return await method(request, timeout=WAIT_LIMIT)


async def served(spawn: Callable[..., Child], path: Path, socket: Path, *options: object) -> Child:
    """Start it and wait until it listens."""
    child = spawn(*command(path, "--serve", socket, *options))
    await asyncio.to_thread(child.wait_listening, socket)
    return child


async def test_a_recording_is_a_runtime(scratch: Path, runtime_path: Path, spawn: Callable[..., Child]) -> None:
    """For what crictl asks: version, pods, ps, inspect; in both versions. SIGTERM ends it and its socket is gone."""
    recorded = await node()
    path = write_recording(scratch / "node.crirec", recorded.script.frames)
    child = await served(spawn, path, runtime_path)
    async with grpc_channel(runtime_path) as channel:
        crictl = Served(channel)
        for version in ("v1", "v1alpha2"):
            assert (await crictl.call("Version", cri.VersionRequest(), version)).runtime_name
        assert len((await crictl.call("ListPodSandbox", cri.ListPodSandboxRequest())).items) == 1
        running = cri.ContainerFilter(state=cri.ContainerStateValue(state=cri.CONTAINER_RUNNING))
        found = await crictl.call("ListContainers", cri.ListContainersRequest(filter=running))
        (app,) = found.containers
        assert app.metadata.name == "app"
        inspect = cri.ContainerStatusRequest(container_id=app.id[:13], verbose=True)
        assert (await crictl.call("ContainerStatus", inspect)).status.id == app.id
        with pytest.raises(Exception, match="NOT_FOUND"):
            await crictl.call("ContainerStatus", cri.ContainerStatusRequest(container_id="unheard"))
        with pytest.raises(Exception, match="UNIMPLEMENTED"):
            await crictl.call("ListImages", cri.ListImagesRequest())
        with pytest.raises(Exception, match="NOT_FOUND"):
            await crictl.call("StartContainer", cri.StartContainerRequest(container_id="f" * 64))
    assert await asyncio.to_thread(child.stop) == 0
    log = child.log.read_text()
    assert "Serving 16 calls" in log
    assert log.count("miss: the recording has no ListImages") == 1
    assert "6 requests answered, 2 not in the recording." in log
    assert not accepts(runtime_path)


async def test_a_socket_in_use_is_not_taken(scratch: Path, runtime_path: Path) -> None:
    """Whoever listens there stays."""
    path = write_recording(scratch / "node.crirec", (await node()).script.frames)
    async with serve_runtime(runtime_path, FakeRuntime()):
        ended = await run(*command(path, "--serve", runtime_path))
        assert ended.code == 1
        assert str(runtime_path) in ended.err
        assert accepts(runtime_path)


async def test_a_relay_runs_against_a_recording(
    scratch: Path, runtime_path: Path, spawn: Callable[..., Child], start_relay: Callable[..., Relay]
) -> None:
    """And what was recorded can be lived again through it."""
    recorded = await node()
    path = write_recording(scratch / "node.crirec", recorded.script.frames)
    await served(spawn, path, runtime_path)
    relay = await asyncio.to_thread(start_relay)
    ended = await run(*command(path, "--to", relay.socket, "--reads", "--settle", 0, "-o", "json"))
    report = json.loads(ended.out)
    assert report["summary"]["different"] == 0
    assert report["summary"]["made"] >= 12


async def test_events_are_told_again(scratch: Path, runtime_path: Path, spawn: Callable[..., Child]) -> None:
    """And the stream stays open for whoever listens."""
    recorded = RecordedNode()
    number = recorded.script.begin("GetContainerEvents", cri.GetEventsRequest())
    for container in ("a", "b"):
        recorded.script.message(number, MessageSide.REPLY, cri.ContainerEventResponse(container_id=container), 1)
    path = write_recording(scratch / "node.crirec", recorded.script.frames)
    await served(spawn, path, runtime_path)
    async with grpc_channel(runtime_path) as channel:
        stream = channel.unary_stream(
            f"{RUNTIME}/GetContainerEvents", response_deserializer=cri.ContainerEventResponse.FromString
        )(b"")
        seen: list[str] = []

        async def listen() -> None:
            async for event in stream:
                seen.append(event.container_id)

        listening = asyncio.ensure_future(listen())
        await eventually(lambda: len(seen) == 2, "both events")
        assert not listening.done()
        stream.cancel()
        with pytest.raises(asyncio.CancelledError):
            await listening
    assert seen == ["a", "b"]


async def test_a_runtime_that_does_not_tell_the_end_is_cleaned_up(scratch: Path, runtime_path: Path) -> None:
    """The report says what is not known, and nothing stays behind."""
    path = write_recording(scratch / "node.crirec", (await node()).script.frames)
    runtime = FakeRuntime()
    runtime.fail("ListPodSandbox", Code.UNAVAILABLE, "stalled")
    async with serve_runtime(runtime_path, runtime):
        words = command(path, "--to", runtime_path, "--cleanup", "--settle", 0, "--rename", "none", "-o", "json")
        ended = await run(*words)
    assert ended.code == 1
    assert ended.err == ""
    report = json.loads(ended.out)
    assert report["notes"][0] == "states at the end are not all known: UNAVAILABLE: stalled"
    assert {one["found"] for one in report["states"]} == {"unknown"}
    assert [one["left"] for one in report["made"]] == [False] * 5
    assert not runtime.sandboxes


async def test_a_runtime_that_goes_away_leaves_a_report(scratch: Path, runtime_path: Path) -> None:
    """Of what was made and could not be removed; without a traceback."""
    path = write_recording(scratch / "node.crirec", (await node()).script.frames)
    runtime = FakeRuntime()
    stall = runtime.stall("StopContainer")
    async with serve_runtime(runtime_path, runtime):
        process = await begin(*command(path, "--to", runtime_path, "--cleanup", "--settle", 0, "--timeout", 30))
        await runtime.wait_for_calls("StopContainer")
    stall.release()
    out, err = await process.communicate()
    assert process.returncode == 1
    assert "what may still be there: pod " in " ".join(out.decode().split())
    assert "warning: cleanup: " in err.decode()
    assert "Traceback" not in err.decode()


async def test_pods_that_were_not_recorded_do_not_share_an_id(
    scratch: Path, runtime_path: Path, spawn: Callable[..., Child]
) -> None:
    """When there are no more, that is an error and a line."""
    recorded = RecordedNode()
    await recorded.start_pod("web")
    child = await served(spawn, write_recording(scratch / "node.crirec", recorded.script.frames), runtime_path)
    async with grpc_channel(runtime_path) as channel:
        crictl = Served(channel)
        first = await crictl.call("RunPodSandbox", run_request(pod_config("one")))
        assert first == await crictl.call("RunPodSandbox", run_request(pod_config("one")))
        with pytest.raises(Exception, match="RESOURCE_EXHAUSTED"):
            await crictl.call("RunPodSandbox", run_request(pod_config("two")))
    assert await asyncio.to_thread(child.stop) == 0
    assert "miss: the only RunPodSandbox in the recording was answered to somebody else" in child.log.read_text()
