"""Lines of logs are joined, and old ones left out."""

import pytest

from interpose.node.pods.logs.format import LogLineJoiner, is_line_end, nanoseconds

T = "2026-01-02T03:04:05.000000001Z"
EPOCH = 1767323045


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (T, EPOCH * 10**9 + 1),
        ("2026-01-02T03:04:05Z", EPOCH * 10**9),
        ("2026-01-02T04:04:05.5+01:00", EPOCH * 10**9 + 500_000_000),
        ("2026-01-02T02:34:05-00:30", EPOCH * 10**9),
        ("2026-13-02T03:04:05Z", None),
        ("yesterday", None),
    ],
)
def test_times_of_logs_are_read(text: str, expected: int | None) -> None:
    """In both forms, to the nanosecond."""
    assert nanoseconds(text) == expected


def line(content: str, tag: str = "F", stream: str = "stdout", time: str = T) -> bytes:
    """A line of a log."""
    return f"{time} {stream} {tag} {content}".encode()


def test_parts_are_joined_for_each_stream() -> None:
    """Those of the other stream may come in between."""
    joiner = LogLineJoiner()
    raw = [line("a", "P"), line("x", stream="stderr"), line("b", "P"), line("c")]
    assert [(one.stream, one.content) for one in joiner.feed(raw)] == [("stderr", b"x"), ("stdout", b"abc")]


def test_a_line_whose_end_does_not_come_is_given_at_the_end() -> None:
    """Without a line feed."""
    joiner = LogLineJoiner()
    assert list(joiner.feed([line("a", "P")])) == []
    assert [(one.content, one.full) for one in joiner.rest()] == [(b"a", False)]
    assert list(joiner.rest()) == []


def test_what_is_no_line_of_a_log_is_shown_as_it_is() -> None:
    """Nothing is hidden but emptiness."""
    assert [one.content for one in LogLineJoiner().feed([b"panic: x", b""])] == [b"panic: x"]


def test_old_lines_are_left_out() -> None:
    """A line whose time cannot be read counts as new."""
    joiner = LogLineJoiner(since=EPOCH * 10**9)
    raw = [line("old", time="2026-01-02T03:04:04Z"), line("new"), line("odd", time="noon")]
    assert [one.content for one in joiner.feed(raw)] == [b"new", b"odd"]
    assert list(joiner.feed([line("o", "P", time="2026-01-02T03:04:04Z")])) == []
    assert list(joiner.rest()) == []


def test_a_line_without_end_is_cut() -> None:
    """A container must not fill our memory."""
    joiner = LogLineJoiner()
    part = line("x" * (1 << 20), "P")
    assert [len(one.content) for one in joiner.feed([part] * 17)] == [16 << 20]


def test_only_the_end_of_a_line_counts() -> None:
    """For who wants the last lines."""
    assert is_line_end(line("a"))
    assert is_line_end(b"panic")
    assert not is_line_end(line("a", "P"))
