"""One exec or attach on the server: the client's streams are put together, the attendant works, the end is told.

Invariant: the attendant's work has ended, or was cancelled and has ended, when `run` returns; and the client was told
how, if it was still there.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

from interpose.log import kv
from interpose.net.streaming import channels
from interpose.net.streaming import exit_status as statusdoc
from interpose.net.streaming.byte_transport import ByteTransport
from interpose.net.streaming.handler import STDERR, STDOUT, SessionIo, StreamHandlerError
from interpose.net.streaming.limits import StreamLimits
from interpose.net.streaming.mux import Channel, ChannelOutcome, Multiplexer, MultiplexerLostError, until_idle
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
_SPARE: Final = 5  # streams

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
    """What a client types. Its end is told only if the client said so: that it vanished is something else."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def read(self) -> bytes:
        """The next bytes; empty at the end. LinkLostError if the client is gone."""
        data = await self._channel.read()
        if not data and self._channel.end is ChannelOutcome.LOST:
            raise MultiplexerLostError("the client is gone")
        return data


class SessionStreams:
    """The client's streams, as an attendant sees them."""

    def __init__(self, found: dict[str, Channel]) -> None:
        self._found = found
        self.stdin = _Stdin(found[STDIN]) if STDIN in found else None
        self.resizes = _sizes(found.get(RESIZE))

    async def write(self, channel: int, data: bytes) -> None:
        """Send output; what nobody asked for is dropped."""
        if (found := self._found.get(_OUTPUTS[channel])) is not None:
            await found.write(data)


async def _sizes(channel: Channel | None) -> AsyncIterator[tuple[int, int]]:
    reader = SizeReader()
    while channel is not None and (data := await channel.read()):
        for size in reader.feed(data):
            yield size


class CommandSession:
    """One session; `closing` is set when the server ends."""

    def __init__(self, wanted: RequestedStreams, work: Work, limits: StreamLimits, closing: asyncio.Event) -> None:
        self._wanted = wanted
        self._work = work
        self._limits = limits
        self._closing = closing
        self._tasks = TaskBag()

    async def run(self, wire: ByteTransport, transport: StreamTransport, protocol: str) -> None:
        """Serve the client to the end."""
        names = self._wanted.names(protocol)
        link: SpdyMultiplexer | WebSocketMultiplexer
        if transport is StreamTransport.SPDY:
            # A few more than needed: those are refused by name. Many would wait for ever, with what comes on them.
            limits = replace(self._limits.spdy, streams=min(self._limits.spdy.streams, len(names) + _SPARE))
            link = SpdyMultiplexer(wire, client=False, limits=limits)
        else:
            numbers = [NUMBERS[name] for name in names]
            link = WebSocketMultiplexer(wire, numbers, client=False, closes=protocol == channels.V5, random=os.urandom)
        link.start()
        try:
            found = await self._streams(link, names)
            if found is None:
                return
            document = await self._worked(link, found)
            if document is not None:
                words = document if protocol in _DOCUMENTS else statusdoc.as_words(document)
                await self._tell(link, found, words)
        finally:
            await self._tasks.cancel()
            await link.close(0.0 if link.lost.is_set() else self._limits.linger)

    async def _streams(
        self, link: "SpdyMultiplexer | WebSocketMultiplexer", names: frozenset[str]
    ) -> dict[str, Channel] | None:
        if isinstance(link, WebSocketMultiplexer):
            found = {name: link.channel(NUMBERS[name]) for name in names}
            # Go's clients wait for this: an empty message on the first channel that we write to.
            link.announce(min(NUMBERS[name] for name in names - {STDIN}))
        else:
            try:
                async with asyncio.timeout(self._limits.creation):
                    found = await accept_all(link, names)
            except (TimeoutError, MultiplexerLostError) as error:
                _log.debug("Streams did not come", extra=kv(error=str(error) or "timeout"))
                return None
        for name in names - {STDIN, RESIZE}:
            found[name].discard()  # these we write only
        return found

    async def _worked(self, link: Multiplexer, found: dict[str, Channel]) -> bytes | None:
        """The document that tells the end; None if nobody is there to be told."""
        work = self._tasks.spawn(self._outcome(SessionStreams(found)), name="streaming work")
        gone = self._tasks.spawn(until_idle(link, self._limits.idle), name="streaming client")
        closing = self._tasks.spawn(self._closing.wait(), name="streaming end")
        await asyncio.wait((work, gone, closing), return_when=asyncio.FIRST_COMPLETED)
        if work.done() and not work.cancelled():
            return work.result()
        work.cancel()
        await asyncio.wait((work,))
        if link.lost.is_set():
            return None
        return statusdoc.failure("the streaming server stops" if self._closing.is_set() else "the session was idle")

    async def _outcome(self, streams: SessionIo) -> bytes:
        try:
            return statusdoc.exited(await self._work(streams) or 0)
        except StreamHandlerError as error:
            return statusdoc.failure(str(error))
        except ConnectionError:
            return statusdoc.failure("the client is gone")
        except Exception:
            _log.exception("Streaming session failed")
            return statusdoc.failure("internal error, see the log of the runtime")

    async def _tell(self, link: Multiplexer, found: dict[str, Channel], words: bytes) -> None:
        try:
            async with asyncio.timeout(self._limits.creation):
                if words:
                    await found[ERROR].write(words)
        except (TimeoutError, MultiplexerLostError):
            link.abort()
            return
        # The error stream last: a client that has its end has all that was written before.
        for name in sorted(found, key=lambda one: one == ERROR):
            found[name].finish()


async def accept_all(link: SpdyMultiplexer, names: frozenset[str]) -> dict[str, Channel]:
    """All streams that the client has to open; others, and second ones, are refused."""
    found: dict[str, Channel] = {}
    while len(found) < len(names):
        channel = await link.accept()
        name = channel.headers.get("streamtype", "").lower()
        if name in names and name not in found:
            found[name] = channel
            link.reply(channel)
        else:
            _log.debug("Stream refused", extra=kv(type=name[:40]))
            channel.reset()
    return found
