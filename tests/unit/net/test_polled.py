"""Sockets that are watched by a poller of their own: order of callbacks, halves that end, peers that do not read."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from typing import TYPE_CHECKING, Any

import pytest
import uvloop

from interpose.net.polled import PolledListener, PolledTransport, SocketPoller, connect
from interpose.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LARGE = 3 << 20


class Recorder:
    """A protocol that notes its callbacks; `keep_open` is its answer to the end of what comes."""

    def __init__(self, *, keep_open: bool = False, high: int | None = None) -> None:
        self.calls: list[str] = []
        self.received = bytearray()
        self.keep_open = keep_open
        self.high = high
        self.error: Exception | None = None
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        if self.high is not None:
            transport.set_write_buffer_limits(high=self.high)
        self.calls.append("made")

    def data_received(self, data: bytes) -> None:
        if self.calls[-1] != "data":
            self.calls.append("data")
        self.received += data

    def eof_received(self) -> bool:
        self.calls.append("eof")
        return self.keep_open

    def pause_writing(self) -> None:
        self.calls.append("pause")

    def resume_writing(self) -> None:
        self.calls.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.calls.append("lost")
        self.error = exc


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a connection; ours does not block."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what the loop is to bring about."""
    await eventually(condition, what="what is expected of the sockets")


def read_all(sock: socket.socket) -> bytes:
    """What there is at the moment."""
    got = b""
    sock.setblocking(False)
    try:
        while piece := sock.recv(1 << 20):
            got += piece
    except BlockingIOError:
        pass
    return got


async def test_bytes_pass_both_ways_and_the_end_closes(pair: tuple[socket.socket, socket.socket]) -> None:
    """A protocol that does not want to go on after the end of what comes is closed."""
    ours, theirs = pair
    seen = Recorder()
    transport = PolledTransport(SocketPoller(), ours, seen)
    assert transport.get_extra_info("socket") is ours
    assert transport.get_extra_info("peername", "nobody") == "nobody"
    theirs.sendall(b"ping")
    await until(lambda: seen.received == b"ping")
    transport.write(b"pong")
    assert theirs.recv(100) == b"pong"
    theirs.close()
    await until(lambda: seen.calls == ["made", "data", "eof", "lost"])
    assert seen.error is None
    assert ours.fileno() == -1


def test_the_last_socket_of_a_poller_ends_on_uvloop(pair: tuple[socket.socket, socket.socket]) -> None:
    """Its loop answers nothing where that of the standard library answers whether it did something."""
    ours, theirs = pair

    async def run() -> list[str]:
        seen = Recorder()
        PolledTransport(SocketPoller(), ours, seen)
        theirs.close()
        await until(lambda: seen.calls[-1] == "lost")
        assert seen.error is None
        return seen.calls

    assert uvloop.run(run()) == ["made", "eof", "lost"]


async def test_the_loss_is_told_after_the_call_that_caused_it(pair: tuple[socket.socket, socket.socket]) -> None:
    """Whoever closes a connection need not expect to be called while it does so."""
    seen = Recorder()
    transport = PolledTransport(SocketPoller(), pair[0], seen)
    transport.close()
    transport.close()
    transport.abort()
    assert transport.is_closing()
    assert seen.calls == ["made"]
    await until(lambda: seen.calls == ["made", "lost"])
    transport.write(b"too late")
    transport.resume_reading()


async def test_one_half_ends_and_the_other_goes_on(pair: tuple[socket.socket, socket.socket]) -> None:
    """After the end of what comes there is still something to say."""
    ours, theirs = pair
    seen = Recorder(keep_open=True)
    transport = PolledTransport(SocketPoller(), ours, seen)
    theirs.shutdown(socket.SHUT_WR)
    await until(lambda: seen.calls == ["made", "eof"])
    transport.write(b"last words")
    transport.write_eof()
    transport.write_eof()
    assert theirs.recv(100) == b"last words"
    assert theirs.recv(100) == b""
    assert seen.calls == ["made", "eof"]
    transport.abort()
    await until(lambda: seen.calls[-1] == "lost")


async def test_a_peer_that_does_not_read_pauses_the_writer(pair: tuple[socket.socket, socket.socket]) -> None:
    """What waits goes out in order, then the end; the writer is told when to stop and when to go on."""
    ours, theirs = pair
    seen = Recorder(high=64 * 1024)
    transport = PolledTransport(SocketPoller(), ours, seen)
    sent = b""
    while not seen.calls.count("pause"):
        piece = os.urandom(40_000)
        sent += piece
        transport.write(piece)
    assert 64 * 1024 < transport.get_write_buffer_size() < 200_000
    transport.write(b"more")
    transport.write_eof()
    got = b""

    def drained() -> bool:
        nonlocal got
        got += read_all(theirs)
        return len(got) >= len(sent) + 4

    await until(drained)
    assert got == sent + b"more"
    assert seen.calls == ["made", "pause", "resume"]
    assert transport.get_write_buffer_size() == 0
    assert theirs.recv(1) == b""
    transport.abort()


async def test_close_waits_for_what_was_written(pair: tuple[socket.socket, socket.socket]) -> None:
    """However long the peer takes to read it."""
    ours, theirs = pair
    seen = Recorder()
    transport = PolledTransport(SocketPoller(), ours, seen)
    transport.write(bytes(LARGE))
    transport.close()
    assert seen.calls == ["made", "pause"]
    got = 0

    def all_came() -> bool:
        nonlocal got
        got += len(read_all(theirs))
        return got == LARGE

    await until(all_came)
    await until(lambda: seen.calls[-1] == "lost")
    assert seen.error is None


async def test_a_pause_leaves_bytes_in_the_socket(pair: tuple[socket.socket, socket.socket]) -> None:
    """A peer that hangs up meanwhile does not make the loop spin: nothing is watched."""
    ours, theirs = pair
    seen = Recorder()
    poller = SocketPoller()
    transport = PolledTransport(poller, ours, seen)
    transport.pause_reading()
    theirs.sendall(b"later")
    theirs.close()
    for _ in range(5):
        await asyncio.sleep(0)
    assert seen.calls == ["made"]
    transport.resume_reading()
    await until(lambda: seen.calls == ["made", "data", "eof", "lost"])


async def test_a_write_that_fails_ends_the_connection(pair: tuple[socket.socket, socket.socket]) -> None:
    """With the error, at once or when what waited is to go out."""
    ours, theirs = pair
    seen = Recorder(keep_open=True)
    transport = PolledTransport(SocketPoller(), ours, seen)
    transport.write(bytes(LARGE))
    transport.pause_reading()
    theirs.close()
    await until(lambda: seen.calls[-1] == "lost")
    assert isinstance(seen.error, BrokenPipeError | ConnectionResetError)

    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.close()
    again = Recorder()
    PolledTransport(SocketPoller(), ours, again).write(b"x")
    await until(lambda: again.calls == ["made", "lost"])
    assert isinstance(again.error, BrokenPipeError)


async def test_a_protocol_that_fails_loses_its_connection(
    pair: tuple[socket.socket, socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    """And no other one does."""

    class Broken(Recorder):
        """Fails wherever it can."""

        def data_received(self, data: bytes) -> None:
            raise ValueError("a bug")

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            raise ValueError("another")

    ours, theirs = pair
    seen, poller = Broken(), SocketPoller()
    PolledTransport(poller, ours, seen)
    other_ours, other_theirs = socket.socketpair()
    other_ours.setblocking(False)
    other = Recorder()
    PolledTransport(poller, other_ours, other)
    with other_ours, other_theirs:
        theirs.sendall(b"x")
        other_theirs.sendall(b"y")
        await until(lambda: seen.calls == ["made", "lost"] and other.received == b"y")
        assert isinstance(seen.error, ValueError)
        assert ours.fileno() == -1
        other.transport.abort()
        await until(lambda: other.calls[-1] == "lost")
    assert caplog.text.count("ValueError: a") == 2


async def test_a_listener_takes_clients_until_it_is_closed(tmp_path: Path) -> None:
    """A request that is there already is read at once; other holders of the socket go on."""
    path = str(tmp_path / "s")
    poller = SocketPoller()
    seen: list[Recorder] = []

    def make() -> Recorder:
        seen.append(Recorder())
        return seen[-1]

    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(path)
        sock.listen()
        listener = PolledListener(poller, sock.dup(), make)
        theirs = Recorder()
        connect(poller, path, lambda: theirs)
        theirs.transport.write(b"hello")
        await until(lambda: bool(seen) and seen[0].received == b"hello")
        listener.close()
        listener.close()
        with socket.socket(socket.AF_UNIX) as late:
            late.connect(path)
            for _ in range(5):
                await asyncio.sleep(0)
            assert len(seen) == 1
    theirs.transport.abort()
    await until(lambda: seen[0].calls == ["made", "data", "eof", "lost"])
    with pytest.raises(ConnectionRefusedError):
        connect(poller, path, Recorder)


async def test_a_client_whose_protocol_fails_is_closed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The next one is served."""
    path = str(tmp_path / "s")
    poller = SocketPoller()
    results: list[Recorder | ValueError] = [ValueError("a bug"), Recorder()]

    def make() -> Recorder:
        made = results.pop(0)
        if isinstance(made, ValueError):
            raise made
        return made

    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(path)
        sock.listen()
        listener = PolledListener(poller, sock.dup(), make)
        first, second = Recorder(), Recorder()
        connect(poller, path, lambda: first)
        connect(poller, path, lambda: second)
        await until(lambda: first.calls == ["made", "eof", "lost"] and not results)
        listener.close()
        second.transport.abort()
        await until(lambda: second.calls[-1] == "lost")
    assert "a bug" in caplog.text


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EPERM])
async def test_a_listener_that_cannot_accept_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    """Clients stay in the queue of the kernel; it does not ask again and again meanwhile."""
    path = str(tmp_path / "s")
    seen = Recorder()
    fails = iter((True,))
    accept = socket.socket.accept

    def short(sock: socket.socket) -> Any:
        if next(fails, False):
            raise OSError(code, "not now")
        return accept(sock)

    monkeypatch.setattr(socket.socket, "accept", short)
    poller = SocketPoller()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(path)
        sock.listen()
        listener = PolledListener(poller, sock.dup(), lambda: seen)
        theirs = Recorder()
        connect(poller, path, lambda: theirs)
        await until(lambda: "Connections are not accepted" in caplog.text)
        assert not seen.calls
        await until(lambda: bool(seen.calls))
        listener.close()
        theirs.transport.abort()
        await until(lambda: seen.calls[-1] == "lost")
