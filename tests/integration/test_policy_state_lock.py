"""Two relays and one state directory: one at a time has what a policy remembers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from interpose.cli.common.admin_client import ask
from interpose.testing.eventually import eventually
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.serve import serve_runtime
from tests.support.lab.processes import Child
from tests.support.lab.relay import relay_argv
from tests.support.policy.machines import machine
from tests.support.policy.sysfs_tree import write_sysfs

Spawn = Callable[..., Child]
STATIC = ("--policy", "static", "--reserved-resources", "cpu=1")


@pytest.fixture
async def runtime(runtime_path: Path) -> AsyncIterator[FakeRuntime]:
    """A backend with pods in this process."""
    runtime = FakeRuntime()
    runtime.populate(3)
    async with serve_runtime(runtime_path, runtime):
        yield runtime


@pytest.fixture
def start(scratch: Path, runtime_path: Path, spawn: Spawn, runtime: FakeRuntime) -> Callable[..., Child]:
    """Starts a relay with sockets of this name; state directory and machine are those of all of them."""
    write_sysfs(machine("n4c16"), scratch / "host")

    def start(name: str, *options: str) -> Child:
        argv = relay_argv(scratch / f"{name}.sock", runtime_path, scratch / f"{name}-admin.sock")
        return spawn(*argv, "--host-root", scratch / "host", *options)

    return start


async def listening(child: Child, scratch: Path, name: str) -> None:
    """Wait until it answers on its admin socket."""
    await asyncio.to_thread(child.wait_listening, scratch / f"{name}-admin.sock")


async def remembered(scratch: Path) -> str:
    """The state file, once a policy wrote it."""
    file = scratch / "state/policy-state.json"
    await eventually(lambda: file.exists() and '"policy":"static"' in file.read_text(), "the state to be written")
    return file.read_text()


async def test_a_second_relay_with_a_policy_is_refused(start: Callable[..., Child], scratch: Path) -> None:
    """It names the setting and the process that has the directory; when that is killed, it can have it."""
    first = start("first", *STATIC)
    await listening(first, scratch, "first")
    second = start("second", *STATIC)
    assert await asyncio.to_thread(second.wait) == 1
    text = f"policy.state_dir (--state-dir) '{scratch}/state': in use by another relay (process {first.pid})"
    assert text in second.log_tail()
    assert not (scratch / "second.sock").exists()
    first.kill()
    third = start("second", *STATIC)
    await listening(third, scratch, "second")
    assert (scratch / "state/policy-state.json.lock").read_text() == f"{third.pid}\n"


async def test_a_relay_without_a_policy_leaves_the_state_of_another_alone(
    start: Callable[..., Child], scratch: Path
) -> None:
    """It is no leftover while its owner runs; once that is gone, containers get back what they had."""
    first = start("first", *STATIC)
    await listening(first, scratch, "first")
    before = await remembered(scratch)
    second = start("second")
    await listening(second, scratch, "second")
    assert "policy" not in await asyncio.to_thread(ask, str(scratch / "second-admin.sock"), "GET", "/v1/status")
    assert await asyncio.to_thread(second.stop) == 0
    assert await remembered(scratch) == before
    assert await asyncio.to_thread(first.stop) == 0
    third = start("second")
    await listening(third, scratch, "second")
    status = await asyncio.to_thread(ask, str(scratch / "second-admin.sock"), "GET", "/v1/status")
    assert status["policy"]["name"] == "none"


async def test_without_a_policy_nothing_is_written(
    start: Callable[..., Child], scratch: Path, runtime: FakeRuntime
) -> None:
    """One that an agent may bring is none yet."""
    child = start("first", "--config-socket", str(scratch / "config.sock"))
    await listening(child, scratch, "first")
    admin = str(scratch / "first-admin.sock")
    await eventually(lambda: ask(admin, "GET", "/v1/status")["policy"]["ready"], "the policy to be ready")
    assert ask(admin, "GET", "/v1/status")["policy"]["containers"] > 0
    assert await asyncio.to_thread(child.stop) == 0
    assert [one.name for one in (scratch / "state").iterdir()] == ["policy-state.json.lock"]


async def test_a_take_over_hands_the_lock_over(start: Callable[..., Child], scratch: Path) -> None:
    """A third relay never gets it, and is told the successor's number afterwards. So it is with each of them."""
    relay = start("first", *STATIC)
    await listening(relay, scratch, "first")
    for _ in range(3):
        successor = start("first", *STATIC, "--take-over")
        assert await asyncio.to_thread(relay.wait) == 0
        relay = successor
        third = start("third", *STATIC)
        assert await asyncio.to_thread(third.wait) == 1
        assert f"in use by another relay (process {relay.pid})" in third.log_tail()


async def test_a_successor_whose_state_is_another_relays_takes_nothing_over(
    start: Callable[..., Child], scratch: Path
) -> None:
    """The relay that runs goes on as if nobody had asked."""
    owner, plain = start("owner", *STATIC), start("plain")
    await listening(owner, scratch, "owner")
    await listening(plain, scratch, "plain")
    successor = start("plain", *STATIC, "--take-over")
    assert await asyncio.to_thread(successor.wait) == 1
    assert f"in use by another relay (process {owner.pid})" in successor.log_tail()
    status = await asyncio.to_thread(ask, str(scratch / "plain-admin.sock"), "GET", "/v1/status")
    assert status["pid"] == plain.pid
    # Without a policy it may: what another one remembers is none of its business.
    follower = start("plain", "--take-over")
    assert await asyncio.to_thread(plain.wait) == 0
    assert follower.running
