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
from interpose.hooks.server.reconcile.desired_state import desired_values
from interpose.hooks.server.reconcile.inventory import Inventory, container_target, is_own, pod_target
from interpose.hooks.server.reconcile.journal import Journal, JournalEntry
from interpose.hooks.server.reconcile.original_values import (
    ANNOTATION,
    NEUTRAL,
    ValueRecord,
    read_note,
    record_in_force,
    record_of_entry,
    with_requested,
)
from interpose.hooks.server.reconcile.plan import WriteRoute, order_steps, route_of
from interpose.hooks.server.targets import ActuatorTarget
from interpose.hooks.server.worker_threads import Runner
from interpose.host.cgroup.paths import find_child

_NOT_DESIRED = "no plugin sets it any more"


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
        remove_pod_state: Callable[[str], object],
        pools_changed: Callable[[], None],
        is_refreshed: Callable[[str], bool] = lambda _container: False,
        overlay: Callable[[Pod], Pod] = lambda pod: pod,
        owned: Callable[[], Ownership] = Ownership,
        started: Callable[[str], None] = lambda _container: None,
    ) -> None:
        self._started = started  # told of every container that runs now
        self._owned = owned  # what a policy of the relay decides
        self._overlay = overlay  # what is known of a pod beyond what the runtime tells
        self._is_refreshed = is_refreshed  # whether a container's record is of just now
        self._remove_pod_state = remove_pod_state  # takes away what is not a directory of the pod's cgroup, by its uid
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
        pod = self._overlay(pod)
        known = (
            next((other for other in self._sync.store.pods.values() if other.uid == pod.uid), None) if pod.uid else None
        )
        if known is None or (pod.overhead == known.overhead and pod.runtime_handler == known.runtime_handler):
            return pod
        return replace(pod, overhead=known.overhead, runtime_handler=known.runtime_handler)

    def container(self, pod: Pod, container: Container) -> Container:
        """With what was asked for, where a caller other than our relay tells what we made of it."""
        return with_requested(container, self._records_in_force(container)) if container.id else container

    def _records_in_force(self, container: Container) -> Mapping[Parameter, ValueRecord]:
        notes = dict(read_note(container.annotations.get(ANNOTATION, "")))
        for parameter, entry in self._journal.entries_of(Level.CONTAINER, container.id).items():
            if parameter in CRI_FIELDS:
                notes[parameter] = record_of_entry(entry)
        in_force = {parameter: record_in_force(container, parameter, record) for parameter, record in notes.items()}
        return {parameter: record for parameter, record in in_force.items() if record is not None}

    # -- effects

    async def write_pod_files(self, pod: Pod, results: PluginResults) -> None:
        """Values of a pod that files carry; nothing if the pod has no cgroup yet."""
        if results.values:
            await self._run_locked(pod, lambda: self._write_pod(pod, results))

    async def on_create(self, pod: Pod, container: Container, results: PluginResults) -> None:
        """The note of what was asked for is in the answer."""

    async def on_update(self, pod: Pod, container: Container, results: PluginResults) -> PluginResults:
        """Note what was asked for; put back what an earlier rule set and nobody wants now."""
        entries = self._journal.entries_of(Level.CONTAINER, container.id)
        failed = _failed_plugins(results)
        unwanted = {
            parameter: (entry.plugin, Wish(_requested_value(container, parameter) or NEUTRAL[parameter], _NOT_DESIRED))
            for parameter, entry in entries.items()
            if parameter in NEUTRAL and parameter not in results.values and entry.plugin not in failed
            if parameter not in self._owned().of_container(container.id)
        }
        unrecorded = await asyncio.to_thread(self._record_update, pod, container, results, entries)
        if not self._is_refreshed(container.id):
            # The record is looked at again when the runtime has done it.
            self._sync.refresh_soon(container.id)
        recorded = {parameter: value for parameter, value in results.values.items() if parameter not in unrecorded}
        return replace(results, values={**unwanted, **recorded})

    def _record_update(
        self, pod: Pod, container: Container, results: PluginResults, entries: Mapping[Parameter, JournalEntry]
    ) -> set[Parameter]:
        """What could not be noted: it must not be changed, or nobody would know what it was."""
        directory, children = self._inventory.list_pod_directory(container.cgroup_parent or pod.cgroup_parent)
        child = find_child(children, container.id) if directory else None
        target = container_target(pod, container, f"{directory}/{child}" if child is not None else "")
        unrecorded: set[Parameter] = set()
        for parameter, (plugin, wish) in results.values.items():
            if parameter not in CRI_FIELDS:
                continue
            requested = _requested_value(container, parameter)
            if requested == wish.value and parameter not in entries:
                continue
            before = self._value_until_update(container.id, parameter, entries.get(parameter))
            try:
                self._journal.supersede(
                    target, parameter, found=requested, written=wish.value, plugin=plugin, before=before
                )
            except OSError:
                unrecorded.add(parameter)
        return unrecorded

    def _value_until_update(self, container_id: str, parameter: Parameter, entry: JournalEntry | None) -> Value | None:
        """What a container has of us until the runtime has done what it is told now."""
        if entry is None:
            return None
        record = self._sync.store.containers.get(container_id)
        if record is None or not self._is_refreshed(container_id):
            return entry.written
        # The last update may not have come to be: then it is what there was before that.
        if record_in_force(record, parameter, record_of_entry(entry)) is None:
            return entry.written
        value = cri_value(record.resources, parameter)
        return CLEAR if value is None else value

    async def on_start(self, pod: Pod, container: Container) -> None:
        """What only running processes can have: of the container, and of its pod."""

        def job(watch: Watch) -> tuple[PluginResults, PluginResults]:
            hooks = PluginChain(self._plugins, self._rules(), watch)
            return hooks.pod(PodContext(request=pod)), hooks.container(ContainerContext(pod=pod, request=container))

        self._trigger_on_pool_change(pod)
        self._started(container.id)
        of_pod, of_container = await self._runner.run(job)
        await self._run_locked(pod, lambda: self._write_started(pod, container, of_pod, of_container))

    async def on_pod_stop(self, pod: Pod) -> None:
        """Nothing is left behind for a pod that is gone. Most of it goes with the directory of its cgroup."""
        self._trigger_on_pool_change(pod)
        await self._run_locked(pod, lambda: self._remove_pod_state(pod.uid))

    async def on_container_stop(self, pod: Pod, container_id: str) -> None:
        """Whether it really ended, the next round sees."""

    def _trigger_on_pool_change(self, pod: Pod) -> None:
        """CPUs that one pod has alone are not in the pools of others."""
        if RESOURCE_STATUS in pod.annotations:
            self._pools_changed()

    # -- in threads

    async def _run_locked(self, pod: Pod, work: Callable[[], object]) -> None:
        lock = self._locks.setdefault(pod.uid, asyncio.Lock())
        async with lock:
            await asyncio.to_thread(work)

    def _write_pod(self, pod: Pod, results: PluginResults) -> None:
        directory, _ = self._inventory.list_pod_directory(pod.cgroup_parent)
        if directory and is_own(pod, directory):
            self._write([(pod_target(pod, directory), results)])

    def _write_started(
        self, pod: Pod, container: Container, of_pod: PluginResults, of_container: PluginResults
    ) -> None:
        directory, children = self._inventory.list_pod_directory(container.cgroup_parent or pod.cgroup_parent)
        child = find_child(children, container.id) if directory else None
        if child is not None:
            targets = [(pod_target(pod, directory), of_pod)] if is_own(pod, directory) else []
            self._write([*targets, (container_target(pod, container, f"{directory}/{child}"), of_container)])

    def _write(self, targets: Sequence[tuple[ActuatorTarget, PluginResults]]) -> None:
        desired = [value for target, results in targets for value in desired_values(target, results)]
        # Not all plugins were asked, so nothing is put back; rounds do that.
        items = self._applier.diff(desired, [], whole=False, undo=False)
        steps = order_steps(item for item in items if route_of(item) is WriteRoute.FILE)
        self._applier.carry_out(steps)


def _failed_plugins(results: PluginResults) -> set[str]:
    """Plugins whose values stay, for nobody knows what they want; what has no plugin's name may be one's of them."""
    failed = {failure.plugin for failure in results.failures}
    return failed | {""} if failed else failed


def _requested_value(container: Container, parameter: Parameter) -> Value | None:
    return cri_value(container.requested, parameter)
