"""Containers under a shim: started by runc where that can be had, and by the plain executor everywhere."""

import asyncio
import json
import re
import signal
from pathlib import Path

import pytest

from interpose.node.runtime.shimclient.client import ShimError, ShimNotRunningError, StartRequest
from interpose.testing.eventually import eventually
from tests.support.node.shim_node import ShimNode

MEMORY = Path("/sys/fs/cgroup/memory")


async def test_a_container_from_start_to_end(sandbox: ShimNode) -> None:
    """Output is in the log by stream, its end is told, and recorded before."""
    pid = await sandbox.run("sh", "-c", "echo out; echo err >&2; printf rest; exit 3")

    ended = await sandbox.ended()

    assert pid > 1
    assert (ended.code, ended.oom) == (3, False)
    assert sorted(sandbox.texts()) == ["stderr F err", "stdout F out", "stdout P rest"]
    assert json.loads((sandbox.folder / "c1.exit").read_text())["code"] == 3
    states = await sandbox.shim.states()
    assert (states["c1"].pid, states["c1"].exited) == (pid, ended)


async def test_log_lines_have_times(sandbox: ShimNode) -> None:
    """In UTC, to the nanosecond."""
    await sandbox.run("echo", "x")
    await sandbox.ended()

    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z stdout F x\n", sandbox.log().read_text())


def files_of(sandbox: ShimNode) -> set[str]:
    """The files in the shim's folder, without the pause process's link, which is made later."""
    return {entry.name for entry in sandbox.paths.folder.iterdir()} - {"interpose-hold"}


async def test_a_program_that_is_not_there_is_named(sandbox: ShimNode) -> None:
    """In the OCI runtime's words; nothing is left: no log, no state, no files, and the id is free."""
    before = files_of(sandbox)

    with pytest.raises(ShimError, match='exec: "/nope": stat /nope: no such file or directory'):
        await sandbox.run("/nope")

    assert await sandbox.shim.states() == {}
    assert not sandbox.log().exists()
    assert files_of(sandbox) == before


async def test_an_executor_that_is_not_there_is_named(sandbox: ShimNode) -> None:
    """It may be removed while we run."""
    request = sandbox.request("true")
    broken = StartRequest(id="c1", command=["/no/such/runc"], log_path="", exit_file=request.exit_file)

    with pytest.raises(ShimError, match="/no/such/runc"):
        await sandbox.shim.run(broken)


async def test_an_executor_that_hangs_is_killed(sandbox: ShimNode) -> None:
    """Nobody waits for it for ever."""
    hanging = StartRequest(
        id="c1", command=["/bin/sleep", "1000"], log_path="", exit_file=str(sandbox.folder / "x"), timeout=0.1
    )

    with pytest.raises(ShimError, match="took too long"):
        await sandbox.shim.run(hanging)
    assert await sandbox.shim.states() == {}


async def test_an_id_is_run_once(sandbox: ShimNode) -> None:
    """Whoever asks twice is told, also while it starts."""
    request = sandbox.request("sleep", "1000")
    first = asyncio.gather(sandbox.shim.run(request), sandbox.shim.run(request), return_exceptions=True)

    pid, refused = await first

    assert isinstance(pid, int)
    assert "started already" in str(refused)


async def test_a_signal_ends_a_container(sandbox: ShimNode) -> None:
    """Its code is 128 and the signal; a signal after its end is nothing."""
    await sandbox.run("sleep", "1000")

    await sandbox.shim.signal("c1", signal.SIGKILL)

    assert (await sandbox.ended()).code == 137
    await sandbox.shim.signal("c1", signal.SIGKILL)
    with pytest.raises(ShimNotRunningError):
        await sandbox.shim.signal("c2", signal.SIGKILL)


async def test_signals_are_not_ignored_in_containers(sandbox: ShimNode) -> None:
    """What we ignore must not be handed on. The C library has the two above 31 for itself."""
    await sandbox.run("sh", "-c", "cat /proc/self/status; sleep 1000")

    await eventually(
        lambda: sandbox.log().exists() and "SigCgt" in sandbox.log().read_text(), "the status of the process"
    )
    (ignored,) = [line.split()[-1] for line in sandbox.texts() if "SigIgn:" in line]

    assert int(ignored, 16) & 0x7FFFFFFF == 0


async def test_ended_containers_can_be_forgotten(sandbox: ShimNode) -> None:
    """Not running ones; unknown ones are forgotten already."""
    await sandbox.run("sleep", "1000")
    with pytest.raises(ShimError, match="has not ended"):
        await sandbox.shim.forget("c1")
    await sandbox.shim.signal("c1", signal.SIGKILL)
    await sandbox.ended()

    await sandbox.shim.forget("c1")
    await sandbox.shim.forget("c1")

    assert await sandbox.shim.states() == {}


async def test_a_log_is_reopened(sandbox: ShimNode) -> None:
    """Lines after it are in the new file, none is lost between them."""
    await sandbox.run("sh", "-c", "i=0; while [ $i -lt 2000 ]; do echo $i; i=$((i+1)); done; sleep 1000")
    await eventually(lambda: sandbox.log().exists() and sandbox.log().stat().st_size > 0, "output")

    moved = sandbox.log().rename(sandbox.log().with_suffix(".1"))
    await sandbox.shim.reopen_log("c1")

    def lines() -> list[str]:
        return (moved.read_text() + sandbox.log().read_text()).splitlines()

    await eventually(lambda: len(lines()) == 2000, "all lines")
    assert [int(line.rsplit(" ", 1)[1]) for line in lines()] == list(range(2000))


async def test_a_log_that_cannot_be_written_does_not_stop_a_container(sandbox: ShimNode) -> None:
    """It ends as it would have."""
    sandbox.log().mkdir(parents=True)

    await sandbox.run("sh", "-c", "echo lost; exit 4")

    assert (await sandbox.ended()).code == 4


@pytest.mark.skipif(not MEMORY.is_dir(), reason="needs cgroup v1 with memory")
async def test_a_container_without_memory(sandbox: ShimNode) -> None:
    """That something of it was killed for want of memory is known."""
    counters = f"{MEMORY}{sandbox.cgroup()}/memory.oom_control"

    await sandbox.run("sh", "-c", "head -c 200000000 /dev/zero | tail", memory=16 << 20, oom_file=counters)

    assert (await sandbox.ended()).oom is True
