"""One exec or attach on the server: its streams are accepted, the handler runs, the client gets the status.

Invariant: the handler's work has ended, or was cancelled and has ended, when `run` returns; and the client was sent
the status, if it was still connected.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

from interpose.log import kv
from interpose.net.streaming import channels, exit_status
from interpose.net.streaming.byte_transport import ByteTransport
from interpose.net.streaming.handler import STDERR, STDOUT, SessionIo, StreamHandlerError
from interpose.net.streaming.limits import StreamLimits
from interpose.net.streaming.mux import Channel, ChannelOutcome, Multiplexer, MultiplexerLostError, wait_until_idle
from interpose.net.streaming.mux_transports import SpdyMultiplexer, WebSocketMultiplexer
from interpose.net.streaming.terminal_size import SizeReader
from interpose.net.streaming.upgrade import StreamTransport
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)

ERROR: Final = "error"
STDIN: Final = "stdin"
RESIZE: Final = "resize"
# What a stream is called in SPDY, and its number in WebSocket.
NUMBERS: Final = {
    STDIN: channels.STDIN,
    "stdout": channels.STDOUT,
    "stderr": channels.STDERR,
    ERROR: channels.ERROR,
    RESIZE: channels.RESIZE,
}
_OUTPUTS: Final = {STDOUT: "stdout", STDERR: "stderr"}
_RESIZING: Final = (channels.V3, channels.V4, channels.V5)
_DOCUMENTS: Final = (channels.V4, channels.V5)
_SPARE_STREAMS: Final = 5  # streams

Work = Callable[[SessionIo], Awaitable[int | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedStreams:
    """Which streams the request asked for."""

    tty: bool
    stdin: bool
    stdout: bool
    stderr: bool

    def names(self, protocol: str) -> frozenset[str]:
        """The streams that a client has to open."""
        flags = {ERROR: True, STDIN: self.stdin, "stdout": self.stdout, "stderr": self.stderr}
        flags[RESIZE] = self.tty and protocol in _RESIZING
        return frozenset(name for name, flag in flags.items() if flag)


class _Stdin:
    """Bytes that a client types. They end only if the client ended them; a lost client is an error."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def read(self) -> bytes:
        """The next bytes; empty at the end. MultiplexerLostError if the client has left."""
        data = await self._channel.read()
        if not data and self._channel.end is ChannelOutcome.LOST:
            raise MultiplexerLostError("the client is gone")
        return data


class SessionStreams:
    """The client's streams, as a handler sees them."""

    def __init__(self, found: dict[str, Channel]) -> None:
        self._found = found
        self.stdin = _Stdin(found[STDIN]) if STDIN in found else None
        self.resizes = _read_sizes(found.get(RESIZE))

    async def write(self, channel: int, data: bytes) -> None:
        """Send output; what the client did not request is dropped."""
        if (found := self._found.get(_OUTPUTS[channel])) is not None:
            await found.write(data)


async def _read_sizes(channel: Channel | None) -> AsyncIterator[tuple[int, int]]:
    reader = SizeReader()
    while channel is not None and (data := await channel.read()):
        for size in reader.feed(data):
            yield size


class CommandSession:
    """One exec or attach session; `closing` is set when the server ends."""

    def __init__(self, wanted: RequestedStreams, work: Work, limits: StreamLimits, closing: asyncio.Event) -> None:
        self._wanted = wanted
        self._work = work
        self._limits = limits
        self._closing = closing
        self._tasks = TaskBag()

    async def run(self, wire: ByteTransport, transport: StreamTransport, protocol: str) -> None:
        """Serve the client to the end."""
        names = self._wanted.names(protocol)
        mux: SpdyMultiplexer | WebSocketMultiplexer
        if transport is StreamTransport.SPDY:
            # A few more than needed: those are refused by name. Many would wait for ever, with what comes on them.
            limits = replace(self._limits.spdy, streams=min(self._limits.spdy.streams, len(names) + _SPARE_STREAMS))
            mux = SpdyMultiplexer(wire, client=False, limits=limits)
        else:
            numbers = [NUMBERS[name] for name in names]
            mux = WebSocketMultiplexer(wire, numbers, client=False, closes=protocol == channels.V5, random=os.urandom)
        mux.start()
        try:
            found = await self._open_streams(mux, names)
            if found is None:
                return
            document = await self._run_work(mux, found)
            if document is not None:
                status = document if protocol in _DOCUMENTS else exit_status.to_plain_text(document)
                await self._send_status(mux, found, status)
        finally:
            await self._tasks.cancel()
            await mux.close(0.0 if mux.lost.is_set() else self._limits.linger)

    async def _open_streams(
        self, mux: "SpdyMultiplexer | WebSocketMultiplexer", names: frozenset[str]
    ) -> dict[str, Channel] | None:
        if isinstance(mux, WebSocketMultiplexer):
            found = {name: mux.channel(NUMBERS[name]) for name in names}
            # Go's clients wait for this: an empty message on the first channel that we write to.
            mux.announce(min(NUMBERS[name] for name in names - {STDIN}))
        else:
            try:
                async with asyncio.timeout(self._limits.creation):
                    found = await accept_all(mux, names)
            except (TimeoutError, MultiplexerLostError) as error:
                _log.debug("Streams did not come", extra=kv(error=str(error) or "timeout"))
                return None
        for name in names - {STDIN, RESIZE}:
            found[name].discard()  # these we write only
        return found

    async def _run_work(self, mux: Multiplexer, found: dict[str, Channel]) -> bytes | None:
        """The status document to send; None if the client has left."""
        work = self._tasks.spawn(self._run_handler(SessionStreams(found)), name="streaming work")
        idle = self._tasks.spawn(wait_until_idle(mux, self._limits.idle), name="streaming client")
        closing = self._tasks.spawn(self._closing.wait(), name="streaming end")
        await asyncio.wait((work, idle, closing), return_when=asyncio.FIRST_COMPLETED)
        if work.done() and not work.cancelled():
            return work.result()
        work.cancel()
        await asyncio.wait((work,))
        if mux.lost.is_set():
            return None
        reason = "the streaming server stops" if self._closing.is_set() else "the session was idle"
        return exit_status.failure_document(reason)

    async def _run_handler(self, streams: SessionIo) -> bytes:
        try:
            return exit_status.exit_document(await self._work(streams) or 0)
        except StreamHandlerError as error:
            return exit_status.failure_document(str(error))
        except ConnectionError:
            return exit_status.failure_document("the client is gone")
        except Exception:
            _log.exception("Streaming session failed")
            return exit_status.failure_document("internal error, see the log of the runtime")

    async def _send_status(self, mux: Multiplexer, found: dict[str, Channel], status: bytes) -> None:
        try:
            async with asyncio.timeout(self._limits.creation):
                if status:
                    await found[ERROR].write(status)
        except (TimeoutError, MultiplexerLostError):
            mux.abort()
            return
        # The error stream last: a client that has its end has all that was written before.
        for name in sorted(found, key=lambda name: name == ERROR):
            found[name].finish()


async def accept_all(mux: SpdyMultiplexer, names: frozenset[str]) -> dict[str, Channel]:
    """All streams that the client has to open; others, and second ones, are refused."""
    found: dict[str, Channel] = {}
    while len(found) < len(names):
        channel = await mux.accept()
        name = channel.headers.get("streamtype", "").lower()
        if name in names and name not in found:
            found[name] = channel
            mux.reply(channel)
        else:
            _log.debug("Stream refused", extra=kv(type=name[:40]))
            channel.reset()
    return found
