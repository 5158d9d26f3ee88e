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
from interpose.hooks.server.node.node_inputs import NodeInputSource
from interpose.hooks.server.node.relay_policy import Ownership
from interpose.hooks.server.node.rules import PluginRules, changed, make_rules
from interpose.hooks.server.plugin import AnyPlugin, NodeInputs, Watch
from interpose.hooks.server.pods.kubelet_client import MetadataOverlay
from interpose.hooks.server.reconcile import desired_state as desired
from interpose.hooks.server.reconcile.apply import Applier
from interpose.hooks.server.reconcile.cri_updates import ContainerUpdate, ContainerUpdates
from interpose.hooks.server.reconcile.desired_state import ContainerTarget, DesiredState, PodTarget
from interpose.hooks.server.reconcile.inventory import Inventory
from interpose.hooks.server.reconcile.plan import (
    CHANGES,
    CriBatch,
    PlanAction,
    PlanItem,
    WriteRoute,
    WriteStep,
    by_container,
    ordered,
    route_of,
)
from interpose.hooks.server.targets import ActuatorTarget
from interpose.hooks.server.worker_threads import Runner
from interpose.log import RateLimited

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class ReconcilePass:
    """What came of a round."""

    reason: str
    seconds: float = 0.0
    cpu_seconds: float = 0.0  # of the whole process; other work is in it
    listed: bool = False  # whether the runtime told what exists
    subjects: list[PodTarget] = field(default_factory=list)
    wanted: int = 0
    kept: int = 0
    items: list[PlanItem] = field(default_factory=list)
    written: int = 0
    errors: list[str] = field(default_factory=list)
    undone: list[PlanItem] = field(default_factory=list)  # what was refused, skipped, or gone by then
    starting: int = 0  # containers that are left alone until their start has ended
    desire: DesiredState = field(default_factory=DesiredState)


class CachedState(NamedTuple):
    """A pod's desire, and what it was made of."""

    subject: PodTarget
    rules: PluginRules
    desire: DesiredState


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
        gather: Callable[[Sequence[Pod], bool], NodeInputSource],
        facts: Callable[[], Awaitable[MetadataOverlay]],
        managed: Callable[[Pod], bool],
        policy: Callable[[], Awaitable[Ownership]],
    ) -> None:
        self.rules = PluginRules()
        self.surroundings = NodeInputSource(NodeInputs(), None)
        self.rounds: Counter[str] = Counter()
        self.last: ReconcilePass | None = None
        self.rule_changes = 0
        self.conflicts: Counter[tuple[str, str, str]] = Counter()  # (parameter, loser, winner) in the last look
        self._remarks = RateLimited(_log)
        self._plugins = tuple(plugins)
        self._sync = sync
        self._inventory = inventory
        self._applier = applier
        self._updates = updates
        self._runner = runner
        self._gather = gather
        self._facts = facts
        self._managed = managed
        self._policy = policy  # of the relay
        self._told_left: set[tuple[str, Parameter, str]] = set()
        self._kept: dict[str, CachedState] = {}
        self._doubt = True  # whether an update may have been cut off: by our own end, or an error
        self._lock = asyncio.Lock()
        self._making = asyncio.Lock()  # rules are also made outside of rounds

    async def round(self, reason: str, *, detail: bool = False, act: bool = True, record: bool = True) -> ReconcilePass:
        """One round; `detail` also tells of values that are as they shall be, without `act` nothing is changed.

        One that is not recorded is only somebody's look.
        """
        async with self._lock:
            done = ReconcilePass(reason=reason)
            began, cpu = time.monotonic(), time.process_time()
            facts, self._applier.owned = await asyncio.gather(self._facts(), self._policy())
            done.listed = await self._sync.resync()
            await self._look(done, facts, detail=detail)
            if act:
                if drifted := self._drifted(done.items):
                    # Somebody may have updated them through the runtime: then what they ask for is another value.
                    await self._sync.refresh(*drifted)
                    await self._look(done, facts, detail=detail)
                failed = self._updates.failed
                await self._act(done)
                self._doubt = not done.listed or self._updates.failed > failed
            done.seconds, done.cpu_seconds = time.monotonic() - began, time.process_time() - cpu
            if record:
                self.rounds.update(reason.split(", "))
                self.last = done
            return done

    async def remake_rules(self, pods: Sequence[Pod], *, complete: bool) -> bool:
        """Make rules of what is there now; whether one of them changed. `complete`: there are no other pods."""
        async with self._making:
            self.surroundings = await asyncio.to_thread(self._gather, pods, complete)
            before = self.rules
            inputs = self.surroundings.inputs
            self.rules = await self._runner.run(lambda watch: make_rules(self._plugins, inputs, before, watch))
            if complete:  # that the runtime does not tell all is said where it is asked, and normal at the start
                self._tell_problems(before)
            names = changed(before, self.rules)
            if names:
                self.rule_changes += 1
                _log.info("Rules changed", extra={"kv": {"plugins": ", ".join(sorted(names))}})
            else:
                self.rules = PluginRules(by_plugin=before.by_plugin, problems=self.rules.problems)
            return bool(names)

    def _tell_problems(self, before: PluginRules) -> None:
        for plugin, problem in self.rules.problems.items():
            if before.problems.get(plugin) != problem:
                extra = {"kv": {"plugin": plugin, "err": problem}}
                _log.error("Invalid rule inputs, keeping the rule in force", extra=extra)

    # -- looking

    async def _look(self, done: ReconcilePass, facts: MetadataOverlay, *, detail: bool) -> None:
        store = self._sync.store
        pods = [(facts.of(pod), store.containers_of(pod.id)) for pod in store.pods.values()]
        await self.remake_rules([pod for pod, _ in pods if pod.ready], complete=done.listed)
        slo = self.surroundings.inputs.slo
        applications = slo.host_applications if slo is not None else ()

        def find() -> tuple[list[PodTarget], list[desired.GroupTarget]]:
            return self._inventory.subjects(pods), self._inventory.groups(self.surroundings.layout, applications)

        done.subjects, groups = await asyncio.to_thread(find)
        done.desire = await self._desire(done.subjects, groups)
        self._tell(done.desire)
        wants = done.desire.wants
        live = [group.target for group in groups] + [one for subject in done.subjects for one in subject.targets]
        known = _known(done.subjects, running=self._doubt)
        done.wanted = len(wants)
        unsure = self._unsure(done.desire, live, facts)

        def survey() -> list[PlanItem]:
            return self._applier.survey(wants, live, known=known, detail=detail, unsure=unsure, whole=done.listed)

        done.items = await asyncio.to_thread(survey)
        done.kept = self._applier.kept
        self._tell_left()

    def _unsure(
        self, desire: DesiredState, live: Sequence[ActuatorTarget], facts: MetadataOverlay
    ) -> set[tuple[Level, str, str]]:
        """Of which targets nobody knows what a plugin wants now: what it gave them stays until it says something else.

        What has no plugin's name, from a note that does not tell, may be anybody's.
        """
        unsure = {
            (one.target.level, one.target.key, plugin) for one in desire.troubles for plugin in (one.failure.plugin, "")
        }
        names = self.rules.problems.keys() - self.rules.by_plugin.keys()  # no rule since the start
        if not facts.known:
            names |= {plugin.name for plugin in self._plugins}
        if names:
            unsure |= {(target.level, target.key, plugin) for target in live for plugin in (*names, "")}
        return unsure

    def _tell_left(self) -> None:
        """Each plugin and value once, as long as the same policy has it."""
        owned, left = self._applier.owned, self._applier.left
        told = {(plugin, parameter, owned.policy) for plugin, parameter in left}
        for plugin, parameter, policy in sorted(told - self._told_left):
            kv = {"plugin": plugin, "parameter": parameter.value, "policy": policy}
            _log.warning("Values are left to the policy of the relay", extra={"kv": kv})
        self._told_left = told

    def _tell(self, desire: DesiredState) -> None:
        """What went wrong while finding out what plugins want; each thing once in a while."""
        for target, (plugin, text) in desire.troubles:
            key = f"{plugin} {target.level} {target.key} {text}"
            self._remarks.log(logging.WARNING, "Plugin failed", key=key, plugin=plugin, target=target.name, err=text)
        self.conflicts = Counter((one.parameter.value, one.loser, one.winner) for one in desire.conflicts)
        for one in desire.conflicts:
            self._remarks.log(
                logging.WARNING,
                "Two plugins want different values, the later one has it",
                key=f"{one.parameter} {one.loser} {one.winner}",
                parameter=one.parameter.value,
                target=one.target.name,
                loser=one.loser,
                winner=one.winner,
            )

    async def _desire(self, subjects: Sequence[PodTarget], groups: Sequence[desired.GroupTarget]) -> DesiredState:
        """What shall be; of a pod about which nothing changed the answer is known."""
        rules, kept = self.rules, self._kept
        by_plugin = rules.by_plugin
        todo = [
            one
            for one in subjects
            if (known := kept.get(one.pod.id)) is None
            or known.subject is not one
            or known.rules.by_plugin is not by_plugin
            or known.desire.troubles
        ]

        def work(watch: Watch) -> tuple[DesiredState, list[DesiredState]]:
            hooks = PluginChain(self._plugins, rules, watch)
            unmanaged = DesiredState()
            return desired.of_groups(hooks, groups), [
                desired.of_pod(hooks, one) if self._managed(one.pod) else unmanaged for one in todo
            ]

        above, found = await self._runner.run(work)
        kept |= {one.pod.id: CachedState(one, rules, desire) for one, desire in zip(todo, found, strict=True)}
        self._kept = {one.pod.id: kept[one.pod.id] for one in subjects}
        parts = [above, *(one.desire for one in self._kept.values())]
        return DesiredState(
            wants=tuple(want for part in parts for want in part.wants),
            troubles=tuple(one for part in parts for one in part.troubles),
            conflicts=tuple(one for part in parts for one in part.conflicts),
        )

    def _drifted(self, items: Sequence[PlanItem]) -> list[str]:
        """Containers that are to be updated though they run with values we know."""
        return list(
            dict.fromkeys(
                one.target.key
                for one in items
                if one.action in (PlanAction.SET, PlanAction.RESTORE) and route_of(one) is WriteRoute.CRI
            )
        )

    # -- acting

    async def _act(self, done: ReconcilePass) -> None:
        members = {member.target.key: member for subject in done.subjects for member in subject.members}
        for batch in by_container(self._to_do(done, members)):
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
                        runs = update.member.state is ContainerState.RUNNING
                        look = runs and update.target.key not in self._updates.gone
                        await asyncio.to_thread(self._look_after, steps, done, look=look)
                        continue
                    if not error.later:
                        for step in steps:
                            self._applier.report(step, error.text)
                    done.errors.append(f"{update.target.name}: {error.text}")
                    done.undone += [step.item for step in steps]
            else:
                for outcome in await asyncio.to_thread(self._applier.carry_out, batch.steps):
                    done.written += outcome.ok
                    item = outcome.step.item
                    if not outcome.ok:
                        done.undone.append(item)
                    if not outcome.ok and outcome.error:
                        done.errors.append(f"{item.target.name}: {item.parameter}: {outcome.error}")
        if done.written or done.errors:
            kv = {"reason": done.reason, "written": done.written, "failed": len(done.errors)}
            _log.info("Restored values changed by others", extra={"kv": kv})

    def _to_do(self, done: ReconcilePass, members: Mapping[str, ContainerTarget]) -> tuple[WriteStep, ...]:
        """All steps but those that a runtime may lose: updates of containers that are being started."""
        states = {key: one.container.state for key, one in members.items()}
        running = {key: one.target.name for key, one in members.items() if states[key] is ContainerState.RUNNING}
        # A container has a cgroup from the beginning of its start on, and runs by its end.
        created = {key for key, state in states.items() if state is ContainerState.CREATED}
        starting = {key for key in created if members[key].target.directory}
        updated = [item for item in done.items if item.action in CHANGES and route_of(item) is WriteRoute.CRI]
        self._updates.unconfirmed &= members.keys()
        self._updates.confirm(running, {item.target.key for item in updated})
        waiting = [item for item in updated if item.target.key in starting]
        done.undone += waiting
        done.starting = len({item.target.key for item in waiting})
        later = set(map(id, waiting))
        return ordered(item for item in done.items if id(item) not in later)

    def _look_after(self, steps: Sequence[WriteStep], done: ReconcilePass, *, look: bool) -> None:
        """An update was taken: see what came of it. What is not there is held, as if it had been refused."""
        done.written += 1
        for step in steps:
            outcome = self._applier.report(step, self._applier.displaced(step) if look else "")
            if not outcome.ok:
                done.undone.append(step.item)
                done.errors.append(f"{step.item.target.name}: {step.item.parameter}: {outcome.error}")


def _known(subjects: Sequence[PodTarget], *, running: bool) -> dict[tuple[str, Parameter], Value | None]:
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
