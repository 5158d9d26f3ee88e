"""What resized containers were given."""

from pathlib import Path

import pytest

from interpose.node.pods.status.resize_record import ResizeRecord
from tests.support.node.managed_node import amounts


@pytest.fixture
def resized(tmp_path: Path) -> ResizeRecord:
    return ResizeRecord(lambda uid: str(tmp_path / uid))


def test_it_is_remembered_and_found_again(resized: ResizeRecord, tmp_path: Path) -> None:
    """By whoever comes later."""
    assert resized.of("u", "c") is None
    resized.note("u", "c", amounts(cpu=2), present={"c": None})
    assert resized.of("u", "c") == amounts(cpu=2)
    assert ResizeRecord(lambda uid: str(tmp_path / uid)).of("u", "c") == amounts(cpu=2)


def test_containers_that_are_gone_are_forgotten(resized: ResizeRecord) -> None:
    """With the next note."""
    resized.note("u", "old", amounts(cpu=1), present={})
    resized.note("u", "new", amounts(cpu=1), present={"new": None})
    assert resized.of("u", "old") is None


def test_a_pod_that_is_gone_is_forgotten(resized: ResizeRecord, tmp_path: Path) -> None:
    """Its folder was removed before."""
    resized.note("u", "c", amounts(cpu=1), present={})
    (tmp_path / "u" / "resized.json").unlink()
    assert resized.of("u", "c") is not None
    resized.forget("u")
    resized.forget("u")
    assert resized.of("u", "c") is None


@pytest.mark.parametrize("text", ["", "[]", "{", '{"c": 1}', '{"c": "{"}'])
def test_a_file_that_makes_no_sense_counts_as_none(resized: ResizeRecord, tmp_path: Path, text: str) -> None:
    """The runtime is then told once more."""
    (tmp_path / "u").mkdir()
    (tmp_path / "u" / "resized.json").write_text(text)
    assert resized.of("u", "c") is None


def test_a_disk_that_takes_nothing_does_not_matter_now(tmp_path: Path) -> None:
    """It is known as long as the manager lives."""
    (tmp_path / "file").write_text("")
    resized = ResizeRecord(lambda uid: str(tmp_path / "file" / uid))
    resized.note("u", "c", amounts(cpu=1), present={})
    assert resized.of("u", "c") == amounts(cpu=1)
