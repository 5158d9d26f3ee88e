"""Reading what h2load logs."""

from __future__ import annotations

import pytest

from tests.support.lab.load.h2load import read_log
from tests.support.lab.processes import LabError


def test_rate_spans_from_first_start_to_last_end() -> None:
    """Three calls in 1.5 ms, whatever the order of the lines."""
    timing = read_log("1000500\t200\t1000\n1000000\t200\t400\n1000400\t200\t100\n")
    assert timing.durations == [1000.0, 400.0, 100.0]
    assert timing.seconds == pytest.approx(0.0015)
    assert timing.rate == pytest.approx(2000)


@pytest.mark.parametrize("text", ["", "no log\n"])
def test_something_else_is_refused(text: str) -> None:
    """An empty or foreign file is an error, not a rate of nothing."""
    with pytest.raises(LabError, match="not a log of h2load"):
        read_log(text)
