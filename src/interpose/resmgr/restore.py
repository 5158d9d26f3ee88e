"""Restoring the allocations of containers that run already, once the store shows them.

What an earlier run saved, the annotations of containers and what the runtime has decide about the grants; see
`existing_containers`. It is done in slices, so what happens meanwhile is looked at again at the end.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Set
from dataclasses import replace
from typing import Final

from interpose.core.model.cpuset import EMPTY
from interpose.core.policy.request import Key, Request
from interpose.core.policy.static.partition import all_memory
from interpose.resmgr.allocations import AllocationCandidate
from interpose.resmgr.existing_containers import container_key, find_candidates, limit_extra_memory, to_assignment
from interpose.resmgr.rebuild import LoopYielder, admit_in_order
from interpose.resmgr.state.state import SavedEntry
from interpose.resmgr.tracker import AllocationTracker

_log = logging.getLogger(__name__)

_SLICE: Final = 20  # containers whose records are read without a look at the clock
_TRIES: Final = 4  # incomplete lists, about two seconds, after which the known containers are restored


class ContainerRestorer:
    """Fills a tracker once, at the start. `clock` is the loop's."""

    def __init__(self, tracker: AllocationTracker, clock: Callable[[], float]) -> None:
        self._tracker = tracker
        self._clock = clock
        self._reset = False
        self._expected: tuple[Request, ...] = ()
        self._incomplete = 0  # lists that lacked records
        self._task: asyncio.Task[None] | None = None

    def load(self, policy: str, entries: Iterable[SavedEntry], *, reset: bool = False) -> None:
        """Use what an earlier run saved under `policy`; `reset`: grants do not count, all is decided again."""
        self._tracker.saved_policy = policy
        self._tracker.saved = {entry.key: (policy, entry) for entry in entries}
        self._reset = reset

    def expect(self, pending: Iterable[Request]) -> None:
        """Another relay has these creates in flight: their containers may come, and hold what was saved."""
        self._expected = tuple(pending)

    def on_listed(self, failed: int) -> None:
        """Called when the store has listed what runs: the first time, all of it is restored.

        `failed` records could not be looked up. They are waited for a little; a container that is broken for good must
        not keep the policy from all others, and is adopted if it ever gets known.
        """
        if self._tracker.ready.is_set() or (self._task is not None and not self._task.done()):
            return
        self._incomplete += 1 if failed else 0
        if not failed or self._incomplete >= _TRIES:
            self._task = self._tracker.tasks.spawn(self._restore(), name="restore running containers")

    async def _restore(self) -> None:
        tracker = self._tracker
        policy, capacity = tracker.configuration.policy, tracker.capacity
        order = {key: place for place, key in enumerate(tracker.saved)}
        before = sorted(
            tracker.live_containers(),
            key=lambda container: (order.get(container_key(container), len(order)), str(container_key(container))),
        )
        pairs = [(container, tracker.store.pods[container.pod_id]) for container in before]
        candidates: list[AllocationCandidate] = []
        yielder = LoopYielder(self._clock)
        for start in range(0, len(pairs), _SLICE):
            candidates += find_candidates(pairs[start : start + _SLICE], tracker.saved, policy, capacity)
            await yielder.take()
        candidates += self._expected_candidates({candidate.request.key for candidate in candidates})
        memory = EMPTY if self._reset else all_memory(tracker.topology)  # of the machine as it is now
        candidates = [limit_extra_memory(candidate, memory) for candidate in candidates]
        if self._reset:
            candidates = [replace(candidate, held=None, granted=None) for candidate in candidates]
        elif tracker.decides_nothing:
            holding = find_candidates(pairs, tracker.saved, tracker.saved_policy, capacity)
            tracker.suspended = {holder.request.key: holder.held for holder in holding if holder.held is not None}
        await admit_in_order(candidates, tracker.admit_in_place, tracker.admit, tracker.track, yielder)
        tracker.ready.set()
        # What came, went or changed meanwhile.
        live = {container.id: container for container in tracker.live_containers()}
        tracker.adopt([found for found in live.values() if tracker.key_of(found) not in tracker.allocations.by_key])
        tracker.saved = {}
        tracker.release([key for key, held in tracker.allocations.by_key.items() if held.id and held.id not in live])
        for container in before:
            if (now := live.get(container.id)) is not None and now.resources != container.resources:
                tracker.updaters.observe(tracker.key_of(now), to_assignment(now.resources))
        for candidate in candidates:
            if candidate.granted is not None:
                tracker.observe_resize(candidate.request)
        allocations = tracker.allocations
        counts = {"containers": len(allocations.by_key), "without_place": len(allocations.without_place)}
        _log.info("Adopted running containers", extra={"kv": {"policy": policy, **counts}})
        tracker.enforce_soon(tuple(allocations.by_key))

    def _expected_candidates(self, known: Set[Key]) -> list[AllocationCandidate]:
        """Creates that another relay has in flight and that are not among the known containers yet."""
        candidates = []
        for request in self._expected:
            saved = self._tracker.saved.get(request.key)
            if request.key not in known and saved is not None:
                made = replace(request, amounts=saved[1].amounts, recalled=saved[1].grant.details)
                candidates.append(
                    AllocationCandidate(request=made, id="", held=saved[1].grant, extra_mems=saved[1].extra_mems)
                )
        self._expected = ()
        return candidates
