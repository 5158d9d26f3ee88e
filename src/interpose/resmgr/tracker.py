"""The resource manager without its calls: who is in the books, what they should have, and what was written.

Decisions are synchronous. Rooms of their own have the beginning of the books (`beginning`), another configuration or
machine (`changing`), and what nobody told us (`upkeep`).
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from interpose.core.model.cpuset import CpuSet
from interpose.core.model.pod import Container, ContainerState
from interpose.core.model.resources import NO_RESOURCES, LinuxResources
from interpose.core.policy.decision import Assignment, Decision, Grant
from interpose.core.policy.names import NONE
from interpose.core.policy.request import Key
from interpose.core.topology.topology import Topology
from interpose.cri.store.pending import PendingContainer
from interpose.cri.store.starts import Starts
from interpose.cri.store.store import Store
from interpose.cri.store.sync import Synchronizer
from interpose.net.grpc.status import Code, RpcError
from interpose.resmgr.allocations import Coming, Ledger
from interpose.resmgr.beginning import Beginning
from interpose.resmgr.cgroup_check import CgroupCheck, Tree
from interpose.resmgr.config.configuration import Configuration
from interpose.resmgr.control import Send, Writers
from interpose.resmgr.overlaps import Overlaps
from interpose.resmgr.pending_updates import Updates
from interpose.resmgr.reconcile import Upkeep
from interpose.resmgr.reconfigure import Changing, Make
from interpose.resmgr.restore import FIELDS, actual, as_asked, coming, concerns_us, key_of, written_by_us
from interpose.resmgr.state.grant_annotation import ANNOTATION, read_note
from interpose.resmgr.touched import Touched
from interpose.resmgr.twins import FreeKeys
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)

_SHRINKING: Final = 10.0  # seconds after which those who grow do not wait for the others any longer
_PATIENCE: Final = 120  # ticks that a create of somebody else may take: the kubelet gives up after as long
_TWIN_PATIENCE: Final = 10  # ticks in which a twin shows in a list of the runtime
_RESERVED: Final = "reserved"  # the pool of policies that have one
_NO_GRANT: Final = Grant()


class Books:
    """One policy over one machine, and every container of the node."""

    def __init__(
        self,
        *,
        configuration: Configuration,
        topology: Topology,
        make: Make,
        store: Store,
        sync: Synchronizer,
        send: Send,
        starts: Starts,
        cgroups: Tree | None = None,
        capacity: int,
        clock: Callable[[], float],
        now: Callable[[], float],
    ) -> None:
        self.configuration = configuration
        self.topology = topology
        self.ledger = Ledger(make(configuration, topology), now)
        self.starts = starts
        self.writers = Writers(
            send,
            self.wanted,
            starts=starts,
            clock=clock,
            telling=self.touch,
            told=self._told,
            missing=self._denied,
        )
        self.updates = Updates()
        self.beginning = Beginning(self, clock)
        self.changing = Changing(self, make, clock, now)
        self._upkeep = Upkeep(self)
        self.cgroups = CgroupCheck(self, cgroups)
        self.store = store
        self.sync = sync
        self.capacity = capacity
        self.tasks = TaskBag()
        self.overlaps = Overlaps(self._overlaps, clock)
        self.ready = asyncio.Event()
        self.on_change: Callable[[], None] = _nothing  # told when there is something new to remember
        self.on_configured: Callable[[], None] = _nothing  # told when another configuration decides
        self.asleep: dict[Key, Grant] = {}  # what containers hold while nothing is decided: the policy only stands in
        self._free_keys = FreeKeys(self._has_owner)
        self._touched = Touched()
        self._doubtful: dict[Key, int] = {}  # creates whose outcome is not known, and for how many ticks
        self._retired = False
        self.tell(self.ledger.policy.notes)

    # -- what containers should have

    def wanted(self, key: Key, asking: LinuxResources = NO_RESOURCES) -> Assignment | None:
        """What a container should have now; where a policy no longer cares, what it would have without us.

        `asking` is what an update says that is about to be sent.
        """
        held = self.ledger.held.get(key)
        if held is None:
            return None
        assignment = self.ledger.assignment(key)
        gone = self._gone(key, assignment)
        if not gone:
            return assignment
        container = self.store.containers.get(held.id)
        asked = actual((container.requested if container is not None else NO_RESOURCES).overlay(asking))
        lifted: dict[str, Any] = {name: getattr(asked, name) or self._everything(name) for name in gone}
        return replace(assignment, **lifted)

    def _gone(self, key: Key, assignment: Assignment) -> list[str]:
        """What we wrote in a container, and the policy has nothing to say about any more."""
        return [] if self.configuration.stands_in else self._touched.gone(key, assignment)

    def _everything(self, name: str) -> CpuSet | None:
        if name == "cpus":
            return self.topology.online
        if name == "mems":
            return CpuSet.of(node.id for node in self.topology.nodes if node.memory_bytes)
        return None

    @property
    def shelter(self) -> CpuSet:
        """What a container gets about which nobody can decide: CPUs that nobody holds alone, as far as is known."""
        fallback = self.ledger.policy.fallback
        if self._retired:
            # Somebody else decides by now who has what alone. Reserved CPUs nobody has; the rest is the successor's.
            return self.ledger.policy.book.pools.get(_RESERVED) or fallback
        if self.ready.is_set():
            return fallback
        # The books are still empty. What is remembered, and what containers carry with them, tells who holds what.
        notes = (read_note(one.annotations.get(ANNOTATION, "")) for one in self.alive())
        noted = CpuSet.union(note.grant.exclusive for note in notes if note is not None)
        held = CpuSet.union(entry.grant.exclusive for _, entry in self.beginning.entries.values())
        return fallback - noted - held or fallback

    def in_the_way(self, key: Key) -> list[Key]:
        """Others that may still run on CPUs which this container gets: they lost them, but not all updates are through.

        Nobody may have what is its own; what it shares, nobody may have alone. Who is not pinned goes where it likes.
        One that was not started yet is on no CPU, and loses what it has too much before it is.
        """
        return list(self._in_the_way(key))

    def _in_the_way(self, key: Key) -> Iterator[Key]:
        if key not in self.ledger.held:
            return
        grants = self.ledger.policy.book.grants
        own, cpus = grants.get(key, _NO_GRANT).exclusive, self.ledger.assignment(key).cpus
        for other, writer in self.writers.all.items():
            grant = grants.get(other, _NO_GRANT)
            wrong = cpus if grant.exclusive else own
            if other != key and grant.pinned and wrong and writer.may_have(wrong) and self._may_run(writer.id):
                yield other

    def _overlaps(self, key: Key) -> bool:
        return next(self._in_the_way(key), None) is not None

    def _may_run(self, container_id: str) -> bool:
        container = self.store.containers.get(container_id)
        waits = container is not None and container.state is ContainerState.CREATED
        return not waits or self.starts.in_flight(container_id)

    # -- containers come and go

    def key_of(self, container: Container) -> Key:
        """How a container is known here, or would be."""
        return self.ledger.by_id.get(container.id) or self.free_key(key_of(container))

    def free_key(self, key: Key) -> Key:
        """The key of a container that is new here: this one, unless a twin of it lives. Docker makes both."""
        return self._free_keys.first(key)

    def _has_owner(self, key: Key) -> bool:
        held = self.ledger.held.get(key)
        container = None if held is None else self.store.containers.get(held.id)
        return container is not None and concerns_us(container, self.store.pods.get(container.pod_id))

    def confirm(self, key: Key, container_id: str, written: Assignment) -> None:
        """The runtime made a container, with these values of ours."""
        if key not in self.ledger.held:
            return  # released meanwhile, with its pod; if it is there all the same, the store will tell
        if self.ledger.held[key].id != container_id and self._has_owner(key):
            return  # a twin that was made at the same time; the store will tell of this one
        self.touch(key, written)
        self._identify(key, container_id, written)

    def _identify(self, key: Key, container_id: str, has: Assignment) -> None:
        self._doubtful.pop(key, None)
        self.ledger.confirm(key, container_id)
        self.writers.add(key, container_id, has)
        self.writers.want((key,))

    def doubt(self, key: Key) -> None:
        """Nobody knows whether the runtime made a container: what is booked stays until that is settled."""
        if key in self.ledger.held:
            self._doubtful.setdefault(key, 0)

    def in_doubt(self, key: Key) -> bool:
        """Whether nobody knows if a container exists."""
        return key in self._doubtful

    def tick(self) -> None:
        """A second has passed."""
        if self._retired:
            return
        self._settle_creates()
        self._upkeep.tick()
        if self.at_rest:
            self.cgroups.tick()

    def _settle_creates(self) -> None:
        """Creates that the store has settled are settled here."""
        if not self._doubtful:
            return
        waiting = {key_of(one.container) for one in self.store.pending if isinstance(one, PendingContainer)}
        there = {self.key_of(one): one for one in self.alive()}
        for key, ticks in tuple(self._doubtful.items()):
            self._doubtful[key] = ticks + 1
            # The store may be about to hear of it; what it says about a twin may be about the other one.
            if key._replace(twin=0) in waiting or ticks <= (_TWIN_PATIENCE if key.twin else 0):
                continue
            if (container := there.get(key)) is not None:
                self._seen_alive(container)
            else:
                self.carry_out_soon(self.release((key,)))

    def touch(self, key: Key, written: Assignment) -> None:
        """We wrote these values."""
        self._touched.add(key, written)

    def let_go(self, key: Key, given: Assignment) -> None:
        """A container has values of others where the policy has nothing to say any more: these are theirs again."""
        gone = self._gone(key, self.ledger.assignment(key)) if key in self.ledger.held else []
        self._touched.let_go(key, [name for name in gone if getattr(given, name) is not None])

    def _told(self, key: Key, written: Assignment) -> None:
        """A container has these values: those that its caller asked for are put back."""
        self.cgroups.soon(key)
        container = self.store.containers.get(self.ledger.held[key].id) if key in self.ledger.held else None
        if container is not None:
            asked = actual(container.requested)
            same = {name: getattr(asked, name) for name in FIELDS if getattr(asked, name) == getattr(written, name)}
            self.let_go(key, Assignment(**same))

    def release(self, keys: Iterable[Key]) -> list[Key]:
        """Containers are gone; returns those that have something else to get now."""
        changed: dict[Key, None] = {}
        for key in keys:
            changed.update(dict.fromkeys(self.ledger.release(key).changed))
            self._free_keys.freed(key)
            self.writers.drop(key)
            self.updates.drop(key)
            self._touched.drop(key)
            self.cgroups.drop(key)
            self._doubtful.pop(key, None)
            self.asleep.pop(key, None)
        self.on_change()
        return [key for key in changed if key in self.ledger.held]

    def carry_out_soon(self, keys: Iterable[Key]) -> None:
        """Bring containers to what is wanted of them, without anybody waiting for it."""
        if wanted := tuple(keys):
            self.tasks.spawn(self._carry_out(wanted), name="carry out decisions")

    async def _carry_out(self, keys: Sequence[Key]) -> None:
        await self.writers.shrink(keys, _SHRINKING)
        await self.writers.reach(keys, 0)

    def seen(self, old: Container | None, new: Container | None) -> None:
        """The store has learned something about a container."""
        if not self.ready.is_set() or self._retired:
            return  # everything is looked at when the books are first made, here or by a successor
        try:
            if new is None or not concerns_us(new, self.store.pods.get(new.pod_id)):
                self._seen_gone(new or old)
            else:
                self._seen_alive(new)
                if old is not None:
                    self._upkeep.follow(old, new)
                if (old is None or old.state is not new.state) and new.state is ContainerState.RUNNING:
                    self.cgroups.soon(self.key_of(new))
        except Exception:
            _log.exception("Failed to record a change")

    def _seen_gone(self, container: Container | None) -> None:
        if container is not None and (key := self.ledger.by_id.get(container.id)) is not None:
            self.carry_out_soon(self.release((key,)))

    def _seen_alive(self, container: Container) -> None:
        key = self.key_of(container)
        held = self.ledger.held.get(key)
        if held is None:
            self.adopt([container])
        elif held.id == container.id:
            self._doubtful.pop(key, None)
            if self.writers.found(key, actual(container.resources)):
                self.writers.want((key,))
            self._upkeep.settle(container)
        elif key in self._doubtful or (held.id and held.id not in self.store.containers):
            # What is in it may be its caller's; ours is what was granted, by this policy or the one before.
            self.touch(key, self.ledger.assignment(key))
            self._touched.note(key, written_by_us(container, None))
            self._identify(key, container.id, actual(container.resources))
            self._upkeep.catch_up(container)

    def adopt(self, containers: Iterable[Container]) -> None:
        """Take containers into the books that came around us."""
        pairs = [(one, self.store.pods[one.pod_id]) for one in containers]
        changed: dict[Key, None] = {}
        for found in coming(pairs, self.beginning.entries, self.configuration.policy, self.capacity):
            key = self.free_key(found.request.key)
            one = replace(found, request=replace(found.request, key=key))
            changed.update(dict.fromkeys(self.enter(one, self.taken(one))))
        self.carry_out_soon(changed)
        self.on_change()

    def taken(self, one: Coming) -> Decision:
        """It runs, so it is in the books whatever happens."""
        try:
            return self.ledger.take_over(one)
        except Exception as error:
            _log.exception("Policy failed", extra={"kv": {"container": one.request.title}})
            return self.ledger.give_shelter(one, error)

    def kept(self, one: Coming) -> Decision | None:
        """The same, if it can keep what it has; None otherwise."""
        try:
            return self.ledger.keep(one)
        except Exception:
            return None  # `taken` tells what is wrong

    def enter(self, one: Coming, decision: Decision) -> tuple[Key, ...]:
        """It is in the books: know what it has. Returns whom to bring to what is wanted now."""
        key = one.request.key
        container = self.store.containers.get(one.id)
        if container is None:  # it may come, or has just gone
            if not one.id:
                self._doubtful[key] = -_PATIENCE
            return decision.changed
        if self.beginning.last != NONE:  # which has put everything back
            container = self._as_asked(container)
        if container.state is not ContainerState.RUNNING:
            self.starts.doubt(one.id)  # somebody else may be starting it: a relay before us, or a caller around us
        self.writers.add(key, one.id, actual(container.resources))
        self.cgroups.soon(key)  # what a relay before us wrote may have had no effect
        self._touched.drop(key)
        self._touched.note(key, written_by_us(container, self.beginning.entries.get(key)))
        if decision.refusal is not None:
            kv = {"container": one.request.title, "why": decision.refusal.message}
            _log.warning("Policy cannot place a running container", extra={"kv": kv})
        return (key, *decision.changed)

    def _as_asked(self, container: Container) -> Container:
        asked = as_asked(container, self.beginning.entries.get(self.key_of(container)))
        if asked is not container:
            self.store.put_container(asked)
        return asked

    def alive(self) -> list[Container]:
        """Containers that have CPUs to speak of, by the store."""
        pods = self.store.pods
        return [one for one in self.store.containers.values() if concerns_us(one, pods.get(one.pod_id))]

    def lost(self, container_id: str) -> None:
        """Updates of a container may have had no effect, although the runtime took them."""
        if (key := self.ledger.by_id.get(container_id)) is not None:
            self.writers.lost(key)

    # -- trouble

    def tell(self, notes: Iterable[str]) -> None:
        """What a policy that is in force now has to say about its options."""
        for note in notes:
            kv = {"policy": self.configuration.policy, "note": note}
            _log.warning("Policy adjusted its options", extra={"kv": kv})

    def _denied(self, key: Key, container_id: str, error: RpcError) -> None:
        """The runtime does not update a container: it may have ended."""
        if error.code is Code.NOT_FOUND:
            self.carry_out_soon(self.release((key,)))
        self.sync.refresh_soon(container_id)

    @property
    def idle(self) -> bool:
        """Whether nothing is decided, only because what decides cannot be in force."""
        return self.configuration.policy == NONE and bool(self.configuration.stands_in)

    @property
    def at_rest(self) -> bool:
        """Whether the books are made, and nobody is making others."""
        return self.ready.is_set() and not self._retired and not self.changing.under_way

    @property
    def retired(self) -> bool:
        """Whether somebody else keeps the books."""
        return self._retired

    def retire(self) -> None:
        """Somebody else keeps the books from now on. Calls that are on their way end here; nothing new is begun."""
        self._retired = True
        self.writers.retire()

    async def close(self) -> None:
        """Leave nothing behind."""
        self.overlaps.close()
        await self.tasks.cancel()
        await self.writers.close()


def _nothing() -> None:
    """Nobody wants to know."""
