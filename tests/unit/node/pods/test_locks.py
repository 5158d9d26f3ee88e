"""One at a time acts on a pod, one manager watches."""

import os
from pathlib import Path

import pytest

from interpose.node.pods.locks import BusyPodError, PodLocks, watch_lock


async def test_one_at_a_time_has_a_pod(tmp_path: Path) -> None:
    """Other pods are not concerned; the next one gets it when it is given back."""
    ours, theirs = (PodLocks(str(tmp_path / "root/pods.lock")) for _ in range(2))
    async with ours.held("a"):
        assert theirs.take("a") is None
        async with theirs.held("b"):
            pass
    async with theirs.held("a"):
        pass


async def test_a_pod_is_waited_for_as_long_as_one_likes(tmp_path: Path) -> None:
    """Then it is said to be busy."""
    locks = PodLocks(str(tmp_path / "pods.lock"))
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async with locks.held("a"):
        with pytest.raises(BusyPodError, match="at work"):
            async with locks.held("a", patience=1.0, sleep=sleep):
                pass
    assert 0.9 < sum(slept) < 1.1


def test_where_there_can_be_no_locks_nobody_acts(tmp_path: Path) -> None:
    """The error is the system's."""
    (tmp_path / "pods.lock").mkdir()
    with pytest.raises(IsADirectoryError):
        PodLocks(str(tmp_path / "pods.lock")).take("a")


def test_one_manager_watches_a_root_and_runtime(tmp_path: Path) -> None:
    """The other one hears which process does; on another runtime it may."""
    first = watch_lock(str(tmp_path), "/run/a.sock")
    with pytest.raises(BlockingIOError, match=rf"process {os.getpid()}\)"):
        watch_lock(str(tmp_path), "/run/a.sock")
    watch_lock(str(tmp_path), "/run/b.sock").release()
    first.release()
    first.release()
    watch_lock(str(tmp_path), "/run/a.sock").release()
