"""Making calls again, at a runtime in the same process."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.cri.methods import METHODS
from interpose.dump.model.frames import Frame
from interpose.dump.replay.adapt import TargetOptions
from interpose.dump.replay.final_state import Exits, expected_states
from interpose.dump.replay.id_map import ReferenceKind
from interpose.dump.replay.plan import ReplayPlan, make_plan
from interpose.dump.replay.report import FinalObject
from interpose.dump.replay.runner import ReplayPace, ReplayRunner, Runtime, message_of
from interpose.dump.replay.selection import ReplayChoices
from interpose.net.grpc.status import Code, RpcError
from interpose.testing.eventually import eventually
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.recordings import Script
from tests.support.dump.recorded_node import RecordedNode, calls_of

HERE = TargetOptions(exists=lambda _path: True)


class Local:
    """Sends calls to a FakeRuntime; knows which versions it speaks."""

    def __init__(self, runtime: FakeRuntime, versions: tuple[str, ...] = ("runtime.v1", "runtime.v1alpha2")) -> None:
        self.runtime = runtime
        self.versions = versions
        self.paths: list[str] = []

    async def unary(self, path: bytes, message: bytes, *, timeout: float | None = None) -> bytes:
        """One call."""
        service, _, name = path.decode().strip("/").partition("/")
        if service.rpartition(".")[0] not in self.versions:
            raise RpcError(Code.UNIMPLEMENTED, f"unknown service {service}")
        self.paths.append(path.decode())
        reply = await self.runtime.call(name, message_of(METHODS[name].request, message))
        data: bytes = reply.SerializeToString()
        return data


class Replay:
    """Everything around a Caller."""

    def __init__(
        self, frames: list[Frame], runtime: FakeRuntime | None = None, place: TargetOptions = HERE, **more: Any
    ) -> None:
        self.runtime = runtime or FakeRuntime(seed=7)
        self.client = Local(self.runtime)
        self.exits = Exits(message_of)
        unknown = more.pop("pass_unknown", False)
        self.plan: ReplayPlan = make_plan(
            self.exits.observe(calls_of(frames)), ReplayChoices(pass_unknown=unknown), message_of
        )
        self.caller = ReplayRunner(Runtime(self.client), self.plan, place, ReplayPace(**more), pass_unknown=unknown)

    async def states(self, settle: float = 0.0) -> list[FinalObject]:
        """At the end."""
        return await self.caller.states(expected_states(self.plan, self.exits.found), settle)

    @property
    def codes(self) -> list[int | None]:
        """Of all calls, in the order of the plan."""
        return [one.code for one in self.caller.outcomes]


async def recorded() -> RecordedNode:
    """A pod with two containers, and one that is gone again."""
    node = RecordedNode()
    await node.start_pod("web", "app", "side")
    sandbox, _ = await node.start_pod("gone", "app")
    await node.remove_pod(sandbox)
    return node


async def test_what_was_recorded_is_there_again() -> None:
    """With other ids and in the same states."""
    node = await recorded()
    replay = Replay(node.script.frames)
    await replay.caller.run()
    assert set(replay.codes) == {0}
    assert len(replay.runtime.containers) == 2
    assert not set(replay.runtime.containers) & set(node.runtime.containers)
    states = await replay.states()
    assert len(states) == 5
    assert all(one.same for one in states)


async def test_what_is_not_made_is_not_called() -> None:
    """A failure of now leaves out what depends on it."""
    replay = Replay((await recorded()).script.frames)
    replay.runtime.fail("CreateContainer", Code.UNAVAILABLE, "disk is full", times=1)
    await replay.caller.run()
    first, failed, start = replay.caller.outcomes[:3]
    assert (first.code, failed.code, failed.message) == (0, Code.UNAVAILABLE, "disk is full")
    assert start.skipped.endswith("was not made this time")
    found = {one.subject: str(one.found) for one in await replay.states()}
    assert (found["default/web:app"], found["default/web:side"]) == ("gone", "running")


async def test_what_overlapped_overlaps() -> None:
    """Two pods that came side by side are both on their way; what came after them waits."""
    script = Script()
    node = RecordedNode(script=script)
    await node.start_pod("one")
    await node.call("RunPodSandbox", _another(node), elapsed=180, gap=10)
    sandbox = next(iter(node.runtime.sandboxes))
    await node.call("StopPodSandbox", cri.StopPodSandboxRequest(pod_sandbox_id=sandbox), gap=500)
    replay = Replay(script.frames)
    stall = replay.runtime.stall("RunPodSandbox")
    running = asyncio.ensure_future(replay.caller.run())
    await replay.runtime.wait_for_calls("RunPodSandbox", 2)
    assert replay.runtime.calls["StopPodSandbox"] == 0
    stall.release()
    await running
    assert replay.runtime.calls["StopPodSandbox"] == 1


def _another(node: RecordedNode) -> Any:
    request = node.runtime.requests_of("RunPodSandbox")[0]
    request.config.metadata.name = "another"
    return request


async def test_stopping_waits_for_calls_in_flight() -> None:
    """What they make is known, and can be removed."""
    replay = Replay((await recorded()).script.frames)
    stall = replay.runtime.stall("RunPodSandbox")
    running = asyncio.ensure_future(replay.caller.run())
    await replay.runtime.wait_for_calls("RunPodSandbox")
    replay.caller.stop()
    assert not running.done()
    stall.release()
    await running
    assert len(replay.caller.outcomes) == 1
    assert await replay.caller.clean_up() == []
    assert not replay.runtime.sandboxes


async def test_calls_can_be_cut_off() -> None:
    """They have no outcome then."""
    replay = Replay((await recorded()).script.frames)
    replay.runtime.stall("RunPodSandbox")
    running = asyncio.ensure_future(replay.caller.run())
    await replay.runtime.wait_for_calls("RunPodSandbox")
    running.cancel()
    await replay.caller.close()
    assert replay.caller.outcomes == []


async def test_the_pauses_of_the_recording_are_kept() -> None:
    """A pause of an hour is not over at once, and can be ended by stopping."""
    node = RecordedNode()
    sandbox, _ = await node.start_pod("web")
    await node.call("StopPodSandbox", cri.StopPodSandboxRequest(pod_sandbox_id=sandbox), gap=3_600_000)
    replay = Replay(node.script.frames, speed=1.0)
    running = asyncio.ensure_future(replay.caller.run())
    await eventually(lambda: len(replay.caller.outcomes) == 1, "the first call")
    assert not running.done()
    replay.caller.stop()
    await running
    assert replay.runtime.calls["StopPodSandbox"] == 0


async def test_short_pauses_pass() -> None:
    """And the calls behind them are made."""
    replay = Replay((await recorded()).script.frames, speed=1000.0)
    await replay.caller.run()
    assert set(replay.codes) == {0}


async def test_cleaning_up_leaves_nothing() -> None:
    """Neither of our own nor, if that is how it was asked for, anything of others."""
    replay = Replay((await recorded()).script.frames)
    replay.runtime.populate(1)
    await replay.caller.run()
    assert len(replay.runtime.sandboxes) == 2
    assert await replay.caller.clean_up() == []
    assert len(replay.runtime.sandboxes) == 1


async def test_cleaning_up_says_what_stays() -> None:
    """And goes on; what is gone already is fine."""
    replay = Replay((await recorded()).script.frames)
    await replay.caller.run()
    replay.runtime.fail("StopContainer", Code.NOT_FOUND)
    replay.runtime.fail("RemovePodSandbox", Code.UNKNOWN, "busy", times=1)
    problems = await replay.caller.clean_up()
    assert len(problems) == 1
    assert problems[0].endswith("UNKNOWN: busy")
    assert [one.kind for one in replay.caller.left] == [ReferenceKind.POD]


async def test_the_end_is_waited_for() -> None:
    """A container that ended by itself does so again, a little later; its exit code counts."""
    node = RecordedNode()
    _, (job,) = await node.start_pod("job", "work")
    node.runtime.exit_container(job, 3)
    await node.look(job)
    replay = Replay(node.script.frames)
    await replay.caller.run()
    waiting = asyncio.ensure_future(replay.states(settle=600.0))
    await replay.runtime.wait_for_calls("ContainerStatus")
    (container,) = replay.runtime.containers
    replay.runtime.exit_container(container, 3)
    assert all(one.same for one in await waiting)


async def test_the_end_is_not_waited_for_longer_than_asked() -> None:
    """Nor when somebody stops it."""
    node = RecordedNode()
    _, (job,) = await node.start_pod("job", "work")
    node.runtime.exit_container(job, 3)
    await node.look(job)
    replay = Replay(node.script.frames)
    await replay.caller.run()
    found = {one.subject: (str(one.expected), str(one.found)) for one in await replay.states(settle=0.0)}
    assert found["default/job:work"] == ("exited (3)", "running")
    replay.caller.stop()
    assert len(await replay.states(settle=600.0)) == 2


async def test_what_a_runtime_cannot_tell_is_unknown() -> None:
    """One container does not hide the others; the reason is kept."""
    replay = Replay((await recorded()).script.frames)
    await replay.caller.run()
    replay.runtime.fail("ContainerStatus", Code.INTERNAL, "no metadata", times=1)
    found = {one.subject: str(one.found) for one in await replay.states()}
    assert found["default/web:app"] == "unknown"
    assert found["default/web:side"] == "running"
    assert found["default/web"] == "running"
    assert replay.caller.unseen == "INTERNAL: no metadata"
    assert all(one.same for one in await replay.states())
    assert replay.caller.unseen == ""


async def test_a_runtime_that_is_away_is_asked_once() -> None:
    """Each question would wait as long; nothing is known then."""
    replay = Replay((await recorded()).script.frames)
    await replay.caller.run()
    replay.runtime.fail("ListPodSandbox", Code.DEADLINE_EXCEEDED, "stalled")
    found = {one.subject: str(one.found) for one in await replay.states()}
    assert (found["default/web"], found["default/web:app"]) == ("unknown", "unknown")
    assert replay.runtime.calls["ContainerStatus"] == 0
    assert replay.caller.unseen == "DEADLINE_EXCEEDED: stalled"


async def test_cleaning_up_that_is_cut_off_knows_what_is_left() -> None:
    """What it did not come to as well."""
    replay = Replay((await recorded()).script.frames)
    await replay.caller.run()
    replay.runtime.stall("RemoveContainer")
    cleaning = asyncio.ensure_future(replay.caller.clean_up())
    await replay.runtime.wait_for_calls("RemoveContainer")
    cleaning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cleaning
    assert {one.id for one in replay.caller.left} >= set(replay.runtime.containers) | set(replay.runtime.sandboxes)


async def test_cleaning_up_ends_when_nobody_is_there() -> None:
    """What is left is known."""
    replay = Replay((await recorded()).script.frames)
    await replay.caller.run()
    replay.runtime.fail("RemoveContainer", Code.UNAVAILABLE, "away")
    problems = await replay.caller.clean_up()
    assert len(problems) == 1
    assert replay.runtime.calls["StopPodSandbox"] == 1
    assert {one.id for one in replay.caller.left} >= set(replay.runtime.containers) | set(replay.runtime.sandboxes)


async def test_unknown_ids_are_sent_as_they_are_if_asked_for() -> None:
    """The runtime knows them, perhaps."""
    node = RecordedNode()
    node.runtime.populate(1)
    (container,) = node.runtime.containers
    await node.call("StopContainer", cri.StopContainerRequest(container_id=container))
    replay = Replay(node.script.frames, pass_unknown=True)
    await replay.caller.run()
    assert [one.container_id for one in replay.runtime.requests_of("StopContainer")] == [container]


async def test_log_directories_are_made(tmp_path: Path) -> None:
    """Before the call; one that cannot be made is a reason to leave the call out."""
    logs = tmp_path / "logs"
    replay = Replay((await recorded()).script.frames, place=TargetOptions(exists=lambda _path: True, logs=str(logs)))
    await replay.caller.run()
    assert sorted(path.name for path in logs.glob("default_web_*/*")) == ["app", "side"]
    blocked = tmp_path / "file"
    blocked.write_text("")
    replay = Replay((await recorded()).script.frames, place=TargetOptions(exists=lambda _path: True, logs=str(blocked)))
    await replay.caller.run()
    assert "log directory cannot be made" in replay.caller.outcomes[0].skipped


async def test_an_answer_that_cannot_be_read_makes_nothing() -> None:
    """What depends on it is left out."""

    class Garbled(Local):
        async def unary(self, path: bytes, message: bytes, *, timeout: float | None = None) -> bytes:
            return b"\xff\xff"

    replay = Replay((await recorded()).script.frames)
    replay.caller = ReplayRunner(Runtime(Garbled(replay.runtime)), replay.plan, HERE, ReplayPace(), pass_unknown=False)
    await replay.caller.run()
    assert replay.caller.made == []
    assert replay.caller.outcomes[1].skipped


@pytest.mark.parametrize(
    ("there", "recorded_", "sent"),
    [
        (("runtime.v1", "runtime.v1alpha2"), "runtime.v1alpha2", "/runtime.v1alpha2.RuntimeService/Status"),
        (("runtime.v1",), "runtime.v1alpha2", "/runtime.v1.RuntimeService/Status"),
        (("runtime.v1alpha2",), "runtime.v1", "/runtime.v1alpha2.RuntimeService/Status"),
    ],
)
async def test_calls_are_made_in_a_version_that_is_there(there: tuple[str, ...], recorded_: str, sent: str) -> None:
    """In that of the recording, if it is one of them."""
    client = Local(FakeRuntime(), there)
    runtime = Runtime(client)
    await runtime.find_versions()
    await runtime.send(f"/{recorded_}.RuntimeService/Status", b"", 1.0)
    assert client.paths[-1] == sent


async def test_a_runtime_without_a_version_that_we_know() -> None:
    """Or one that is not there is told apart from one that has not this version."""
    with pytest.raises(RpcError, match="UNIMPLEMENTED"):
        await Runtime(Local(FakeRuntime(), ())).find_versions()
    away = FakeRuntime()
    away.fail("Version", Code.UNAVAILABLE, "not reachable")
    with pytest.raises(RpcError, match="not reachable"):
        await Runtime(Local(away)).find_versions()
