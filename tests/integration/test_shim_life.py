"""Shims as processes: they outlive the runtime, not their own end."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interpose.node.runtime.shimclient import client as shimclient
from interpose.node.runtime.shimclient.client import (
    ShimClient,
    ShimClosedError,
    ShimError,
    ShimNotRunningError,
    StartRequest,
)
from interpose.node.runtime.shimclient.paths import living_shim
from interpose.testing.eventually import eventually
from tests.support.lab.processes import Child
from tests.support.node.shim_node import ShimNode

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces")


async def test_the_shim_outlives_the_runtime(bare_sandbox: ShimNode, spawn: Callable[..., Child]) -> None:
    """A runtime is killed while a container writes: another one finds the shim, every line and the exit code."""
    bare_sandbox.paths.folder.mkdir(mode=0o700)
    request = bare_sandbox.request("sh", "-c", "i=0; while [ $i -lt 3000 ]; do echo $i; i=$((i+1)); done; exit 9")
    said = bare_sandbox.folder / "request.json"
    names = ("id", "command", "log_path", "exit_file")
    said.write_text(json.dumps({name: getattr(request, name) for name in names}))
    runtime = spawn(sys.executable, "-c", RUNTIME, bare_sandbox.paths.folder, said)
    runtime.wait_until(lambda: "up" in runtime.log_tail(), what="the container to start")

    runtime.kill()
    bare_sandbox.shim = await ShimClient.attach_to(bare_sandbox.paths, **bare_sandbox.listeners())
    ended = await eventually(lambda: (bare_sandbox.folder / "c1.exit").exists(), "the exit record")

    assert ended
    state = (await bare_sandbox.shim.states())["c1"].exited
    assert state is not None
    assert state.code == 9
    assert [text.rsplit(" ", 1)[1] for text in bare_sandbox.texts()] == [str(n) for n in range(3000)]


RUNTIME = """
import asyncio, json, sys
from pathlib import Path
from interpose.node.runtime.shimclient.client import SandboxOptions, ShimClient, StartRequest
from interpose.node.runtime.shimclient.paths import ShimPaths

async def main():
    shim = await ShimClient.launch(ShimPaths(folder=Path(sys.argv[1])), SandboxOptions())
    await shim.run(StartRequest(**json.loads(Path(sys.argv[2]).read_text())))
    print("up", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_a_start_under_way_is_known_to_the_next_runtime(sandbox: ShimNode) -> None:
    """It waits for it instead of undoing it."""
    slow = StartRequest(
        id="c1", command=["/bin/sh", "-c", "sleep 1000"], log_path="", exit_file=str(sandbox.folder / "x"), timeout=1
    )
    starting = asyncio.ensure_future(sandbox.shim.run(slow))
    other = await ShimClient.attach_to(sandbox.paths)

    states = await other.states()  # after what was asked before

    assert states["c1"].pid == 0
    starting.cancel()
    await other.close()


async def test_a_shim_that_is_killed_takes_its_holder_along(sandbox: ShimNode) -> None:
    """The runtime is told; whoever asks is told; nobody can attach."""
    pause_pid = sandbox.shim.pause_pid

    os.kill(sandbox.shim.pid, signal.SIGKILL)

    await eventually(lambda: "lost" in sandbox.heard, "on_lost")
    await eventually(lambda: not Path(f"/proc/{pause_pid}").exists(), "the end of the pause process")
    with pytest.raises(ShimClosedError):
        await sandbox.shim.states()
    with pytest.raises(ShimClosedError):
        await ShimClient.attach_to(sandbox.paths)
    assert living_shim(sandbox.paths) is None


async def test_the_end_of_the_holder_is_told(sandbox: ShimNode) -> None:
    """The sandbox is no more; the shim goes on until it is stopped, but starts nothing."""
    os.kill(sandbox.shim.pause_pid, signal.SIGKILL)

    await eventually(lambda: sandbox.heard == ["died"], "on_died")

    assert sandbox.shim.pause_pid == 0
    with pytest.raises(ShimNotRunningError, match="sandbox has ended"):
        await sandbox.run("true")


async def test_only_stop_ends_a_shim(sandbox: ShimNode) -> None:
    """Not the signals that end whole sessions and services."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(sandbox.shim.pid, number)
        os.kill(sandbox.shim.pause_pid, number)

    assert await sandbox.shim.states() == {}
    assert living_shim(sandbox.paths) == sandbox.shim.pid
    assert sandbox.heard == []


async def test_stop_waits_for_containers(sandbox: ShimNode) -> None:
    """Its pause process is gone at once; after the last container so is the shim, with its files but the log."""
    await sandbox.run("sleep", "1000")
    with pytest.raises(ShimError, match="still run"):
        await sandbox.shim.stop(timeout=0.1)
    other = await ShimClient.attach_to(sandbox.paths)

    await other.signal("c1", signal.SIGKILL)
    await other.stop()

    assert [entry.name for entry in sandbox.paths.folder.iterdir()] == ["shim.log"]
    assert sandbox.paths.log.read_text() == ""
    await other.stop()


async def test_a_shim_has_nothing_of_the_runtime(sandbox: ShimNode) -> None:
    """No descriptor, no environment, no parent, no session, no folder: it cannot be in the way."""
    pid = sandbox.shim.pid

    assert set(_files(pid)) == {"/dev/null", str(sandbox.paths.log)}
    assert [entry.partition("=")[0] for entry in _read(pid, "environ").split("\0") if entry] == ["PATH"]
    assert os.getsid(pid) == pid
    assert _link(pid, "cwd") == str(sandbox.paths.folder)


def _read(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text()


def _link(pid: int | str, name: str) -> str:
    return str(Path(f"/proc/{pid}/{name}").readlink())


def _files(pid: int) -> list[str]:
    links = [str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir()]
    return [link for link in links if link.startswith("/")]


async def test_a_shim_costs_little(sandbox: ShimNode, interpreter_rss: Callable[..., int]) -> None:
    """It is there once per pod: what is expensive is not loaded."""
    (resident,) = re.findall(r"VmRSS:\s+(\d+) kB", _read(sandbox.shim.pid, "status"))
    loaded = _read(sandbox.shim.pid, "maps")

    assert int(resident) * 1024 < interpreter_rss() + 5 * 1024 * 1024
    assert [name for name in ("_ssl", "_asyncio", "_hashlib") if name in loaded] == []


@needs_root
async def test_the_holder_has_namespaces_of_its_own(bare_sandbox: ShimNode) -> None:
    """Those asked for, with host name, loopback and sysctls; the others are the host's."""
    await bare_sandbox.launch(
        network=True, ipc=True, uts=True, hostname="pod-1", sysctls={"net.ipv4.ip_default_ttl": "77"}
    )
    pause_pid = bare_sandbox.shim.pause_pid
    namespaces = {"network": "net", "ipc": "ipc", "uts": "uts"}

    different = {
        name for name in ("net", "ipc", "uts", "pid") if _link(pause_pid, f"ns/{name}") != _link("self", f"ns/{name}")
    }
    assert different == {"net", "ipc", "uts"}
    await bare_sandbox.run(
        *("busybox", "sh", "-c", "hostname; cat /proc/sys/net/ipv4/ip_default_ttl; ifconfig lo | grep -c UP"),
        namespaces={kind: f"/proc/{pause_pid}/ns/{name}" for kind, name in namespaces.items()},
    )
    await bare_sandbox.ended()

    assert bare_sandbox.texts() == ["stdout F pod-1", "stdout F 77", "stdout F 1"]


@needs_root
async def test_a_pod_that_shares_processes(bare_sandbox: ShimNode) -> None:
    """The pause process is process 1 of it and reaps; the containers end with it."""
    await bare_sandbox.launch(pid=True)
    pause_pid = bare_sandbox.shim.pause_pid
    await bare_sandbox.run("sh", "-c", "(sleep 0 &) ; sleep 1000", namespaces={"pid": f"/proc/{pause_pid}/ns/pid"})

    inside = (await bare_sandbox.exec("sh", "-c", "cat /proc/1/comm; cat /proc/[0-9]*/stat")).stdout.decode()
    assert inside.startswith("interpose-hold\n")
    assert ") Z " not in inside
    os.kill(pause_pid, signal.SIGKILL)
    assert (await bare_sandbox.ended()).code == 137
    await eventually(lambda: "died" in bare_sandbox.heard, "on_died")


@needs_root
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"network": True, "sysctls": {"kernel.panic": "5"}}, "not in a namespace"),
        ({"sysctls": {"net.ipv4.ip_forward": "1"}}, "network namespace"),
        ({"network": True, "sysctls": {"net.no.such": "1"}}, "net.no.such"),
    ],
)
async def test_a_sandbox_that_cannot_be_made(bare_sandbox: ShimNode, options: dict[str, Any], words: str) -> None:
    """Is refused with the reason, and nothing is left of it."""
    with pytest.raises(ShimError, match=words):
        await bare_sandbox.launch(**options)

    assert living_shim(bare_sandbox.paths) is None
    assert not bare_sandbox.paths.socket.exists()


async def test_a_shim_that_does_not_answer_is_killed(sandbox: ShimNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a container is to be ended, and only then: what is less than that is an error."""
    await sandbox.run("sleep", "1000")
    monkeypatch.setattr(shimclient, "TIMEOUT", 0.05)
    monkeypatch.setattr(shimclient, "SECOND_TIMEOUT", 0.05)
    os.kill(sandbox.shim.pid, signal.SIGSTOP)
    with pytest.raises(ShimError, match="does not answer"):
        await sandbox.shim.reopen_log("c1")
    with pytest.raises(ShimError, match="does not answer"):
        await sandbox.shim.attach("c1")
    assert living_shim(sandbox.paths) == sandbox.shim.pid
    with pytest.raises(ShimClosedError, match="does not answer"):
        await sandbox.shim.signal("c1", signal.SIGTERM)
    await eventually(lambda: living_shim(sandbox.paths) is None, "the end of the shim")
    await eventually(lambda: sandbox.heard == ["lost"], "to be told")
    with pytest.raises(ShimClosedError):
        await sandbox.shim.states()


async def test_a_stop_of_a_shim_that_does_not_answer(sandbox: ShimNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends it all the same."""
    monkeypatch.setattr(shimclient, "TIMEOUT", 0.05)
    monkeypatch.setattr(shimclient, "SECOND_TIMEOUT", 0.05)
    os.kill(sandbox.shim.pid, signal.SIGSTOP)
    await sandbox.shim.stop()
    await eventually(lambda: living_shim(sandbox.paths) is None, "the end of the shim")
    assert sandbox.heard == []
