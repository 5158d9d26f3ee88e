"""Exec and attach as a client: a command's streams over the URL that a runtime gave out.

Invariant: `run_command` returns or raises only when all output was passed on, and leaves no connection and
no task behind. An exit code is never guessed: a connection that breaks before the status arrived is an error.
"""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Final

from interpose.net.streaming import channels, exit_status
from interpose.net.streaming.connect import StreamError, Upgraded, UrlSource, dial
from interpose.net.streaming.exec_session import ERROR, NUMBERS, RESIZE, STDIN, RequestedStreams
from interpose.net.streaming.handler import StdinReader
from interpose.net.streaming.mux import Channel, ChannelOutcome, MultiplexerLostError
from interpose.net.streaming.mux_transports import SpdyMultiplexer, WebSocketMultiplexer
from interpose.net.streaming.terminal_size import encode_size
from interpose.net.streaming.upgrade import SessionKind, StreamTransport
from interpose.tasks import TaskBag

__all__ = ["Output", "StreamError", "UrlSource", "run_command"]

Output = Callable[[bytes], Awaitable[None] | None]
_MOST_STATUS: Final = 1 << 20  # bytes of a status; more is nonsense
_TIMEOUT_AFTER_STATUS: Final = 10.0  # seconds without a byte that we wait for outputs to end after the status came
_DOCUMENTS: Final = (channels.V4, channels.V5)


async def run_command(
    url: UrlSource,
    *,
    stdin: StdinReader | None = None,
    stdout: Output | None = None,
    stderr: Output | None = None,
    tty: bool = False,
    resizes: AsyncIterator[tuple[int, int]] | None = None,
    protocols: tuple[str, ...] = ("websocket", "spdy"),
    timeout: float = 30.0,
    context: ssl.SSLContext | None = None,
) -> int:
    """Run what the URL stands for to its end; the exit code. StreamError if there is none.

    `stdin`, `stdout`, `stderr` and `tty` must be those that the URL was requested with. `url` had better be a function
    that requests a new one: a server may use one up by refusing the first protocol.
    """
    upgraded = await dial(url, SessionKind.COMMAND, protocols, timeout=timeout, context=context)
    wanted = RequestedStreams(
        tty=tty, stdin=stdin is not None, stdout=stdout is not None, stderr=stderr is not None and not tty
    )
    command = _Command(upgraded, wanted)
    try:
        await command.open(timeout)
        return await command.run(stdin, {"stdout": stdout, "stderr": stderr}, resizes)
    except MultiplexerLostError as error:
        raise StreamError(f"{upgraded.where}: {error}") from None
    finally:
        await command.close()


class _Command:
    def __init__(self, upgraded: Upgraded, wanted: RequestedStreams) -> None:
        self._where = upgraded.where
        self._protocol = upgraded.protocol
        self._names = wanted.names(upgraded.protocol)
        self._tasks = TaskBag()
        self._found: dict[str, Channel] = {}
        self._error: Exception | None = None
        self._failed = asyncio.Event()
        self._status_received = asyncio.Event()
        self._outputs_busy = 0  # calls of an output that have not returned
        self._mux: SpdyMultiplexer | WebSocketMultiplexer
        if upgraded.transport is StreamTransport.SPDY:
            self._mux = SpdyMultiplexer(upgraded.wire, client=True)
        else:
            numbers = [NUMBERS[name] for name in self._names]
            closes = upgraded.protocol == channels.V5
            self._mux = WebSocketMultiplexer(upgraded.wire, numbers, client=True, closes=closes, random=os.urandom)
        self._mux.start()

    async def open(self, timeout: float) -> None:
        """Open all streams of the command; StreamError if the server does not accept them in time."""
        mux = self._mux
        if isinstance(mux, WebSocketMultiplexer):
            self._found = {name: mux.channel(NUMBERS[name]) for name in self._names}
            return
        try:
            async with asyncio.timeout(timeout):
                # The error stream first, as old servers expect it.
                for name in sorted(self._names, key=lambda name: name != ERROR):
                    self._found[name] = await mux.open({"streamType": name})
        except TimeoutError:
            raise StreamError(f"{self._where}: the server did not accept all streams within {timeout:g} s") from None

    async def run(
        self,
        stdin: StdinReader | None,
        outputs: dict[str, Output | None],
        resizes: AsyncIterator[tuple[int, int]] | None,
    ) -> int:
        """Copy all streams until the command ends; returns its exit code."""
        found = self._found
        if stdin is not None:
            self._spawn(self._feed(found[STDIN], stdin), "stdin")
        if resizes is not None and RESIZE in found:
            self._spawn(self._resize(found[RESIZE], resizes), "resize")
        reading = [
            self._spawn(self._pass_on(found[name], output), name)
            for name, output in outputs.items()
            if output is not None and name in found
        ]
        status = bytearray()
        reading.append(self._spawn(self._collect(found[ERROR], status), ERROR))
        failed = self._spawn(_wait_for(self._failed), "failure")
        await self._wait_for_readers(set(reading), failed)
        if self._error is not None:
            raise self._error
        return self._exit_code(bytes(status), found[ERROR].end)

    async def close(self) -> None:
        """Cancel all tasks and close the connection."""
        await self._tasks.cancel()
        await self._mux.close()

    async def _wait_for_readers(self, reading: "set[asyncio.Task[None]]", failed: "asyncio.Task[None]") -> None:
        """Wait until all that is read has ended. A server that sent the status and does not close is left."""
        status_received = self._spawn(_wait_for(self._status_received), "end")
        while reading and not failed.done():
            before = self._mux.last_activity
            waits = {*reading, failed} if status_received.done() else {*reading, failed, status_received}
            idle_timeout = _TIMEOUT_AFTER_STATUS if status_received.done() else None
            done, _ = await asyncio.wait(waits, timeout=idle_timeout, return_when=asyncio.FIRST_COMPLETED)
            reading -= done
            held = self._outputs_busy or any(channel.held for channel in self._found.values())
            if not done and not held and self._mux.last_activity == before:
                return

    def _spawn(self, work: "Awaitable[None]", name: str) -> "asyncio.Task[None]":
        return self._tasks.spawn(self._guard(work), name=f"streaming {name}")

    async def _guard(self, work: "Awaitable[None]") -> None:
        """An exception of the caller's streams ends the session and is raised by `run`."""
        try:
            await work
        except Exception as error:
            self._error = self._error or error
            self._failed.set()

    async def _feed(self, channel: Channel, stdin: StdinReader) -> None:
        # A command that has ended, or closed its stdin, needs no more of it.
        with suppress(MultiplexerLostError):
            while data := await stdin.read():
                await channel.write(data)
            channel.finish()

    async def _resize(self, channel: Channel, resizes: AsyncIterator[tuple[int, int]]) -> None:
        with suppress(MultiplexerLostError):
            async for width, height in resizes:
                await channel.write(encode_size(width, height))

    async def _pass_on(self, channel: Channel, output: Output) -> None:
        while data := await channel.read():
            waiting = output(data)
            if waiting is not None:
                self._outputs_busy += 1
                await waiting
                self._outputs_busy -= 1

    async def _collect(self, channel: Channel, status: bytearray) -> None:
        while data := await channel.read():
            status += data
            self._status_received.set()
            if len(status) > _MOST_STATUS:
                raise StreamError(f"{self._where}: the server's words about the end do not end")
        self._status_received.set()

    def _exit_code(self, status: bytes, end: ChannelOutcome | None) -> int:
        """The exit code that the server reported; StreamError if it reported none."""
        documents = self._protocol in _DOCUMENTS
        if not status and (end is ChannelOutcome.LOST or end is None or (documents and end is ChannelOutcome.RESET)):
            reason = self._mux.reason or "the connection was closed"
            raise StreamError(f"{self._where}: {reason} before the end of the command was told")
        outcome = exit_status.parse_status(status) if documents else exit_status.parse_plain_text(status)
        if outcome.code is None:
            raise StreamError(outcome.message)
        return outcome.code


async def _wait_for(event: asyncio.Event) -> None:
    await event.wait()
