"""What containers have written."""

import os
import threading
from pathlib import Path

import pytest

from interpose.node.runtime.cgroups.cri_stats import FsUsage
from interpose.node.runtime.fs import disk_usage
from interpose.node.runtime.fs.disk_usage import count_below, layer_sampler
from interpose.node.runtime.metrics.sampler import SampledValue
from interpose.testing.eventually import eventually


async def test_the_layer_of_a_container_is_sampled(tmp_path: Path) -> None:
    """With the time at which it was counted."""
    (tmp_path / "c").mkdir()
    (tmp_path / "c/file").touch()
    sampler, layer = layer_sampler(lambda name: tmp_path / name, now=lambda: 7), SampledValue[FsUsage]()
    try:
        await sampler.sample([("c", layer)])
        found = await eventually(lambda: layer.last, "the count")
    finally:
        sampler.close()
    assert found == FsUsage(bytes=0, inodes=1, at=7)


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
    monkeypatch.setattr(disk_usage, "_MAX_LINKED", 0)
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
