"""What a pod consists of is killed behind the runtime's back, or the runtime in the middle of what it does for others.

Whatever it was: what is shown afterwards is so, everything can be removed, and nothing is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest

from interpose._pb import cri_pb2 as cri
from interpose.net.streaming.client import run_command
from interpose.net.streaming.connect import StreamError
from interpose.node.runtime.fs import mounts
from interpose.testing.eventually import WAIT_LIMIT, eventually
from tests.support.lab.cri import CriClient
from tests.support.lab.daemon import unmount_below
from tests.support.lab.kill.killable import PLUGINS, KillableRuntime
from tests.support.lab.kill.mortal_pod import MortalPod, config_on, remove_all, slay
from tests.support.lab.processes import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.e2e

LOST = (255, "Unknown")
KILLED = (137, "Error")
PROCESSES = ("sh", "-c", "cat /proc/[0-9]*/cmdline")
NUMBERS = ("sh", "-c", "i=0; while :; do i=$((i+1)); echo $i; [ $((i % 100)) = 0 ] && sleep 0.02; done")


@contextlib.contextmanager
def started(folder: Path, *options: str, executor: str = "runc") -> Iterator[KillableRuntime]:
    """A runtime with an image, which serves."""
    if reason := KillableRuntime.missing():
        pytest.skip(f"no runtime: {reason}")
    with KillableRuntime(folder, *options, executor=executor) as node:
        node.add_images()
        yield node


@contextlib.contextmanager
def clean_after(node: KillableRuntime) -> Iterator[None]:
    """All pods are removed at the end, and then nothing may be left."""
    yield
    with CriClient(node.socket) as client:
        remove_all(client)
    node.wait_clean()


@pytest.fixture(scope="module")
def shared() -> Iterator[KillableRuntime]:
    """One for all tests that start it again if they kill it."""
    folder = Path(tempfile.mkdtemp(prefix="interpose-"))
    with started(folder) as node:
        yield node
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def node(shared: KillableRuntime) -> Iterator[KillableRuntime]:
    """It runs and has no pods."""
    if not shared.child.running:  # a test failed
        shared.start()
    with clean_after(shared):
        yield shared


@pytest.fixture
def client(node: KillableRuntime) -> Iterator[CriClient]:
    """To whoever serves there."""
    with CriClient(node.socket) as connected:
        yield connected


def again(node: KillableRuntime) -> CriClient:
    """The runtime is killed and started; a client of the new one."""
    node.kill()
    node.start()
    return CriClient(node.socket)


# -- what a pod consists of ------------------------------------------------------------------------------------------


def test_the_shim_is_killed(node: KillableRuntime, client: CriClient) -> None:
    """Nobody can tell how its container ended: it is ended, and its sandbox is not ready any more."""
    pod = MortalPod(node, client)
    first, holder = pod.first, pod.holder
    slay(pod.shim)
    assert pod.ended(client) == LOST
    wait_for(lambda: not pod.ready(client), what="the sandbox to be not ready")
    slay(first, holder)  # only waits for them


def test_the_holder_is_killed(node: KillableRuntime, client: CriClient) -> None:
    """The sandbox is not ready; its container goes on until somebody stops it, and ends as it should."""
    pod = MortalPod(node, client)
    slay(pod.holder)
    wait_for(lambda: not pod.ready(client), what="the sandbox to be not ready")
    assert pod.says(client, "echo", "here") == b"here\n"
    with pytest.raises(grpc.RpcError, match="not ready"):
        pod.add(client, name="second")
    client.call("StopPodSandbox", cri.StopPodSandboxRequest(pod_sandbox_id=pod.sandbox))
    assert pod.ended(client) == KILLED


def test_the_first_process_is_killed(node: KillableRuntime, client: CriClient) -> None:
    """It ended by a signal; the sandbox stays, and others can start in it."""
    pod = MortalPod(node, client)
    slay(pod.first)
    assert pod.ended(client) == KILLED
    assert pod.ready(client)
    second = pod.add(client, name="second")
    client.call("StartContainer", cri.StartContainerRequest(container_id=second))
    assert pod.status(client, second).state == cri.CONTAINER_RUNNING


@pytest.mark.parametrize("away", [False, True], ids=["runtime there", "runtime away"])
def test_all_of_it_is_killed(node: KillableRuntime, client: CriClient, *, away: bool) -> None:
    """Under the eyes of the runtime, or while it is away."""
    pod = MortalPod(node, client)
    waiting = pod.add(client, name="second")
    if away:
        node.kill()
    slay(pod.shim, pod.holder, pod.first)
    if away:
        node.start()
    assert pod.ended(client) == LOST
    wait_for(lambda: not pod.ready(client), what="the sandbox to be not ready")
    assert pod.status(client, waiting).state == cri.CONTAINER_CREATED


def test_a_shim_is_killed_while_the_runtime_is_away(node: KillableRuntime, client: CriClient) -> None:
    """Its container lives on without a parent until the runtime is back."""
    pod = MortalPod(node, client)
    first = pod.first
    node.kill()
    slay(pod.shim)
    node.start()
    assert pod.ended(client) == LOST
    assert not pod.ready(client)
    slay(first)  # only waits for it


def test_a_container_ends_while_the_runtime_is_away(node: KillableRuntime, client: CriClient) -> None:
    """The shim has written down how."""
    pod = MortalPod(node, client, "sh", "-c", 'trap "exit 7" TERM; while :; do sleep 0.02; done')
    wait_for(lambda: b"sh" in Path(f"/proc/{pod.first}/cmdline").read_bytes(), what="the shell")
    node.kill()
    slay(pod.first)
    node.start()
    assert pod.ended(client) == KILLED
    assert pod.ready(client)


# -- in the middle of something --------------------------------------------------------------------------------------


def slow(folder: Path, program: str, when: str, seconds: float) -> Path:
    """A program that takes longer for some of its work: `when` is a test of the shell."""
    folder.mkdir(exist_ok=True)
    path = folder / Path(program).name
    path.write_text(f'#!/bin/sh\nif {when}; then : > {folder}/begun; sleep {seconds}; fi\nexec {program} "$@"\n')
    path.chmod(0o755)
    return path


def test_a_shim_is_killed_while_it_starts_a_container(scratch: Path) -> None:
    """The start is an error, and does not come true behind everybody's back."""
    if (runc := shutil.which("runc")) is None:
        pytest.skip("not installed: runc")
    tools = scratch / "tools"
    slow_runc = slow(tools, runc, f'[ -e {tools}/now ] && echo " $*" | grep -q " run "', 1.0)
    with started(scratch, executor=str(slow_runc)) as node, clean_after(node), CriClient(node.socket) as client:
        pod = MortalPod(node, client)
        second = pod.add(client, name="second")
        (tools / "now").touch()
        request = cri.StartContainerRequest(container_id=second)
        call = client.raw("StartContainer")(request.SerializeToString(), timeout=WAIT_LIMIT)
        wait_for(lambda: (tools / "begun").exists(), what="the start to begin")
        slay(pod.shim)
        assert call.exception(timeout=WAIT_LIMIT) is not None
        assert pod.ended(client) == LOST
        assert pod.status(client, second).state == cri.CONTAINER_EXITED
        # What is left of both containers may still be put away; a start is not under way any more.
        assert not [line for line in working(tools) if " run " in line]


def test_the_runtime_is_killed_while_a_network_plugin_works(scratch: Path) -> None:
    """What a slow plugin does is undone after it was done, not before."""
    tools = scratch / "tools"
    for one in ("ptp", "host-local"):
        slow(tools, f"{PLUGINS}/{one}", '[ "$CNI_COMMAND" = ADD ]', 2.0)
    with started(scratch, "--cni-bin-dirs", str(tools)) as node, clean_after(node), CriClient(node.socket) as client:
        request = cri.RunPodSandboxRequest(config=config_on(node))
        call = client.raw("RunPodSandbox")(request.SerializeToString(), timeout=WAIT_LIMIT)
        wait_for(lambda: (tools / "begun").exists(), what="the plugin to begin")
        with again(node) as other:
            assert call.exception(timeout=WAIT_LIMIT) is not None
            assert not other.call("ListPodSandbox").items
            assert not working(tools)


def working(tools: Path) -> list[str]:
    """Command lines of programs from there, which are scripts."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().decode(errors="replace").split("\0")
            if words[1:] and words[1].startswith(f"{tools}/"):
                found.append(" ".join(words))
    return found


def test_no_line_of_a_log_is_lost(node: KillableRuntime, client: CriClient) -> None:
    """The runtime comes and goes while a container writes: each line is there once, in its place."""
    pod = MortalPod(node, client, *NUMBERS)
    for _ in range(3):
        enough = len(pod.log) + 200
        wait_for(lambda: len(pod.log) > enough, what="more lines")  # noqa: B023
        again(node).__exit__()
    with CriClient(node.socket) as later:
        later.call("StopContainer", cri.StopContainerRequest(container_id=pod.container, timeout=0))
        assert pod.ended(later) == KILLED
    log = pod.log
    assert len(log) > 600
    assert log == [str(number) for number in range(1, len(log) + 1)]


async def test_sessions_of_a_killed_runtime(node: KillableRuntime, client: CriClient) -> None:
    """Who is connected hears of it; the exec'd process ends, the container does not, and one can connect again."""
    pod = MortalPod(node, client, *NUMBERS)

    def exec_url(connected: CriClient, *command: str) -> str:
        request = cri.ExecRequest(container_id=pod.container, cmd=command, stdout=True)
        return str(connected.call("Exec", request).url)

    def attach_url(connected: CriClient) -> str:
        request = cri.AttachRequest(container_id=pod.container, stdout=True)
        return str(connected.call("Attach", request).url)

    heard: list[bytes] = []
    watched: list[bytes] = []
    sessions = [
        asyncio.ensure_future(run_command(exec_url(client, "sh", "-c", "echo up; sleep 600"), stdout=heard.append)),
        asyncio.ensure_future(run_command(attach_url(client), stdout=watched.append)),
    ]
    await eventually(lambda: heard and watched, "output of both")
    assert b"600" in pod.says(client, *PROCESSES)
    with again(node) as other:
        outcomes = await asyncio.gather(*sessions, return_exceptions=True)
        assert [type(one) for one in outcomes] == [StreamError, StreamError]
        wait_for(lambda: b"600" not in pod.says(other, *PROCESSES), what="the exec'd process to end")
        assert pod.status(other).state == cri.CONTAINER_RUNNING
        words: list[bytes] = []
        assert await run_command(exec_url(other, "echo", "again"), stdout=words.append) == 0
        assert b"".join(words) == b"again\n"
        seen = len(watched)
        session = asyncio.ensure_future(run_command(attach_url(other), stdout=watched.append))
        await eventually(lambda: len(watched) > seen, "more output")
        other.call("StopContainer", cri.StopContainerRequest(container_id=pod.container, timeout=0))
        await session


def test_the_machine_restarts(node: KillableRuntime, client: CriClient) -> None:
    """Nothing runs any more, /run is empty, there are no cgroups: pods are shown as ended, and leave no trace."""
    pod = MortalPod(node, client)
    waiting = pod.add(client, name="second")
    node.kill()
    slay(pod.shim, pod.holder, pod.first)
    unmount_below(node.folder)
    shutil.rmtree(node.state)
    for path in sorted(Path("/sys/fs/cgroup").glob(f"*{node.cgroup}/**/"), key=lambda one: -len(str(one))):
        path.rmdir()
    node.start()
    assert pod.ended(client) == LOST
    assert not pod.ready(client)
    assert pod.status(client, waiting).state == cri.CONTAINER_CREATED
    with pytest.raises(grpc.RpcError, match="not ready"):
        client.call("StartContainer", cri.StartContainerRequest(container_id=waiting))


def test_the_disk_is_full(scratch: Path) -> None:
    """Nothing new begins, what dies is seen to be dead, and removing pods works: that makes room."""
    place = scratch / "small"
    place.mkdir()
    mounts.mount("tmpfs", str(place), "tmpfs", 0, "size=64m")
    try:
        with started(place) as node, CriClient(node.socket) as client, clean_after(node):
            pods = [MortalPod(node, client, name=name) for name in ("stopped", "lost")]
            filler = place / "filler"
            with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
                while file.write(b"x" * 4096):
                    pass
            refused = client.outcome("RunPodSandbox", cri.RunPodSandboxRequest(config=config_on(node, "more")))
            assert "No space left" in refused.details
            slay(pods[1].shim)
            assert pods[1].ended(client) == LOST
            wait_for(lambda: not pods[1].ready(client), what="the sandbox to be seen as dead")
            remove_all(client)
            filler.unlink()
    finally:
        unmount_below(place)
        mounts.unmount(str(place))
