"""Timers of daemons."""

import logging

import pytest

from interpose.cli.common import heartbeat
from interpose.cli.common.heartbeat import Heartbeat, Ticker
from interpose.testing.eventually import eventually


async def test_a_tick_that_fails_does_not_cost_the_others_theirs(caplog: pytest.LogCaptureFixture) -> None:
    """Each is called every second, and errors of the same kind are logged once."""
    ticked = 0

    def fail() -> None:
        raise OSError("no")

    def count() -> None:
        nonlocal ticked
        ticked += 1

    heart = Heartbeat([fail, count])
    with caplog.at_level(logging.ERROR):
        for _ in range(20):
            heart._beat()
    heart.stop()
    assert ticked == 2
    assert [record.message for record in caplog.records] == ["Tick failed"]


async def test_a_ticker_ticks_at_once_and_until_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first tick does not wait for the timer; without a start there is nothing to stop."""
    monkeypatch.setattr(heartbeat, "TICK", 0.001)
    ticked = 0

    def count() -> None:
        nonlocal ticked
        ticked += 1

    ticker = Ticker(count)
    ticker.stop()
    ticker.start()
    assert ticked == 1
    await eventually(lambda: ticked > 2, "more ticks")
    ticker.stop()
    assert ticker._timer is not None
    assert ticker._timer.cancelled()
