"""Interceptors in a running relay: what they can do to a call, and that they cannot hurt one."""

import asyncio
import os
from pathlib import Path
from typing import Any

import grpc
import pytest

from interpose._pb import cri_pb2 as cri
from interpose.cri.errors import UnreadableMessageError
from interpose.cri.parser import CriParser
from interpose.net.grpc.framing import frame, parse_timeout, status_trailers
from interpose.net.grpc.status import Code
from interpose.relay.api import Body, Call, Proceed, Reply, refusal
from interpose.testing.eventually import WAIT_LIMIT
from interpose.testing.grpcpeer import grpc_channel
from tests.support.net.byte_seams import CREATE, ODD, REPLY, Stub, add_env, look, prefixed, seams
from tests.support.net.raw_backend import RawAnswer, answer_headers


async def test_unchanged_call_is_the_same_bytes_on_both_sides(scratch: Path) -> None:
    """An interceptor that reads everything and changes nothing leaves no trace: headers, body, trailers."""
    headers = answer_headers((b"x-first", b"1"), (b"x-bytes-bin", b"AAEC"))
    trailers = status_trailers(Code.OK, "", ((b"x-last", b"2"),))
    async with seams(scratch, Stub(look)) as it:
        it.backend.answer = RawAnswer(headers, frame(REPLY), trailers)
        reply = await it.call(ODD, metadata=((b"x-meta", b"m"), (b"x-meta-bin", b"/w")))
        assert it.errors == {}
        (request,) = it.backend.requests
        assert request.body == frame(ODD)
        assert request.metadata[4:] == [
            (b"content-type", b"application/grpc"),
            (b"te", b"trailers"),
            (b"x-meta", b"m"),
            (b"x-meta-bin", b"/w"),
        ]
        assert (reply.body, reply.headers and reply.headers.wire) == (frame(REPLY), headers)
        assert reply.trailers is not None
        assert reply.trailers.wire == trailers


@pytest.mark.parametrize("version", ["v1", "v1alpha2"])
async def test_changed_request_keeps_what_was_not_changed(scratch: Path, version: str) -> None:
    """In both API versions: order of envs, bytes that are not UTF-8, and unknown fields survive an edit."""
    async with seams(scratch, Stub(add_env)) as it:
        await it.call(ODD, path=CREATE.replace(b"v1", version.encode()))
        sent = cri.CreateContainerRequest.FromString(it.backend.requests[0].body[5:])
        pairs = [(env.key, env.value) for env in sent.config.envs]
        assert pairs == [("B", b"\xff\xfe"), ("A", b"1"), ("C", b"\xfd")]
        assert b"\xba\x3e\x05later" in it.backend.requests[0].body
        assert it.backend.requests[0].path == f"/runtime.{version}.RuntimeService/CreateContainer"


async def test_changed_reply(scratch: Path) -> None:
    """The caller gets the changed message with the backend's own headers and trailers; content-length goes."""

    async def rename(call: Call, proceed: Proceed) -> Reply:
        reply = await proceed()
        reply.response.container_id = "renamed"
        return reply

    async with seams(scratch, Stub(rename)) as it:
        length = str(len(frame(REPLY))).encode()
        it.backend.answer = RawAnswer(
            answer_headers((b"x-first", b"1"), (b"content-length", length)),
            frame(REPLY),
            status_trailers(Code.OK, "", ((b"x-last", b"2"),)),
        )
        reply = await it.call(ODD)
        assert it.backend.requests[0].body == frame(ODD)
        message = cri.CreateContainerResponse.FromString(reply.message(1 << 20))
        assert message.container_id == "renamed"
        assert b"\xba\x3e\x05later" in reply.body
        assert reply.headers is not None
        assert reply.trailers is not None
        assert (reply.headers.get(b"x-first"), reply.headers.get(b"content-length")) == (b"1", None)
        assert reply.trailers.get(b"x-last") == b"2"
        assert it.stack.stats(CREATE.decode()).bytes_sent == len(reply.body)


async def test_refusal_is_a_status_and_the_backend_hears_nothing(scratch: Path) -> None:
    """A decision, not an error: code and text arrive, nothing is counted as a failure of the interceptor."""

    async def refuse(call: Call, proceed: Proceed) -> Reply:
        return refusal(Code.FAILED_PRECONDITION, "kein Platz für 100 %")

    async with seams(scratch, Stub(refuse)) as it, grpc_channel(it.stack.socket) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary(CREATE.decode())(ODD)
        assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert caught.value.details() == "kein Platz für 100 %"
        assert it.backend.requests == []
        assert it.errors == {}
        assert it.stack.stats(CREATE.decode()).codes[Code.FAILED_PRECONDITION] == 1


async def test_refusal_after_proceed_replaces_the_reply(scratch: Path) -> None:
    """The runtime did it, the interceptor says no all the same."""

    async def refuse(call: Call, proceed: Proceed) -> Reply:
        await proceed()
        return refusal(Code.ABORTED, "changed my mind")

    async with seams(scratch, Stub(refuse)) as it:
        status = (await it.call(ODD)).status
        assert status is not None
        assert (status.code, status.message) == (Code.ABORTED, "changed my mind")
        assert len(it.backend.requests) == 1


@pytest.mark.parametrize("proceeds", [False, True])
@pytest.mark.parametrize("nonsense", [None, b"bytes", refusal(99, "no such code")], ids=["none", "bytes", "bad code"])
async def test_nonsense_instead_of_a_reply_is_a_failure_like_any_other(
    scratch: Path, nonsense: Any, proceeds: bool
) -> None:
    """The call passes without the interceptor, and the mistake is counted."""

    async def answer(call: Call, proceed: Proceed) -> Reply:
        if proceeds:
            await proceed()
        return nonsense  # type: ignore[no-any-return]

    async with seams(scratch, Stub(answer)) as it:
        it.backend.answer = RawAnswer(answer_headers(), frame(REPLY))
        assert (await it.call(ODD)).body == frame(REPLY)
        assert len(it.backend.requests) == 1
        assert it.errors == {("stub", "CreateContainer", "after" if proceeds else "before"): 1}


async def test_interceptor_can_answer_by_itself(scratch: Path) -> None:
    """A reply of its own with a message, without asking the backend."""

    async def answer(call: Call, proceed: Proceed) -> Reply:
        return Reply(code=0, body=Body(REPLY, CriParser("CreateContainerResponse")))

    async with seams(scratch, Stub(answer)) as it:
        assert (await it.call(ODD)).message(1 << 20) == REPLY
        assert it.backend.requests == []


async def test_exception_before_proceed_sends_the_call_on_as_it_came_in(scratch: Path) -> None:
    """Half an edit is undone; the edits of those before it stay."""

    async def fail(call: Call, proceed: Proceed) -> Reply:
        call.request.pod_sandbox_id = "broken"
        raise ZeroDivisionError

    async with seams(scratch, Stub(prefixed("one"), "one"), Stub(fail, "two"), Stub(prefixed("three"), "three")) as it:
        reply = await it.call(ODD)
        sent = cri.CreateContainerRequest.FromString(it.backend.requests[0].body[5:])
        assert sent.pod_sandbox_id == "pod>one>three"
        assert cri.CreateContainerResponse.FromString(reply.message(1 << 20)).container_id == "c1<three<one"
        assert it.errors == {("two", "CreateContainer", "before"): 1}


async def test_failing_interceptor_alone_leaves_the_bytes_alone(scratch: Path) -> None:
    """With nobody else in the chain the bytes are those that came."""

    async def fail(call: Call, proceed: Proceed) -> Reply:
        call.request.pod_sandbox_id = "broken"
        raise ZeroDivisionError

    async with seams(scratch, Stub(fail)) as it:
        assert (await it.call(ODD)).body == frame(REPLY)
        assert it.backend.requests[0].body == frame(ODD)


async def test_exception_after_proceed_returns_the_runtimes_answer(scratch: Path) -> None:
    """What the runtime said, not half an edit of it; the call is made once."""

    async def fail(call: Call, proceed: Proceed) -> Reply:
        reply = await proceed()
        reply.response.container_id = "broken"
        raise ZeroDivisionError

    async with seams(scratch, Stub(fail)) as it:
        assert (await it.call(ODD)).body == frame(REPLY)
        assert len(it.backend.requests) == 1
        assert it.errors == {("stub", "CreateContainer", "after"): 1}


async def test_second_proceed_is_an_error_and_the_call_is_sent_once(scratch: Path) -> None:
    """At most once: the runtime never gets a call twice."""

    async def twice(call: Call, proceed: Proceed) -> Reply:
        await proceed()
        return await proceed()

    async with seams(scratch, Stub(twice)) as it:
        assert (await it.call(ODD)).body == frame(REPLY)
        assert len(it.backend.requests) == 1
        assert it.errors == {("stub", "CreateContainer", "after"): 1}


async def test_chain_runs_in_order(scratch: Path) -> None:
    """The first sees the caller's request, the last has the last word; replies travel back."""
    stubs = [Stub(prefixed(name), name) for name in ("a", "b", "c")]
    async with seams(scratch, *stubs) as it:
        reply = await it.call(ODD)
        sent = cri.CreateContainerRequest.FromString(it.backend.requests[0].body[5:])
        assert sent.pod_sandbox_id == "pod>a>b>c"
        assert cri.CreateContainerResponse.FromString(reply.message(1 << 20)).container_id == "c1<c<b<a"


async def test_errors_of_the_runtime_are_seen_and_pass_untouched(scratch: Path) -> None:
    """Code and text are there to read; details in trailers arrive byte for byte."""
    trailers = status_trailers(Code.NOT_FOUND, "wo ist der Töpfer", ((b"grpc-status-details-bin", b"AAEC"),))
    seen: list[tuple[int, str]] = []

    async def note(call: Call, proceed: Proceed) -> Reply:
        reply = await proceed()
        seen.append((reply.code, reply.message))
        with pytest.raises(UnreadableMessageError):
            reply.response  # noqa: B018
        return reply

    async with seams(scratch, Stub(note)) as it:
        only = answer_headers() + trailers
        for headers, block in ((answer_headers(), trailers), (None, only)):
            it.backend.answer = RawAnswer(headers, b"", block)
            reply = await it.call(ODD)
            assert reply.trailers is not None
            assert reply.trailers.wire == block
        assert seen == [(5, "wo ist der Töpfer")] * 2


async def test_call_knows_who_calls_and_until_when(scratch: Path) -> None:
    """Method, metadata, peer, deadline, origin."""
    stub = Stub(look)
    async with seams(scratch, stub) as it:
        await it.call(ODD, metadata=((b"x-meta", b"m"),), timeout=WAIT_LIMIT)
        (call,) = stub.calls
        assert (call.method.name, call.path, call.origin) == ("CreateContainer", CREATE, "client")
        assert (b"x-meta", b"m") in call.metadata
        assert not any(name.startswith(b":") for name, _ in call.metadata)
        assert call.peer is not None
        assert call.peer.uid == os.getuid()
        assert call.deadline is not None
        assert 0 < call.deadline - asyncio.get_running_loop().time() <= WAIT_LIMIT


async def test_deadline_is_reduced_by_the_time_spent(scratch: Path) -> None:
    """The backend gets what is left; if nothing is, it is not even asked."""
    wait = 0.05

    async def dawdle(call: Call, proceed: Proceed) -> Reply:
        await asyncio.sleep(wait)
        return await proceed()

    async with seams(scratch, Stub(dawdle)) as it:
        await it.call(ODD, timeout=WAIT_LIMIT)
        timeout = parse_timeout(dict(it.backend.requests[0].metadata)[b"grpc-timeout"])
        assert timeout is not None
        assert 0 < timeout <= WAIT_LIMIT - wait + 0.001
        status = (await it.call(ODD, timeout=0.02)).status
        assert status is not None
        assert status.code is Code.DEADLINE_EXCEEDED
        assert len(it.backend.requests) == 1


async def test_cancel_reaches_interceptor_and_backend(scratch: Path) -> None:
    """The caller gives up while the backend works: the interceptor is cancelled, the backend's stream reset."""
    cancelled = asyncio.Event()

    async def watch(call: Call, proceed: Proceed) -> Reply:
        try:
            return await proceed()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with seams(scratch, Stub(watch)) as it:
        it.backend.answer = None
        task = asyncio.create_task(it.call(ODD))
        await asyncio.wait_for(it.backend.changes.until(lambda: len(it.backend.requests) == 1), WAIT_LIMIT)
        task.cancel()
        await asyncio.wait_for(cancelled.wait(), WAIT_LIMIT)
        await asyncio.wait_for(it.backend.changes.until(lambda: it.backend.resets == [8]), WAIT_LIMIT)
        assert it.stack.stats(CREATE.decode()).codes[Code.CANCELLED] == 1
        assert it.stack.relay.in_flight == 0


async def test_cancel_before_proceed_never_reaches_the_backend(scratch: Path) -> None:
    """The interceptor is still thinking when the caller goes."""
    entered = asyncio.Event()
    cancelled = asyncio.Event()

    async def think(call: Call, proceed: Proceed) -> Reply:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return await proceed()

    async with seams(scratch, Stub(think)) as it:
        task = asyncio.create_task(it.call(ODD))
        await asyncio.wait_for(entered.wait(), WAIT_LIMIT)
        task.cancel()
        await asyncio.wait_for(cancelled.wait(), WAIT_LIMIT)
        assert it.backend.requests == []


async def test_lost_backend_is_seen_as_unavailable(scratch: Path) -> None:
    """A backend that goes away in the middle: the interceptor is told, the caller too."""
    stub = Stub(look)
    codes: list[int] = []

    async def note(call: Call, proceed: Proceed) -> Reply:
        reply = await proceed()
        codes.append(reply.code)
        return reply

    stub = Stub(note)
    async with seams(scratch, stub) as it:
        it.backend.answer = None
        task = asyncio.create_task(it.call(ODD))
        await asyncio.wait_for(it.backend.changes.until(lambda: len(it.backend.streams) == 1), WAIT_LIMIT)
        for link in list(it.stack.runtime._links.values()):
            link.abort()
        status = (await task).status
        assert status is not None
        assert (status.code, codes) == (Code.UNAVAILABLE, [Code.UNAVAILABLE])
