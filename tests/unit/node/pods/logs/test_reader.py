"""Logs are read from all their files, from the end, and on while they are written."""

import gzip
import os
from pathlib import Path

import pytest

from interpose.node.pods.logs import reader
from interpose.node.pods.logs.files import LogPosition, list_earlier
from interpose.node.pods.logs.reader import LogOptions, follow_log, read_log
from interpose.node.pods.logs.rotation import remove_old_logs


def text(*lines: str, tag: str = "F") -> str:
    """Lines of a log."""
    return "".join(f"2026-01-02T03:04:05.000000001Z stdout {tag} {line}\n" for line in lines)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log in three files."""
    path = tmp_path / "0.log"
    (tmp_path / "0.log.20260101-000000.gz").write_bytes(gzip.compress(text("a", "b").encode()))
    (tmp_path / "0.log.20260102-000000").write_text(text("c", "d"))
    path.write_text(text("e", "f"))
    return path


def read(log: Path, tail: int | None = None) -> list[str]:
    """What is read."""
    return [line.content.decode() for line in read_log(str(log), LogOptions(tail=tail))]


def test_all_files_are_read_in_their_order(log: Path) -> None:
    """Oldest first."""
    assert read(log) == ["a", "b", "c", "d", "e", "f"]


@pytest.mark.parametrize("tail", [0, 1, 2, 3, 4, 5, 6, 7])
def test_the_last_lines_come_from_as_many_files_as_needed(log: Path, tail: int) -> None:
    """Exactly so many."""
    assert read(log, tail=tail) == ["a", "b", "c", "d", "e", "f"][6 - min(tail, 6) :]


def test_a_long_line_in_parts_is_one_line(log: Path) -> None:
    """Also as one of the last, over the border of two files."""
    with (log.parent / "0.log.20260102-000000").open("a") as file:
        file.write(text("x", "y", tag="P"))
    assert read(log, tail=2) == ["xye", "f"]


def test_the_end_of_a_long_log_is_found(log: Path) -> None:
    """Without reading all of it: blocks grow until they hold enough."""
    log.write_text(text(*(f"{number} {'x' * 5000}" for number in range(300))))
    lines = read(log, tail=100)
    assert [line.split()[0] for line in lines] == [str(number) for number in range(200, 300)]


def test_a_line_that_is_being_written_is_shown(log: Path) -> None:
    """As far as it is there."""
    with log.open("a") as file:
        file.write(text("half")[:-1])
    assert read(log, tail=1) == ["half"]
    assert read(log)[-1] == "half"
    with (log.parent / "0.log.20260102-000000").open("a") as file:
        file.write("cut")
    assert read(log, tail=4) == ["cut", "e", "f", "half"]


class Writer:
    """A container that writes when it is looked at, and then ends."""

    def __init__(self, log: Path, *steps: str) -> None:
        self.log = log
        self.steps = list(steps)

    async def running(self) -> bool:
        return bool(self.steps)

    async def sleep(self, _seconds: float) -> None:
        match self.steps.pop(0):
            case "rotate":
                self.log.rename(self.log.with_name("0.log.20260103-000000"))
            case words:
                with self.log.open("a") as file:
                    file.write(words)


async def follow(writer: Writer, tail: int | None = None) -> list[str]:
    """All that comes."""
    lines = follow_log(str(writer.log), LogOptions(follow=True, tail=tail), writer.running, sleep=writer.sleep)
    return [line.content.decode() async for line in lines]


async def test_a_log_is_followed_until_the_container_ends(log: Path) -> None:
    """From its beginning, or from the last lines on."""
    assert (await follow(Writer(log, text("g"), text("h"))))[-4:] == ["e", "f", "g", "h"]
    assert await follow(Writer(log, text("i")), tail=1) == ["h", "i"]


async def test_a_line_that_comes_in_pieces_is_one(log: Path) -> None:
    """Whatever the pieces are."""
    whole = text("in pieces")
    assert await follow(Writer(log, whole[:10], whole[10:40], whole[40:]), tail=0) == ["in pieces"]


async def test_a_log_that_is_rotated_meanwhile_loses_nothing(log: Path) -> None:
    """The old file is read to its end, then the new one."""
    writer = Writer(log, text("g"), "rotate", text("h"), text("i"))
    assert await follow(writer, tail=1) == ["f", "g", "h", "i"]


async def test_what_is_written_between_reading_and_rotating_is_not_lost(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runtime writes to the old file until it is told; a line that was cut there is shown, too."""
    writer = log.open("a")
    real, acts = LogPosition.following, ["rotate"]

    def following(position: LogPosition, path: Path) -> LogPosition | None:
        if acts:  # the end of the file was read just before
            acts.clear()
            writer.write(text("g"))
            log.rename(log.with_name("0.log.20260103-000000"))
            writer.write(text("h") + text("cut")[:-1])
            writer.close()
            log.write_text(text("i"))
        return real(position, path)

    monkeypatch.setattr(LogPosition, "following", following)
    assert await follow(Writer(log), tail=1) == ["f", "g", "h", "cut", "i"]


async def test_files_that_come_and_go_while_nobody_reads_are_read(log: Path) -> None:
    """Two rotations between two looks."""
    writer = Writer(log, text("g"))

    async def sleep(_seconds: float) -> None:
        writer.steps.clear()
        for day, word in ((3, "g"), (4, "h"), (5, "i")):
            with log.open("a") as file:
                file.write(text(word))
            os.rename(log, log.with_name(f"0.log.2026010{day}-000000"))  # noqa: PTH104
        remove_old_logs(log, 10)

    writer.sleep = sleep  # type: ignore[method-assign]
    assert await follow(writer, tail=1) == ["f", "g", "h", "i"]


def test_a_file_that_is_thrown_away_meanwhile_is_passed_over(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All others are shown."""
    gone = log.with_name("0.log.20260109-000000")
    monkeypatch.setattr(reader, "list_earlier", lambda path, current: [*list_earlier(path, current), gone])
    assert read(log) == ["a", "b", "c", "d", "e", "f"]
    assert read(log, tail=3) == ["d", "e", "f"]


async def test_the_last_words_are_not_lost(log: Path) -> None:
    """Written when it was asked whether it runs, and without a line feed."""
    with log.open("a") as file:
        file.write(text("bye")[:-1])
    assert await follow(Writer(log), tail=1) == ["f", "bye"]


async def test_a_log_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """Nobody waits for it."""
    with pytest.raises(FileNotFoundError):
        await follow(Writer(tmp_path / "none"))
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none")
