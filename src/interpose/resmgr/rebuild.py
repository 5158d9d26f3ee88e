"""Making books anew: containers are taken into a ledger in turn, in slices, so that nobody waits for it.

Who can keep CPUs of its own comes first, then who has to leave them, then who has none: one that must move never takes
what another one could have kept. New books are made beside the old ones; what happened to these meanwhile is caught up
on in one go at the end.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from interpose.core.policy.api import Policy
from interpose.core.policy.decision import Decision, Grant
from interpose.core.policy.request import Key
from interpose.resmgr.allocations import Coming, Ledger

_SLICE: Final = 0.002  # seconds that the loop is held

Take = Callable[[Coming], Decision]
Keep = Callable[[Coming], Decision | None]  # None: it cannot keep what it has


class Breath:
    """Lets others run when a slice is over."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()

    async def take(self) -> None:
        """Go on, or let others run first."""
        if self._clock() - self._began >= _SLICE:
            await asyncio.sleep(0)
            self._began = self._clock()


async def in_turn(
    found: Sequence[Coming], keep: Keep, take: Take, entered: Callable[[Coming, Decision], object], breath: Breath
) -> None:
    """Take containers into books; `entered` is told of each at once."""
    holding = [one for one in found if one.held is not None and one.held.exclusive]
    moving = []
    for one in holding:
        kept = keep(one)
        if kept is None:
            moving.append(one)
        else:
            entered(one, kept)
        await breath.take()
    for one in (*moving, *(one for one in found if one.held is None or not one.held.exclusive)):
        entered(one, take(one))
        await breath.take()


async def rebuilt(
    policy: Policy,
    now: Callable[[], float],
    old: Callable[[], Ledger],
    *,
    earlier: Mapping[Key, Grant],
    breath: Breath,
) -> Ledger:
    """A ledger of this policy with everybody who is in the old one.

    `earlier`: what containers held under this very policy; it counts more than what they hold now.
    """
    ledger = Ledger(policy, now)
    await in_turn(_in_order(old(), policy, earlier), ledger.keep, ledger.take_over, _unnoticed, breath)
    # What happened meanwhile.
    for key in [key for key in ledger.held if key not in old().held]:
        ledger.release(key)
    for one in _in_order(old(), policy, earlier):
        known = ledger.held.get(one.request.key)
        if known is None:
            ledger.take_over(one)
            continue
        if one.id and known.id != one.id:
            ledger.confirm(one.request.key, one.id)
        for request in (one.request, old().held[one.request.key].unmet):
            if request is not None:
                ledger.accept(request)
    ledger.outcomes.update(old().outcomes)
    return ledger


def refusals(ledger: Ledger, old: Ledger) -> list[str]:
    """Who has a place in the old books and none in these, and why."""
    return [_refusal(ledger, key) for key in ledger.without_place if key not in old.without_place]


def _refusal(ledger: Ledger, key: Key) -> str:
    held = ledger.held[key]
    why = next((event.decision.refusal for event in reversed(held.events) if event.decision.refusal is not None), None)
    return f"container {held.request.title}: {why.message if why is not None else 'has no place'}"


def _in_order(ledger: Ledger, policy: Policy, earlier: Mapping[Key, Grant]) -> list[Coming]:
    """Everybody in the books with what they held earlier or hold now, in order of their coming."""
    grants, same = ledger.policy.book.grants, ledger.policy.name == policy.name
    found = []
    for key, held in ledger.held.items():
        grant = earlier.get(key)
        if grant is None and (grant := grants.get(key)) is not None and not same:
            grant = Grant(exclusive=grant.exclusive)  # another policy's pools mean nothing here
        found.append(Coming(request=held.request, id=held.id, held=grant))
    return found


def _unnoticed(_one: Coming, _decision: Decision) -> None:
    """Nobody needs to know before all of it is done."""
