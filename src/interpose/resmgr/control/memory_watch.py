"""Memory nodes that run short: no container dies because a policy bound it to them while others have memory.

The kernel kills processes of a cpuset whose nodes are full, however much memory other nodes have. While a policy binds
containers to a part of the nodes, what each node has left is read once a second, and one container after the other is
asked whether processes of it, or on v2 of its pod, were killed below all limits: all of them in a quarter of a minute,
new ones at once. A container whose nodes are all short, or whose pod lost a process so, gets other nodes as well, and
keeps them until it ends. That is an update like any other. Containers with the most memory on these nodes come first,
some in a second. Files are read in a thread.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.model.humanize import format_size
from interpose.core.model.pod import Container, ContainerState
from interpose.core.policy.request import Key
from interpose.core.policy.static.partition import all_memory
from interpose.core.topology.node_memory import NodeMemory, has_room_elsewhere, starves
from interpose.errors import ConfigError
from interpose.host.cgroup.memory import MemoryEvents, MemoryUse, read_memory_use
from interpose.log import RateLimited
from interpose.resmgr.control.cgroup_check import Tree, directory_of
from interpose.resmgr.tracker import AllocationTracker

_log = logging.getLogger(__name__)

_CYCLE: Final = 15  # ticks in which all containers are asked
_MOST: Final = 50  # containers that are widened in one tick


class WideningCause(StrEnum):
    """What showed that a container needs other memory nodes."""

    SHORT = "short"  # its nodes have little left
    KILLED = "killed"  # a process was killed


class MemoryWatch:
    """Widens the memory nodes of containers in time. `read` returns what nodes have left, `tree` the cgroups."""

    def __init__(self, read: Callable[[], Mapping[int, NodeMemory]], tree: Tree) -> None:
        self.widened = Counter(dict.fromkeys(WideningCause, 0))  # how often
        self.problem = ""  # why it is not known what nodes have left
        self._read = read
        self._tree = tree
        self._nodes: Mapping[int, NodeMemory] = {}  # at the last look
        self._uses: dict[Key, MemoryUse | None] = {}  # at the last question; None: they cannot be read
        self._events: dict[tuple[str, str], MemoryEvents] = {}  # by pod and cgroup
        self._cycle: list[Key] = []  # containers that are still to be asked in this cycle
        self._looking: asyncio.Task[None] | None = None
        self._rate_limited = RateLimited(_log)

    def tick(self, tracker: AllocationTracker) -> None:
        """Look if containers are bound to nodes; to be called once a second."""
        bound = bound_containers(tracker)
        self._uses = {key: use for key, use in self._uses.items() if key in bound}
        # A pod outlives its containers: the next one of it begins with what is known.
        self._events = {place: events for place, events in self._events.items() if place[0] in tracker.store.pods}
        if not bound:
            self._nodes, self.problem = {}, ""
        elif not self.busy:
            self._looking = tracker.tasks.spawn(self._look(tracker, bound), name="look at memory nodes")

    @property
    def busy(self) -> bool:
        """Whether a look is under way in the background."""
        return self._looking is not None and not self._looking.done()

    def on_granted(self, tracker: AllocationTracker, key: Key) -> None:
        """A container is about to be created: it must not begin on nodes that are short."""
        mems = tracker.allocations.assignment(key).mems
        if mems is not None and starves(mems, self._nodes):
            self._widen(tracker, key, WideningCause.SHORT, describe(mems, self._nodes))

    async def _look(self, tracker: AllocationTracker, bound: Mapping[Key, CpuSet]) -> None:
        try:
            self._nodes = await asyncio.to_thread(self._read)
        except OSError as error:
            self._nodes, self.problem = {}, f"what memory nodes have left cannot be read: {error}"
            self._rate_limited.log(logging.WARNING, "Memory nodes cannot be read", err=str(error))
            return
        self.problem = ""
        starving = [key for key, mems in bound.items() if starves(mems, self._nodes)]
        new = [key for key in bound if key not in self._uses]
        await self._ask(tracker, dict.fromkeys((*starving[:_MOST], *new[:_MOST], *self._next_of_cycle(bound))))
        if not tracker.at_rest:
            return
        widened = 0
        for key in sorted(starving, key=lambda key: self._use_of(key, bound[key]), reverse=True):
            if widened < _MOST:  # a policy may decline: it must not keep the next ones from it
                widened += self._widen(tracker, key, WideningCause.SHORT, describe(bound[key], self._nodes))
        killed = self._compare_events()
        for key, mems in bound.items():
            if self._place_of(key) in killed and key not in starving and has_room_elsewhere(mems, self._nodes):
                reason = f"a process of its pod was killed below all memory limits; {describe(mems, self._nodes)}"
                self._widen(tracker, key, WideningCause.KILLED, reason)

    def _compare_events(self) -> set[tuple[str, str]]:
        """Pods and cgroups in which a process was killed since the last time although no limit was hit."""
        now: dict[tuple[str, str], MemoryEvents] = {}
        for key, use in self._uses.items():
            if use is not None:  # of several containers of a pod, the one that was asked last knows most
                place = (key.pod_id, use.events.counted_in)
                now[place] = max(now.get(place, use.events), use.events)
        killed = {place for place, events in now.items() if _killed_unlimited(self._events.get(place), events)}
        self._events.update(now)
        return killed

    def _place_of(self, key: Key) -> tuple[str, str] | None:
        use = self._uses.get(key)
        return None if use is None else (key.pod_id, use.events.counted_in)

    def _next_of_cycle(self, bound: Mapping[Key, CpuSet]) -> list[Key]:
        if not self._cycle:
            self._cycle = list(bound)
        count = -(-len(bound) // _CYCLE)
        some, self._cycle = self._cycle[:count], self._cycle[count:]
        return [key for key in some if key in bound]

    async def _ask(self, tracker: AllocationTracker, keys: Iterable[Key]) -> None:
        """Read the use of containers that run."""
        found = {key: container for key in keys if (container := _running(tracker, key)) is not None}
        if found:
            uses = await asyncio.to_thread(read_uses, self._tree, tuple(found.values()))
            self._uses.update(zip(found, uses, strict=True))

    def _use_of(self, key: Key, mems: CpuSet) -> int:
        use = self._uses.get(key)
        return 0 if use is None else use.on(mems)

    def _widen(self, tracker: AllocationTracker, key: Key, cause: WideningCause, reason: str) -> bool:
        """Give a container more memory nodes; whether it has got some."""
        entry = tracker.allocations.by_key.get(key)
        if entry is None:  # it has ended since the look began
            return False
        known = entry.widening is not None
        try:
            changed = tracker.allocations.widen_memory(key, all_memory(tracker.topology), reason)
        except Exception:
            _log.exception("Policy failed to widen memory nodes", extra={"kv": {"container": entry.request.title}})
            return False
        if not changed:
            return False
        self.widened[cause] += 1
        if not known:
            kv = {"container": entry.request.title, "mems": str(tracker.allocations.assignment(key).mems)}
            _log.warning(
                "Memory nodes of a container ran short, it gets others too", extra={"kv": kv | {"why": reason}}
            )
        tracker.enforce_soon(changed)
        tracker.on_change()
        return True


def bound_containers(tracker: AllocationTracker) -> dict[Key, CpuSet]:
    """The memory nodes of containers that a policy binds to a part of those there are."""
    allocations, every = tracker.allocations, all_memory(tracker.topology)
    found: dict[Key, CpuSet] = {}
    for key, grant in allocations.policy.state.grants.items():
        if grant.mems is not None and key in allocations.by_key:
            mems = allocations.assignment(key).mems or EMPTY
            if mems and not every <= mems:
                found[key] = mems
    return found


def read_uses(tree: Tree, containers: Sequence[Container]) -> list[MemoryUse | None]:
    """The memory of each container; None where it cannot be read. Reads files: not for the loop."""
    try:
        cgroups = tree()
    except (OSError, ConfigError):
        return [None] * len(containers)
    found: list[MemoryUse | None] = []
    for container in containers:
        try:
            found.append(read_memory_use(cgroups, directory_of(cgroups, container)))
        except (OSError, ValueError):
            found.append(None)
    return found


def describe(mems: CpuSet, nodes: Mapping[int, NodeMemory]) -> str:
    """What nodes have left, for people."""
    known = [nodes[node] for node in mems if node in nodes]
    left, total = sum(memory.left for memory in known), sum(memory.total for memory in known)
    return f"memory nodes {mems} had {format_size(left)} left of {format_size(total)}"


def _killed_unlimited(before: MemoryEvents | None, now: MemoryEvents) -> bool:
    """Whether a process was killed between two questions although no limit was hit."""
    return before is not None and now.kills > before.kills and now.limit_hits == before.limit_hits


def _running(tracker: AllocationTracker, key: Key) -> Container | None:
    allocation = tracker.allocations.by_key.get(key)
    container = None if allocation is None else tracker.store.containers.get(allocation.id)
    return container if container is not None and container.state is ContainerState.RUNNING else None
