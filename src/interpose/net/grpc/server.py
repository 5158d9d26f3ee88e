"""Answering calls with local handlers: hook servers, the local runtime and the fakes of tests are served with this."""

import asyncio
import logging
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

from interpose.net.grpc.answer import answer
from interpose.net.grpc.exchange import plain
from interpose.net.grpc.framing import RESPONSE_HEADERS, Messages, frame, parse_timeout, status_trailers
from interpose.net.grpc.handlers import Handlers, ServerStreaming, Unary
from interpose.net.grpc.listener import Admission, ClientLink, Listener
from interpose.net.grpc.status import Code, RpcError, shortened
from interpose.net.grpc.transport import Hub
from interpose.net.h2.headers import Headers
from interpose.net.h2.limits import Limits
from interpose.net.h2.stream import NOWHERE, Stream
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)

# A handler that produces faster than its client reads waits when this much is queued.
_QUEUE_LIMIT: Final = 256 * 1024
# Seconds that clients have to answer the PING after GOAWAY, and between two looks at what is left of a drain.
_PING_TIMEOUT: Final = 1.0
_POLL: Final = 0.02


class ServerCall:
    """One call of a local handler: collects the request, runs the handler in a task, sends what it returns."""

    def __init__(
        self, stream: Stream, headers: Headers, handler: Unary | ServerStreaming, hub: Hub, tasks: TaskBag, limit: int
    ) -> None:
        self.path = headers.path
        self._headers = headers
        self._stream = stream
        self._handler = handler
        self._hub = hub
        self._tasks = tasks
        self._limit = limit
        self._messages = Messages(limit)
        self._received: list[tuple[bool, bytes]] = []
        self._task: asyncio.Task[None] | None = None
        self._drained: asyncio.Event | None = None  # only streams wait
        self._expired = False
        stream.sink = self
        timeout = headers.get(b"grpc-timeout")
        seconds = parse_timeout(timeout) if timeout is not None else None
        self.deadline = None if seconds is None else asyncio.get_running_loop().time() + seconds

    @property
    def unary(self) -> bool:
        """Whether it has one reply, which ends it."""
        return isinstance(self._handler, Unary)

    @property
    def metadata(self) -> list[tuple[bytes, bytes]]:
        """All fields of the request but the pseudo-header ones."""
        return [item for item in self._headers.items() if not item[0].startswith(b":")]

    def start(self) -> None:
        """Run the handler: the request is complete."""
        self._task = self._tasks.spawn(self._run(), name=f"serve {self.path.decode('latin-1')}")

    async def _run(self) -> None:
        stream = self._stream
        timer = None
        if self.deadline is not None:
            # Not asyncio.timeout: every call has a deadline and next to none meets it, so this has to be cheap.
            timer = asyncio.get_running_loop().call_at(self.deadline, self._expire)
        try:
            await self._answer(self._request())
            stream.send_headers(status_trailers(Code.OK, ""), True)
        except RpcError as error:
            _refuse(stream, error)
        except asyncio.CancelledError:
            if not self._expired:
                raise
            answer(stream, Code.DEADLINE_EXCEEDED, "deadline passed")
        except Exception:
            _log.exception("Handler failed", extra={"kv": {"path": self.path.decode("latin-1")}})
            answer(stream, Code.INTERNAL, "internal error")
        finally:
            if timer is not None:
                timer.cancel()
            self._hub.flush()
            # Stream, task and call hold each other; without this each call would wait for the collector of cycles.
            stream.sink = NOWHERE
            self._task = None

    def _expire(self) -> None:
        self._expired = True
        if self._task is not None:
            self._task.cancel()

    def _request(self) -> bytes:
        if len(self._received) != 1 or self._messages.unfinished:
            raise RpcError(Code.INVALID_ARGUMENT, f"expected one message, got {len(self._received)}")
        compressed, message = self._received[0]
        return plain(self._headers, compressed, message, self._limit)

    async def _answer(self, message: bytes) -> None:
        stream = self._stream
        if isinstance(self._handler, Unary):
            reply = await self._handler.handle(message, self)
            stream.send_headers(RESPONSE_HEADERS, False)
            stream.send_body(frame(reply), False)
            return
        stream.send_headers(RESPONSE_HEADERS, False)
        self._hub.flush()
        drained = self._drained = asyncio.Event()
        async for reply in self._handler.handle(message, self):
            stream.send_body(frame(reply), False)
            self._hub.flush()
            while stream.queued > _QUEUE_LIMIT:
                drained.clear()
                await drained.wait()

    def on_headers(self, stream: Stream, headers: Headers, end: bool) -> None:
        self.start()

    def on_data(self, stream: Stream, data: bytes, end: bool) -> None:
        try:
            self._received += self._messages.feed(data)
        except RpcError as error:
            _refuse(stream, error)
            return
        if end:
            self.start()
        else:
            stream.credit(len(data))

    def on_sent(self, stream: Stream, count: int) -> None:
        if self._drained is not None:
            self._drained.set()

    def on_reset(self, stream: Stream, code: int) -> None:
        self.on_lost(stream)

    def on_lost(self, stream: Stream) -> None:
        stream.sink = NOWHERE
        if self._task is not None:
            self._task.cancel()


class LocalServer:
    """A gRPC server on a unix socket, made of handlers. `close` ends its connections."""

    def __init__(
        self,
        handlers: Handlers,
        *,
        limit: int = 64 * 1024 * 1024,
        hub: Hub | None = None,
        admission: Admission | None = None,
    ) -> None:
        """Without `admission` all peers may connect that the socket's mode admits."""
        self._handlers = handlers
        self._limit = limit
        self._hub = hub if hub is not None else Hub()
        self._tasks = TaskBag()
        self._streams = TaskBag()  # apart: they may never end
        self.listener = Listener(hub=self._hub, limits=Limits(), admission=admission or Admission(), accept=self.accept)

    def accept(self, _link: ClientLink) -> Callable[[Stream, Headers, bool], None]:
        """The function that answers the streams of a connection."""
        return self._open

    def _open(self, stream: Stream, headers: Headers, end: bool) -> None:
        handler = self._handlers.get(headers.path)
        if handler is None:
            service, _, method = headers.path.decode("latin-1").lstrip("/").rpartition("/")
            _refuse(stream, RpcError(Code.UNIMPLEMENTED, f"unknown method {method} for service {service}"))
            return
        tasks = self._tasks if isinstance(handler, Unary) else self._streams
        call = ServerCall(stream, headers, handler, self._hub, tasks, self._limit)
        if end:
            call.start()

    async def start(self, sock: socket.socket) -> None:
        """Serve a bound, listening socket."""
        await self.listener.start(sock)

    async def drain(self, grace: float) -> bool:
        """Accept no more; unary calls have `grace` seconds, also those that clients sent before they saw our GOAWAY.
        True if all of them ended. Then close."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        self.listener.stop_accepting()
        self.listener.drain()
        self._hub.flush()
        while (passed := loop.time() - began) < grace:
            if not self._is_busy() and (passed >= _PING_TIMEOUT or self._goaway_was_seen()):
                break
            await asyncio.sleep(_POLL)
        done = not self._is_busy()
        await self.close()
        return done

    def _is_busy(self) -> bool:
        """Whether a unary call is being received, handled or answered."""
        sinks = (stream.sink for link in self.listener.links for stream in link.conn.streams.values())
        return len(self._tasks) > 0 or any(isinstance(sink, ServerCall) and sink.unary for sink in sinks)

    def _goaway_was_seen(self) -> bool:
        return all(link.server.leaving for link in self.listener.links)

    async def close(self) -> None:
        """Stop at once: calls in flight are cancelled, connections closed."""
        self.listener.stop_accepting()
        self.listener.abort()
        await self._tasks.cancel()
        await self._streams.cancel()


def _refuse(stream: Stream, error: RpcError) -> None:
    """Send an error as the status. Its text may have any length: what is too long is cut."""
    answer(stream, error.code, shortened(error.message), error.trailers)


async def serve(path: str | Path, handlers: Handlers) -> LocalServer:
    """Serve handlers on a path of the caller's, as tests and tools do; daemons bind through `host.unix_sockets`."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(str(path))
        sock.listen(128)
        sock.setblocking(False)
        server = LocalServer(handlers)
        await server.start(sock)
    finally:
        sock.close()
    return server
