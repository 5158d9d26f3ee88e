"""Rounds that are due in a while."""

import asyncio

from interpose.hooks.server.reconcile.scheduler import ReconcileLoop
from interpose.testing.eventually import eventually

_LONG = 3600.0


async def test_later_leads_to_a_round() -> None:
    """With its reason, after the pause."""
    reasons: list[str] = []

    async def work(reason: str) -> None:
        reasons.append(reason)

    rounds = ReconcileLoop(work, _LONG)
    rounds.start()
    rounds.trigger_later("again", 0.05)
    await eventually(lambda: reasons == ["start", "again"], "both rounds")
    await rounds.close()


async def test_the_last_word_counts() -> None:
    """A sooner look takes the place of a later one, and the other way round."""
    reasons: list[str] = []

    async def work(reason: str) -> None:
        reasons.append(reason)

    rounds = ReconcileLoop(work, _LONG)
    rounds.start()
    rounds.trigger_later("never", _LONG)
    rounds.trigger_later("now", 0.0)
    await eventually(lambda: "now" in ", ".join(reasons), "the round")
    await rounds.close()
    assert "never" not in ", ".join(reasons)


async def test_nothing_is_due_after_the_end() -> None:
    """The timer goes with the rounds."""
    rounds = ReconcileLoop(lambda _reason: asyncio.sleep(0), _LONG)
    rounds.start()
    rounds.trigger_later("again", 0.0)
    await rounds.close()
    before = asyncio.all_tasks()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
