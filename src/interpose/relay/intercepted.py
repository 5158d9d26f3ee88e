"""Intercepted calls: the request is collected whole, passes the chain, and the reply goes back.

The caller's cancellation or loss cancels the task at once, and with it hooks and backend. What no interceptor changed
goes on as the bytes that came, in both directions: headers, message, trailers. A request that is not one message is
unreadable to interceptors like one in an unknown encoding: they may refuse it, otherwise it goes on untouched.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from interpose.cri.methods import Method
from interpose.cri.parser import CriParser
from interpose.net.grpc.answer import answer, stop_upload
from interpose.net.grpc.exchange import RawReply, plain
from interpose.net.grpc.framing import (
    PREFIX,
    RESPONSE_HEADERS,
    Messages,
    frame,
    parse_timeout,
    request_headers,
    status_trailers,
    timeout_field,
    too_large,
)
from interpose.net.grpc.raw_client import RawClient
from interpose.net.grpc.status import Code, RpcError
from interpose.net.grpc.transport import Hub
from interpose.net.grpc.upstream import Upstream
from interpose.net.h2.buffered import BufferedShare
from interpose.net.h2.headers import Headers
from interpose.net.h2.stream import NOWHERE, Stream
from interpose.relay.api import Body, Call, Direction, Reply
from interpose.relay.chain import Chain
from interpose.relay.internal_calls import CallRunner, message_of, method_of, show_message
from interpose.relay.large_messages import LARGE, LargeMessageQueue
from interpose.relay.passthrough import CallRecorder
from interpose.relay.routes import Route
from interpose.relay.taps import CallView, TapRegistry


class CriCallRunner(CallRunner):
    """Runs intercepted calls. One per relay."""

    def __init__(
        self,
        *,
        chain: Chain,
        tap_registry: TapRegistry,
        hub: Hub,
        recorder: CallRecorder,
        limit: int,
        now: Callable[[], float],
    ) -> None:
        super().__init__(chain=chain, tap_registry=tap_registry, limit=limit, now=now, ask=self._call_runtime)
        self.hub = hub
        self.recorder = recorder
        self.large_messages = LargeMessageQueue()

    def intercept(
        self, stream: Stream, headers: Headers, route: Route, peer: object, end: bool, upstream: Upstream
    ) -> None:
        """Buffer the request of a client's stream and run it through the chain; it goes on over this upstream."""
        call = InterceptedCall(self, stream, headers, route, peer, upstream)
        if end:
            call.complete()

    async def _call_runtime(self, route: Route, path: bytes, message: bytes, timeout: float) -> Reply:
        wire = request_headers(path, (), timeout)
        raw = await RawClient(route.upstream, self.hub, limit=self.limit).exchange(wire, frame(message))
        return self.reply(raw, method_of(route))

    def show_reply(self, view: CallView, reply: Reply) -> None:
        message = message_of(reply)
        if message is None and not reply.code and reply.body is None and reply.raw is not None:
            message = _raw_message(reply.raw, self.limit)
        show_message(view, message)
        if reply.body is not None and not reply.body.readable:
            view.unseen(Direction.REPLY, len(reply.body.received), "the reply has an unknown encoding")

    def reply(self, raw: RawReply, method: Method) -> Reply:
        """The backend's answer as a reply for interceptors."""
        error = raw.status
        if error is not None:
            return Reply(code=error.code, message=error.message, raw=raw)
        try:
            message = raw.message_of_ok(self.limit)
        except RpcError as unreadable:
            return Reply(code=0, body=Body(b"", CriParser(method.response), unreadable=str(unreadable)), raw=raw)
        return Reply(code=0, body=Body(message, CriParser(method.response)), raw=raw)


class InterceptedCall:
    """The sink of one intercepted client stream."""

    def __init__(
        self, owner: CriCallRunner, stream: Stream, headers: Headers, route: Route, peer: object, upstream: Upstream
    ) -> None:
        self._owner = owner
        self._upstream = upstream
        self._stream = stream
        self._headers = headers
        self._route = route
        self._peer = peer
        self._body = bytearray()
        self.share = BufferedShare(stream.conn.buffered)
        self._task: asyncio.Task[None] | None = None
        self._method = method_of(route)
        self._view = owner.view(route, headers.path, peer=peer, headers=headers) if route.taps else None
        self._call: Call | None = None
        timeout = headers.get(b"grpc-timeout")
        seconds = parse_timeout(timeout) if timeout is not None else None
        self._deadline = None if seconds is None else owner.now() + seconds
        self._sent_body = b""
        self._afterwards: list[Callable[[], None]] = []
        self._turn = owner.large_messages.turn(self.share)
        stream.sink = self

    # -- collecting

    def on_headers(self, stream: Stream, headers: Headers, end: bool) -> None:
        self.complete()

    def on_data(self, stream: Stream, data: bytes, end: bool) -> None:
        self._body += data
        self.share.add(len(data))
        if len(self._body) > self._owner.limit + PREFIX:
            why = too_large(len(self._body), self._owner.limit).message
            if self._view is not None:
                self._view.unseen(Direction.REQUEST, len(self._body), why)
            self._end(Code.RESOURCE_EXHAUSTED, why)
            self.share.release()
            answer(stream, Code.RESOURCE_EXHAUSTED, why)
            return
        if end:
            self.complete()
        else:
            stream.credit(len(data))

    def on_sent(self, stream: Stream, count: int) -> None:
        """Nothing to do: the whole reply is in memory."""

    def on_reset(self, stream: Stream, code: int) -> None:
        if stream.call is not None:
            stream.call.resets += 1
        self.on_lost(stream)

    def on_lost(self, stream: Stream) -> None:
        self.shut(stream, Code.CANCELLED)

    def shut(self, stream: Stream, code: int) -> None:
        stream.sink = NOWHERE
        self.share.release()
        self._end(code)
        if self._task is not None:
            self._task.cancel()

    def complete(self) -> None:
        """Start the task: the request is complete."""
        self._task = self._owner.tasks.spawn(self._run(), name=f"call {self._method.name}")

    # -- running

    async def _run(self) -> None:
        owner, stream = self._owner, self._stream
        self._sent_body = bytes(self._body)
        self._body.clear()
        try:
            try:
                reply = await self._through_chain()
            except RpcError as error:
                reply = Reply(code=error.code, message=error.message)
            self._send(reply)
        except Exception:
            # A bug of ours, or a reply that cannot be written: the caller has to get an answer.
            self._end(Code.INTERNAL, "internal error")
            answer(stream, Code.INTERNAL, "internal error")
            raise
        finally:
            self._turn.release()
            self.share.release()
            owner.hub.flush()
            afterwards, self._afterwards[:] = tuple(self._afterwards), ()
            for act in afterwards:
                act()
            # Stream, task and call hold each other; without this each call would wait for the collector of cycles.
            stream.sink = NOWHERE
            self._task = self._call = None

    async def _through_chain(self) -> Reply:
        owner = self._owner
        message, unreadable = await self._readable()
        call = Call(
            method=self._method,
            path=self._headers.path,
            body=Body(message, CriParser(self._method.request), unreadable=unreadable),
            metadata=lambda: [item for item in self._headers.items() if not item[0].startswith(b":")],
            peer=self._peer,
            deadline=self._deadline,
            afterwards=self._afterwards,
            watched=self._view is not None,
        )
        self._call = call
        view = self._view
        if view is not None:
            if unreadable:
                view.unseen(Direction.REQUEST, len(message), unreadable)
            else:
                view.show(Direction.REQUEST, message)

        async def last(call: Call) -> Reply:
            now = call.body.data()
            if now == message:
                return await self._forward(self._sent_body)
            if view is not None:
                view.show(Direction.FORWARDED, now)
            return await self._forward(frame(now))

        return await owner.chain.run(call, last)

    async def _readable(self) -> tuple[bytes, str]:
        """The one message of the request, or why there is none that an interceptor could read."""
        limit = self._owner.limit
        body = self._sent_body
        if body[:1] == b"\x00" and int.from_bytes(body[1:PREFIX], "big") == len(body) - PREFIX < LARGE:
            return body[PREFIX:], ""  # one message, plain and small: nearly all are
        messages = Messages(limit).feed(body)
        if len(messages) != 1 or PREFIX + len(messages[0][1]) != len(self._sent_body):
            return self._sent_body, f"the request has {len(messages)} whole messages where one is expected"
        compressed, raw = messages[0]
        try:
            if compressed:
                return await self._turn.unpack(partial(self._unpack, raw)), ""
            await self._turn.wait_for_turn(len(raw))
            return raw, ""
        except RpcError as error:
            if error.code is Code.RESOURCE_EXHAUSTED:
                if self._view is not None:
                    self._view.unseen(Direction.REQUEST, len(raw), error.message)
                raise
            return raw, error.message

    def _unpack(self, raw: bytes) -> bytes:
        if self._stream.conn.buffered.exceeded:
            raise RpcError(Code.RESOURCE_EXHAUSTED, "too much waits here for a further compressed message")
        return plain(self._headers, True, raw, self._owner.limit)

    async def _forward(self, body: bytes) -> Reply:
        owner = self._owner
        owner.recorder.mark_forwarded(self._stream)
        wire = self._headers.wire
        if self._deadline is not None:
            left = self._deadline - owner.now()
            if left <= 0:
                return Reply(code=Code.DEADLINE_EXCEEDED, message="deadline passed before the call was sent on")
            wire = _rewritten(self._headers, timeout_field(left), len(body) != len(self._sent_body))
        elif len(body) != len(self._sent_body):
            wire = _rewritten(self._headers, b"", True)
        client = RawClient(self._upstream, owner.hub, limit=owner.limit + PREFIX)
        reply = owner.reply(await client.exchange(wire, body), self._method)
        if self._view is not None:
            self._view.on_runtime_reply(reply)
        return reply

    # -- answering

    def _send(self, reply: Reply) -> None:
        stream, raw, stats = self._stream, reply.raw, self._stream.call
        code = Code(reply.code)
        message = reply.body.data() if reply.body is not None and reply.body.readable else None
        if self._view is not None:
            self._owner.show_reply(self._view, reply)
        self._end(code, reply.message)
        if raw is None or raw.failure is not None:
            if message is None or code is not Code.OK:
                answer(stream, code, reply.message)
                return
            headers, body, trailers = RESPONSE_HEADERS, frame(message), status_trailers(Code.OK, "")
        else:
            body = raw.body
            # Nearly always these are the bytes that came; only a compressed reply has to be opened again to know.
            looked_at = reply.body is not None and not reply.body.untouched
            if looked_at and message is not None and (framed := frame(message)) != body:
                body = body if message == _raw_message(raw, self._owner.limit) else framed
            headers, trailers = _blocks(raw, resized=len(body) != len(raw.body))
        if stats is not None:
            stats.bytes_sent += len(body)
        if headers:
            stream.send_headers(headers, False)
            stream.send_body(body, not trailers)
        if trailers:
            stream.send_headers(trailers, True)
        stop_upload(stream)

    def _end(self, code: int, why: str = "") -> None:
        if self._view is not None:
            if self._call is not None:
                self._view.changed_by = self._call.changed_by or ()
            self._view.end(code, why)
        self._owner.recorder.finish(self._stream, code)


def _blocks(raw: RawReply, *, resized: bool) -> tuple[bytes, bytes]:
    """The header blocks of a reply as they came; empty where there was none."""
    headers = b"" if raw.headers is None else _rewritten(raw.headers, b"", True) if resized else raw.headers.wire
    # A body that ends by itself has no trailers: HTTP, not gRPC, but it passes.
    trailers = b"" if raw.trailers is None or raw.trailers is raw.headers else raw.trailers.wire
    return headers, trailers


def _raw_message(raw: RawReply, limit: int) -> bytes | None:
    try:
        return raw.message(limit)
    except RpcError:
        return None


def _rewritten(headers: Headers, timeout: bytes, resized: bool) -> bytes:
    """The block with another grpc-timeout, if there is one, and without a content-length that no longer holds."""
    parts = []
    for field in headers.fields:
        if timeout and field.name == b"grpc-timeout":
            parts.append(timeout)
        elif not (resized and field.name == b"content-length"):
            parts.append(field.wire)
    return b"".join(parts)
