"""Applying another configuration, or another machine: everything changes at once, or nothing does.

Making allocations takes a while on a full node, so new ones are made beside the old, in slices; what happened meanwhile
is caught up on, and then the tracker switches to them. Running containers are moved after that: first every container
loses what it must not have any more, then every container gets what it should have. If the runtime refuses, all of it
is rolled back.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Set
from types import MappingProxyType
from typing import Final

from interpose.core.policy.api import Policy
from interpose.core.policy.decision import Grant
from interpose.core.policy.request import Key
from interpose.core.topology.topology import Topology
from interpose.errors import ConfigError
from interpose.resmgr.config.configuration import Configuration
from interpose.resmgr.existing_containers import is_live
from interpose.resmgr.rebuild import LoopYielder, find_refusals, rebuild_allocations
from interpose.resmgr.tracker import AllocationTracker

_log = logging.getLogger(__name__)

_MOVING: Final = 10.0  # seconds that moving running containers may take before a change counts as carried out

MakePolicy = Callable[[Configuration, Topology], Policy]


class Reconfigurer:
    """Replaces the policy of a tracker, one change at a time. `clock` is the loop's, `now` the time of day."""

    def __init__(
        self, tracker: AllocationTracker, make: MakePolicy, clock: Callable[[], float], now: Callable[[], float]
    ) -> None:
        self._tracker = tracker
        self._make = make
        self._clock = clock
        self._now = now
        self._lock = asyncio.Lock()

    async def apply(
        self, configuration: Configuration, topology: Topology | None = None, *, forced: bool = False
    ) -> None:
        """Put a configuration in force as a whole; ConfigError if that is not possible, and everything is as it was.

        `forced`: the machine itself changed, and there is no way back; a container that finds no place shares CPUs.
        """
        tracker = self._tracker
        async with self._lock:
            tracker.reconfiguring = True
            try:
                await self._apply(configuration, topology or tracker.topology, forced=forced)
            finally:
                tracker.reconfiguring = False
        tracker.on_change()

    async def _apply(self, configuration: Configuration, topology: Topology, *, forced: bool) -> None:
        tracker = self._tracker
        before = (tracker.configuration, tracker.topology)
        grants, notes = dict(tracker.allocations.policy.state.grants), tracker.allocations.policy.notes
        failing = {key for key, updater in tracker.updaters.by_key.items() if updater.permanent}
        await self._switch(configuration, topology, forced=forced, earlier=self._suspended(configuration.policy))
        failed = await self._move(failing)
        if failed and not forced:
            kv = {"containers": len(failed)}
            _log.error("Failed to apply configuration, rolled back to the previous one", extra={"kv": kv})
            await self._switch(*before, forced=True, earlier=grants)
            await self._move(failing)
            tracker.on_change()
            raise ConfigError(failed)
        if not tracker.decides_nothing:
            tracker.suspended = {}
        tracker.log_notes([note for note in tracker.allocations.policy.notes if note not in notes])

    def _suspended(self, policy: str) -> dict[Key, Grant]:
        """Suspended grants as a policy may read them: the pools of another policy mean nothing to it."""
        tracker = self._tracker
        if policy == tracker.saved_policy:
            return dict(tracker.suspended)
        return {key: Grant(exclusive=grant.exclusive) for key, grant in tracker.suspended.items()}

    async def _switch(
        self,
        configuration: Configuration,
        topology: Topology,
        *,
        forced: bool,
        earlier: Mapping[Key, Grant] = MappingProxyType({}),
    ) -> None:
        """`earlier`: grants under this very configuration; they count more than what containers hold now."""
        tracker = self._tracker
        policy = self._make(configuration, topology)
        yielder = LoopYielder(self._clock)
        allocations = await rebuild_allocations(
            policy, self._now, lambda: tracker.allocations, earlier=earlier, yielder=yielder
        )
        if not forced and (refused := find_refusals(allocations, tracker.allocations)):
            raise ConfigError(refused)
        tracker.switch(allocations, configuration, topology)

    async def _move(self, failing: Set[Key]) -> list[str]:
        """Update all containers; returns what the runtime refused outright, except for those it refused before."""
        tracker = self._tracker
        keys = tuple(tracker.allocations.by_key)
        await tracker.updaters.shrink(keys, _MOVING)
        await tracker.updaters.apply(keys, _MOVING)
        # One that ended meanwhile cannot be updated, and need not be.
        await tracker.sync.refresh(*(updater.id for updater in tracker.updaters.by_key.values() if updater.permanent))
        titles = tracker.allocations.titles()
        return [
            f"container {titles[key]} could not be updated: {updater.error}"
            for key, updater in tracker.updaters.by_key.items()
            if updater.permanent and key in titles and key not in failing and self._is_live(updater.id)
        ]

    def _is_live(self, container_id: str) -> bool:
        store = self._tracker.store
        container = store.containers.get(container_id)
        return container is not None and is_live(container, store.pods.get(container.pod_id))
