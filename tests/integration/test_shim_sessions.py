"""Exec and attach through a shim."""

import asyncio
import os
import re
from pathlib import Path

import pytest

from interpose.node.runtime.shim import protocol
from interpose.node.runtime.shimclient.client import (
    ExecRequest,
    ShimClosedError,
    ShimError,
    ShimExecResult,
    ShimNotRunningError,
    ShimSession,
)
from interpose.testing.eventually import WAIT_LIMIT, eventually
from tests.support.node.shim_node import ShimNode


async def _read_all(streams: ShimSession) -> bytes:
    out = b""
    while (piece := await streams.read()) is not None:
        out += piece[1]
    return out


async def test_exec_gives_output_and_code(sandbox: ShimNode) -> None:
    """By stream; it is in the container: its file system or at least its mark."""
    await sandbox.run("sleep", "1000")

    got = await sandbox.exec("sh", "-c", "echo out; echo err >&2; exit 7")

    assert got == ShimExecResult(stdout=b"out\n", stderr=b"err\n", code=7)


async def test_exec_of_what_is_not_there(sandbox: ShimNode) -> None:
    """The OCI runtime's words; the container is not the worse for it."""
    await sandbox.run("sleep", "1000")

    with pytest.raises(ShimError, match='exec: "/nope"'):
        await sandbox.exec("/nope")
    assert (await sandbox.exec("true")).code == 0


async def test_exec_in_a_container_that_does_not_run(sandbox: ShimNode) -> None:
    """Unknown or ended is told apart from failures."""
    with pytest.raises(ShimNotRunningError):
        await sandbox.exec("true", name="c2")
    await sandbox.run("true")
    await sandbox.ended()
    with pytest.raises(ShimNotRunningError):
        await sandbox.exec("true")


async def test_exec_in_a_container_that_ends_meanwhile(sandbox: ShimNode) -> None:
    """The executor fails because of it: that is told apart, too."""
    await sandbox.run("sleep", "1000")
    pid = (await sandbox.shim.states())["c1"].pid
    wait = f"while [ -e /proc/{pid} ]; do :; done; echo stopped container >&2; exit 1"
    request = ExecRequest(container_id="c1", command=["/bin/sh", "-c", f"kill -9 {pid}; {wait}"], process={})

    with pytest.raises(ShimNotRunningError, match="stopped container"):
        await sandbox.shim.exec_sync(request)


async def test_exec_has_a_time_limit(sandbox: ShimNode) -> None:
    """What was started by it ends too; what it wrote before is there."""
    await sandbox.run("sleep", "1000")

    timeout = 0.3
    while not (got := await sandbox.exec("sh", "-c", "echo early; sleep 1000; echo late", timeout=timeout)).stdout:
        timeout *= 2  # it had not begun

    assert got == ShimExecResult(stdout=b"early\n", stderr=b"", code=137, timed_out=True)
    assert b"sleep 1000; echo" not in (await sandbox.exec("sh", "-c", "cat /proc/[0-9]*/cmdline")).stdout


async def test_exec_output_has_a_limit(sandbox: ShimNode) -> None:
    """The rest is read and thrown away; the command ends as usual."""
    await sandbox.run("sleep", "1000")

    got = await sandbox.shim.exec_sync(sandbox.command("sh", "-c", "head -c 100000 /dev/zero; exit 2"), limit=1000)

    assert (len(got.stdout), got.code, got.truncated) == (1000, 2, True)


async def test_exec_does_not_wait_for_what_is_left_in_the_background(sandbox: ShimNode) -> None:
    """It holds the output open; the command has ended."""
    await sandbox.run("sleep", "1000")

    got = await sandbox.exec("sh", "-c", "sleep 1000 & echo done")

    assert (got.stdout, got.code) == (b"done\n", 0)


async def test_many_execs_at_once(sandbox: ShimNode) -> None:
    """Each has its own output; no descriptor is left."""
    await sandbox.run("sleep", "1000")
    before = len(_links(sandbox.shim.pid))

    got = await asyncio.gather(*(sandbox.exec("sh", "-c", f"echo {n}; exit {n}") for n in range(12)))

    assert [(one.stdout, one.code) for one in got] == [(f"{n}\n".encode(), n) for n in range(12)]
    await eventually(lambda: len(_links(sandbox.shim.pid)) == before, "descriptors closed")
    names = {entry.name for entry in sandbox.paths.folder.iterdir()}
    assert names == {"shim.sock", "shim.json", "shim.log", "interpose-hold"}


async def test_exec_with_input(sandbox: ShimNode) -> None:
    """More than a pipe takes, then its end."""
    await sandbox.run("sleep", "1000")
    data = os.urandom(300_000)

    streams = await sandbox.shim.exec_streams(sandbox.command("cat", stdin=True))

    async def write() -> None:
        await streams.write(data)
        await streams.end_stdin()

    _, out = await asyncio.gather(write(), _read_all(streams))
    assert out == data
    assert streams.exit is not None
    assert streams.exit.code == 0
    await streams.close()


async def test_exec_with_a_terminal(sandbox: ShimNode) -> None:
    """It has the size it was given."""
    await sandbox.run("sleep", "1000")

    streams = await sandbox.shim.exec_streams(
        sandbox.command("sh", "-c", "read x; stty size; exit 5", tty=True, stdin=True)
    )
    await streams.resize(101, 33)
    await streams.write(b"go\n")
    out = await _read_all(streams)

    assert b"33 101" in out
    assert streams.exit is not None
    assert streams.exit.code == 5
    await streams.close()


async def test_an_exec_ends_when_its_client_hangs_up(sandbox: ShimNode) -> None:
    """Nobody is left to end it."""
    await sandbox.run("sleep", "1000")
    streams = await sandbox.shim.exec_streams(sandbox.command("sleep", "12345"))
    pid = streams.pid

    await streams.close()

    await eventually(lambda: not Path(f"/proc/{pid}").exists(), "the end of the process")


async def test_output_nobody_reads_does_not_fill_memory(sandbox: ShimNode) -> None:
    """The process waits; all of it is there when somebody reads."""
    await sandbox.run("sleep", "1000")
    size = 40_000_000
    streams = await sandbox.shim.exec_streams(sandbox.command("head", "-c", str(size), "/dev/zero"))
    await eventually(lambda: _blocked(streams.pid), "the process to wait")

    total = 0
    while (piece := await streams.read()) is not None:
        total += len(piece[1])

    assert total == size
    assert _peak_kilobytes(sandbox.shim.pid) < 20_000
    await streams.close()


def _links(pid: int) -> list[Path]:
    return list(Path(f"/proc/{pid}/fd").iterdir())


def _peak_kilobytes(pid: int) -> int:
    (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(peak)


def _blocked(pid: int) -> bool:
    return "pipe_write" in Path(f"/proc/{pid}/wchan").read_text()


async def test_attach_sees_and_writes(sandbox: ShimNode) -> None:
    """Its output goes on into the log; the end of the container ends the session with its code."""
    await sandbox.run("sh", "-c", "read a; echo got $a; exit 6", stdin=True)
    streams = await sandbox.shim.attach("c1")

    await streams.write(b"word\n")

    assert await streams.read() == (protocol.STDOUT, b"got word\n")
    assert await streams.read() is None
    assert streams.exit is not None
    assert streams.exit.code == 6
    assert sandbox.texts() == ["stdout F got word"]
    await streams.close()


@pytest.mark.parametrize("once", [True, False])
async def test_stdin_ends_with_the_first_client_only_if_it_is_for_one(sandbox: ShimNode, once: bool) -> None:
    """Otherwise the next one goes on."""
    await sandbox.run("sh", "-c", "cat; echo end", stdin=True, stdin_once=once)
    first = await sandbox.shim.attach("c1")
    await first.write(b"one\n")
    assert await first.read() == (protocol.STDOUT, b"one\n")
    await first.close()

    if once:
        await sandbox.ended()
        assert sandbox.texts() == ["stdout F one", "stdout F end"]
    else:
        second = await sandbox.shim.attach("c1")
        await second.write(b"two\n")
        assert await second.read() == (protocol.STDOUT, b"two\n")
        await second.close()


async def test_a_container_with_a_terminal(sandbox: ShimNode) -> None:
    """All of its output is stdout; it has the size it was given."""
    await sandbox.run("sh", "-c", "read x; stty size; echo err >&2", tty=True, stdin=True)
    await sandbox.shim.resize("c1", 90, 20)
    streams = await sandbox.shim.attach("c1")

    await streams.write(b"go\n")
    await sandbox.ended()

    assert "stdout F 20 90\n" in sandbox.log().read_bytes().decode()
    assert "stderr" not in sandbox.log().read_text()
    await streams.close()


@pytest.mark.parametrize("bare_sandbox", ["plain"], indirect=True)
async def test_a_client_that_does_not_read_cannot_hold_a_container(sandbox: ShimNode) -> None:
    """After a while it is dropped: the container ends, and its log is whole."""
    await sandbox.run(
        "sh", "-c", "read go; i=0; while [ $i -lt 60 ]; do head -c 100000 /dev/zero; echo; i=$((i+1)); done", stdin=True
    )
    streams = await sandbox.shim.attach("c1")

    await streams.write(b"go\n")

    assert (await sandbox.ended()).code == 0
    assert len([text for text in sandbox.texts() if text.startswith("stdout F")]) == 60
    with pytest.raises(ShimClosedError, match="ended the session"):
        await _read_all(streams)
    await streams.close()


async def test_a_timeout_longer_than_the_kernel_can_count(sandbox: ShimNode) -> None:
    """A month and more: the command ends as usual, and the shim goes on."""
    await sandbox.run("sleep", "1000")
    result = await sandbox.exec("sh", "-c", "sleep 0.2; echo done", timeout=3_000_000)
    assert (result.stdout, result.code, result.timed_out) == (b"done\n", 0, False)
    assert (await sandbox.shim.states())["c1"].exited is None
    assert sandbox.paths.log.read_text() == ""


async def test_a_command_whose_start_takes_longer_than_it_may(sandbox: ShimNode) -> None:
    """The executor hangs, in a container whose processes are frozen say: it is killed when the time is up."""
    await sandbox.run("sleep", "1000")
    request = ExecRequest(container_id="c1", command=["/bin/sleep", "1000"], process={}, timeout=1)

    async with asyncio.timeout(WAIT_LIMIT):
        result = await sandbox.shim.exec_sync(request)

    assert (result.code, result.timed_out) == (137, True)
    assert (await sandbox.exec("echo", "on")).stdout == b"on\n"
