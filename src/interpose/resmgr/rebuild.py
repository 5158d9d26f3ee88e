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
from interpose.resmgr.allocations import AllocationCandidate, Allocations

_SLICE: Final = 0.002  # seconds that the loop is held

Take = Callable[[AllocationCandidate], Decision]
Keep = Callable[[AllocationCandidate], Decision | None]  # None: it cannot keep what it has


class LoopYielder:
    """Lets others run when a slice is over."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()

    async def take(self) -> None:
        """Go on, or let others run first."""
        if self._clock() - self._began >= _SLICE:
            await asyncio.sleep(0)
            self._began = self._clock()


async def admit_in_order(
    found: Sequence[AllocationCandidate],
    keep: Keep,
    take: Take,
    entered: Callable[[AllocationCandidate, Decision], object],
    yielder: LoopYielder,
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
        await yielder.take()
    for one in (*moving, *(one for one in found if one.held is None or not one.held.exclusive)):
        entered(one, take(one))
        await yielder.take()


async def rebuild_allocations(
    policy: Policy,
    now: Callable[[], float],
    old: Callable[[], Allocations],
    *,
    earlier: Mapping[Key, Grant],
    yielder: LoopYielder,
) -> Allocations:
    """A ledger of this policy with everybody who is in the old one.

    `earlier`: what containers held under this very policy; it counts more than what they hold now.
    """
    allocations = Allocations(policy, now)
    await admit_in_order(_in_order(old(), policy, earlier), allocations.keep, allocations.admit, _unnoticed, yielder)
    # What happened meanwhile.
    for key in [key for key in allocations.by_key if key not in old().by_key]:
        allocations.release(key)
    for one in _in_order(old(), policy, earlier):
        known = allocations.by_key.get(one.request.key)
        if known is None:
            allocations.admit(one)
            continue
        if one.id and known.id != one.id:
            allocations.confirm(one.request.key, one.id)
        for request in (one.request, old().by_key[one.request.key].deferred_request):
            if request is not None:
                allocations.observe(request)
    allocations.outcomes.update(old().outcomes)
    return allocations


def refusals(allocations: Allocations, old: Allocations) -> list[str]:
    """Who has a place in the old books and none in these, and why."""
    return [_refusal(allocations, key) for key in allocations.without_place if key not in old.without_place]


def _refusal(allocations: Allocations, key: Key) -> str:
    held = allocations.by_key[key]
    why = next((event.decision.refusal for event in reversed(held.events) if event.decision.refusal is not None), None)
    return f"container {held.request.title}: {why.message if why is not None else 'has no place'}"


def _in_order(allocations: Allocations, policy: Policy, earlier: Mapping[Key, Grant]) -> list[AllocationCandidate]:
    """Everybody in the books with what they held earlier or hold now, in order of their coming."""
    grants, same = allocations.policy.state.grants, allocations.policy.name == policy.name
    found = []
    for key, held in allocations.by_key.items():
        grant = earlier.get(key)
        if grant is None and (grant := grants.get(key)) is not None and not same:
            grant = Grant(exclusive=grant.exclusive)  # another policy's pools mean nothing here
        found.append(AllocationCandidate(request=held.request, id=held.id, held=grant))
    return found


def _unnoticed(_one: AllocationCandidate, _decision: Decision) -> None:
    """Nobody needs to know before all of it is done."""
