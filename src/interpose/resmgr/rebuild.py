"""Rebuilding allocations under another policy: containers are admitted in order, in slices, so that no call waits.

Containers that can keep their exclusive CPUs come first, then those that have to leave them, then those without: a
container that must move never takes what another one could have kept. New allocations are made beside the old ones;
what happened to these meanwhile is caught up on at the end, in one step.
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
    """Yields to the event loop when a time slice is over."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()

    async def take(self) -> None:
        """Return at once, or yield to the loop first if the slice is over."""
        if self._clock() - self._began >= _SLICE:
            await asyncio.sleep(0)
            self._began = self._clock()


async def admit_in_order(
    found: Sequence[AllocationCandidate],
    keep: Keep,
    take: Take,
    on_admitted: Callable[[AllocationCandidate, Decision], object],
    yielder: LoopYielder,
) -> None:
    """Admit containers; `on_admitted` is called for each at once.

    One that was resized to more gets what it was granted for, unless it has more CPUs by now: what it asks for beyond
    that may be another container's. The caller decides about that afterwards.
    """
    holding = [candidate for candidate in found if candidate.held is not None and candidate.held.exclusive]
    moving = []
    for resized in holding:
        candidate = resized
        if (granted := candidate.granted) is not None and granted.held == candidate.held:
            candidate = granted
        kept = keep(candidate)
        if kept is None:
            moving.append(candidate)
        else:
            on_admitted(candidate, kept)
        await yielder.take()
    others = [candidate for candidate in found if candidate.held is None or not candidate.held.exclusive]
    for resized in (*moving, *others):
        candidate = resized.granted or resized
        on_admitted(candidate, take(candidate))
        await yielder.take()


async def rebuild_allocations(
    policy: Policy,
    now: Callable[[], float],
    old: Callable[[], Allocations],
    *,
    earlier: Mapping[Key, Grant],
    yielder: LoopYielder,
) -> Allocations:
    """Allocations of this policy for all containers of the old ones.

    `earlier`: what containers held under this very policy; it counts more than what they hold now.
    """
    allocations = Allocations(policy, now)
    await admit_in_order(
        _list_candidates(old(), policy, earlier), allocations.keep, allocations.admit, _ignore, yielder
    )
    # What happened meanwhile.
    for key in [key for key in allocations.by_key if key not in old().by_key]:
        allocations.release(key)
    for candidate in _list_candidates(old(), policy, earlier):
        key = candidate.request.key
        known = allocations.by_key.get(key)
        if known is None:
            allocations.admit(candidate)
            continue
        if candidate.id and known.id != candidate.id:
            allocations.confirm(key, candidate.id)
        for request in (candidate.request, old().by_key[key].deferred_request):
            if request is not None:
                allocations.observe(request)
    allocations.outcomes.update(old().outcomes)
    return allocations


def find_refusals(allocations: Allocations, old: Allocations) -> list[str]:
    """Containers with a place in the old allocations and none in these, with the reasons."""
    return [_refusal(allocations, key) for key in allocations.without_place if key not in old.without_place]


def _refusal(allocations: Allocations, key: Key) -> str:
    held = allocations.by_key[key]
    refusal = next(
        (event.decision.refusal for event in reversed(held.events) if event.decision.refusal is not None), None
    )
    return f"container {held.request.title}: {refusal.message if refusal is not None else 'has no place'}"


def _list_candidates(
    allocations: Allocations, policy: Policy, earlier: Mapping[Key, Grant]
) -> list[AllocationCandidate]:
    """All containers with what they held earlier or hold now, in the order in which they were created."""
    grants, same = allocations.policy.state.grants, allocations.policy.name == policy.name
    found = []
    for key, held in allocations.by_key.items():
        grant = earlier.get(key)
        if grant is None and (grant := grants.get(key)) is not None and not same:
            grant = Grant(exclusive=grant.exclusive)  # another policy's pools mean nothing here
        found.append(AllocationCandidate(request=held.request, id=held.id, held=grant))
    return found


def _ignore(_candidate: AllocationCandidate, _decision: Decision) -> None:
    """The tracker switches when all containers are admitted."""
