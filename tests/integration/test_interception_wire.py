"""Intercepted calls on the wire: compression, odd bodies, limits."""

import asyncio
import gzip
from contextlib import aclosing
from pathlib import Path

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.config.relay.settings import LimitSettings
from interpose.net.grpc.exchange import status_of
from interpose.net.grpc.framing import frame
from interpose.net.grpc.status import Code
from interpose.relay.api import Call, Proceed, Reply, refusal
from interpose.testing.eventually import WAIT_LIMIT
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.serve import serve_runtime
from interpose.testing.stack import relay_stack
from tests.support.net.byte_seams import ODD, REPLY, Caller, Stub, add_env, look, seams
from tests.support.net.raw_backend import RawAnswer, answer_headers

# -- compression


def packed(message: bytes) -> bytes:
    """A compressed message as it is on the wire."""
    body = gzip.compress(message, mtime=0)
    return b"\x01" + len(body).to_bytes(4, "big") + body


GZIP = ((b"grpc-encoding", b"gzip"),)


async def test_gzip_request_is_readable_and_unchanged_if_nobody_changes_it(scratch: Path) -> None:
    """Interceptors see the message, the backend gets the compressed bytes that came."""
    async with seams(scratch, Stub(look)) as it:
        assert (await it.call(packed(ODD), metadata=GZIP, framed=True)).body == frame(REPLY)
        assert it.errors == {}
        assert it.backend.requests[0].body == packed(ODD)


async def test_changed_gzip_request_is_sent_plain(scratch: Path) -> None:
    """A message may be plain whatever the encoding says; the backend reads the edit."""
    async with seams(scratch, Stub(add_env)) as it:
        await it.call(packed(ODD), metadata=GZIP, framed=True)
        body = it.backend.requests[0].body
        assert body[0] == 0
        assert cri.CreateContainerRequest.FromString(body[5:]).config.envs[-1].key == "C"


async def test_compressed_requests_that_unpack_to_too_much_are_refused(scratch: Path) -> None:
    """What they unpack to counts as long as they are held; when there is room again, they are taken again."""
    opened = asyncio.Event()
    entered: list[str] = []

    async def held(call: Call, proceed: Proceed) -> Reply:
        entered.append(call.request.pod_sandbox_id)
        await opened.wait()
        return await proceed()

    bomb = packed(cri.CreateContainerRequest(pod_sandbox_id="x" * 1_000_000).SerializeToString())
    async with seams(scratch, Stub(held), limits=LimitSettings(buffered=2_500_000)) as it:
        calls = [asyncio.create_task(it.call(bomb, metadata=GZIP, framed=True)) for _ in range(8)]
        done, waiting = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED, timeout=WAIT_LIMIT)
        while len(done) + len(entered) < 8:
            done, waiting = await asyncio.wait(calls, return_when=asyncio.ALL_COMPLETED, timeout=0.01)
        assert len(entered) == 3
        assert it.stack.hub.buffered.size < 3_100_000
        refused = [status_of(task.result().trailers) for task in done]
        assert {error.code for error in refused if error is not None} == {Code.RESOURCE_EXHAUSTED}
        opened.set()
        await asyncio.wait_for(asyncio.gather(*waiting), WAIT_LIMIT)
        assert it.stack.hub.buffered.size == 0
        assert (await it.call(bomb, metadata=GZIP, framed=True)).body == frame(REPLY)


async def test_unknown_encoding_passes(scratch: Path) -> None:
    """Nobody can read it, so an interceptor fails and the bytes go on, both ways."""
    odd = b"\x01\x00\x00\x00\x04odd!"
    async with seams(scratch, Stub(look)) as it:
        headers = answer_headers((b"grpc-encoding", b"brotli"))
        it.backend.answer = RawAnswer(headers, odd)
        reply = await it.call(odd, metadata=((b"grpc-encoding", b"brotli"),), framed=True)
        assert it.backend.requests[0].body == odd
        assert reply.body == odd
        assert it.errors == {("stub", "CreateContainer", "before"): 1}


async def test_gzip_reply_is_readable_and_unchanged_if_nobody_changes_it(scratch: Path) -> None:
    """The same for the way back."""
    async with seams(scratch, Stub(look)) as it:
        it.backend.answer = RawAnswer(answer_headers(*GZIP), packed(REPLY))
        assert (await it.call(ODD)).body == packed(REPLY)
        assert it.errors == {}


@pytest.mark.parametrize("body", [b"", b"\x00\x00\x00\x00\x05ab", frame(b"a") + frame(b"b"), b"\x00\x00"], ids=repr)
async def test_request_that_is_not_one_message_goes_on_untouched(scratch: Path, body: bytes) -> None:
    """Interceptors cannot read it, so the runtime gets what the client sent."""
    async with seams(scratch, Stub(look)) as it:
        await it.call(body, framed=True)
        assert [request.body for request in it.backend.requests] == [body]
        assert it.errors == {("stub", "CreateContainer", "before"): 1}


@pytest.mark.parametrize("body", [b"", frame(b"a") + frame(b"b")], ids=repr)
async def test_request_that_is_not_one_message_can_be_refused(scratch: Path, body: bytes) -> None:
    """An interceptor that must see every call is asked, and told that there is nothing to read."""

    async def refuse(call: Call, _proceed: Proceed) -> Reply:
        assert not call.body.readable
        return refusal(Code.FAILED_PRECONDITION, "cannot read it")

    async with seams(scratch, Stub(refuse)) as it:
        reply = await it.call(body, framed=True)
        assert reply.status is not None
        assert reply.status.code is Code.FAILED_PRECONDITION
        assert it.backend.requests == []


async def test_garbage_passes(scratch: Path) -> None:
    """Bytes that are no such message: the interceptor cannot parse them, the runtime may say so."""
    async with seams(scratch, Stub(look)) as it:
        await it.call(b"\xff\xff\xff")
        assert it.backend.requests[0].body == frame(b"\xff\xff\xff")
        assert it.errors == {("stub", "CreateContainer", "before"): 1}


# -- limits


@pytest.mark.parametrize("kind", ["plain", "declared", "gzip bomb"])
async def test_message_over_the_limit_is_refused(scratch: Path, kind: str) -> None:
    """Counted after decompression, refused with a clear text; the relay goes on."""
    limit = 100_000
    bodies = {
        "plain": (frame(bytes(limit + 1)), ()),
        "declared": (b"\x00" + (limit + 1).to_bytes(4, "big") + b"start", ()),
        "gzip bomb": (packed(bytes(50 * limit)), GZIP),
    }
    body, metadata = bodies[kind]
    async with seams(scratch, Stub(look), message_limit=limit) as it:
        status = (await it.call(body, metadata=metadata, framed=True)).status
        assert status is not None
        assert status.code is Code.RESOURCE_EXHAUSTED
        assert f"over the limit of {limit}" in status.message
        assert it.backend.requests == []
        assert (await it.call(ODD)).body == frame(REPLY)


async def test_reply_over_the_limit_is_refused(scratch: Path) -> None:
    """An intercepted reply is in memory too, hence bounded."""
    async with seams(scratch, Stub(look), message_limit=100_000) as it:
        it.backend.answer = RawAnswer(body=frame(bytes(100_001)))
        status = (await it.call(ODD)).status
        assert status is not None
        assert status.code is Code.RESOURCE_EXHAUSTED


async def test_large_message_within_the_limit_passes_both_ways(scratch: Path) -> None:
    """Many windows' worth through the chain."""
    big = (
        cri.CreateContainerRequest(pod_sandbox_id="pod").SerializeToString()
        + b"\xba\x3e\x80\x80\x80\x01"
        + bytes(1 << 21)
    )
    async with seams(scratch, Stub(look)) as it:
        it.backend.answer = RawAnswer(body=frame(REPLY + b"\xba\x3e\x80\x80\x80\x01" + bytes(1 << 21)))
        reply = await asyncio.wait_for(it.call(big), WAIT_LIMIT)
        assert it.backend.requests[0].body == frame(big)
        assert it.backend.answer is not None
        assert reply.body == it.backend.answer.body
        assert it.errors == {}


async def test_call_that_hangs_holds_up_no_other_large_one(scratch: Path, runtime_path: Path) -> None:
    """Large messages wait for each other only for a while: the runtime may never answer one of them."""
    padding = b"\xba\x3e\x80\x80\x40" + bytes(1 << 20)  # an unknown field
    runtime = FakeRuntime()
    first, second = (sandbox.id for sandbox in runtime.populate(2))
    stop, remove = (f"/runtime.v1.RuntimeService/{verb}PodSandbox".encode() for verb in ("Stop", "Remove"))
    stall = runtime.stall("StopPodSandbox")

    async def pass_on(call: Call, proceed: Proceed) -> Reply:
        assert call.request.pod_sandbox_id
        return await proceed()

    methods = ("StopPodSandbox", "RemovePodSandbox")
    async with (
        serve_runtime(runtime_path, runtime),
        relay_stack(scratch / "relay.sock", runtime_path, interceptors=[Stub(pass_on, methods=methods)]) as stack,
        aclosing(Caller(stack.socket)) as call,
    ):
        stack.relay.call_runner.large_messages.turn_wait = 0.01
        request = cri.StopPodSandboxRequest(pod_sandbox_id=first).SerializeToString() + padding
        hanging = asyncio.create_task(call(request, path=stop))
        await asyncio.wait_for(stall.entered.wait(), WAIT_LIMIT)
        request = cri.RemovePodSandboxRequest(pod_sandbox_id=second).SerializeToString() + padding
        reply = await asyncio.wait_for(call(request, path=remove), WAIT_LIMIT)
        assert reply.status is None
        assert not hanging.done()
        stall.release()
        assert (await asyncio.wait_for(hanging, WAIT_LIMIT)).status is None
