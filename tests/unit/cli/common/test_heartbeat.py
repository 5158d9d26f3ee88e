"""The pulse of the relay."""

import logging

import pytest

from interpose.cli.common.heartbeat import Heartbeat


async def test_a_tick_that_fails_does_not_cost_the_others_theirs(caplog: pytest.LogCaptureFixture) -> None:
    """Each is called every second, and trouble of the same kind is told once."""
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
    assert [one.message for one in caplog.records] == ["Tick failed"]
