"""What happens besides the answer of a hook call: files that no request carries, and notes of what was asked for.

Everything here is small and soon done; what is missed, a round puts right. Files are written in threads, and two calls
never work on the same pod at a time.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from weakref import WeakValueDictionary

from interpose.core.model.cgroup import CLEAR, CRI_FIELDS, Level, Parameter, Value, cri_value
from interpose.core.model.pod import Container, Pod
from interpose.cri.store.sync import Synchronizer
from interpose.hooks.server.context import ContainerContext, PodContext, Wish
from interpose.hooks.server.evaluate import PluginChain, PluginResults
from interpose.hooks.server.node.relay_policy import Ownership
from interpose.hooks.server.node.rules import PluginRules
from interpose.hooks.server.plugin import AnyPlugin, Watch
from interpose.hooks.server.pods.pod_annotations import RESOURCE_STATUS
from interpose.hooks.server.reconcile.apply import Applier
from interpose.hooks.server.reconcile.desired_state import wants_of
from interpose.hooks.server.reconcile.inventory import Inventory, container_target, is_own, pod_target
from interpose.hooks.server.reconcile.journal import Journal, JournalEntry
from interpose.hooks.server.reconcile.original_values import (
    ANNOTATION,
    NEUTRAL,
    ValueRecord,
    as_asked,
    given_by,
    in_force,
    read_note,
)
from interpose.hooks.server.reconcile.plan import WriteRoute, ordered, route_of
from interpose.hooks.server.targets import ActuatorTarget
from interpose.hooks.server.worker_threads import Runner
from interpose.host.cgroup.paths import find_child

_NOBODY = "no plugin sets it any more"


class ProxyEffects:
    """The effects of proxy mode, and what is known beyond the messages."""

    def __init__(
        self,
        *,
        plugins: Sequence[AnyPlugin],
        rules: Callable[[], PluginRules],
        runner: Runner,
        inventory: Inventory,
        applier: Applier,
        journal: Journal,
        sync: Synchronizer,
        leave: Callable[[str], object],
        pools_changed: Callable[[], None],
        looked_at: Callable[[str], bool] = lambda _container: False,
        facts: Callable[[Pod], Pod] = lambda pod: pod,
        owned: Callable[[], Ownership] = Ownership,
        started: Callable[[str], None] = lambda _container: None,
    ) -> None:
        self._started = started  # told of every container that runs now
        self._owned = owned  # what a policy of the relay decides
        self._facts = facts  # what is known of a pod beyond what the runtime tells
        self._looked_at = looked_at  # whether a container's record is of just now
        self._leave = leave  # takes away what is not a directory of the pod's cgroup, by its uid
        self._pools_changed = pools_changed
        self._plugins = tuple(plugins)
        self._rules = rules
        self._runner = runner
        self._inventory = inventory
        self._applier = applier
        self._journal = journal
        self._sync = sync
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    # -- what messages do not tell

    def pod(self, pod: Pod) -> Pod:
        """With overhead and runtime handler, if the pod is known, and with what a kubelet told of it."""
        pod = self._facts(pod)
        known = next((one for one in self._sync.store.pods.values() if one.uid == pod.uid), None) if pod.uid else None
        if known is None or (pod.overhead == known.overhead and pod.runtime_handler == known.runtime_handler):
            return pod
        return replace(pod, overhead=known.overhead, runtime_handler=known.runtime_handler)

    def container(self, pod: Pod, container: Container) -> Container:
        """With what was asked for, where a caller other than our relay tells what we made of it."""
        return as_asked(container, self._given(container)) if container.id else container

    def _given(self, container: Container) -> Mapping[Parameter, ValueRecord]:
        notes = dict(read_note(container.annotations.get(ANNOTATION, "")))
        for parameter, entry in self._journal.entries_of(Level.CONTAINER, container.id).items():
            if parameter in CRI_FIELDS:
                notes[parameter] = given_by(entry)
        there = {parameter: in_force(container, parameter, pair) for parameter, pair in notes.items()}
        return {parameter: pair for parameter, pair in there.items() if pair is not None}

    # -- effects

    async def pod_files(self, pod: Pod, verdict: PluginResults) -> None:
        """Values of a pod that files carry; nothing if the pod has no cgroup yet."""
        if verdict.wishes:
            await self._in_turn(pod, lambda: self._write_pod(pod, verdict))

    async def created(self, pod: Pod, container: Container, verdict: PluginResults) -> None:
        """The note of what was asked for is in the answer."""

    async def updated(self, pod: Pod, container: Container, verdict: PluginResults) -> PluginResults:
        """Note what was asked for; put back what an earlier rule set and nobody wants now."""
        entries = self._journal.entries_of(Level.CONTAINER, container.id)
        failed = _failed(verdict)
        unwanted = {
            parameter: (entry.plugin, Wish(_asked(container, parameter) or NEUTRAL[parameter], _NOBODY))
            for parameter, entry in entries.items()
            if parameter in NEUTRAL and parameter not in verdict.wishes and entry.plugin not in failed
            if parameter not in self._owned().parameters
        }
        unnoted = await asyncio.to_thread(self._note_update, pod, container, verdict, entries)
        if not self._looked_at(container.id):
            # The record is looked at again when the runtime has done it.
            self._sync.refresh_soon(container.id)
        wishes = {one: wish for one, wish in verdict.wishes.items() if one not in unnoted}
        return replace(verdict, wishes={**unwanted, **wishes})

    def _note_update(
        self, pod: Pod, container: Container, verdict: PluginResults, entries: Mapping[Parameter, JournalEntry]
    ) -> set[Parameter]:
        """What could not be noted: it must not be changed, or nobody would know what it was."""
        directory, children = self._inventory.look(container.cgroup_parent or pod.cgroup_parent)
        child = find_child(children, container.id) if directory else None
        target = container_target(pod, container, f"{directory}/{child}" if child is not None else "")
        unnoted: set[Parameter] = set()
        for parameter, (plugin, wish) in verdict.wishes.items():
            if parameter not in CRI_FIELDS:
                continue
            asked = _asked(container, parameter)
            if asked == wish.value and parameter not in entries:
                continue
            before = self._had(container.id, parameter, entries.get(parameter))
            try:
                self._journal.supersede(
                    target, parameter, found=asked, written=wish.value, plugin=plugin, before=before
                )
            except OSError:
                unnoted.add(parameter)
        return unnoted

    def _had(self, container_id: str, parameter: Parameter, entry: JournalEntry | None) -> Value | None:
        """What a container has of us until the runtime has done what it is told now."""
        if entry is None:
            return None
        record = self._sync.store.containers.get(container_id)
        if record is None or not self._looked_at(container_id):
            return entry.written
        # The last update may not have come to be: then it is what there was before that.
        if in_force(record, parameter, given_by(entry)) is None:
            return entry.written
        value = cri_value(record.resources, parameter)
        return CLEAR if value is None else value

    async def started(self, pod: Pod, container: Container) -> None:
        """What only running processes can have: of the container, and of its pod."""

        def job(watch: Watch) -> tuple[PluginResults, PluginResults]:
            hooks = PluginChain(self._plugins, self._rules(), watch)
            return hooks.pod(PodContext(request=pod)), hooks.container(ContainerContext(pod=pod, request=container))

        self._note_pools(pod)
        self._started(container.id)
        of_pod, of_container = await self._runner.run(job)
        await self._in_turn(pod, lambda: self._write_started(pod, container, of_pod, of_container))

    async def stopped(self, pod: Pod) -> None:
        """Nothing is left behind for a pod that is gone. Most of it goes with the directory of its cgroup."""
        self._note_pools(pod)
        await self._in_turn(pod, lambda: self._leave(pod.uid))

    async def container_stopped(self, pod: Pod, container_id: str) -> None:
        """Whether it really ended, the next round sees."""

    def _note_pools(self, pod: Pod) -> None:
        """CPUs that one pod has alone are not in the pools of others."""
        if RESOURCE_STATUS in pod.annotations:
            self._pools_changed()

    # -- in threads

    async def _in_turn(self, pod: Pod, work: Callable[[], object]) -> None:
        lock = self._locks.setdefault(pod.uid, asyncio.Lock())
        async with lock:
            await asyncio.to_thread(work)

    def _write_pod(self, pod: Pod, verdict: PluginResults) -> None:
        directory, _ = self._inventory.look(pod.cgroup_parent)
        if directory and is_own(pod, directory):
            self._write([(pod_target(pod, directory), verdict)])

    def _write_started(
        self, pod: Pod, container: Container, of_pod: PluginResults, of_container: PluginResults
    ) -> None:
        directory, children = self._inventory.look(container.cgroup_parent or pod.cgroup_parent)
        child = find_child(children, container.id) if directory else None
        if child is not None:
            judged = [(pod_target(pod, directory), of_pod)] if is_own(pod, directory) else []
            self._write([*judged, (container_target(pod, container, f"{directory}/{child}"), of_container)])

    def _write(self, judged: Sequence[tuple[ActuatorTarget, PluginResults]]) -> None:
        wants = [want for target, verdict in judged for want in wants_of(target, verdict)]
        # Not all plugins were asked, so nothing is put back; rounds do that.
        items = self._applier.survey(wants, [], whole=False, undo=False)
        steps = ordered(one for one in items if route_of(one) is WriteRoute.FILE)
        self._applier.carry_out(steps)


def _failed(verdict: PluginResults) -> set[str]:
    """Plugins whose values stay, for nobody knows what they want; what has no plugin's name may be one's of them."""
    failed = {one.plugin for one in verdict.failures}
    return failed | {""} if failed else failed


def _asked(container: Container, parameter: Parameter) -> Value | None:
    return cri_value(container.requested, parameter)
