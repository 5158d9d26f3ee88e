"""Taps in a running relay: they see whole messages, and no call notices them."""

import asyncio
import gzip
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest

from interpose._pb import cri_pb2 as cri
from interpose.config.relay.settings import LimitSettings
from interpose.cri.parser import CriParser
from interpose.net.grpc.framing import frame
from interpose.net.grpc.status import Code
from interpose.relay.api import Body, Call, Direction, Interest, Proceed, Reply, Sighting, refusal
from interpose.testing.eventually import WAIT_LIMIT, eventually, pass_deadline
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.grpcpeer import grpc_channel
from interpose.testing.pods import pod_config, run_request
from interpose.testing.serve import serve_runtime
from interpose.testing.stack import relay_stack
from tests.support.net.byte_seams import CREATE, ODD, REPLY, Notes, Stub, add_env, look, prefixed, seams
from tests.support.net.echo_service import failed
from tests.support.net.raw_backend import RawAnswer, answer_headers

EVENTS = "/runtime.v1.RuntimeService/GetContainerEvents"
LIST = "/runtime.v1.RuntimeService/ListContainers"


class Broken(Notes):
    """A tap that always fails."""

    name = "broken"

    def on_message(self, call: Sighting, direction: Direction, message: bytes) -> None:
        """Fail."""
        raise ZeroDivisionError

    def on_end(self, call: Sighting, code: int, message: str, changed_by: Sequence[str]) -> None:
        """Fail."""
        raise ZeroDivisionError


@pytest.fixture
async def runtime(runtime_path: Path) -> AsyncIterator[FakeRuntime]:
    """A node with some containers."""
    runtime = FakeRuntime()
    runtime.populate(20, 5)
    async with serve_runtime(runtime_path, runtime):
        yield runtime


async def test_tap_sees_whole_unary_messages(scratch: Path) -> None:
    """Request and reply as plain messages, the end with its code; the bytes on the wire are the same."""
    notes = Notes()
    async with seams(scratch, taps=[notes]) as it:
        assert (await it.call(ODD)).body == frame(REPLY)
        assert it.backend.requests[0].body == frame(ODD)
    assert notes.seen == [(1, "client", "request", ODD), (1, "client", "reply", REPLY)]
    assert notes.ends == [(1, 0)]


class Counting(Notes):
    """A tap that wants no messages."""

    def interest(self, method: str) -> Interest:
        """That there was a call, and how it ended."""
        return min(super().interest(method), Interest.CALLS)


async def test_tap_of_calls_only_sees_beginning_and_end(scratch: Path) -> None:
    """Large bodies pass as they are, and an error is told with its text."""
    notes = Counting()
    body, answered = bytes(200_000), frame(bytes(300_000))
    async with seams(scratch, taps=[notes]) as it:
        it.backend.answer = RawAnswer(answer_headers(), answered)
        assert (await it.call(body)).body == answered
        assert it.backend.requests[0].body == frame(body)
    assert (notes.seen, notes.ended) == ([], [(0, "", ())])
    assert [call.path for call in notes.calls.values()] == [CREATE]


async def test_tap_sees_compressed_messages_plain(scratch: Path) -> None:
    """It gets the text, the wire keeps the compressed bytes."""
    packed = gzip.compress(ODD, mtime=0)
    body = b"\x01" + len(packed).to_bytes(4, "big") + packed
    notes = Notes()
    async with seams(scratch, taps=[notes]) as it:
        it.backend.answer = RawAnswer(answer_headers((b"grpc-encoding", b"gzip")), body)
        reply = await it.call(body, metadata=((b"grpc-encoding", b"gzip"),), framed=True)
        assert reply.body == it.backend.requests[0].body == body
    assert [message for *_, message in notes.seen] == [ODD, ODD]


@pytest.mark.parametrize("body", [b"\x01\x00\x00\x00\x03odd", frame(bytes(5000))], ids=["encoding", "size"])
async def test_message_a_tap_cannot_see_passes(scratch: Path, body: bytes) -> None:
    """An unknown encoding or a message over the limit: counted, and the call passes."""
    notes = Notes()
    async with seams(scratch, taps=[notes]) as it:
        it.stack.relay.tap_registry.limit = 4096
        reply = await it.call(body, metadata=((b"grpc-encoding", b"odd"),), framed=True)
        assert (reply.body, it.backend.requests[0].body) == (frame(REPLY), body)
        assert it.stack.relay.tap_registry.errors == {"unreadable message": 1}
    assert notes.ends == [(1, 0)]


async def test_tap_that_raises_is_counted_and_nobody_notices(scratch: Path) -> None:
    """The call passes, the other tap sees everything."""
    broken, notes = Broken(), Notes()
    async with seams(scratch, taps=[broken, notes]) as it:
        assert (await it.call(ODD)).body == frame(REPLY)
        assert it.stack.relay.tap_registry.errors == {"broken": 3}
    assert len(notes.seen) == 2


async def test_tap_sees_both_sides_of_an_interceptor(scratch: Path) -> None:
    """As the caller sent it, as the runtime got it, as the caller gets the answer."""
    notes = Notes()
    async with seams(scratch, Stub(prefixed("x")), taps=[notes]) as it:
        await it.call(ODD)
    assert [direction for _, _, direction, _ in notes.seen] == ["request", "forwarded", "received", "reply"]
    assert notes.seen[0][3] == ODD
    assert notes.seen[2][3] == REPLY
    assert cri.CreateContainerRequest.FromString(notes.seen[1][3]).pod_sandbox_id == "pod>x"
    assert cri.CreateContainerResponse.FromString(notes.seen[3][3]).container_id == "c1<x"
    assert notes.ended == [(0, "", ("stub",))]


async def test_tap_hears_of_an_intercepted_call_that_is_cancelled(scratch: Path) -> None:
    """The end comes with CANCELLED, once."""
    notes = Notes()
    async with seams(scratch, Stub(add_env), taps=[notes]) as it:
        it.backend.answer = None
        task = asyncio.create_task(it.call(ODD))
        await it.backend.changes.until(lambda: len(it.backend.requests) == 1)
        task.cancel()
        await eventually(lambda: notes.ends, "the end to be told")
    assert notes.ends == [(1, Code.CANCELLED)]


async def test_tap_hears_of_every_end(scratch: Path) -> None:
    """A failed call, a reset by the client, a backend that is lost, a backend that never came: each is told once."""
    notes = Notes()
    limits = LimitSettings(backend_wait=0.05)
    async with seams(scratch, taps=[notes], limits=limits) as it:
        it.backend.answer = RawAnswer(None, b"", answer_headers((b"grpc-status", b"5")))
        await it.call(ODD)
        it.backend.answer = None
        task = asyncio.create_task(it.call(ODD))
        await it.backend.changes.until(lambda: len(it.backend.requests) == 2)
        task.cancel()
        await eventually(lambda: len(notes.ends) == 2, "the reset to be told")
        task = asyncio.create_task(it.call(ODD))
        await it.backend.changes.until(lambda: len(it.backend.requests) == 3)
        (scratch / "runtime.sock").unlink()
        for link in list(it.stack.runtime._links.values()):
            link.abort()
        await task
        await it.call(ODD)
        assert [code for _, code in notes.ends] == [
            Code.NOT_FOUND,
            Code.CANCELLED,
            Code.UNAVAILABLE,
            Code.UNAVAILABLE,
        ]
        task = asyncio.create_task(it.call(ODD))
        await eventually(lambda: it.stack.relay.in_flight == 1, "the call to wait for the backend")
        task.cancel()
        await eventually(lambda: it.stack.relay.in_flight == 0, "the call to end")
        assert [code for _, code in notes.ends][4:] == [Code.CANCELLED]


async def test_stream_is_tapped_message_by_message(
    scratch: Path, relay_path: Path, runtime_path: Path, runtime: FakeRuntime
) -> None:
    """Events are seen as they pass, and the end of the subscription too."""
    notes = Notes(("GetContainerEvents",))
    async with relay_stack(relay_path, runtime_path, taps=[notes]), grpc_channel(relay_path) as channel:
        stream = channel.unary_stream(EVENTS)(b"")
        await asyncio.wait_for(runtime.events.wait_for_subscribers(1), WAIT_LIMIT)
        for number in range(3):
            await runtime.call("RunPodSandbox", run_request(pod_config(f"pod-{number}")))
        received = [await stream.read() for _ in range(6)]
        assert [(direction, message) for _, _, direction, message in notes.seen] == [
            ("request", b""),
            *(("reply", message) for message in received),
        ]
        assert notes.ends == []
        stream.cancel()
        await eventually(lambda: notes.ends, "the end to be told")
    assert [code for _, code in notes.ends] == [Code.CANCELLED]


async def test_large_reply_is_tapped_whole(relay_path: Path, runtime_path: Path, runtime: FakeRuntime) -> None:
    """A message of many frames is one message for the tap."""
    notes = Notes(("ListContainers",))
    async with relay_stack(relay_path, runtime_path, taps=[notes]), grpc_channel(relay_path) as channel:
        reply: Any = await channel.unary_unary(LIST)(b"")
    assert len(reply) > 65536
    assert notes.seen[-1][3] == reply


async def test_deadline_of_a_tapped_call(relay_path: Path, runtime_path: Path, runtime: FakeRuntime) -> None:
    """Nothing about time changes for a tapped call."""
    notes = Notes(("ListContainers",))
    stall = runtime.stall("ListContainers")
    async with relay_stack(relay_path, runtime_path, taps=[notes]), grpc_channel(relay_path) as channel:
        call = channel.unary_unary(LIST)
        error = await pass_deadline(lambda timeout: failed(call(b"", timeout=timeout)), stall.entered.is_set)
        assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await eventually(lambda: len(notes.ends) == len(notes.calls), "the end to be told")


async def test_tap_sees_methods_nobody_knows(scratch: Path) -> None:
    """If it asks for them: path, message, end; it gets the metadata and the peer of every call."""
    notes = Notes(("",))
    async with seams(scratch, taps=[notes]) as it:
        await it.call(b"new", path=b"/runtime.v9.Future/Call", metadata=((b"x-a", b"b"),))
        await it.call(ODD)
    (call,) = notes.calls.values()
    assert (call.path, call.method, call.intercepted) == (b"/runtime.v9.Future/Call", None, False)
    assert (b"x-a", b"b") in call.metadata
    assert call.peer.pid == os.getpid()
    assert [message for *_, message in notes.seen] == [b"new", REPLY]


async def test_tap_comes_and_goes_while_calls_pass(scratch: Path) -> None:
    """A relay without subscribers can be watched, and is a pass-through again afterwards."""
    notes = Notes()
    async with seams(scratch) as it:
        route = it.stack.relay.routes.known[CREATE]
        await it.call(ODD)
        it.stack.relay.add_tap(notes)
        await it.call(ODD)
        it.stack.relay.remove_tap(notes)
        assert not route.slow_path
        await it.call(ODD)
    assert notes.ends == [(1, 0)]


async def test_tap_hears_why_a_call_failed(scratch: Path) -> None:
    """The runtime's text, decoded; and who refused a call that never reached it."""

    async def refuse(call: Call, proceed: Proceed) -> Reply:
        return refusal(Code.FAILED_PRECONDITION, "no")

    notes = Notes()
    async with seams(scratch, taps=[notes]) as it:
        it.backend.answer = RawAnswer(None, b"", answer_headers((b"grpc-status", b"5"), (b"grpc-message", b"gone%21")))
        await it.call(ODD)
    assert notes.ended == [(Code.NOT_FOUND, "gone!", ())]
    notes = Notes()
    (scratch / "other").mkdir()
    async with seams(scratch / "other", Stub(refuse), taps=[notes]) as it:
        await it.call(ODD)
    assert notes.ended == [(Code.FAILED_PRECONDITION, "no", ("stub",))]


async def test_tap_sees_what_the_runtime_said_where_the_caller_hears_something_else(scratch: Path) -> None:
    """Another reply, a refusal after all, an edit that was taken back: the runtime's message is shown in each case."""

    async def replace(call: Call, proceed: Proceed) -> Reply:
        await proceed()
        return Reply(code=0, body=Body(b"", CriParser("CreateContainerResponse")))

    async def refuse(call: Call, proceed: Proceed) -> Reply:
        await proceed()
        return refusal(Code.PERMISSION_DENIED, "no")

    async def fail(call: Call, proceed: Proceed) -> Reply:
        reply = await proceed()
        reply.response.container_id = "other"
        raise ZeroDivisionError

    expected = {
        replace: [("request", ODD), ("received", REPLY), ("reply", b"")],
        refuse: [("request", ODD), ("received", REPLY)],
        fail: [("request", ODD), ("reply", REPLY)],
    }
    for number, (behaviour, seen) in enumerate(expected.items()):
        (scratch / str(number)).mkdir()
        notes = Notes()
        async with seams(scratch / str(number), Stub(behaviour), taps=[notes]) as it:
            await it.call(ODD)
        assert [(direction, message) for _, _, direction, message in notes.seen] == seen


async def test_intercepted_message_that_is_too_large_to_copy(scratch: Path) -> None:
    """It passes as it is; the tap hears of its size."""
    notes = Notes()
    async with seams(scratch, Stub(look), taps=[notes]) as it:
        it.stack.relay.tap_registry.limit = len(ODD) - 1
        assert (await it.call(ODD)).body == frame(REPLY)
    assert [(direction, size) for _, direction, size, _ in notes.unseen] == [("request", len(ODD))]
