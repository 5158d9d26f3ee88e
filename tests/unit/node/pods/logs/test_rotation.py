"""Logs that have grown too large are moved aside, compressed, and in the end removed."""

import fcntl
import gzip
import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from interpose.core.model.pod import ContainerState
from interpose.net.grpc.status import Code
from interpose.node.pods.clock import Clocks
from interpose.node.pods.logs.files import list_rotated
from interpose.node.pods.logs.rotation import LogLimits, LogRotation, remove_old_logs
from interpose.node.pods.status.types import PodStatus
from tests.support.node.managed_node import ManagedNode, pod


@pytest.fixture
async def node(tmp_path: Path) -> ManagedNode:
    made = ManagedNode(tmp_path)
    await made.sync(pod())
    return made


async def status(node: ManagedNode, log: Path) -> PodStatus:
    """The pod, with its log there."""
    found = await node.status(pod())
    return replace(found, containers=tuple(replace(one, log_path=str(log)) for one in found.containers))


def rotation(node: ManagedNode, files: int = 3) -> LogRotation:
    """Of logs with more than ten bytes."""
    return LogRotation(node.manager.services, Clocks(now=node.clock), LogLimits(size=10, files=files))


async def test_a_small_log_is_left_alone(node: ManagedNode, tmp_path: Path) -> None:
    """The runtime hears nothing of it."""
    log = tmp_path / "0.log"
    log.write_text("short")
    await rotation(node).rotate([await status(node, log)])
    assert node.runtime.calls["ReopenContainerLog"] == 0


async def test_a_large_log_is_moved_aside_and_the_runtime_told(node: ManagedNode, tmp_path: Path) -> None:
    """Under a name with the time."""
    log = tmp_path / "0.log"
    log.write_text("long enough now")
    await rotation(node).rotate([await status(node, log)])
    assert not log.exists()
    (aside,) = list_rotated(log)
    assert aside.name == "0.log.20231114-221320"
    assert node.runtime.calls["ReopenContainerLog"] == 1


async def test_a_log_the_runtime_does_not_reopen_keeps_its_name(
    node: ManagedNode, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It goes on writing there."""
    log = tmp_path / "0.log"
    log.write_text("long enough now")
    node.runtime.fail("ReopenContainerLog", Code.UNKNOWN, "no")
    await rotation(node).rotate([await status(node, log)])
    assert log.read_text() == "long enough now"
    assert list_rotated(log) == []
    assert [one.message for one in caplog.records] == ["Log was not rotated"]


async def test_a_new_log_that_is_there_after_all_is_kept(
    node: ManagedNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runtime failed after it had opened it."""
    log = tmp_path / "0.log"
    log.write_text("long enough now")
    node.runtime.fail("ReopenContainerLog", Code.UNKNOWN, "no")
    real = Path.rename

    def rename(path: Path, target: Path) -> Path:
        moved = real(path, target)
        log.write_text("new")
        return moved

    monkeypatch.setattr(Path, "rename", rename)
    await rotation(node).rotate([await status(node, log)])
    assert log.read_text() == "new"
    assert len(list_rotated(log)) == 1


async def test_a_rotation_that_was_killed_half_way_is_completed(node: ManagedNode, tmp_path: Path) -> None:
    """The runtime writes to the file that was moved aside, until it is told."""
    log = tmp_path / "0.log"
    log.with_name("0.log.20260102-150405").write_text("still written to")
    await rotation(node).rotate([await status(node, log)])
    assert node.runtime.calls["ReopenContainerLog"] == 1
    assert [one.read_text() for one in list_rotated(log)] == ["still written to"]


@pytest.mark.parametrize("back", [0, 3600])
async def test_what_was_moved_aside_is_never_overwritten(node: ManagedNode, tmp_path: Path, back: int) -> None:
    """Two in one second, and a clock that was set back: the later one has the later name."""
    log = tmp_path / "0.log"
    moments = [node.clock(), node.clock() - back * 10**9]
    clocks = Clocks(now=partial(moments.pop, 0))
    twice = LogRotation(node.manager.services, clocks, LogLimits(size=10, files=5))
    for number in range(2):
        log.write_text(f"log number {number}")
        await twice.rotate([await status(node, log)])
    first, second = list_rotated(log)
    assert gzip.decompress(first.read_bytes()) == b"log number 0"
    assert second.read_text() == "log number 1"


async def test_names_that_are_no_times_are_no_obstacle(node: ManagedNode, tmp_path: Path) -> None:
    """Somebody put them there."""
    log = tmp_path / "0.log"
    log.with_name("0.log.00000000-999999").write_text("whatever")
    log.write_text("long enough now")
    await rotation(node, files=5).rotate([await status(node, log)])
    assert list_rotated(log)[-1].read_text() == "long enough now"


async def test_of_two_managers_one_rotates(node: ManagedNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one finds it locked, or done."""
    log = tmp_path / "0.log"
    log.write_text("long enough now")
    found = await status(node, log)
    reopen = node.manager.services.reopen_container_log

    async def reopened(container_id: str) -> None:
        log.write_text("the new and long one")
        await rotation(node).rotate([found])  # meanwhile
        await reopen(container_id)

    monkeypatch.setattr(node.manager.services, "reopen_container_log", reopened)
    await rotation(node).rotate([found])
    assert log.read_text() == "the new and long one"
    assert [one.read_text() for one in list_rotated(log)] == ["long enough now"]
    assert node.runtime.calls["ReopenContainerLog"] == 1


async def test_what_another_manager_has_just_rotated_is_left_alone(
    node: ManagedNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its size is looked at again when the lock is ours."""
    log = tmp_path / "0.log"
    log.write_text("long enough now")
    real = fcntl.flock

    def flock(fd: int, how: int) -> None:
        log.write_text("short")
        real(fd, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    await rotation(node).rotate([await status(node, log)])
    assert log.read_text() == "short"
    assert list_rotated(log) == []


async def test_of_old_logs_a_few_are_kept_compressed(node: ManagedNode, tmp_path: Path) -> None:
    """The newest one stays as it is until the next; the current one counts, too."""
    log = tmp_path / "0.log"
    for number in range(5):
        log.write_text(f"log number {number}")
        await rotation(node).rotate([await status(node, log)])
        node.clock.advance(60)
    names = [one.name for one in list_rotated(log)]
    assert len(names) == 2
    assert names[0].endswith(".gz")
    assert gzip.decompress((tmp_path / names[0]).read_bytes()) == b"log number 3"
    assert (tmp_path / names[1]).read_text() == "log number 4"


def test_what_is_compressed_keeps_its_time(tmp_path: Path) -> None:
    """Those who follow the log know it again by that."""
    aside = tmp_path / "0.log.20260101-000000"
    aside.write_text("one")
    os.utime(aside, ns=(1, 12345))
    remove_old_logs(tmp_path / "0.log", 5)
    assert (tmp_path / "0.log.20260101-000000.gz").stat().st_mtime_ns == 12345


async def test_only_running_containers_are_looked_at(node: ManagedNode, tmp_path: Path) -> None:
    """What has ended writes no more."""
    log = tmp_path / "0.log"
    log.write_text("long enough now")
    found = await status(node, log)
    ended = replace(found, containers=tuple(replace(one, state=ContainerState.EXITED) for one in found.containers))
    await rotation(node).rotate([ended])
    assert log.exists()


def test_what_was_left_half_done_is_completed(tmp_path: Path) -> None:
    """A compression that was cut short, and one whose source was not removed yet."""
    log = tmp_path / "0.log"
    (tmp_path / "0.log.20260101-000000").write_text("one")
    (tmp_path / "0.log.20260101-000000.gz").write_bytes(gzip.compress(b"one"))
    (tmp_path / "0.log.20260102-000000.gz.tmp").write_text("half")
    (tmp_path / "other.log.tmp").write_text("not ours")
    remove_old_logs(log, 5)
    assert [one.name for one in list_rotated(log)] == ["0.log.20260101-000000.gz"]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["0.log.20260101-000000.gz", "other.log.tmp"]
