"""Interceptors in a running relay: what they can do to a call, and that they cannot hurt one."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from interpose.api import cri_pb2 as cri
from interpose.relay.interceptor import Body, Call, Direction, Proceed, Reply, Unreadable, refusal
from interpose.relay.messages import CriParser
from interpose.relay.methods import Method
from interpose.rpc.client import Client
from interpose.rpc.exchange import RawReply
from interpose.rpc.framing import frame, parse_timeout, request_headers, status_trailers
from interpose.rpc.status import Code
from interpose.rpc.transport import Hub
from interpose.h2.limits import Limits
from interpose.rpc.upstream import Upstream
from interpose.testing.eventually import eventually
from interpose.testing.grpcpeer import grpc_channel
from interpose.testing.rawbackend import RawAnswer, RawBackend, answer_headers, raw_backend
from interpose.testing.stack import Stack, relay_stack

CREATE = b"/runtime.v1.RuntimeService/CreateContainer"
# Fields out of order, one of them unknown, an env that is not UTF-8: nothing a re-encoded message would look like.
ODD = (
    cri.CreateContainerRequest(
        config=cri.ContainerConfig(envs=[cri.KeyValue(key="B", value=b"\xff\xfe"), cri.KeyValue(key="A", value=b"1")])
    ).SerializeToString()
    + b"\xba\x3e\x05later"
    + cri.CreateContainerRequest(pod_sandbox_id="pod").SerializeToString()
)
REPLY = cri.CreateContainerResponse(container_id="c1").SerializeToString() + b"\xba\x3e\x05later"

Behaviour = Callable[[Call, Proceed], Awaitable[Reply]]


class Stub:
    """An interceptor made of one function."""

    def __init__(
        self, behaviour: Behaviour, name: str = "stub", methods: Collection[str] = ("CreateContainer",)
    ) -> None:
        self.name = name
        self.methods = methods
        self._behaviour = behaviour
        self.calls: list[Call] = []

    async def intercept(self, call: Call, proceed: Proceed) -> Reply:
        """Remember, and do as told."""
        self.calls.append(call)
        return await self._behaviour(call, proceed)


class Notes:
    """A tap that writes down everything."""

    name = "notes"
    methods = ("CreateContainer",)

    def __init__(self) -> None:
        self.seen: list[tuple[int, str, str, bytes]] = []
        self.ends: list[tuple[int, int]] = []

    def on_message(self, call: int, method: Method, origin: str, direction: Direction, message: bytes) -> None:
        """A message."""
        self.seen.append((call, origin, direction.value, message))

    def on_end(self, call: int, method: Method, code: int) -> None:
        """An end."""
        self.ends.append((call, code))


class Caller:
    """A client that sees and sends bytes as they are."""

    def __init__(self, path: Path) -> None:
        self.hub = Hub()
        self.upstream = Upstream(str(path), hub=self.hub, limits=Limits(header_list=1 << 20), wait=1.0)
        self._client = Client(self.upstream, self.hub)

    async def __call__(
        self,
        body: bytes = b"",
        *,
        path: bytes = CREATE,
        metadata: tuple[tuple[bytes, bytes], ...] = (),
        timeout: float | None = None,
        framed: bool = False,
    ) -> RawReply:
        wire = request_headers(path, metadata, timeout)
        return await self._client.exchange(wire, body if framed else frame(body))


class Setup:
    """A relay with interceptors between a raw client and a raw backend."""

    def __init__(self, stack: Stack, backend: RawBackend, call: Caller) -> None:
        self.stack = stack
        self.backend = backend
        self.call = call

    @property
    def errors(self) -> dict[tuple[str, str, str], int]:
        """What interceptors did wrong, as it is counted."""
        return dict(self.stack.relay.collector.chain.errors)


@asynccontextmanager
async def setup(folder: Path, *interceptors: Stub, **more: Any) -> AsyncIterator[Setup]:
    """Everything running."""
    async with (
        raw_backend(folder / "runtime.sock") as backend,
        relay_stack(folder / "relay.sock", folder / "runtime.sock", interceptors=interceptors, **more) as stack,
    ):
        backend.answer = RawAnswer(body=frame(REPLY))
        call = Caller(stack.socket)
        try:
            yield Setup(stack, backend, call)
        finally:
            await call.upstream.close()


async def look(call: Call, proceed: Proceed) -> Reply:
    """Parse both messages and change nothing."""
    assert call.request.pod_sandbox_id == "pod"
    reply = await proceed()
    assert reply.response.container_id == "c1"
    return reply


async def add_env(call: Call, proceed: Proceed) -> Reply:
    """Change the request."""
    call.request.config.envs.add(key="C", value=b"\xfd")
    return await proceed()


def prefixed(text: str) -> Behaviour:
    """Leave a mark on the way there and one on the way back."""

    async def behaviour(call: Call, proceed: Proceed) -> Reply:
        call.request.pod_sandbox_id += f">{text}"
        reply = await proceed()
        reply.response.container_id += f"<{text}"
        return reply

    return behaviour


async def test_unchanged_call_is_the_same_bytes_on_both_sides(scratch: Path) -> None:
    """An interceptor that reads everything and changes nothing leaves no trace: headers, body, trailers."""
    headers = answer_headers((b"x-first", b"1"), (b"x-bytes-bin", b"AAEC"))
    trailers = status_trailers(Code.OK, "", ((b"x-last", b"2"),))
    async with setup(scratch, Stub(look)) as it:
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
    """In both API versions: order of envs, bytes that are no UTF-8, and unknown fields survive an edit."""
    async with setup(scratch, Stub(add_env)) as it:
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

    async with setup(scratch, Stub(rename)) as it:
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

    async with setup(scratch, Stub(refuse)) as it, grpc_channel(it.stack.socket) as channel:
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

    async with setup(scratch, Stub(refuse)) as it:
        status = (await it.call(ODD)).status
        assert status is not None
        assert (status.code, status.message) == (Code.ABORTED, "changed my mind")
        assert len(it.backend.requests) == 1


async def test_interceptor_can_answer_by_itself(scratch: Path) -> None:
    """A reply of its own with a message, without asking the backend."""

    async def answer(call: Call, proceed: Proceed) -> Reply:
        return Reply(code=0, body=Body(REPLY, CriParser("CreateContainerResponse")))

    async with setup(scratch, Stub(answer)) as it:
        assert (await it.call(ODD)).message(1 << 20) == REPLY
        assert it.backend.requests == []


async def test_exception_before_proceed_sends_the_call_on_as_it_came_in(scratch: Path) -> None:
    """Half an edit is undone; the edits of those before it stay."""

    async def fail(call: Call, proceed: Proceed) -> Reply:
        call.request.pod_sandbox_id = "broken"
        raise ZeroDivisionError

    async with setup(scratch, Stub(prefixed("one"), "one"), Stub(fail, "two"), Stub(prefixed("three"), "three")) as it:
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

    async with setup(scratch, Stub(fail)) as it:
        assert (await it.call(ODD)).body == frame(REPLY)
        assert it.backend.requests[0].body == frame(ODD)


async def test_exception_after_proceed_returns_the_runtimes_answer(scratch: Path) -> None:
    """What the runtime said, not half an edit of it; the call is made once."""

    async def fail(call: Call, proceed: Proceed) -> Reply:
        reply = await proceed()
        reply.response.container_id = "broken"
        raise ZeroDivisionError

    async with setup(scratch, Stub(fail)) as it:
        assert (await it.call(ODD)).body == frame(REPLY)
        assert len(it.backend.requests) == 1
        assert it.errors == {("stub", "CreateContainer", "after"): 1}


async def test_second_proceed_is_an_error_and_the_call_is_sent_once(scratch: Path) -> None:
    """At most once: the runtime never gets a call twice."""

    async def twice(call: Call, proceed: Proceed) -> Reply:
        await proceed()
        return await proceed()

    async with setup(scratch, Stub(twice)) as it:
        assert (await it.call(ODD)).body == frame(REPLY)
        assert len(it.backend.requests) == 1
        assert it.errors == {("stub", "CreateContainer", "after"): 1}


async def test_chain_runs_in_order(scratch: Path) -> None:
    """The first sees the caller's request, the last has the last word; replies travel back."""
    stubs = [Stub(prefixed(name), name) for name in ("a", "b", "c")]
    async with setup(scratch, *stubs) as it:
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
        with pytest.raises(Unreadable):
            reply.response  # noqa: B018
        return reply

    async with setup(scratch, Stub(note)) as it:
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
    async with setup(scratch, stub) as it:
        await it.call(ODD, metadata=((b"x-meta", b"m"),), timeout=5.0)
        (call,) = stub.calls
        assert (call.method.name, call.path, call.origin) == ("CreateContainer", CREATE, "client")
        assert (b"x-meta", b"m") in call.metadata
        assert not any(name.startswith(b":") for name, _ in call.metadata)
        assert call.peer is not None
        assert call.peer.uid == 0 or call.peer.uid > 0
        assert call.deadline is not None
        assert 0 < call.deadline - asyncio.get_running_loop().time() <= 5.0


async def test_deadline_is_reduced_by_the_time_spent(scratch: Path) -> None:
    """The backend gets what is left; if nothing is, it is not even asked."""
    wait = 0.05

    async def dawdle(call: Call, proceed: Proceed) -> Reply:
        await asyncio.sleep(wait)
        return await proceed()

    async with setup(scratch, Stub(dawdle)) as it:
        await it.call(ODD, timeout=10.0)
        timeout = parse_timeout(dict(it.backend.requests[0].metadata)[b"grpc-timeout"])
        assert timeout is not None
        assert 9.0 < timeout <= 9.95 + 0.001
        status = (await it.call(ODD, timeout=0.02)).status
        assert status is not None
        assert status.code is Code.DEADLINE_EXCEEDED
        assert len(it.backend.requests) == 1


async def test_cancel_reaches_interceptor_and_backend(scratch: Path) -> None:
    """The caller gives up while the call is at the backend: the interceptor is cancelled, the backend's stream reset."""
    cancelled = asyncio.Event()

    async def watch(call: Call, proceed: Proceed) -> Reply:
        try:
            return await proceed()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with setup(scratch, Stub(watch)) as it:
        it.backend.answer = None
        task = asyncio.create_task(it.call(ODD))
        await asyncio.wait_for(it.backend.changes.until(lambda: len(it.backend.requests) == 1), 5)
        task.cancel()
        await asyncio.wait_for(cancelled.wait(), 1)
        await asyncio.wait_for(it.backend.changes.until(lambda: it.backend.resets == [8]), 1)
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

    async with setup(scratch, Stub(think)) as it:
        task = asyncio.create_task(it.call(ODD))
        await asyncio.wait_for(entered.wait(), 5)
        task.cancel()
        await asyncio.wait_for(cancelled.wait(), 1)
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
    async with setup(scratch, stub) as it:
        it.backend.answer = None
        task = asyncio.create_task(it.call(ODD))
        await asyncio.wait_for(it.backend.changes.until(lambda: len(it.backend.streams) == 1), 5)
        for link in list(it.stack.runtime._links.values()):
            link.abort()
        status = (await task).status
        assert status is not None
        assert (status.code, codes) == (Code.UNAVAILABLE, [Code.UNAVAILABLE])


# -- compression


def packed(message: bytes) -> bytes:
    """A compressed message as it is on the wire."""
    body = gzip.compress(message)
    return b"\x01" + len(body).to_bytes(4, "big") + body


GZIP = ((b"grpc-encoding", b"gzip"),)


async def test_gzip_request_is_readable_and_unchanged_if_nobody_changes_it(scratch: Path) -> None:
    """Interceptors see the message, the backend gets the compressed bytes that came."""
    async with setup(scratch, Stub(look)) as it:
        assert (await it.call(packed(ODD), metadata=GZIP, framed=True)).body == frame(REPLY)
        assert it.errors == {}
        assert it.backend.requests[0].body == packed(ODD)


async def test_changed_gzip_request_is_sent_plain(scratch: Path) -> None:
    """A message may be plain whatever the encoding says; the backend reads the edit."""
    async with setup(scratch, Stub(add_env)) as it:
        await it.call(packed(ODD), metadata=GZIP, framed=True)
        body = it.backend.requests[0].body
        assert body[0] == 0
        assert cri.CreateContainerRequest.FromString(body[5:]).config.envs[-1].key == "C"


async def test_unknown_encoding_passes(scratch: Path) -> None:
    """Nobody can read it, so an interceptor fails and the bytes go on, both ways."""
    odd = b"\x01\x00\x00\x00\x04odd!"
    async with setup(scratch, Stub(look)) as it:
        headers = answer_headers((b"grpc-encoding", b"brotli"))
        it.backend.answer = RawAnswer(headers, odd)
        reply = await it.call(odd, metadata=((b"grpc-encoding", b"brotli"),), framed=True)
        assert it.backend.requests[0].body == odd
        assert reply.body == odd
        assert it.errors == {("stub", "CreateContainer", "before"): 1}


async def test_gzip_reply_is_readable_and_unchanged_if_nobody_changes_it(scratch: Path) -> None:
    """The same for the way back."""
    async with setup(scratch, Stub(look)) as it:
        it.backend.answer = RawAnswer(answer_headers(*GZIP), packed(REPLY))
        assert (await it.call(ODD)).body == packed(REPLY)
        assert it.errors == {}


@pytest.mark.parametrize("body", [b"", b"\x00\x00\x00\x00\x05ab", frame(b"a") + frame(b"b"), b"\x00\x00"], ids=repr)
async def test_request_that_is_not_one_message_is_the_runtimes_business(scratch: Path, body: bytes) -> None:
    """It goes on untouched and no interceptor sees it."""
    stub = Stub(look)
    async with setup(scratch, stub) as it:
        await it.call(body, framed=True)
        assert [request.body for request in it.backend.requests] == [body]
        assert stub.calls == []


async def test_garbage_passes(scratch: Path) -> None:
    """Bytes that are no such message: the interceptor cannot parse them, the runtime may say so."""
    async with setup(scratch, Stub(look)) as it:
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
    async with setup(scratch, Stub(look), message_limit=limit) as it:
        status = (await it.call(body, metadata=metadata, framed=True)).status
        assert status is not None
        assert status.code is Code.RESOURCE_EXHAUSTED
        assert f"over the limit of {limit}" in status.message
        assert it.backend.requests == []
        assert (await it.call(ODD)).body == frame(REPLY)


async def test_reply_over_the_limit_is_refused(scratch: Path) -> None:
    """An intercepted reply is in memory too, hence bounded."""
    async with setup(scratch, Stub(look), message_limit=100_000) as it:
        it.backend.answer = RawAnswer(body=frame(bytes(100_001)))
        status = (await it.call(ODD)).status
        assert status is not None
        assert status.code is Code.RESOURCE_EXHAUSTED


async def test_large_message_within_the_limit_passes_both_ways(scratch: Path) -> None:
    """Many windows' worth through the chain."""
    big = cri.CreateContainerRequest(pod_sandbox_id="pod").SerializeToString() + b"\xba\x3e\x80\x80\x80\x01" + bytes(1 << 21)
    async with setup(scratch, Stub(look)) as it:
        it.backend.answer = RawAnswer(body=frame(REPLY + b"\xba\x3e\x80\x80\x80\x01" + bytes(1 << 21)))
        reply = await asyncio.wait_for(it.call(big), 20)
        assert it.backend.requests[0].body == frame(big)
        assert it.backend.answer is not None
        assert reply.body == it.backend.answer.body
        assert it.errors == {}


# -- calls of our own


async def test_originated_call_enters_below_its_originator(scratch: Path) -> None:
    """It passes those after the originator, with its origin set, and taps see it."""
    stubs = [Stub(prefixed(name), name) for name in ("a", "b", "c")]
    notes = Notes()
    async with setup(scratch, *stubs, taps=[notes]) as it:
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
            ("b", "reply"),
        ]
        assert [code for _, code in notes.ends] == [0]


async def test_originated_call_of_nobody_passes_the_whole_chain(scratch: Path) -> None:
    """Without an originator in the chain all of it is passed."""
    stub = Stub(prefixed("a"), "a")
    async with setup(scratch, stub) as it:
        await it.stack.relay.call(CREATE, ODD, origin="somebody")
        assert [call.origin for call in stub.calls] == ["somebody"]


async def test_originated_call_has_a_deadline(scratch: Path) -> None:
    """A backend that never answers: DEADLINE_EXCEEDED as a value, and the backend's stream is reset."""
    notes = Notes()
    async with setup(scratch, Stub(look), taps=[notes]) as it:
        it.backend.answer = None
        reply = await it.stack.relay.call(CREATE, ODD, origin="somebody", timeout=0.05)
        assert reply.code == Code.DEADLINE_EXCEEDED
        await asyncio.wait_for(it.backend.changes.until(lambda: it.backend.resets == [8]), 1)
        assert [code for _, code in notes.ends] == [Code.DEADLINE_EXCEEDED]


# -- subscriptions


async def test_streaming_method_cannot_be_intercepted(scratch: Path) -> None:
    """It has no one message to change; the mistake is found at start."""
    stub = Stub(look, methods=("GetContainerEvents",))
    with pytest.raises(ValueError, match="GetContainerEvents streams its replies"):
        async with setup(scratch, stub):
            pass


async def test_other_methods_do_not_notice(scratch: Path) -> None:
    """A method nobody named passes frame by frame."""
    stub = Stub(look)
    async with setup(scratch, stub) as it:
        await it.call(ODD, path=b"/runtime.v1.RuntimeService/RemoveContainer")
        assert stub.calls == []
        assert it.backend.requests[0].body == frame(ODD)


async def test_calls_in_flight_are_counted_while_intercepted(scratch: Path) -> None:
    """An intercepted call is in flight until it is answered, and the time before the backend is its own phase."""
    gate = asyncio.Event()

    async def wait(call: Call, proceed: Proceed) -> Reply:
        await gate.wait()
        return await proceed()

    async with setup(scratch, Stub(wait)) as it:
        task = asyncio.create_task(it.call(ODD))
        await eventually(lambda: it.stack.relay.in_flight == 1, "the call to arrive")
        gate.set()
        await task
        stats = it.stack.stats(CREATE.decode())
        assert (it.stack.relay.in_flight, stats.codes[0], sum(stats.own_buckets)) == (0, 1, 1)
        assert stats.own_sum > 0
