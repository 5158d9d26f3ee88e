"""When rounds happen."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from interpose.hooks.server.reconcile import scheduler as module
from interpose.hooks.server.reconcile.scheduler import TICK, ReconcileLoop
from interpose.testing.eventually import eventually

_NEVER = 3600.0


class Work:
    """Rounds that remember their reasons, fail as often as told, and take until somebody lets them go."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.failures = 0
        self.free = asyncio.Event()
        self.free.set()
        self.at_once = 0
        self.most_at_once = 0
        self.finished = 0

    async def __call__(self, reason: str) -> None:
        self.reasons.append(reason)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.free.wait()
            if self.failures:
                self.failures -= 1
                raise OSError("no luck")
            self.finished += 1
        finally:
            self.at_once -= 1

    async def happened(self, times: int) -> None:
        """Wait for so many rounds to have begun and ended."""
        await eventually(lambda: len(self.reasons) >= times and not self.at_once, f"{times} rounds")


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for the pause after a failure."""
    monkeypatch.setattr(module, "_FIRST_PAUSE", 0.0)


@pytest.fixture
async def work() -> Work:
    """Made in the loop of the test."""
    return Work()


@pytest.fixture
async def rounds(work: Work) -> AsyncIterator[ReconcileLoop]:
    """Without a tick."""
    made = ReconcileLoop(work, _NEVER)
    yield made
    await made.close()


async def test_it_begins_with_a_round(work: Work, rounds: ReconcileLoop) -> None:
    """Nobody has to say so."""
    rounds.start()
    await work.happened(1)
    assert work.reasons == ["start"]


async def test_reasons_that_come_together_share_a_round(work: Work, rounds: ReconcileLoop) -> None:
    """In their order, each named once."""
    for reason in ("cgroups", "NodeSLO", "cgroups"):
        rounds.trigger(reason)
    rounds.start()
    await work.happened(1)
    assert work.reasons == ["cgroups, NodeSLO, start"]


async def test_a_reason_during_a_round_means_one_more(work: Work, rounds: ReconcileLoop) -> None:
    """However many there are; two rounds never overlap."""
    work.free.clear()
    rounds.start()
    await eventually(lambda: work.at_once, "the first round to begin")
    for reason in ("cgroups", "NodeSLO", "cgroups"):
        rounds.trigger(reason)
    work.free.set()
    await work.happened(2)
    assert work.reasons == ["start", "cgroups, NodeSLO"]
    assert work.most_at_once == 1


async def test_without_a_reason_there_is_a_round_after_the_interval(work: Work) -> None:
    """Its reason is that it is time."""
    rounds = ReconcileLoop(work, 0.01)
    rounds.start()
    await work.happened(3)
    await rounds.close()
    assert work.reasons[:3] == ["start", TICK, TICK]


async def test_a_round_that_failed_is_not_the_last(
    work: Work, rounds: ReconcileLoop, caplog: pytest.LogCaptureFixture
) -> None:
    """It is told with all that is known about it."""
    work.failures = 1
    with caplog.at_level(logging.ERROR, "interpose.hooks.server.reconcile.scheduler"):
        rounds.start()
        await eventually(lambda: rounds.failed, "the failure to be counted")
        rounds.trigger("cgroups")
        await work.happened(2)
    assert (work.reasons, work.finished, rounds.failed) == (["start", "start, cgroups"], 1, 1)
    (record,) = caplog.records
    assert record.message == "Reconciliation failed"
    assert record.exc_info is not None
    assert "no luck" in str(record.exc_info[1])


async def test_reasons_during_a_failure_are_not_lost(work: Work, rounds: ReconcileLoop) -> None:
    """They have the next round."""
    work.failures = 1
    work.free.clear()
    rounds.start()
    await eventually(lambda: work.at_once, "the first round to begin")
    rounds.trigger("NodeSLO")
    work.free.set()
    await work.happened(2)
    assert work.reasons == ["start", "start, NodeSLO"]


async def test_closing_cuts_off_a_round(work: Work, rounds: ReconcileLoop) -> None:
    """And there are no more of them."""
    work.free.clear()
    rounds.start()
    await eventually(lambda: work.at_once, "the round to begin")
    await rounds.close()
    assert (work.at_once, work.finished) == (0, 0)
    rounds.trigger("cgroups")
    assert work.reasons == ["start"]


async def test_what_was_never_started_can_be_closed(rounds: ReconcileLoop, work: Work) -> None:
    """A daemon that fails to start closes everything it has."""
    rounds.trigger("cgroups")
    await rounds.close()
    assert work.reasons == []
