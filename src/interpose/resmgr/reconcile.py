"""The periodic reconcile of allocations with the store: what no event has reported is found now and then.

Every change of a container is followed when it happens. Should one of these steps fail, nothing else would ever bring
allocations and node together again, so they are compared: containers that are gone are released, unknown ones adopted,
and every container gets what it should have. Creates and updates whose outcome is unknown are decided again by what the
runtime shows.
"""

import logging
from typing import Final

from interpose.core.policy.request import Key
from interpose.cri.store.pending import PendingContainer
from interpose.resmgr.existing_containers import container_key
from interpose.resmgr.tracker import AllocationTracker

_log = logging.getLogger(__name__)

_PERIOD: Final = 10  # ticks from one comparison to the next


class AllocationReconciler:
    """Reconciles a tracker; `tick` is to be called once a second."""

    def __init__(self, tracker: AllocationTracker) -> None:
        self._tracker = tracker
        self._ticks = 0
        self._missing: frozenset[str] = frozenset()  # tracked containers without a record, at the last comparison

    def tick(self) -> None:
        """Settle pending creates and updates, and from time to time compare everything."""
        tracker = self._tracker
        if tracker.retired:
            return
        self._settle_creates()
        for key in tracker.updates.tick():
            tracker.tasks.spawn(self._settle_update(key), name="refresh a container with a pending update")
        self._ticks += 1
        if self._ticks % _PERIOD == 0 and tracker.at_rest:
            self.reconcile()
        if tracker.at_rest:
            tracker.cgroups.tick()
            tracker.pod_quotas.tick()

    def _settle_creates(self) -> None:
        tracker = self._tracker
        if not tracker.creates:
            return
        pending = (entry.container for entry in tracker.store.pending if isinstance(entry, PendingContainer))
        live = {tracker.key_of(container): container for container in tracker.live_containers()}
        for key in tracker.creates.tick(frozenset(map(container_key, pending))):
            if (container := live.get(key)) is not None:
                tracker.observe(container)
            else:
                tracker.enforce_soon(tracker.release((key,)))

    async def _settle_update(self, key: Key) -> None:
        tracker = self._tracker
        allocation = tracker.allocations.by_key.get(key)
        if allocation is None:
            return
        mark = tracker.store.mark()
        await tracker.sync.refresh(allocation.id)
        container = tracker.store.containers.get(allocation.id)
        if container is not None and not tracker.store.unchanged_since(container.id, mark):
            tracker.updates.mark_refreshed(key)
            tracker.settle_update(container)

    def reconcile(self) -> None:
        """Compare the tracked containers with the store, and correct both sides."""
        tracker = self._tracker
        live = {container.id: container for container in tracker.live_containers()}
        records = tracker.store.containers
        absent = frozenset(container_id for container_id in tracker.allocations.by_id if container_id not in live)
        # A container without a record may not have been looked up yet. It is gone if it cannot be found for a while.
        missing = frozenset(container_id for container_id in absent if container_id not in records)
        gone = [ref for ref in absent if ref in records or (ref in self._missing and tracker.sync.in_step)]
        self._missing = missing.difference(gone)
        tracker.sync.look_up_soon(containers=self._missing)
        new = [found for found in live.values() if tracker.key_of(found) not in tracker.allocations.by_key]
        if gone or new:
            kv = {"gone": len(gone), "new": len(new)}
            _log.warning("The policy's containers differed from the runtime's and were corrected", extra={"kv": kv})
        changed = tracker.release([tracker.allocations.by_id[ref] for ref in gone]) if gone else []
        if new:
            tracker.adopt(new)
        tracker.enforce_soon(dict.fromkeys((*changed, *tracker.updaters.without_retry())))
