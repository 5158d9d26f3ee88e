"""Handlers that answer from a recording."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.cri.methods import METHODS
from interpose.dump.model.frames import MessageSide
from interpose.dump.replay.answers import Answers
from interpose.dump.replay.runner import message_of
from interpose.dump.replay.server import ReplayServer
from interpose.net.grpc.handlers import ServerStreaming, Unary
from interpose.net.grpc.status import Code, RpcError
from interpose.testing.recordings import Script
from tests.support.dump.recorded_node import calls_of


class Served:
    """A recording behind handlers; calls them without a socket."""

    def __init__(self, script: Script, speed: float = 0.0) -> None:
        self.misses: list[str] = []
        self.replayed = ReplayServer(
            Answers(calls_of(script.frames), message_of), speed=speed, on_miss=self.misses.append
        )
        self.table = self.replayed.handlers()

    async def unary(self, name: str, request: bytes = b"", version: str = "runtime.v1") -> bytes:
        """A call."""
        handler = self.table[f"/{version}.{METHODS[name].service}/{name}".encode()]
        assert isinstance(handler, Unary)
        context: Any = None
        return await handler.handle(request, context)

    def stream(self, name: str) -> AsyncIterator[bytes]:
        """A stream."""
        handler = self.table[f"/runtime.v1.{METHODS[name].service}/{name}".encode()]
        assert isinstance(handler, ServerStreaming)
        context: Any = None
        return handler.handle(b"", context)


async def test_both_versions_answer() -> None:
    """From the same recording."""
    script = Script()
    script.call("Version", b"", b"one")
    script.call("Version", b"", b"two")
    served = Served(script)
    assert await served.unary("Version") == b"one"
    assert await served.unary("Version", version="runtime.v1alpha2") == b"two"
    assert (served.replayed.answered_calls, served.replayed.missed_calls) == (2, 0)


async def test_errors_are_answered() -> None:
    """With code and text; a code nobody knows is unknown."""
    script = Script()
    script.call("StartContainer", b"", code=5, message="gone")
    script.call("StopContainer", b"", code=77, message="odd")
    served = Served(script)
    with pytest.raises(RpcError) as found:
        await served.unary("StartContainer")
    assert (found.value.code, found.value.message) == (Code.NOT_FOUND, "gone")
    with pytest.raises(RpcError) as found:
        await served.unary("StopContainer")
    assert (found.value.code, found.value.message) == (Code.UNKNOWN, "odd")


async def test_each_miss_is_told_once() -> None:
    """To the caller each time: unimplemented if the method was never recorded, else not found."""
    script = Script()
    script.call("StartContainer", cri.StartContainerRequest(container_id="known"), b"")
    served = Served(script)
    for _ in range(2):
        with pytest.raises(RpcError) as found:
            await served.unary("ListImages")
        assert found.value.code is Code.UNIMPLEMENTED
    with pytest.raises(RpcError) as found:
        await served.unary("StartContainer", b"")
    assert found.value.code is Code.NOT_FOUND
    assert served.misses == [
        "the recording has no ListImages",
        "the only StartContainer in the recording does not fit this request",
    ]
    assert served.replayed.missed_calls == 3


async def test_what_callers_need_first_has_a_stand_in() -> None:
    """A version, conditions that are fine, an image that is not there."""
    served = Served(Script())
    assert cri.VersionResponse.FromString(await served.unary("Version")).runtime_name == "interpose-replay"
    status = cri.StatusResponse.FromString(await served.unary("Status"))
    assert {one.type: one.status for one in status.status.conditions} == {"RuntimeReady": True, "NetworkReady": True}
    assert not cri.ImageStatusResponse.FromString(await served.unary("ImageStatus")).HasField("image")
    assert served.misses[0] == "the recording has no Version; a minimal answer is given"


async def test_streams_give_their_messages_and_end() -> None:
    """As they did."""
    script = Script()
    script.call("StreamContainers", b"", b"one", b"two")
    script.call("StreamImages", b"", b"one", code=14, message="away")
    served = Served(script)
    assert [one async for one in served.stream("StreamContainers")] == [b"one", b"two"]
    stream = served.stream("StreamImages")
    assert await anext(stream) == b"one"
    with pytest.raises(RpcError, match="away"):
        await anext(stream)


@pytest.mark.parametrize("ended", [False, True])
async def test_events_go_on_when_they_are_told(ended: bool) -> None:
    """Whether the recording shows that the listener went away or not."""
    script = Script()
    number = script.begin("GetContainerEvents", b"")
    script.message(number, MessageSide.REPLY, b"one", 1)
    if ended:
        script.end(number, 5, code=Code.CANCELLED)
    stream = Served(script).stream("GetContainerEvents")
    assert await anext(stream) == b"one"
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await anext(stream)


async def test_answers_take_as_long_as_they_took() -> None:
    """If asked for, divided by the speed: a short limit ends before the answer comes."""
    script = Script()
    script.call("Version", b"", b"late", elapsed=3_600_000)
    script.call("Status", b"", b"soon", elapsed=0.001)
    served = Served(script, speed=1.0)
    assert await served.unary("Status") == b"soon"
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await served.unary("Version")
