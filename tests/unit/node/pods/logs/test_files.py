"""The files that a log consists of, while they change."""

import gzip
import os
from pathlib import Path

import pytest

from interpose.node.pods.logs.files import LogPosition, first, list_earlier, list_rotated, open_aside, stamp_of
from interpose.node.pods.logs.rotation import remove_old_logs


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The current one, and one before it."""
    path = tmp_path / "0.log"
    path.write_text("a")
    aside(path, 1)
    path.write_text("b")
    return path


def aside(path: Path, day: int) -> Path:
    """Move the current one aside."""
    return path.rename(path.with_name(f"0.log.2026010{day}-000000"))


def content(position: LogPosition | None) -> bytes:
    """What is in a file that was opened."""
    assert position is not None
    with position.file as file:
        return file.read()


def test_other_files_are_no_rotated_logs(tmp_path: Path) -> None:
    """Neither is what is not there."""
    (tmp_path / "0.log.old").write_text("x")
    (tmp_path / "10.log.20260101-000000").write_text("x")
    assert list_rotated(tmp_path / "0.log") == []
    assert list_rotated(tmp_path / "none" / "0.log") == []


def test_the_time_of_a_file_is_in_its_name() -> None:
    """Compressed or not."""
    assert stamp_of(Path("/l/0.log.20260101-000000")) == "20260101-000000"
    assert stamp_of(Path("/l/0.log.20260101-000000.gz")) == "20260101-000000"


def test_a_file_that_is_compressed_meanwhile_is_found(tmp_path: Path) -> None:
    """One that is gone is not."""
    (tmp_path / "0.log.20260101-000000.gz").write_bytes(gzip.compress(b"x"))
    with open_aside(tmp_path / "0.log.20260101-000000") as file:
        assert file.read() == b"x"
    with pytest.raises(FileNotFoundError):
        open_aside(tmp_path / "0.log.20260102-000000")


def test_files_that_came_after_the_open_one_are_no_earlier_ones(log: Path) -> None:
    """It was moved aside, and its successor too."""
    with log.open("rb") as current:
        aside(log, 2)
        log.write_text("c")
        aside(log, 3)
        assert [stamp_of(one) for one in list_earlier(log, current)] == ["20260101-000000"]


def test_there_is_nothing_after_the_current_file(log: Path) -> None:
    """Nor while it is moved aside and the runtime has not been told."""
    with log.open("rb") as current:
        position = first(log, current)
        assert position.following(log) is None
        aside(log, 2)
        assert position.following(log) is None


def test_the_new_file_comes_after_the_one_that_was_moved_aside(log: Path) -> None:
    """Once it is there."""
    with log.open("rb") as current:
        position = first(log, current)
        aside(log, 2)
        log.write_text("c")
        assert content(position.following(log)) == b"c"


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("packed", [True, False])
def test_no_file_between_is_left_out(log: Path, packed: bool, there: bool) -> None:
    """A reader that was slow goes through all of them, compressed or not, and whether there is a current one or not."""
    with log.open("rb") as current:
        position = first(log, current)
        for day, text in ((2, "c"), (3, "d"), (4, "e")):
            aside(log, day)
            log.write_text(text)
        if packed:
            remove_old_logs(log, 5)
        if not there:
            aside(log, 5)
        seen = []
        while (following := position.following(log)) is not None:
            position.file.close()
            position = following
            seen.append(position.file.read())
        position.file.close()
        assert seen == [b"c", b"d", b"e"]


def test_a_file_that_was_thrown_away_is_followed_by_what_is_left(log: Path) -> None:
    """It was too old to be kept."""
    with log.open("rb") as current:
        position = first(log, current)
        thrown = aside(log, 2)
        log.write_text("c")
        aside(log, 3)
        log.write_text("d")
        thrown.unlink()
        assert content(position.following(log)) == b"c"


def test_the_new_file_may_be_moved_aside_while_it_is_opened(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is still the next one, and the one after it is not left out."""
    with log.open("rb") as current:
        position = first(log, current)
        aside(log, 2)
        log.write_text("c")
        real = os.scandir

        def scandir(path: Path) -> object:
            if log.exists() and log.read_text() == "c":
                aside(log, 3)
                log.write_text("d")
            return real(path)

        monkeypatch.setattr(os, "scandir", scandir)
        following = position.following(log)
        assert following is not None
        assert following.file.read() == b"c"
        assert content(following.following(log)) == b"d"
        following.file.close()
