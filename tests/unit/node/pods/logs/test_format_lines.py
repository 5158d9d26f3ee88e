"""Lines of container logs."""

import pytest

from interpose.node.pods.logs.format import LogLine, last_content, parse_line

STAMP = "2026-01-02T03:04:05.000000006Z"


@pytest.mark.parametrize(
    ("line", "full", "content"),
    [
        (f"{STAMP} stdout F hello world\n", True, b"hello world"),
        (f"{STAMP} stdout P hel", False, b"hel"),
        (f"{STAMP} stdout F ", True, b""),
        (f"{STAMP} stdout F", True, b""),
        (f"{STAMP} stdout F:more x  y", True, b"x  y"),
    ],
)
def test_lines_are_read(line: str, full: bool, content: bytes) -> None:
    """Full ones and parts; tags that nobody knows do not matter."""
    assert parse_line(line.encode()) == LogLine(time=STAMP, stream="stdout", full=full, content=content)


@pytest.mark.parametrize("line", ["", "x", f"{STAMP} stdin F x", f"{STAMP} stdout X x", "stdout F x", "\n"])
def test_what_is_no_line_is_none(line: str) -> None:
    """The beginning of a tail is often cut."""
    assert parse_line(line.encode()) is None


def test_the_last_words_of_a_log() -> None:
    """Parts are joined, what was cut is left out, and there is a limit."""
    text = f"ut F cut\n{STAMP} stdout F one\n{STAMP} stderr P tw\n{STAMP} stderr F o\n"
    assert last_content(text.encode(), lines=80, size=100) == "one\ntwo\n"
    assert last_content(text.encode(), lines=80, size=4) == "two\n"
    assert last_content(text.encode(), lines=1, size=100) == "o\n"
