"""A watched directory tells of everything that may matter, once per burst. Timers are off where they are no subject."""

import asyncio
import errno
import logging
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interpose.host import dirwatch
from interpose.host.dirwatch import DirWatch
from interpose.host.inotify import Inotify
from interpose.testing.eventually import eventually

NEVER = 3600.0
QUEUE = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())


class ChangeCounter:
    """Counts what the watch says."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1

    async def after(self, act: Callable[[], object]) -> None:
        """Do something and wait until the watch has told of it."""
        before = self.calls
        act()
        await eventually(lambda: self.calls > before, "a change to be told")


@asynccontextmanager
async def watching(directory: Path, **options: object) -> AsyncIterator[ChangeCounter]:
    """A watch that is set."""
    changes = ChangeCounter()
    watch = DirWatch(str(directory), changes, **{"interval": NEVER, "poll_interval": NEVER} | options)  # type: ignore[arg-type]
    await eventually(lambda: changes.calls, "the first call")
    yield changes
    watch.close()


async def test_everything_that_happens_to_a_file_is_told(tmp_path: Path) -> None:
    """Created, edited in place, given other permissions, renamed in, over and out, deleted."""
    hooks, outside = tmp_path / "hooks.d", tmp_path / "outside"
    hooks.mkdir()
    outside.write_text("x")
    file = hooks / "a.json"
    async with watching(hooks) as changes:
        await changes.after(lambda: file.write_text("1"))
        await changes.after(lambda: file.write_text("2"))
        await changes.after(lambda: os.truncate(file, 0))
        await changes.after(lambda: file.chmod(0o666))
        await changes.after(lambda: outside.rename(file))
        await changes.after(lambda: file.rename(hooks / "b.json"))
        await changes.after(lambda: (hooks / "b.json").rename(outside))
        await changes.after(lambda: (hooks / "c.json").symlink_to(outside))
        await changes.after((hooks / "c.json").unlink)


async def test_the_directory_may_come_and_go(tmp_path: Path) -> None:
    """It is created with its parents, renamed, put back, deleted and made again; files in it are noticed each time."""
    hooks = tmp_path / "etc/runtime/hooks.d"
    async with watching(hooks) as changes:
        for _ in range(2):
            await changes.after(lambda: hooks.mkdir(parents=True))
            await changes.after(lambda: (hooks / "a.json").touch())
            await changes.after(lambda: hooks.chmod(0o700))
            await changes.after(lambda: hooks.rename(tmp_path / "away"))
            await changes.after(lambda: (tmp_path / "away").rename(hooks))
            await changes.after(lambda: (hooks / "b.json").touch())
            await changes.after(lambda: (tmp_path / "etc").rename(tmp_path / "old"))
            await changes.after(lambda: (tmp_path / "old").rename(tmp_path / "etc"))
            await changes.after(lambda: (hooks / "c.json").touch())
            await changes.after(lambda: shutil.rmtree(tmp_path / "etc"))


async def test_a_swapped_link_to_the_directory_is_told(tmp_path: Path) -> None:
    """And from then on what happens behind the new one."""
    for name in ("v1", "v2"):
        (tmp_path / name).mkdir()
    hooks, fresh = tmp_path / "hooks.d", tmp_path / "fresh"
    hooks.symlink_to("v1")
    fresh.symlink_to("v2")
    async with watching(hooks) as changes:
        await changes.after(lambda: (tmp_path / "v1/a.json").touch())
        await changes.after(lambda: fresh.rename(hooks))
        await changes.after(lambda: (tmp_path / "v2/a.json").touch())


async def test_the_swap_of_a_config_map_is_told(tmp_path: Path) -> None:
    """The kubelet writes a new folder and renames the link `..data`, again and again."""
    (tmp_path / "..v0").mkdir()
    (tmp_path / "..v0/a.json").touch()
    (tmp_path / "..data").symlink_to("..v0")
    (tmp_path / "a.json").symlink_to("..data/a.json")

    def swap(version: int) -> None:
        (tmp_path / f"..v{version}").mkdir()
        (tmp_path / f"..v{version}/a.json").touch()
        (tmp_path / "..data_tmp").symlink_to(f"..v{version}")
        (tmp_path / "..data_tmp").rename(tmp_path / "..data")
        shutil.rmtree(tmp_path / f"..v{version - 1}")

    async with watching(tmp_path) as changes:
        for version in (1, 2):
            await changes.after(lambda version=version: swap(version))  # type: ignore[misc]
            await changes.after(lambda version=version: (tmp_path / f"..v{version}/a.json").write_text("x"))  # type: ignore[misc]


async def test_a_file_behind_a_link_is_watched_where_it_is(tmp_path: Path) -> None:
    """Edited, replaced, deleted, made again, and the folder's permissions."""
    hooks, package = tmp_path / "hooks.d", tmp_path / "opt/package"
    hooks.mkdir()
    package.mkdir(parents=True)
    (hooks / "a.json").symlink_to(package / "a.json")
    async with watching(hooks) as changes:
        await changes.after(lambda: (package / "a.json").touch())
        await changes.after(lambda: (package / "a.json").write_text("x"))
        await changes.after(lambda: package.chmod(0o777))
        await changes.after((package / "a.json").unlink)
        await changes.after(lambda: package.rename(tmp_path / "opt/other"))


async def test_other_files_around_are_not_our_business(tmp_path: Path) -> None:
    """Directories above are watched for one name only."""
    hooks = tmp_path / "hooks.d"
    hooks.mkdir()
    async with watching(hooks) as changes:
        await changes.after(lambda: (hooks / "a").touch())
        before = changes.calls
        for number in range(20):
            (tmp_path / f"noise{number}").touch()
        # A change that does matter comes after all of those in the queue.
        await changes.after(lambda: (hooks / "b").touch())
        assert changes.calls == before + 1


async def test_a_burst_is_told_a_few_times_only(tmp_path: Path) -> None:
    """Hundreds of changes in one go are one or two calls, not hundreds."""
    async with watching(tmp_path) as changes:
        before = changes.calls
        for number in range(300):
            (tmp_path / f"{number}.json").touch()
        await changes.after(lambda: (tmp_path / "last.json").touch())
        assert changes.calls - before <= 3


async def test_an_endless_burst_is_told_meanwhile(tmp_path: Path) -> None:
    """Quiet may never come: the call does."""
    async with watching(tmp_path) as changes:
        before = changes.calls
        for number in range(5000):
            (tmp_path / f"{number % 10}.json").touch()
            await asyncio.sleep(0.001)
            if changes.calls > before:
                break
        assert changes.calls > before


async def test_lost_events_count_as_a_change(tmp_path: Path) -> None:
    """The queue of the kernel is finite; what did not fit may have been ours."""
    hooks = tmp_path / "hooks.d"
    hooks.mkdir()
    if QUEUE > 100_000:
        pytest.skip("the queue is too long to fill")
    names = (tmp_path / "x", tmp_path / "y")
    names[0].touch()
    async with watching(hooks) as changes:

        def flood() -> None:
            for _ in range(QUEUE // 4 + 1):  # two events each, none of them of interest
                names[0].rename(names[1])
                names[1].rename(names[0])

        await changes.after(flood)


async def test_without_inotify_there_is_a_poll_and_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The limit of instances per user is low on some nodes."""

    def refuse() -> Inotify:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with caplog.at_level(logging.WARNING):
        async with watching(tmp_path, open_inotify=refuse, poll_interval=0.01) as changes:
            await eventually(lambda: changes.calls > 3, "polls")
    assert [record.getMessage().partition(",")[0] for record in caplog.records] == ["Cannot watch directory"]


async def test_without_watches_there_is_a_poll_and_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The limit of watches per user may be reached as well."""

    class Full(Inotify):
        def add(self, directory: str, mask: int) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with caplog.at_level(logging.WARNING):
        async with watching(tmp_path, open_inotify=Full, poll_interval=0.01) as changes:
            await eventually(lambda: changes.calls > 3, "polls")
    assert len(caplog.records) == 1


async def test_there_is_a_call_now_and_then_without_a_reason(tmp_path: Path) -> None:
    """For mounts and file systems the kernel says nothing about."""
    async with watching(tmp_path, interval=0.01) as changes:
        await eventually(lambda: changes.calls > 3, "looks")


async def test_a_file_system_that_hangs_does_not_stop_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking is done elsewhere; closing meanwhile leaves the descriptor to the thread."""
    reached, release, closed = asyncio.Event(), asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def hang(directory: str) -> dict[str, object]:
        loop.call_soon_threadsafe(reached.set)
        asyncio.run_coroutine_threadsafe(release.wait(), loop).result()
        return {}

    class Noted(Inotify):
        def close(self) -> None:
            super().close()
            loop.call_soon_threadsafe(closed.set)

    monkeypatch.setattr(dirwatch, "watch_plan", hang)
    changes = ChangeCounter()
    watch = DirWatch(str(tmp_path), changes, open_inotify=Noted)
    await reached.wait()
    watch.close()
    assert not closed.is_set()
    release.set()
    await closed.wait()
    assert changes.calls == 0


async def test_nothing_is_told_after_close(tmp_path: Path) -> None:
    """Not even what happened before and waits for quiet; the descriptor is given back; twice is once."""
    changes = ChangeCounter()
    watch = DirWatch(str(tmp_path), changes, interval=NEVER)
    await eventually(lambda: changes.calls, "the first call")
    other = ChangeCounter()
    second = DirWatch(str(tmp_path), other, interval=NEVER)
    await eventually(lambda: other.calls, "the first call")
    (tmp_path / "a").touch()
    watch.close()
    watch.close()
    before = changes.calls
    await eventually(lambda: other.calls > 1, "the other watch to tell")
    assert changes.calls == before
    second.close()


async def test_a_failure_of_the_listener_does_not_end_the_watch(tmp_path: Path) -> None:
    """It is reported by the loop, and the next change is told as well."""
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    calls = 0

    def fail() -> None:
        nonlocal calls
        calls += 1
        raise RuntimeError("listener")

    watch = DirWatch(str(tmp_path), fail, interval=NEVER)
    await eventually(lambda: calls, "the first call")
    (tmp_path / "a").touch()
    await eventually(lambda: calls > 1, "the second call")
    watch.close()
