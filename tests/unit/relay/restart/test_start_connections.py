"""Connections that stay open when the process that uses them is gone."""

import asyncio
import errno
import logging
import os
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from interpose.net.grpc.transport import Hub
from interpose.net.grpc.upstream import Upstream
from interpose.net.h2.limits import Limits
from interpose.relay.restart import start_connections
from interpose.relay.restart.start_connections import StartConnectionKeeper
from interpose.testing.eventually import WAIT_LIMIT, eventually


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection: our end, and the runtime's."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    with ours, theirs:
        yield ours, theirs


@pytest.fixture
async def keeper() -> AsyncIterator[StartConnectionKeeper]:
    """It leaves no process behind."""
    made = StartConnectionKeeper()
    yield made
    await made.close(busy=False)
    assert made.pids == []


def is_open(end: socket.socket) -> bool:
    """Whether somebody holds the other end."""
    try:
        return end.recv(1) != b""
    except BlockingIOError:
        return True


async def kept(keeper: StartConnectionKeeper, sock: socket.socket) -> int:
    """The process that holds it."""
    keeper.keep(sock)
    (pid,) = await eventually(lambda: keeper.pids, "the shell")
    # It is there when it is the shell: before, it holds whatever the fork has left it.
    await eventually(lambda: b"read" in Path(f"/proc/{pid}/cmdline").read_bytes(), "the shell to run")
    return pid


async def test_a_connection_is_open_until_both_have_closed_it(
    keeper: StartConnectionKeeper, pair: tuple[socket.socket, socket.socket]
) -> None:
    """Ours is closed, the copy is not; it goes when the connection is said to be over."""
    ours, theirs = pair
    pid = await kept(keeper, ours)
    keeper.connected("/x", 1)
    keeper.unreachable("/x", "why")
    keeper.tick()
    keeper.lost("/x", None)  # of another one
    await asyncio.sleep(0)
    assert keeper.pids == [pid]
    ours.close()
    assert is_open(theirs)
    keeper.lost("/x", None)
    await eventually(lambda: not keeper.pids, "the shell to end")
    assert not is_open(theirs)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    keeper.lost("/x", None)  # of one that nobody kept


async def test_a_connection_that_ends_before_its_shell_runs_leaves_none(
    keeper: StartConnectionKeeper, pair: tuple[socket.socket, socket.socket]
) -> None:
    """Nor is a descriptor left open."""
    ours, theirs = pair
    keeper.keep(ours)
    ours.close()
    await eventually(lambda: not len(keeper._tasks), "the shell to end")
    assert keeper.pids == []
    assert not is_open(theirs)


async def test_a_runtime_that_hangs_up_before_its_first_settings(keeper: StartConnectionKeeper, tmp_path: Path) -> None:
    """It is dialled again and again; shells do not become more."""
    dials, most = 0, 0

    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal dials, most
        await eventually(lambda: len(keeper.pids) > 0, "the shell")
        dials, most = dials + 1, max(most, len(keeper.pids))
        writer.close()

    async def after_a_tick(_failed: int) -> None:
        keeper.tick()
        await eventually(lambda: not keeper.pids, "the shell of the last connection to end")

    path = str(tmp_path / "runtime.sock")
    server = await asyncio.start_unix_server(hang_up, path)
    upstream = Upstream(path, hub=Hub(), limits=Limits(), wait=1.0, vet=keeper.keep, pace=after_a_tick, reports=keeper)
    upstream.start()
    try:
        await eventually(lambda: dials >= 3, "some connections")
        assert most == 1
    finally:
        await upstream.close()
        server.close()
        await server.wait_closed()


async def test_no_descriptor_for_a_copy(
    keeper: StartConnectionKeeper,
    pair: tuple[socket.socket, socket.socket],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The connection is used all the same."""

    def full(_descriptor: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "dup", full)
    with caplog.at_level(logging.WARNING, "interpose"):
        keeper.keep(pair[0])
    assert caplog.text.count("Starts in flight are lost if this process is killed") == 1


async def test_whoever_ends_with_calls_in_flight_leaves_it_open(
    pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For as long as these may take, which the shell knows: it reads the end of its input, as after a kill."""
    monkeypatch.setattr(start_connections, "_SCRIPT", "read -r _; exit 0")
    keeper, (ours, theirs) = StartConnectionKeeper(), pair
    pid = await kept(keeper, ours)
    shell = keeper._all[0].shell
    assert shell is not None
    ours.close()
    await keeper.close(busy=True)
    assert is_open(theirs)
    assert shell.returncode is None
    assert shell.stdin is not None
    shell.stdin.close()
    assert await asyncio.wait_for(shell.wait(), WAIT_LIMIT) == 0
    assert not is_open(theirs)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_without_a_shell_the_connection_is_used_all_the_same(
    keeper: StartConnectionKeeper,
    pair: tuple[socket.socket, socket.socket],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is told once what that costs, and no descriptor is left open."""
    monkeypatch.setattr(start_connections, "_SHELL", "/nowhere/sh")
    ours, theirs = pair
    for _ in range(2):
        keeper.keep(ours)
    with caplog.at_level(logging.WARNING, "interpose"):
        await eventually(lambda: not len(keeper._tasks), "both to have failed")
    assert caplog.text.count("Starts in flight are lost if this process is killed") == 1
    ours.close()
    assert not is_open(theirs)
