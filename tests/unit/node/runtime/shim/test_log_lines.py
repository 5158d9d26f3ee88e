"""Log lines as CRI wants them."""

import pytest

from interpose.node.runtime.shim.log import LogLines, stamp

AT = 1475713029669794202
WHEN = b"2016-10-06T00:17:09.669794202Z"


def test_a_time_has_nine_digits_and_is_utc() -> None:
    """Also when they are zeros."""
    assert stamp(AT) == WHEN
    assert stamp(0) == b"1970-01-01T00:00:00.000000000Z"


def test_whole_lines_are_written() -> None:
    """Several in one piece; a carriage return is part of the end, elsewhere it is text."""
    assert LogLines("stdout").feed(b"one\nt\rwo\r\n\n", AT) == b"".join(
        WHEN + b" stdout F " + line + b"\n" for line in (b"one", b"t\rwo", b"")
    )


def test_a_line_without_end_waits() -> None:
    """It is written once its end comes, with the time of that."""
    lines = LogLines("stderr")

    assert lines.feed(b"half", 0) == b""
    assert lines.feed(b" done\n", AT) == WHEN + b" stderr F half done\n"


def test_what_is_left_at_the_end_is_a_part() -> None:
    """A line that was not ended; and nothing if nothing is left."""
    lines = LogLines("stdout")
    lines.feed(b"left", 0)

    assert lines.end(AT) == WHEN + b" stdout P left\n"
    assert lines.end(AT) == b""


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"abcd\n", [b"F abcd"]),
        (b"abcdefgh\n", [b"P abcd", b"F efgh"]),
        (b"abcdefghi\n", [b"P abcd", b"P efgh", b"F i"]),
        (b"abcdefghi", [b"P abcd", b"P efgh"]),
        (b"abcd", []),
    ],
)
def test_long_lines_are_written_in_parts(data: bytes, expected: list[bytes]) -> None:
    """A part is as long as the limit; the last one is marked as the end. Not more than a limit is kept."""
    got = LogLines("stdout", limit=4).feed(data, AT)

    assert got == b"".join(WHEN + b" stdout " + line + b"\n" for line in expected)
