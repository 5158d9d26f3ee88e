"""Calls of our own parts through the chain, and which calls the chain sees at all."""

import asyncio
from pathlib import Path

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.net.grpc.framing import frame
from interpose.net.grpc.status import Code
from interpose.relay.api import Call, Proceed, Reply
from interpose.testing.eventually import WAIT_LIMIT, eventually, pass_deadline
from tests.support.net.byte_seams import CREATE, ODD, Notes, Stub, look, prefixed, seams

# -- calls of our own


async def test_originated_call_enters_below_its_originator(scratch: Path) -> None:
    """It passes those after the originator, with its origin set, and taps see it."""
    stubs = [Stub(prefixed(name), name) for name in ("a", "b", "c")]
    notes = Notes()
    async with seams(scratch, *stubs, taps=[notes]) as it:
        reply = await it.stack.relay.call(CREATE, ODD, origin="b", below=stubs[1])
        assert reply.response.container_id == "c1<c"
        (call,) = stubs[2].calls
        assert (call.origin, stubs[0].calls, stubs[1].calls) == ("b", [], [])
        sent = it.backend.requests[0]
        assert cri.CreateContainerRequest.FromString(sent.body[5:]).pod_sandbox_id == "pod>c"
        assert dict(sent.metadata)[b":authority"] == b"localhost"
        assert [(origin, direction) for _, origin, direction, _ in notes.seen] == [
            ("b", "request"),
            ("b", "forwarded"),
            ("b", "received"),
            ("b", "reply"),
        ]
        assert [code for _, code in notes.ends] == [0]


async def test_originated_call_of_nobody_passes_the_whole_chain(scratch: Path) -> None:
    """Without an originator in the chain all of it is passed."""
    stub = Stub(prefixed("a"), "a")
    async with seams(scratch, stub) as it:
        await it.stack.relay.call(CREATE, ODD, origin="somebody")
        assert [call.origin for call in stub.calls] == ["somebody"]


async def test_originated_call_has_a_deadline(scratch: Path) -> None:
    """A backend that never answers: DEADLINE_EXCEEDED as a value, and the backend's stream is reset."""
    notes = Notes()
    async with seams(scratch, Stub(look), taps=[notes]) as it:
        it.backend.answer = None
        reply = await pass_deadline(
            lambda timeout: it.stack.relay.call(CREATE, ODD, origin="somebody", timeout=timeout),
            lambda: it.backend.requests,
        )
        assert reply.code == Code.DEADLINE_EXCEEDED
        await asyncio.wait_for(it.backend.changes.until(lambda: 8 in it.backend.resets), WAIT_LIMIT)
        assert {code for _, code in notes.ends} == {Code.DEADLINE_EXCEEDED}


# -- subscriptions


async def test_streaming_method_cannot_be_intercepted(scratch: Path) -> None:
    """It has no one message to change; the mistake is found at start."""
    stub = Stub(look, methods=("GetContainerEvents",))
    with pytest.raises(ValueError, match="GetContainerEvents streams its replies"):
        async with seams(scratch, stub):
            pass


async def test_other_methods_do_not_notice(scratch: Path) -> None:
    """A method nobody named passes frame by frame."""
    stub = Stub(look)
    async with seams(scratch, stub) as it:
        await it.call(ODD, path=b"/runtime.v1.RuntimeService/RemoveContainer")
        assert stub.calls == []
        assert it.backend.requests[0].body == frame(ODD)


async def test_calls_in_flight_are_counted_while_intercepted(scratch: Path) -> None:
    """An intercepted call is in flight until it is answered, and the time before the backend is its own phase."""
    gate = asyncio.Event()

    async def wait(call: Call, proceed: Proceed) -> Reply:
        await gate.wait()
        return await proceed()

    async with seams(scratch, Stub(wait)) as it:
        task = asyncio.create_task(it.call(ODD))
        await eventually(lambda: it.stack.relay.in_flight == 1, "the call to arrive")
        gate.set()
        await task
        stats = it.stack.stats(CREATE.decode())
        assert (it.stack.relay.in_flight, stats.codes[0], sum(stats.own_buckets)) == (0, 1, 1)
        assert stats.own_sum > 0
