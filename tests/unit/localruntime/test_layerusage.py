"""What containers have written, and who counts it when."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interpose.localruntime import layerusage
from interpose.localruntime.layerusage import Layer, LayerUsage, count_below
from interpose.testing.eventually import WAIT_LIMIT, eventually


class Counting:
    """Counts are as long as they are told to be."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.go.set()
        self.counted: list[str] = []
        self.time = 100.0
        self.takes = 0.0

    def count(self, folder: Path, _stop: threading.Event) -> tuple[int, int]:
        self.counted.append(folder.name)
        self.go.wait(WAIT_LIMIT)
        self.time += self.takes
        return 1000 * len(self.counted), len(self.counted)


@pytest.fixture
def counting() -> Counting:
    """With counts that end at once."""
    return Counting()


@pytest.fixture
async def usage(counting: Counting) -> AsyncIterator[LayerUsage]:
    """Somebody waits two hundredths of a second for a count."""
    made = LayerUsage(Path, now=lambda: 7, clock=lambda: counting.time, patience=0.02, count=counting.count)
    yield made
    counting.go.set()
    made.close()


async def test_all_who_ask_share_one_count(usage: LayerUsage, counting: Counting) -> None:
    """And nobody waits for it longer than a moment: at first nothing is known."""
    counting.go.clear()
    layer = Layer()
    answers = await asyncio.gather(*(usage.of([("c", layer)]) for _ in range(12)))
    assert answers == [[None]] * 12
    assert counting.counted == ["c"]
    counting.go.set()
    await eventually(lambda: layer.last, "the count")
    (found,) = await usage.of([("c", layer)])
    assert found is not None
    assert (found.bytes, found.inodes, found.at) == (1000, 1, 7)


async def test_a_count_is_good_for_a_while(usage: LayerUsage, counting: Counting) -> None:
    """Ten seconds; then it is counted again, and the answer is the new one if that is quick."""
    layer = Layer()
    await usage.of([("c", layer)])
    await eventually(lambda: layer.last, "the count")
    counting.time += 9.9
    await usage.of([("c", layer)])
    assert counting.counted == ["c"]
    counting.time += 0.1
    await usage.of([("c", layer)])
    await eventually(lambda: layer.last is not None and layer.last.inodes == 2, "the second count")


async def test_the_last_value_is_served_while_a_long_count_runs(usage: LayerUsage, counting: Counting) -> None:
    """A count of a minute is good for ten, and whoever asks in the meantime has the old one at once."""
    layer = Layer()
    counting.takes = 60.0
    await usage.of([("c", layer)])
    await eventually(lambda: layer.last, "the count")
    counting.time += 599.0
    await usage.of([("c", layer)])
    assert counting.counted == ["c"]
    counting.time += 1.0
    counting.go.clear()
    (found,) = await usage.of([("c", layer)])
    assert found is not None
    assert found.inodes == 1


async def test_a_long_count_does_not_keep_others(usage: LayerUsage, counting: Counting) -> None:
    """There is a second thread; and none of them is one that records or other files need."""
    counting.go.clear()
    await usage.of([("big", Layer())])
    await eventually(lambda: counting.counted, "the first count to begin")
    assert await asyncio.to_thread(lambda: "free") == "free"
    await usage.of([("small", Layer())])
    await eventually(lambda: counting.counted == ["big", "small"], "the second count to begin")


async def test_nothing_is_counted_after_the_end(usage: LayerUsage, counting: Counting) -> None:
    """What was known is still said."""
    usage.close()
    assert await usage.of([("c", Layer())]) == [None]
    assert counting.counted == []


def test_names_and_files(tmp_path: Path) -> None:
    """A file with two names counts once, folders count, links are not followed; nothing there is nothing."""
    never = threading.Event()
    assert count_below(tmp_path / "none", never) == (0, 0)
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/file").write_bytes(b"x" * 100_000)
    os.link(tmp_path / "a/file", tmp_path / "a/b/same")
    (tmp_path / "away").symlink_to("/")
    size, files = count_below(tmp_path, never)
    assert files == 4
    assert 100_000 <= size < 200_000


def test_more_linked_files_than_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Count more than once rather than take all the memory."""
    monkeypatch.setattr(layerusage, "_MOST_LINKED", 0)
    (tmp_path / "file").touch()
    os.link(tmp_path / "file", tmp_path / "same")
    assert count_below(tmp_path, threading.Event())[1] == 2


def test_deeper_than_a_path_may_be(tmp_path: Path) -> None:
    """Nothing is hidden below folders whose path is longer than the kernel takes."""
    name, depth = "d" * 200, 30
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=here)
        inner = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(os.open("last", os.O_CREAT, dir_fd=here))
    os.close(here)
    assert count_below(tmp_path, threading.Event())[1] == depth + 1


def test_a_count_can_be_ended(tmp_path: Path) -> None:
    """In the middle of a folder, too."""
    for number in range(300):
        (tmp_path / str(number)).touch()
    stop = threading.Event()
    stop.set()
    assert count_below(tmp_path, stop) == (0, 0)
