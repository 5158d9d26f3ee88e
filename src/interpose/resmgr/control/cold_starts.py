"""Tells policies when containers have run so long that their cold start is over.

A policy has no clock. Whether a container runs is what the store shows, so the time begins when it shows it first;
after a restart of the relay it begins anew.
"""

import logging

from interpose.core.model.pod import ContainerState
from interpose.core.policy.api import ColdStarter
from interpose.core.policy.request import Key
from interpose.resmgr.tracker import AllocationTracker

_log = logging.getLogger(__name__)


class ColdStarts:
    """Follows containers that have not all their memory yet. To be called once a second, with the loop's time."""

    def __init__(self) -> None:
        self.ended = 0  # how many containers got all their memory
        self._since: dict[Key, float] = {}

    def tick(self, tracker: AllocationTracker, now: float) -> None:
        """End the cold starts that are due."""
        policy = tracker.allocations.policy
        if not tracker.at_rest or not isinstance(policy, ColdStarter):
            return
        starts = policy.cold_starts()
        self._since = {key: self._since.get(key, now) for key in starts if _runs(tracker, key)}
        due = [key for key, since in self._since.items() if now - since >= starts[key]]
        for key in due:
            self._end(tracker, policy, key)

    def _end(self, tracker: AllocationTracker, policy: ColdStarter, key: Key) -> None:
        try:
            changed = policy.end_cold_start(key)
        except Exception:
            _log.exception("Policy failed to end a cold start")
            return
        self.ended += 1
        title = tracker.allocations.by_key[key].request.title
        _log.info("Cold start ended", extra={"kv": {"container": title, "changed": len(changed)}})
        tracker.enforce_soon(changed)
        tracker.on_change()


def _runs(tracker: AllocationTracker, key: Key) -> bool:
    allocation = tracker.allocations.by_key.get(key)
    container = None if allocation is None else tracker.store.containers.get(allocation.id)
    return container is not None and container.state is ContainerState.RUNNING
