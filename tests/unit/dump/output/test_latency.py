"""How long calls took."""

import pytest

from interpose.dump.model.call import Assembler, CallEventKind
from interpose.dump.model.frames import Begin, End
from interpose.dump.output.latency import (
    ASCII_BARS,
    BARS,
    LatencyCounter,
    LatencyRow,
    Scale,
    latency_lines,
    scale_of,
    summary,
)
from interpose.testing.recordings import Script, story_frames


def latency(*calls: tuple[str, float], code: int = 0) -> LatencyCounter:
    """Calls with milliseconds."""
    script = Script()
    for name, elapsed in calls:
        script.call(name, b"", b"", elapsed=elapsed, code=code)
    return counted(script)


def counted(script: Script) -> LatencyCounter:
    """The calls of a script, those that end and those that do not."""
    found = LatencyCounter()
    assembler = Assembler()
    for event in assembler.feed_all(script.frames):
        if event.kind is CallEventKind.END and event.flow is not None:
            found.add(event.flow)
    for flow in assembler.open.values():
        found.add(flow)
    return found


def test_percentiles_are_calls_that_were_made() -> None:
    """The smallest that so many percent do not exceed."""
    (row,) = latency(*(("Version", number) for number in range(1, 101))).rows()
    assert [row.percentile(percent) for percent in (0, 1, 50, 90, 99, 100)] == [
        number * 1_000_000 for number in (1, 1, 50, 90, 99, 100)
    ]


def test_methods_are_ordered_by_the_time_they_took() -> None:
    """All calls of a method together; streams are last and have no durations."""
    found = latency(("Version", 1), ("Version", 2), ("PullImage", 2.5), ("GetContainerEvents", 5000))
    assert [(row.method, row.stream) for row in found.rows()] == [
        ("Version", False),
        ("PullImage", False),
        ("GetContainerEvents", True),
    ]
    assert found.rows()[-1].durations == []


def test_failures_and_calls_in_flight_are_counted() -> None:
    """What never ended has no duration."""
    script = Script()
    script.call("Version", b"", code=13)
    script.begin("Version", b"")
    (row,) = counted(script).rows()
    assert (row.calls, row.errors, row.unfinished, len(row.durations)) == (2, 1, 1, 1)
    assert summary([row]) == {"methods": 1, "calls": 2, "errors": 1, "unfinished": 1}


@pytest.mark.parametrize(
    ("durations", "first", "last"),
    [([1_500_000], 10**6, 10**7), ([10**6], 10**6, 10**7), ([0], 1, 10), ([999, 10**9], 100, 10**10)],
)
def test_a_scale_has_whole_powers_of_ten(durations: list[int], first: int, last: int) -> None:
    """Around everything that was measured."""
    row = LatencyRow(method="a", calls=1, errors=0, unfinished=0, stream=False, durations=durations)
    scale = scale_of([row])
    assert scale is not None
    assert (scale.first, scale.last) == (first, last)
    assert sum(scale.counts(durations)) == len(durations)


def test_steps_of_a_scale_are_factors() -> None:
    """What is outside counts to the nearest."""
    scale = Scale(first=10**3, last=10**6, steps=30)
    assert [scale.step(one) for one in (0, 10**3, 10**4, 10**5, 10**6, 10**9)] == [0, 0, 10, 20, 29, 29]
    assert scale.marks() == [(0, "1µs"), (pytest.approx(1 / 3), "10µs"), (pytest.approx(2 / 3), "100µs"), (1, "1ms")]
    assert Scale(first=10, last=10**10, steps=9).marks()[0] == (0, "10ns")
    assert Scale(first=10, last=10**10, steps=9).marks()[-1] == (1, "10s")


def test_the_table_has_numbers_and_bars() -> None:
    """On one scale for all methods."""
    lines = latency_lines(latency(("Version", 0.4), ("Version", 0.5), ("PullImage", 2310)).rows(), width=120)
    assert lines[0].split()[:8] == ["METHOD", "CALLS", "ERRORS", "MIN", "P50", "P90", "P99", "MAX"]
    assert lines[0].split()[8:] == ["100µs", "1ms", "10ms", "100ms", "1s", "10s"]
    assert lines[1].split()[:4] == ["PullImage", "1", "-", "2.31s"]
    assert lines[1].index("█") > lines[2].index("█")
    assert all(len(line) <= 120 for line in lines)


def test_a_rare_call_is_seen_next_to_many() -> None:
    """The lowest bar is for one in thousands."""
    lines = latency_lines(latency(*[("Version", 1.0)] * 500, ("Version", 900.0)).rows(), width=100)
    assert BARS[1] in lines[1]
    assert BARS[-1] in lines[1]


def test_without_unicode_there_are_other_bars() -> None:
    """Nothing but ASCII is left."""
    found = latency(("Version", 0.4), ("PullImage", 2310), ("M" * 40, 0.001)).rows()
    text = "\n".join(latency_lines(found, width=100, ascii_only=True))
    assert text.isascii()
    assert ASCII_BARS[-1] in text


def test_what_has_no_duration_says_why() -> None:
    """A stream, or nothing that ended."""
    script = Script()
    script.begin("GetContainerEvents", b"")
    script.begin("StopContainer", b"")
    lines = latency_lines(counted(script).rows(), width=100)
    assert lines[1].endswith("(1 not over)")
    assert lines[2].endswith("(stream, 1 not over)")


def test_no_calls_make_no_table() -> None:
    """But a word."""
    assert latency_lines([], width=80) == ["No calls."]


@pytest.mark.parametrize("width", [20, 80, 200, 1000])
def test_the_story_fits_any_width(width: int) -> None:
    """Bars have a least and a greatest width."""
    script = Script()
    script.frames = story_frames()
    lines = latency_lines(counted(script).rows(), width=width)
    assert len(lines) == 15
    assert max(map(len, lines)) < 170


def test_calls_of_docker_are_counted_by_sort() -> None:
    """Not one row for each container."""
    assembler, found = Assembler(), LatencyCounter()
    for number, name in enumerate(("a", "b"), 1):
        assembler.feed(Begin(number=number, time=0, path=f"/docker/GET /v1.41/containers/{name}/json"))
        (event,) = assembler.feed_all([End(number=number, elapsed=1000, code=0)])
        assert event.flow is not None
        found.add(event.flow)
    (row,) = found.rows()
    assert (row.method, row.calls) == ("GET /containers/{id}/json", 2)
