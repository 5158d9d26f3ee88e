"""The allocations of all containers of a node, what each should have, and what was written in it.

Decisions are synchronous: between two calls of a tracker its state is complete. The tracker knows its collaborators
(allocations, updaters, managed fields, pending creates and updates, the cgroup check) and none of those that work on it
from outside: `restore` fills it at the start, `reconfigure` replaces its policy, `reconcile` compares it with the
store.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from interpose.core.model.cgroup import KubeQos, find_kube_qos
from interpose.core.model.cpuset import CpuSet
from interpose.core.model.pod import Container, ContainerState, Pod
from interpose.core.model.resources import NO_RESOURCES, LinuxResources
from interpose.core.policy.api import Policy
from interpose.core.policy.decision import NO_QUOTA, Assignment, Decision, Grant
from interpose.core.policy.names import NONE
from interpose.core.policy.request import Amounts, Key, Request
from interpose.core.policy.static.partition import all_memory
from interpose.core.topology.topology import Topology
from interpose.cri.store.starts import StartTracker
from interpose.cri.store.store import Store
from interpose.cri.store.sync import Synchronizer
from interpose.net.grpc.status import Code, RpcError
from interpose.resmgr.allocations import Allocation, AllocationCandidate, Allocations
from interpose.resmgr.config.configuration import Configuration
from interpose.resmgr.container_request import resize_amounts
from interpose.resmgr.control.cgroup_check import CgroupCheck, Tree
from interpose.resmgr.control.managed_fields import ManagedFields, put_back
from interpose.resmgr.control.memory_migration import MemoryMigration
from interpose.resmgr.control.overlaps import CpuOverlaps
from interpose.resmgr.control.pending_updates import PendingUpdates, observed_resize
from interpose.resmgr.control.pod_quotas import PodQuotas, quota_directory
from interpose.resmgr.control.updaters import ContainerUpdaters, Send
from interpose.resmgr.existing_containers import (
    FIELDS,
    SavedEntries,
    container_key,
    find_candidates,
    is_live,
    limit_extra_memory,
    policy_written_fields,
    restore_requested,
    to_assignment,
)
from interpose.resmgr.exports.resources_text import resources_text
from interpose.resmgr.key_allocator import KeyAllocator
from interpose.resmgr.state.grant_annotation import ANNOTATION, read_note
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)

_SHRINKING: Final = 10.0  # seconds after which containers that grow do not wait for the others any longer
_CREATE_TIMEOUT: Final = 120  # ticks that a create of another relay may take: the kubelet gives up after as long
_DUPLICATE_TIMEOUT: Final = 10  # ticks in which a duplicate shows in a list of the runtime
_RESERVED: Final = "reserved"  # the pool of policies that have one
_NO_GRANT: Final = Grant()


class PendingAllocations:
    """Creates whose outcome is unknown: what is reserved for them stays until the store shows what became of them."""

    def __init__(self) -> None:
        self._ticks: dict[Key, int] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._ticks

    def __bool__(self) -> bool:
        return bool(self._ticks)

    def add(self, key: Key) -> None:
        """The outcome of a create that we sent is unknown."""
        self._ticks.setdefault(key, 0)

    def expect(self, key: Key) -> None:
        """Another relay has a create in flight, which takes its time."""
        self._ticks[key] = -_CREATE_TIMEOUT

    def drop(self, key: Key) -> None:
        """The outcome is known, or the container is gone."""
        self._ticks.pop(key, None)

    def tick(self, pending: frozenset[Key]) -> list[Key]:
        """Count a second; returns creates whose outcome the store knows. `pending`: those that it still waits for."""
        due = []
        for key, ticks in self._ticks.items():
            self._ticks[key] = ticks + 1
            # The store may be about to learn of it; its record may be that of another duplicate.
            if key._replace(duplicate=0) not in pending and ticks > (_DUPLICATE_TIMEOUT if key.duplicate else 0):
                due.append(key)
        return due


class AllocationTracker:
    """The policy of one machine, and every container of the node.

    `clock` is the loop's, `now` the time of day, `capacity` the machine's memory in bytes. `on_change` is called when
    there is something new for the state file, `on_configured` when another configuration is in force, `on_granted`
    before a container is created with what it was granted.
    """

    def __init__(
        self,
        *,
        configuration: Configuration,
        topology: Topology,
        policy: Policy,
        store: Store,
        sync: Synchronizer,
        send: Send,
        starts: StartTracker,
        cgroups: Tree | None = None,
        capacity: int,
        clock: Callable[[], float],
        now: Callable[[], float],
    ) -> None:
        self.configuration = configuration
        self.topology = topology
        self.allocations = Allocations(policy, now)
        self.store = store
        self.sync = sync
        self.starts = starts
        self.capacity = capacity
        self.updaters = ContainerUpdaters(
            send,
            self.desired,
            starts=starts,
            clock=clock,
            on_send=self.mark_managed,
            on_sent=self._on_sent,
            on_missing=self._on_missing,
            before_move=self._before_move,
        )
        self._migration = MemoryMigration(cgroups, lambda: self.configuration.migrate_memory)
        self.updates = PendingUpdates()
        self.creates = PendingAllocations()
        self.cgroups = CgroupCheck(cgroups, self.updaters, store, starts)
        self.pod_quotas = PodQuotas(cgroups, self.pods_without_quota)
        self.overlaps = CpuOverlaps(self._overlaps, clock)
        self.tasks = TaskBag()
        self.ready = asyncio.Event()  # set once all containers that ran at the start are tracked
        self.reconfiguring = False  # whether other allocations are being made or carried out
        self.saved: SavedEntries = {}  # what an earlier run saved, until its containers are restored
        self.saved_policy = ""  # the policy of that run; empty: unknown
        self.suspended: dict[Key, Grant] = {}  # grants of containers while a fallback configuration decides nothing
        self.on_change: Callable[[], None] = _ignore
        self.on_configured: Callable[[], None] = _ignore
        self.on_granted: Callable[[Key], None] = _ignore_key
        self._keys = KeyAllocator(self._has_owner)
        self._managed = ManagedFields()
        self._retired = False
        self.log_notes(policy.notes)

    # -- what containers should have

    def desired(self, key: Key, update: LinuxResources = NO_RESOURCES) -> Assignment | None:
        """What a container should have now; None if it is not tracked.

        Where the policy no longer decides, this is what the container would have without us. `update` is what an update
        says that is about to be sent.
        """
        allocation = self.allocations.by_key.get(key)
        if allocation is None:
            return None
        assignment = self.allocations.assignment(key)
        abandoned = self._abandoned(key, assignment)
        if not abandoned:
            return assignment
        container = self.store.containers.get(allocation.id)
        requested = (container.requested if container is not None else NO_RESOURCES).overlay(update)
        return put_back(assignment, abandoned, to_assignment(requested), self.topology)

    def _abandoned(self, key: Key, assignment: Assignment) -> list[str]:
        """Managed fields about which the policy says nothing any more; none while a fallback configuration is used."""
        return [] if self.configuration.fallback_reasons else self._managed.abandoned(key, assignment)

    def quota_directory(self, key: Key) -> str | None:
        """The cgroup of the pod of a container, if that is a kubelet's."""
        allocation = self.allocations.by_key.get(key)
        container = None if allocation is None else self.store.containers.get(allocation.id)
        return None if container is None else quota_directory(container.cgroup_parent)

    def pods_without_quota(self) -> dict[str, int] | None:
        """Pods with a container whose CFS quota is lifted; None while that is not known, or nothing is decided."""
        if not self.ready.is_set() or self._retired or self.decides_nothing:
            return None
        found: dict[str, int] = {}
        for key, grant in self.allocations.policy.state.grants.items():
            if grant.quota == NO_QUOTA and (directory := self.quota_directory(key)) is not None:
                pod = self.store.pods.get(key.pod_id)
                found[directory] = _requested_quota(pod) if pod is not None else 0
        return found

    @property
    def fallback_cpus(self) -> CpuSet:
        """What a container gets about which the policy cannot decide: CPUs without an exclusive owner."""
        fallback = self.allocations.policy.fallback
        if self._retired:
            # A successor decides by now about exclusive CPUs. Reserved ones are never exclusive; the rest is its own.
            return self.allocations.policy.state.pools.get(_RESERVED) or fallback
        if self.ready.is_set():
            return fallback
        # Nothing is tracked yet. The state file and annotations of containers say who has exclusive CPUs.
        notes = (read_note(container.annotations.get(ANNOTATION, "")) for container in self.live_containers())
        noted = CpuSet.union(note.grant.exclusive for note in notes if note is not None)
        saved = CpuSet.union(entry.grant.exclusive for _, entry in self.saved.values())
        return fallback - noted - saved or fallback

    def conflicting(self, key: Key) -> list[Key]:
        """Other containers that may still run on CPUs which this one gets: an update that takes them is not through.

        Exclusive CPUs conflict with all containers, shared ones with exclusive owners. A container that is not pinned
        runs anywhere and is left out. One that was not started yet is on no CPU, and loses its excess before it is.
        """
        return list(self._conflicting(key))

    def _conflicting(self, key: Key) -> Iterator[Key]:
        if key not in self.allocations.by_key:
            return
        grants = self.allocations.policy.state.grants
        own, cpus = grants.get(key, _NO_GRANT).exclusive, self.allocations.assignment(key).cpus
        for other, updater in self.updaters.by_key.items():
            grant = grants.get(other, _NO_GRANT)
            wrong = cpus if grant.exclusive else own
            if other != key and grant.pinned and wrong and updater.may_have(wrong) and self._may_run(updater.id):
                yield other

    def _overlaps(self, key: Key) -> bool:
        return next(self._conflicting(key), None) is not None

    def _may_run(self, container_id: str) -> bool:
        container = self.store.containers.get(container_id)
        created = container is not None and container.state is ContainerState.CREATED
        return not created or self.starts.in_flight(container_id)

    # -- containers are created or found

    def key_of(self, container: Container) -> Key:
        """The key of a tracked container, or the one that it would get."""
        return self.allocations.by_id.get(container.id) or self.free_key(container_key(container))

    def free_key(self, key: Key) -> Key:
        """The key of a new container: this one, unless a live container has it. Docker allows such duplicates."""
        return self._keys.first_free(key)

    def _has_owner(self, key: Key) -> bool:
        allocation = self.allocations.by_key.get(key)
        container = None if allocation is None else self.store.containers.get(allocation.id)
        return container is not None and is_live(container, self.store.pods.get(container.pod_id))

    def confirm(self, key: Key, container_id: str, written: Assignment) -> None:
        """The runtime created a container, with these values of ours."""
        if key not in self.allocations.by_key:
            return  # released meanwhile, with its pod; if it exists all the same, the store reports it
        if self.allocations.by_key[key].id != container_id and self._has_owner(key):
            return  # a duplicate that was created at the same time; the store reports this one
        self.mark_managed(key, written)
        self._identify(key, container_id, written)

    def _identify(self, key: Key, container_id: str, has: Assignment) -> None:
        self.creates.drop(key)
        self.allocations.confirm(key, container_id)
        self.updaters.add(key, container_id, has)
        self.updaters.schedule((key,))

    def mark_create_pending(self, key: Key) -> None:
        """The outcome of a create is unknown: what is reserved stays until it is known."""
        if key in self.allocations.by_key:
            self.creates.add(key)

    def adopt(self, containers: Iterable[Container]) -> None:
        """Track containers that were created outside the relay."""
        pairs = [(container, self.store.pods[container.pod_id]) for container in containers]
        changed: dict[Key, None] = {}
        for found in find_candidates(pairs, self.saved, self.configuration.policy, self.capacity):
            key = self.free_key(found.request.key)
            candidate = replace(found, request=replace(found.request, key=key))
            candidate = limit_extra_memory(candidate, all_memory(self.topology))
            changed.update(dict.fromkeys(self.track(candidate, self.admit(candidate))))
        self.enforce_soon(changed)
        self.on_change()

    def admit(self, candidate: AllocationCandidate) -> Decision:
        """Allocate for a running container. It is tracked whatever happens, without a place if need be."""
        try:
            return self.allocations.admit(candidate)
        except Exception as error:
            _log.exception("Policy failed", extra={"kv": {"container": candidate.request.title}})
            return self.allocations.admit_without_place(candidate, error)

    def admit_in_place(self, candidate: AllocationCandidate) -> Decision | None:
        """Allocate for a running container if it can keep the CPUs it has; None otherwise."""
        try:
            return self.allocations.keep(candidate)
        except Exception:
            return None  # `admit` logs what is wrong

    def track(self, candidate: AllocationCandidate, decision: Decision) -> tuple[Key, ...]:
        """Begin to update a running container that was admitted. Returns the containers to enforce now."""
        key = candidate.request.key
        container = self.store.containers.get(candidate.id)
        if container is None:  # it may come, or has just gone
            if not candidate.id:
                self.creates.expect(key)
            return decision.changed
        if self.saved_policy != NONE:  # which has put everything back
            container = self._restore_requested(container)
        if container.state is not ContainerState.RUNNING:
            self.starts.doubt(candidate.id)  # another relay, or a caller around us, may be starting it
        self.updaters.add(key, candidate.id, to_assignment(container.resources))
        self.cgroups.check_soon(key)  # what an earlier relay wrote may have had no effect
        self._managed.drop(key)
        self._managed.add_names(key, policy_written_fields(container, self.saved.get(key)))
        if decision.refusal is not None:
            kv = {"container": candidate.request.title, "why": decision.refusal.message}
            _log.warning("Policy cannot place a running container", extra={"kv": kv})
        return (key, *decision.changed)

    def _restore_requested(self, container: Container) -> Container:
        restored = restore_requested(container, self.saved.get(self.key_of(container)))
        if restored is not container:
            self.store.put_container(restored)
        return restored

    def live_containers(self) -> list[Container]:
        """Containers in the store that run or are about to."""
        pods = self.store.pods
        return [
            container for container in self.store.containers.values() if is_live(container, pods.get(container.pod_id))
        ]

    # -- containers change

    def on_container(self, old: Container | None, new: Container | None) -> None:
        """Called by the store when it learned something about a container."""
        if not self.ready.is_set() or self._retired:
            return  # all containers are looked at when they are restored, here or by a successor
        try:
            if new is None or not is_live(new, self.store.pods.get(new.pod_id)):
                self._on_gone(new or old)
            else:
                self.observe(new)
                if old is not None:
                    self._follow_resize(old, new)
                if (old is None or old.state is not new.state) and new.state is ContainerState.RUNNING:
                    key = self.key_of(new)
                    self.cgroups.check_soon(key)
                    self.pod_quotas.check_soon(self.quota_directory(key))  # systemd may have set it again
        except Exception:
            _log.exception("Failed to record a change")

    def _on_gone(self, container: Container | None) -> None:
        if container is not None and (key := self.allocations.by_id.get(container.id)) is not None:
            self.enforce_soon(self.release((key,)))

    def observe(self, container: Container) -> None:
        """Take over what the store shows of a live container: adopt it, identify it, or correct what it has."""
        key = self.key_of(container)
        allocation = self.allocations.by_key.get(key)
        if allocation is None:
            self.adopt([container])
        elif allocation.id == container.id:
            self.creates.drop(key)
            if self.updaters.observe(key, to_assignment(container.resources)):
                self.updaters.schedule((key,))
            self.settle_update(container)
        elif key in self.creates or (allocation.id and allocation.id not in self.store.containers):
            # What is in it may be its caller's; ours is what was granted, by this policy or the one before.
            self.mark_managed(key, self.allocations.assignment(key))
            self._managed.add_names(key, policy_written_fields(container, None))
            self._identify(key, container.id, to_assignment(container.resources))
            # It may have been resized before it was known here.
            requested, allocation = container.requested, self.allocations.by_key[self.key_of(container)]
            self._observe(allocation, resize_amounts(allocation.runtime_request, requested, requested))

    def settle_update(self, container: Container) -> None:
        """Decide again about a container if its record shows that a pending update did not do what is allocated."""
        key = self.key_of(container)
        if key not in self.updates:
            return
        allocation, updater = self.allocations.by_key.get(key), self.updaters.by_key.get(key)
        if allocation is None or updater is None or updater.lock.locked() or updater.written is None:
            return  # the runtime may be at work on it: what we send after the update has to arrive as well
        amounts = self.updates.amounts(key, container.resources)
        if amounts is not None:
            self._observe(allocation, amounts)

    def _follow_resize(self, old: Container, new: Container) -> None:
        """Decide again about a container that was resized outside the relay, or while there was no policy."""
        key = self.key_of(new)
        allocation = self.allocations.by_key.get(key)
        if allocation is None or allocation.id != new.id or key in self.updates or self.updates.is_in_flight(key):
            return
        amounts = observed_resize(allocation.runtime_request, old, new)
        if amounts is not None:
            self._observe(allocation, amounts)

    def observe_resize(self, request: Request) -> None:
        """Decide about a container that was restored with less than this request, which is in force at the runtime."""
        if (allocation := self.allocations.by_key.get(request.key)) is None:
            return
        try:
            self._observe(allocation, request.amounts)
        except Exception:
            _log.exception("Policy failed", extra={"kv": {"container": request.title}})

    def observe_pod(self, pod: Pod, update: LinuxResources) -> None:
        """Decide again about the containers of a pod whose resources as a whole were updated."""
        for key, allocation in [*self.allocations.by_key.items()]:
            request = allocation.runtime_request
            if key.pod_id == pod.id and request.pod_amounts is not None:
                whole = replace(request, amounts=request.pod_amounts, pod_amounts=None)
                of_pod = resize_amounts(whole, update, pod.resources)
                self._observe(allocation, request.amounts, of_pod)

    def _observe(self, allocation: Allocation, amounts: Amounts, of_pod: Amounts | None = None) -> None:
        """Decide about amounts that a container has at the runtime already; `of_pod` if those of its pod are others."""
        request = allocation.request
        whole = allocation.runtime_request.pod_amounts if of_pod is None else of_pod
        decision = self.allocations.observe(replace(request, amounts=amounts, pod_amounts=whole))
        if decision is None:
            return
        kv = {"container": request.title, "cpu_milli": amounts.milli}
        if decision.refusal is not None:
            _log.warning("Container resized outside the relay and the policy cannot place it", extra={"kv": kv})
            return
        _log.info("Container resized outside the relay", extra={"kv": kv})
        self.enforce_soon((request.key, *decision.changed))
        self.on_change()

    # -- updates

    def enforce_soon(self, keys: Iterable[Key]) -> None:
        """Bring containers to what they should have, in the background."""
        if chosen := tuple(keys):
            self.tasks.spawn(self._enforce(chosen), name="enforce allocations")

    async def _enforce(self, keys: Sequence[Key]) -> None:
        await self.updaters.shrink(keys, _SHRINKING)
        await self.updaters.apply(keys, 0)

    def resources_text(self, key: Key) -> str:
        """What a container has by its allocation, as the text of its `resources.sh`."""
        grant = self.allocations.policy.state.grants.get(key)
        return resources_text(grant, self.allocations.assignment(key), self.topology)

    def mark_managed(self, key: Key, written: Assignment) -> None:
        """Values of ours were written, or are about to be."""
        self._managed.add(key, written)

    def release_fields(self, key: Key, requested: Assignment) -> None:
        """A container has values of its caller where the policy no longer decides: the caller owns these again."""
        abandoned = self._abandoned(key, self.allocations.assignment(key)) if key in self.allocations.by_key else []
        self._managed.release(key, [name for name in abandoned if getattr(requested, name) is not None])

    def _on_sent(self, key: Key, written: Assignment) -> None:
        """The runtime took these values: those that the caller asked for are put back by that."""
        self.cgroups.check_soon(key)
        allocation = self.allocations.by_key.get(key)
        container = None if allocation is None else self.store.containers.get(allocation.id)
        if container is not None:
            requested = to_assignment(container.requested)
            same = {
                name: getattr(requested, name) for name in FIELDS if getattr(requested, name) == getattr(written, name)
            }
            self.release_fields(key, Assignment(**same))

    async def _before_move(self, container_id: str) -> None:
        """A container is about to lose memory nodes."""
        await self._migration.prepare(self.store.containers.get(container_id))

    def _on_missing(self, key: Key, container_id: str, error: RpcError) -> None:
        """The runtime does not update a container: it may have ended."""
        if error.code is Code.NOT_FOUND:
            self.enforce_soon(self.release((key,)))
        self.sync.refresh_soon(container_id)

    def on_update_lost(self, container_id: str) -> None:
        """Updates of a container may have had no effect, although the runtime took them."""
        if (key := self.allocations.by_id.get(container_id)) is not None:
            self.updaters.mark_lost(key)

    # -- containers end

    def release(self, keys: Iterable[Key]) -> list[Key]:
        """Forget containers that are gone; returns those that should have something else now."""
        changed: dict[Key, None] = {}
        for key in keys:
            changed.update(dict.fromkeys(self.allocations.release(key).changed))
            self._keys.release(key)
            self.updaters.drop(key)
            self.updates.drop(key)
            self._managed.drop(key)
            self.cgroups.drop(key)
            self.creates.drop(key)
            self.suspended.pop(key, None)
        self.on_change()
        return [key for key in changed if key in self.allocations.by_key]

    # -- configuration

    def switch(self, allocations: Allocations, configuration: Configuration, topology: Topology) -> None:
        """Replace policy, configuration and machine at once."""
        allocations.inherit_widenings(self.allocations, all_memory(topology))
        self.allocations, self.configuration, self.topology = allocations, configuration, topology
        self.on_configured()

    def log_notes(self, notes: Iterable[str]) -> None:
        """Log what a policy that is in force now says about its options."""
        for note in notes:
            kv = {"policy": self.configuration.policy, "note": note}
            _log.warning("Policy adjusted its options", extra={"kv": kv})

    @property
    def decides_nothing(self) -> bool:
        """Whether policy `none` is in force only because the configured one cannot be."""
        return self.configuration.policy == NONE and bool(self.configuration.fallback_reasons)

    @property
    def at_rest(self) -> bool:
        """Whether all containers are tracked, and no other allocations are being made."""
        return self.ready.is_set() and not self._retired and not self.reconfiguring

    @property
    def retired(self) -> bool:
        """Whether a successor has taken over."""
        return self._retired

    def retire(self) -> None:
        """A successor has taken over. Calls that are on their way end here; nothing new is begun."""
        self._retired = True
        self.updaters.retire()

    async def close(self) -> None:
        """Cancel background work and timers."""
        self.overlaps.close()
        await self.tasks.cancel()
        await self.cgroups.close()
        await self.pod_quotas.close()
        await self.updaters.close()


def _requested_quota(pod: Pod) -> int:
    """The CFS quota that the kubelet gives a pod, as far as it told the runtime; 0: not known.

    Of a pod whose containers do not all have a limit it says the sum of those that have one, which is not its quota.
    """
    guaranteed = find_kube_qos(pod.requested_cgroup_parent or pod.cgroup_parent) is KubeQos.GUARANTEED
    quota = pod.resources.cpu_quota
    return quota + max(pod.overhead.cpu_quota, 0) if guaranteed and quota > 0 else 0


def _ignore() -> None:
    """The default of callbacks."""


def _ignore_key(_key: Key) -> None:
    """The default of callbacks about a container."""
