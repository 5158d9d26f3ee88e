"""Cgroups that come and go are told, once per burst. Plain directories stand for cgroups here."""

import asyncio
import errno
import logging
import os
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from interpose.host.cgroup.watch import CgroupWatch
from interpose.host.inotify import OVERFLOW, Event, Inotify
from interpose.testing.eventually import eventually


class ChangeCounter:
    """Counts what a watch says."""

    def __init__(self, root: Path, open_inotify: Callable[[], Inotify] = Inotify) -> None:
        self.calls = 0
        self.watch = CgroupWatch(str(root), self._note, open_inotify=open_inotify)

    def _note(self) -> None:
        self.calls += 1

    async def after(self, act: Callable[[], object]) -> None:
        """Do something and wait until it is told."""
        before = self.calls
        act()
        await eventually(lambda: self.calls > before, "a change to be told")


def state(changes: ChangeCounter) -> str:
    """What the watch says of itself."""
    return "complete" if changes.watch.complete else "incomplete"


@pytest.fixture
async def changes(tmp_path: Path) -> AsyncIterator[ChangeCounter]:
    """A watch of a tree with a pod."""
    (tmp_path / "kubepods/pod1").mkdir(parents=True)
    changes = ChangeCounter(tmp_path)
    yield changes
    changes.watch.close()


async def test_directories_made_and_removed_are_told(tmp_path: Path, changes: ChangeCounter) -> None:
    """In the directories that are followed; the root may be one of them."""
    changes.watch.follow(["", "kubepods", "kubepods/pod1"])
    await changes.after((tmp_path / "other").mkdir)
    await changes.after((tmp_path / "kubepods/pod2").mkdir)
    await changes.after((tmp_path / "kubepods/pod1/c1").mkdir)
    await changes.after((tmp_path / "kubepods/pod1/c1").rmdir)
    await changes.after(lambda: (tmp_path / "kubepods/pod2").rename(tmp_path / "kubepods/pod3"))
    assert changes.watch.complete


async def test_files_are_not_our_business(tmp_path: Path, changes: ChangeCounter) -> None:
    """Nor are directories that nobody follows any more."""
    changes.watch.follow(["kubepods", "kubepods/pod1"])
    changes.watch.follow(["kubepods"])
    (tmp_path / "kubepods/file").touch()
    (tmp_path / "kubepods/pod1/c1").mkdir()
    await changes.after((tmp_path / "kubepods/pod2").mkdir)  # comes after those in the kernel's queue
    assert changes.calls == 1


async def test_a_burst_is_told_a_few_times_only(tmp_path: Path, changes: ChangeCounter) -> None:
    """A node that starts hundreds of pods at once is one change."""
    changes.watch.follow(["kubepods"])
    for number in range(300):
        (tmp_path / f"kubepods/new{number}").mkdir()
    await changes.after((tmp_path / "kubepods/last").mkdir)
    assert changes.calls <= 3


async def test_an_endless_burst_is_told_meanwhile(tmp_path: Path, changes: ChangeCounter) -> None:
    """Quiet may never come: the call does."""
    changes.watch.follow(["kubepods"])
    for number in range(5000):
        (tmp_path / f"kubepods/new{number}").mkdir()
        await asyncio.sleep(0.001)
        if changes.calls:
            break
    assert changes.calls


async def test_a_directory_that_is_gone_is_dropped_and_followed_again_when_it_is_back(
    tmp_path: Path, changes: ChangeCounter
) -> None:
    """Whoever follows it need not know that it was another one for a moment."""
    changes.watch.follow(["kubepods", "kubepods/pod1", "kubepods/never"])
    pod = tmp_path / "kubepods/pod1"

    def replace() -> None:
        shutil.rmtree(pod)
        pod.mkdir()

    await changes.after(replace)
    await changes.after((pod / "c1").mkdir)
    await changes.after(lambda: shutil.rmtree(pod))
    changes.watch.follow(["kubepods", "kubepods/pod1"])
    await changes.after(pod.mkdir)
    assert changes.watch.complete


async def test_only_what_is_needed_is_added_and_removed(tmp_path: Path) -> None:
    """Hundreds of pods are followed; one more is one more call of the kernel."""
    (tmp_path / "kubepods/pod1").mkdir(parents=True)
    done: list[str] = []

    class Noted(Inotify):
        def add(self, directory: str, mask: int) -> int:
            done.append(f"+{Path(directory).name}")
            return super().add(directory, mask)

        def remove(self, watch: int) -> None:
            done.append("-")
            super().remove(watch)

    changes = ChangeCounter(tmp_path, Noted)
    changes.watch.follow(["kubepods"])
    changes.watch.follow(["kubepods", "kubepods/pod1"])
    changes.watch.follow(["kubepods/pod1"])
    changes.watch.close()
    assert done == ["+kubepods", "+pod1", "-"]


async def test_removing_a_watch_that_has_ended_is_fine(tmp_path: Path, changes: ChangeCounter) -> None:
    """The directory went before anybody looked."""
    changes.watch.follow(["kubepods", "kubepods/pod1"])
    shutil.rmtree(tmp_path / "kubepods/pod1")
    changes.watch.follow(["kubepods"])
    await changes.after((tmp_path / "kubepods/pod2").mkdir)


async def test_a_full_table_of_watches_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The rest is left to regular rounds; when there is room again, all is well again."""
    (tmp_path / "kubepods/pod1").mkdir(parents=True)
    room = [1]

    class Small(Inotify):
        def add(self, directory: str, mask: int) -> int:
            if not room[0]:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            room[0] -= 1
            return super().add(directory, mask)

    with caplog.at_level(logging.WARNING):
        changes = ChangeCounter(tmp_path, Small)
        changes.watch.follow(["kubepods", "kubepods/pod1"])
        assert state(changes) == "incomplete"
        await changes.after((tmp_path / "kubepods/pod2").mkdir)
        assert state(changes) == "incomplete"
        room[0] = 1
        changes.watch.follow(["kubepods", "kubepods/pod1"])
        assert state(changes) == "complete"
    changes.watch.close()
    assert len(caplog.records) == 1


async def test_without_inotify_nothing_is_told_and_one_warning_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The limit of instances per user is low on some nodes."""

    def refuse() -> Inotify:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with caplog.at_level(logging.WARNING):
        changes = ChangeCounter(tmp_path, refuse)
        changes.watch.follow(["kubepods"])
        assert not changes.watch.complete
        changes.watch.close()
    assert len(caplog.records) == 1


async def test_lost_events_count_as_a_change(tmp_path: Path) -> None:
    """What did not fit into the kernel's queue may have been ours."""
    (tmp_path / "kubepods").mkdir()

    class Lossy(Inotify):
        def read(self) -> list[Event]:
            super().read()
            return [Event(-1, OVERFLOW, "")]

    changes = ChangeCounter(tmp_path, Lossy)
    changes.watch.follow(["kubepods"])
    await changes.after((tmp_path / "kubepods/file").touch)
    changes.watch.close()


async def test_nothing_is_told_after_close(tmp_path: Path, changes: ChangeCounter) -> None:
    """Not even what happened before and waits for quiet; twice is once."""
    other = ChangeCounter(tmp_path)
    for each in (changes, other):
        each.watch.follow(["kubepods"])
    noticed = asyncio.Event()
    source = changes.watch._inotify
    assert source is not None

    def readable() -> None:
        changes.watch._readable(source)
        noticed.set()

    asyncio.get_running_loop().add_reader(source.fd, readable)
    (tmp_path / "kubepods/pod2").mkdir()
    await noticed.wait()
    changes.watch.close()
    changes.watch.close()
    await eventually(lambda: other.calls, "the other watch to tell")
    assert changes.calls == 0
    other.watch.close()


async def test_a_directory_outside_is_refused(changes: ChangeCounter) -> None:
    """A directory outside the root is refused, as everywhere."""
    with pytest.raises(ValueError, match="is not a directory below"):
        changes.watch.follow(["../etc"])
