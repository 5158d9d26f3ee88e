"""Numbers from /proc, real and made up."""

import os
from pathlib import Path

import pytest

from tests.support.process_cost import cpu_seconds, open_fds, rss_bytes


def test_resident_memory_of_this_process_is_plausible() -> None:
    """A running Python has some megabytes, by either of its names."""
    for pid in ("self", os.getpid()):
        rss = rss_bytes(pid)
        assert rss is not None
        assert 5_000_000 < rss < 10_000_000_000


def test_cpu_time_agrees_with_the_process_clock() -> None:
    """The same clock, in ticks of 10 ms."""
    now = os.times()
    seconds = cpu_seconds()

    assert seconds is not None
    assert seconds == pytest.approx(now.user + now.system, abs=0.1)


def test_opening_a_file_is_seen() -> None:
    """The count follows, and the listing itself does not count."""
    before = open_fds()
    assert before is not None
    fd = os.open("/dev/null", os.O_RDONLY)
    assert open_fds() == before + 1
    assert open_fds(os.getpid()) == before + 1
    os.close(fd)
    assert open_fds() == before


def test_a_command_name_with_blanks_and_parentheses_does_not_shift_the_fields(tmp_path: Path) -> None:
    """The kernel does not escape the name."""
    (tmp_path / "7").mkdir()
    ticks = os.sysconf("SC_CLK_TCK")
    (tmp_path / "7" / "stat").write_text(f"7 (a) b (c) S 1 7 7 0 -1 0 1 2 3 4 {3 * ticks} {2 * ticks} 0 0 20 0 1 0")

    assert cpu_seconds(7, proc=tmp_path) == 5.0


def test_memory_is_counted_in_pages_and_fds_of_others_in_full(tmp_path: Path) -> None:
    """The second number of statm times the page size; another process's listing needs no correction."""
    (tmp_path / "7" / "fd").mkdir(parents=True)
    (tmp_path / "7" / "fd" / "0").touch()
    (tmp_path / "7" / "statm").write_text("900 10 5 1 0 100 0\n")

    assert rss_bytes(7, proc=tmp_path) == 10 * os.sysconf("SC_PAGE_SIZE")
    assert open_fds(7, proc=tmp_path) == 1


def test_what_cannot_be_read_is_none(tmp_path: Path) -> None:
    """A missing or damaged file gives no value and no error."""
    assert (rss_bytes(1, proc=tmp_path), cpu_seconds(1, proc=tmp_path), open_fds(1, proc=tmp_path)) == (None,) * 3

    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "statm").write_text("x")
    (tmp_path / "1" / "stat").write_text("1 (x) S 1")
    assert (rss_bytes(1, proc=tmp_path), cpu_seconds(1, proc=tmp_path)) == (None, None)
