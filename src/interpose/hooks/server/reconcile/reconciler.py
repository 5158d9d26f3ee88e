"""One round: look at the runtime, make rules, let plugins decide, compare with what is there, put right what differs.

The same round serves every cause: a tick, a new cgroup, a changed rule, a call of a hook. Rounds never overlap. What
takes long happens in threads or is awaited; a runtime that is away leaves everything as it is. Nothing here fails: what
goes wrong is part of the round.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from interpose.core.model.cgroup import CRI_FIELDS, Level, Parameter, Value, cri_value
from interpose.core.model.pod import ContainerState, Pod
from interpose.cri.store.sync import Synchronizer
from interpose.hooks.server.evaluate import PluginChain
from interpose.hooks.server.node.node_inputs import NodeSnapshot
from interpose.hooks.server.node.relay_policy import Ownership
from interpose.hooks.server.node.rules import PluginRules, changed_plugins, make_rules
from interpose.hooks.server.plugin import AnyPlugin, NodeInputs, Watch
from interpose.hooks.server.pods.kubelet_client import MetadataOverlay
from interpose.hooks.server.reconcile.apply import Applier
from interpose.hooks.server.reconcile.cri_updates import ContainerUpdate, ContainerUpdates
from interpose.hooks.server.reconcile.desired_state import (
    ContainerTarget,
    DesiredState,
    GroupTarget,
    PodTarget,
    desired_of_groups,
    desired_of_pod,
)
from interpose.hooks.server.reconcile.inventory import Inventory
from interpose.hooks.server.reconcile.plan import (
    CHANGES,
    CriBatch,
    PlanAction,
    PlanItem,
    WriteRoute,
    WriteStep,
    make_batches,
    order_steps,
    route_of,
)
from interpose.hooks.server.targets import ActuatorTarget
from interpose.hooks.server.worker_threads import Runner
from interpose.log import RateLimited

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class ReconcilePass:
    """The result of a reconcile pass."""

    reason: str
    seconds: float = 0.0
    cpu_seconds: float = 0.0  # of the whole process; other work is in it
    listed: bool = False  # whether the runtime told what exists
    subjects: list[PodTarget] = field(default_factory=list)
    wanted: int = 0
    unchanged: int = 0
    items: list[PlanItem] = field(default_factory=list)
    written: int = 0
    errors: list[str] = field(default_factory=list)
    undone: list[PlanItem] = field(default_factory=list)  # what was refused, skipped, or gone by then
    starting: int = 0  # containers that are left alone until their start has ended
    desired_state: DesiredState = field(default_factory=DesiredState)


class CachedState(NamedTuple):
    """The desired state of a pod, and what it was computed from."""

    subject: PodTarget
    rules: PluginRules
    desired_state: DesiredState


class Reconciler:
    """Carries out rounds. `gather` is called in a thread with the pods that live, and whether these are all."""

    def __init__(
        self,
        *,
        plugins: Sequence[AnyPlugin],
        sync: Synchronizer,
        inventory: Inventory,
        applier: Applier,
        updates: ContainerUpdates,
        runner: Runner,
        collect_inputs: Callable[[Sequence[Pod], bool], NodeSnapshot],
        overlay: Callable[[], Awaitable[MetadataOverlay]],
        is_managed: Callable[[Pod], bool],
        policy: Callable[[], Awaitable[Ownership]],
    ) -> None:
        self.rules = PluginRules()
        self.node = NodeSnapshot(NodeInputs(), None)
        self.passes: Counter[str] = Counter()
        self.last: ReconcilePass | None = None
        self.rule_changes = 0
        self.conflicts: Counter[tuple[str, str, str]] = Counter()  # (parameter, loser, winner) in the last look
        self._limited = RateLimited(_log)
        self._plugins = tuple(plugins)
        self._sync = sync
        self._inventory = inventory
        self._applier = applier
        self._updates = updates
        self._runner = runner
        self._collect_inputs = collect_inputs
        self._poll_overlay = overlay
        self._is_managed = is_managed
        self._policy = policy  # of the relay
        self._logged_left: set[tuple[str, Parameter, str]] = set()
        self._cache: dict[str, CachedState] = {}
        self._updates_uncertain = True  # whether an update may have been cut off: by our own end, or an error
        self._lock = asyncio.Lock()
        self._rules_lock = asyncio.Lock()  # rules are also made outside of rounds

    async def reconcile(
        self, reason: str, *, detail: bool = False, apply: bool = True, record: bool = True
    ) -> ReconcilePass:
        """One reconcile pass; with `detail` unchanged values are in the result, without `apply` nothing is written.

        A pass that is not recorded is for views only.
        """
        async with self._lock:
            result = ReconcilePass(reason=reason)
            began, cpu = time.monotonic(), time.process_time()
            overlay, self._applier.owned = await asyncio.gather(self._poll_overlay(), self._policy())
            result.listed = await self._sync.resync()
            await self._diff(result, overlay, detail=detail)
            if apply:
                if drifted := self._drifted(result.items):
                    # Somebody may have updated them through the runtime: then what they ask for is another value.
                    await self._sync.refresh(*drifted)
                    await self._diff(result, overlay, detail=detail)
                failed = self._updates.failed
                await self._apply(result)
                self._updates_uncertain = not result.listed or self._updates.failed > failed
            result.seconds, result.cpu_seconds = time.monotonic() - began, time.process_time() - cpu
            if record:
                self.passes.update(reason.split(", "))
                self.last = result
            return result

    async def remake_rules(self, pods: Sequence[Pod], *, complete: bool) -> bool:
        """Make rules of what is there now; whether one of them changed. `complete`: there are no other pods."""
        async with self._rules_lock:
            self.node = await asyncio.to_thread(self._collect_inputs, pods, complete)
            before = self.rules
            inputs = self.node.inputs
            self.rules = await self._runner.run(lambda watch: make_rules(self._plugins, inputs, before, watch))
            if complete:  # that the runtime does not tell all is said where it is asked, and normal at the start
                self._log_rule_problems(before)
            names = changed_plugins(before, self.rules)
            if names:
                self.rule_changes += 1
                _log.info("Rules changed", extra={"kv": {"plugins": ", ".join(sorted(names))}})
            else:
                self.rules = PluginRules(by_plugin=before.by_plugin, problems=self.rules.problems)
            return bool(names)

    def _log_rule_problems(self, before: PluginRules) -> None:
        for plugin, problem in self.rules.problems.items():
            if before.problems.get(plugin) != problem:
                extra = {"kv": {"plugin": plugin, "err": problem}}
                _log.error("Invalid rule inputs, keeping the rule in force", extra=extra)

    # -- looking

    async def _diff(self, result: ReconcilePass, overlay: MetadataOverlay, *, detail: bool) -> None:
        store = self._sync.store
        pods = [(overlay.of(pod), store.containers_of(pod.id)) for pod in store.pods.values()]
        await self.remake_rules([pod for pod, _ in pods if pod.ready], complete=result.listed)
        slo = self.node.inputs.slo
        applications = slo.host_applications if slo is not None else ()

        def find() -> tuple[list[PodTarget], list[GroupTarget]]:
            return self._inventory.subjects(pods), self._inventory.groups(self.node.layout, applications)

        result.subjects, groups = await asyncio.to_thread(find)
        result.desired_state = await self._compute_desired(result.subjects, groups)
        self._log_plugin_problems(result.desired_state)
        desired_values = result.desired_state.values
        live = [group.target for group in groups] + [
            target for subject in result.subjects for target in subject.targets
        ]
        known = _runtime_values(result.subjects, running=self._updates_uncertain)
        result.wanted = len(desired_values)
        unsure = self._unsure(result.desired_state, live, overlay)

        def diff() -> list[PlanItem]:
            return self._applier.diff(
                desired_values, live, known=known, detail=detail, unsure=unsure, whole=result.listed
            )

        result.items = await asyncio.to_thread(diff)
        result.unchanged = self._applier.unchanged
        self._log_left_values()

    def _unsure(
        self, desired_state: DesiredState, live: Sequence[ActuatorTarget], overlay: MetadataOverlay
    ) -> set[tuple[Level, str, str]]:
        """Of which targets nobody knows what a plugin wants now: what it gave them stays until it says something else.

        What has no plugin's name, from a note that does not tell, may be anybody's.
        """
        unsure = {
            (problem.target.level, problem.target.key, plugin)
            for problem in desired_state.problems
            for plugin in (problem.failure.plugin, "")
        }
        names = self.rules.problems.keys() - self.rules.by_plugin.keys()  # no rule since the start
        if not overlay.known:
            names |= {plugin.name for plugin in self._plugins}
        if names:
            unsure |= {(target.level, target.key, plugin) for target in live for plugin in (*names, "")}
        return unsure

    def _log_left_values(self) -> None:
        """Log values left to a policy, each plugin and parameter once per policy."""
        owned, left = self._applier.owned, self._applier.left_to_policy
        left_values = {(plugin, parameter, owned.policy) for plugin, parameter in left}
        for plugin, parameter, policy in sorted(left_values - self._logged_left):
            kv = {"plugin": plugin, "parameter": parameter.value, "policy": policy}
            _log.warning("Values are left to the policy of the relay", extra={"kv": kv})
        self._logged_left = left_values

    def _log_plugin_problems(self, desired_state: DesiredState) -> None:
        """Log failures and conflicts of plugins, rate-limited."""
        for target, (plugin, text) in desired_state.problems:
            key = f"{plugin} {target.level} {target.key} {text}"
            self._limited.log(logging.WARNING, "Plugin failed", key=key, plugin=plugin, target=target.name, err=text)
        self.conflicts = Counter(
            (conflict.parameter.value, conflict.loser, conflict.winner) for conflict in desired_state.conflicts
        )
        for conflict in desired_state.conflicts:
            self._limited.log(
                logging.WARNING,
                "Two plugins want different values, the later one has it",
                key=f"{conflict.parameter} {conflict.loser} {conflict.winner}",
                parameter=conflict.parameter.value,
                target=conflict.target.name,
                loser=conflict.loser,
                winner=conflict.winner,
            )

    async def _compute_desired(self, subjects: Sequence[PodTarget], groups: Sequence[GroupTarget]) -> DesiredState:
        """The desired state; that of an unchanged pod is cached."""
        rules, cache = self.rules, self._cache
        by_plugin = rules.by_plugin
        changed = [
            subject
            for subject in subjects
            if (known := cache.get(subject.pod.id)) is None
            or known.subject is not subject
            or known.rules.by_plugin is not by_plugin
            or known.desired_state.problems
        ]

        def work(watch: Watch) -> tuple[DesiredState, list[DesiredState]]:
            hooks = PluginChain(self._plugins, rules, watch)
            unmanaged = DesiredState()
            return desired_of_groups(hooks, groups), [
                desired_of_pod(hooks, subject) if self._is_managed(subject.pod) else unmanaged for subject in changed
            ]

        above, found = await self._runner.run(work)
        cache |= {
            subject.pod.id: CachedState(subject, rules, state) for subject, state in zip(changed, found, strict=True)
        }
        self._cache = {subject.pod.id: cache[subject.pod.id] for subject in subjects}
        parts = [above, *(cached.desired_state for cached in self._cache.values())]
        return DesiredState(
            values=tuple(value for part in parts for value in part.values),
            problems=tuple(problem for part in parts for problem in part.problems),
            conflicts=tuple(conflict for part in parts for conflict in part.conflicts),
        )

    def _drifted(self, items: Sequence[PlanItem]) -> list[str]:
        """Containers that are to be updated though they run with values we know."""
        return list(
            dict.fromkeys(
                item.target.key for item in items if item.action in CHANGES and route_of(item) is WriteRoute.CRI
            )
        )

    # -- acting

    async def _apply(self, result: ReconcilePass) -> None:
        members = {member.target.key: member for subject in result.subjects for member in subject.members}
        for batch in make_batches(self._steps_to_apply(result, members)):
            if isinstance(batch, CriBatch):
                updates = [_update(members[key], steps) for key, steps in batch.containers.items() if key in members]
                for key, steps in batch.containers.items():
                    for step in steps:
                        if key not in self._updates.unconfirmed:
                            self._applier.count_drift(step.item)
                errors = await self._updates.send(updates)
                for update in updates:
                    error = errors.get(update.target.key)
                    steps = batch.containers[update.target.key]
                    if error is None:
                        # One that does not run yet is looked at when it does.
                        is_running = update.member.state is ContainerState.RUNNING
                        verify = is_running and update.target.key not in self._updates.gone
                        await asyncio.to_thread(self._verify_update, steps, result, verify=verify)
                        continue
                    if not error.is_temporary:
                        for step in steps:
                            self._applier.record_step(step, error.text)
                    result.errors.append(f"{update.target.name}: {error.text}")
                    result.undone += [step.item for step in steps]
            else:
                for outcome in await asyncio.to_thread(self._applier.carry_out, batch.steps):
                    result.written += outcome.ok
                    item = outcome.step.item
                    if not outcome.ok:
                        result.undone.append(item)
                    if not outcome.ok and outcome.error:
                        result.errors.append(f"{item.target.name}: {item.parameter}: {outcome.error}")
        if result.written or result.errors:
            kv = {"reason": result.reason, "written": result.written, "failed": len(result.errors)}
            _log.info("Restored values changed by others", extra={"kv": kv})

    def _steps_to_apply(self, result: ReconcilePass, members: Mapping[str, ContainerTarget]) -> tuple[WriteStep, ...]:
        """All steps but those that a runtime may lose: updates of containers that are being started."""
        states = {key: member.container.state for key, member in members.items()}
        running = {key: member.target.name for key, member in members.items() if states[key] is ContainerState.RUNNING}
        # A container has a cgroup from the beginning of its start on, and runs by its end.
        created = {key for key, state in states.items() if state is ContainerState.CREATED}
        starting = {key for key in created if members[key].target.directory}
        updated = [item for item in result.items if item.action in CHANGES and route_of(item) is WriteRoute.CRI]
        self._updates.unconfirmed &= members.keys()
        self._updates.confirm(running, {item.target.key for item in updated})
        waiting = [item for item in updated if item.target.key in starting]
        result.undone += waiting
        result.starting = len({item.target.key for item in waiting})
        later = set(map(id, waiting))
        return order_steps(item for item in result.items if id(item) not in later)

    def _verify_update(self, steps: Sequence[WriteStep], result: ReconcilePass, *, verify: bool) -> None:
        """Compare values after an update. A value that is not in place counts as refused."""
        result.written += 1
        for step in steps:
            outcome = self._applier.record_step(step, self._applier.find_displaced(step) if verify else "")
            if not outcome.ok:
                result.undone.append(step.item)
                result.errors.append(f"{step.item.target.name}: {step.item.parameter}: {outcome.error}")


def _runtime_values(subjects: Sequence[PodTarget], *, running: bool) -> dict[tuple[str, Parameter], Value | None]:
    """What containers without a cgroup have, as the runtime says; if in doubt, also what those have that run."""
    return {
        (member.target.key, parameter): cri_value(member.container.resources, parameter)
        for subject in subjects
        for member in subject.members
        if running or not member.target.directory
        for parameter in CRI_FIELDS
    }


def _update(member: ContainerTarget, steps: Sequence[WriteStep]) -> ContainerUpdate:
    """One update for all steps of a container; of two for the same parameter the later one counts."""
    values: dict[Parameter, Value] = {}
    restored: dict[Parameter, Value | None] = {}
    for step in steps:
        if step.item.action is PlanAction.RESTORE:
            restored[step.item.parameter] = step.item.wanted
        else:
            values[step.item.parameter] = step.value
    plugins = {step.item.parameter: step.item.plugin for step in steps}
    return ContainerUpdate(member.target, member.container, values, restored, plugins)
