"""Putting values in place: each is journaled before it is written, read again afterwards, counted, and held if refused.

Synchronous; called from worker threads. Nothing raises: what went wrong with a value is its outcome, and the others are
carried out. In a dry run nothing is written and nothing is noted down.
"""

import errno
import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from interpose.core.model.cgroup import CLEAR, Level, Parameter, Value
from interpose.hooks.server.actuators.api import Actuator
from interpose.hooks.server.node.relay_policy import Ownership
from interpose.hooks.server.reconcile.diff import (
    Allowed,
    Known,
    StateDiff,
    action_of,
    error_text,
    is_in_place,
    is_same,
    log_release,
)
from interpose.hooks.server.reconcile.journal import Journal
from interpose.hooks.server.reconcile.original_values import NEUTRAL
from interpose.hooks.server.reconcile.plan import CHANGES, SPOILS, PlanAction, PlanItem, WriteStep, is_off
from interpose.hooks.server.reconcile.retry import RetryBackoff
from interpose.hooks.server.targets import ActuatorTarget, DesiredValue

_log = logging.getLogger(__name__)

_MAX_ERRORS: Final = 100
_NOTHING_KNOWN: Final[Known] = MappingProxyType({})
# What the kernel means by an error; its own words are the same for all values.
_MEANINGS: Final[Mapping[tuple[Parameter, int], str]] = MappingProxyType(
    {
        (Parameter.MEMORY_LIMIT, errno.EBUSY): "usage is above the limit and cannot be reclaimed",
        (Parameter.CPU_QUOTA, errno.EINVAL): "more than its parent has, less than a child has, or below the minimum",
        (Parameter.CPUSET_CPUS, errno.EBUSY): "a child has CPUs that are not in it",
        (Parameter.CPUSET_CPUS, errno.EACCES): "CPUs that its parent does not have",
        (Parameter.CPUSET_CPUS, errno.ENOSPC): "it has processes and would have no CPUs",
        (Parameter.CPUSET_MEMS, errno.EBUSY): "a child has memory nodes that are not in it",
        (Parameter.CPUSET_MEMS, errno.EACCES): "memory nodes that its parent does not have",
        (Parameter.CPUSET_MEMS, errno.ENOSPC): "it has processes and would have no memory nodes",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """What became of a step."""

    step: WriteStep
    ok: bool
    error: str = ""  # also empty if the target is gone, which is normal
    drifted: bool = False  # it had been as wanted, and somebody else changed it


class WriteError(NamedTuple):
    """Something that went wrong, for people who look."""

    when: float
    target: str
    parameter: Parameter
    value: Value
    plugin: str
    error: str


class Applier:
    """Looks, and carries out what planning made of it. A target is worked on by one thread at a time."""

    def __init__(
        self,
        actuators: Mapping[Parameter, Actuator],
        journal: Journal,
        *,
        now: Callable[[], float],
        dry_run: bool = False,
        allowed: Allowed | None = None,
    ) -> None:
        self.writes: dict[tuple[Parameter, str], int] = {}  # by outcome: ok, failed, gone, skipped
        self.drift: dict[tuple[str, Parameter], int] = {}  # by plugin
        self.unchanged = 0  # values that were as wanted when all were looked at last
        self.left_to_policy: Mapping[tuple[str, Parameter], int] = {}  # values then that are a policy's, by plugin
        self.owned = Ownership()  # what a policy of the relay decides
        self._actuators = dict(actuators)
        self._journal = journal
        self._now = now
        self._dry_run = dry_run
        self._allowed = allowed
        self._retries = RetryBackoff()
        self._blocked_plugins: dict[str, str] = {}  # plugin -> which switch of the node is not as it wants
        self._errors: deque[WriteError] = deque(maxlen=_MAX_ERRORS)
        self._count_lock = threading.Lock()

    @property
    def held(self) -> int:
        """How many values wait because they were refused."""
        return len(self._retries)

    @property
    def last_errors(self) -> list[WriteError]:
        """What went wrong lately, oldest first."""
        return list(self._errors)

    def diff(
        self,
        desired: Sequence[DesiredValue],
        live: Sequence[ActuatorTarget],
        *,
        known: Known = _NOTHING_KNOWN,
        detail: bool = False,
        whole: bool = True,
        undo: bool = True,
        unsure: Collection[tuple[Level, str, str]] = (),
    ) -> list[PlanItem]:
        """What differs from the wants, and what of our values nobody wants any more; with `detail` all the rest too.

        `live` are all targets there are. If they and the wants are only a part, `whole` is False, and nothing is
        concluded from others not being among them. `known` is what the runtime says of containers. `unsure` are
        targets, by level and key, with a plugin that failed there: what it wrote stays, nobody knows what it wants now.
        Without `undo` nothing is put back at all: who asks knows only some of the plugins.
        """
        desired_by_key = {(value.target.level, value.target.key, value.parameter): value for value in desired}
        targets = {(target.level, target.key): target for target in live}
        for value in desired:
            targets.setdefault((value.target.level, value.target.key), value.target)
        diff = StateDiff(
            self._actuators,
            self._journal,
            self._retries,
            time=self._now(),
            known=known,
            allowed=self._allowed,
            detail=detail,
            forget=not self._dry_run,
            owned=self.owned,
        )
        diff.compare(desired_by_key)
        if undo:
            diff.plan_restores(targets, desired_by_key, unsure, whole=whole)
        diff.follow_parents()
        diff.hold_switched(desired_by_key)
        if whole:
            self.unchanged, self.left_to_policy = diff.unchanged, diff.left_to_policy
            self._retries.retain(lambda key: (key[0], key[1]) in targets)
            self._blocked_plugins = {
                item.plugin: _node_switch_text(item, item.note)
                for item in diff.items
                if item.target.level is Level.NODE and item.action is PlanAction.HELD
            }
        return diff.items

    def blocked_reason(self, plugin: str) -> str:
        """Why nothing of a plugin may be carried out now; empty if it may.

        A switch of the node that could not be set makes the plugin's other values dangerous.
        """
        return self._blocked_plugins.get(plugin, "")

    def carry_out(self, steps: Sequence[WriteStep]) -> list[StepOutcome]:
        """Write files, step by step."""
        return [] if self._dry_run else [self._carry_out(step) for step in steps]

    def find_displaced(self, step: WriteStep) -> str:
        """What stands where somebody else was to put a value, as an error; empty if it is in place, or nobody can tell.

        A relay may have a policy that decides the same, and has the last word.
        """
        target, parameter = step.item.target, step.item.parameter
        actuator = self._actuators.get(parameter)
        if step.item.action not in CHANGES or not target.directory or actuator is None:
            return ""
        value = NEUTRAL.get(parameter, step.value) if step.item.wanted is None else step.value
        try:
            found = actuator.read(target, parameter)
        except Exception:  # it may be gone; the next round looks again
            return ""
        if is_in_place(actuator, target, parameter, found, value, self._allowed):
            return ""
        return f"sent {value}, found {'nothing' if found is None else found}: {self.owned.owner} sets it"

    def record_step(self, step: WriteStep, error: str = "") -> StepOutcome:
        """Count a step that somebody else has carried out, and journaled; one that was refused is held."""
        return self._record_refusal(step, error) if error else self._record_success(step, drifted=False)

    def _carry_out(self, step: WriteStep) -> StepOutcome:
        item, value = step.item, step.value
        target, parameter = item.target, item.parameter
        if reason := self.blocked_reason(item.plugin):
            self._count(parameter, "skipped")
            return StepOutcome(step=step, ok=False, error=f"skipped: {reason}")
        actuator = self._actuators[parameter]
        drifted = False
        try:
            now = actuator.read(target, parameter)
            if not is_same(actuator, parameter, now, value):
                drifted = self.count_drift(item)
                self._journal_write(step, now, actuator)
                actuator.write(target, parameter, value)
                found = actuator.read(target, parameter)
                if not is_same(actuator, parameter, found, value):
                    found_text = "nothing" if found is None else found
                    return self._record_refusal(step, f"wrote {value}, found {found_text}", drifted=drifted)
        except Exception as error:  # a mistake of an actuator costs this value only
            if action_of(error) is PlanAction.GONE:
                self._count(parameter, "gone")
                return StepOutcome(step=step, ok=False, drifted=drifted)
            return self._record_refusal(step, _explain(parameter, error), drifted=drifted)
        return self._record_success(step, drifted=drifted)

    def count_drift(self, item: PlanItem) -> bool:
        """Whether the value had been in place and somebody changed it; to be asked before it is journaled again.

        One that is held never was in place, though the journal says it was tried.
        """
        key = (item.target.level, item.target.key, item.parameter)
        if item.action is not PlanAction.SET or key in self._retries:
            return False
        entry = self._journal.get(*key)
        if entry is None or entry.written != item.final:
            return False
        with self._count_lock:
            drifted = (item.plugin, item.parameter)
            self.drift[drifted] = self.drift.get(drifted, 0) + 1
        return True

    def _journal_write(self, step: WriteStep, now: Value | None, actuator: Actuator) -> None:
        """Put down what is found and what is about to be written.

        If this process ends before the write, what is there is still the value before: if that was ours too, it must
        be known for ours.
        """
        target, parameter, plugin = step.item.target, step.item.parameter, step.item.plugin
        self._journal_spoiled(step, now)
        old = self._journal.get(target.level, target.key, parameter)
        ours = [] if old is None else [value for value in (old.written, old.before) if value is not None]
        before = next((value for value in ours if is_same(actuator, parameter, now, value)), None)
        self._journal.note(target, parameter, found=now, written=step.value, plugin=plugin, before=before)

    def _journal_spoiled(self, step: WriteStep, now: Value | None) -> None:
        """Journal a value that the kernel replaces when this switch is turned on: that is our write too, as CLEAR.

        If the value was restored before, it is no other process that changes it back.
        """
        spoiled = SPOILS.get(step.item.parameter)
        if spoiled is None or spoiled not in self._actuators or step.item.action is PlanAction.RESTORE:
            return
        if is_off(step.value) or not is_off(now):
            return
        target, plugin = step.item.target, step.item.plugin
        found = self._actuators[spoiled].read(target, spoiled)
        self._journal.note(target, spoiled, found=found, written=CLEAR, plugin=plugin)
        self._retries.forget_restore((target.level, target.key, spoiled))

    def _record_success(self, step: WriteStep, *, drifted: bool) -> StepOutcome:
        item = step.item
        self._count(item.parameter, "ok")
        if step.value == item.final:
            key = (item.target.level, item.target.key, item.parameter)
            if item.action is PlanAction.RESTORE:
                retry = self._retries.record_restore(key, item.final)
                self._journal.forget(*key)
            else:
                retry = self._retries.release(key)
                self._retries.forget_restore(key)
            log_release(retry, item.target, item.parameter)
        return StepOutcome(step=step, ok=True, drifted=drifted)

    def _record_refusal(self, step: WriteStep, error: str, *, drifted: bool = False) -> StepOutcome:
        item, target = step.item, step.item.target
        name, now = target.name or target.key, self._now()
        self._count(item.parameter, "failed")
        self._errors.append(WriteError(now, name, item.parameter, step.value, item.plugin, error))
        if self._retries.record_refusal((target.level, target.key, item.parameter), item.final, error, now):
            fields = {
                "target": name,
                "parameter": str(item.parameter),
                "value": str(step.value),
                "plugin": item.plugin,
                "error": error,
            }
            _log.warning("Value rejected, will be retried", extra={"kv": fields})
        if target.level is Level.NODE:
            self._blocked_plugins[item.plugin] = _node_switch_text(item, error)
        return StepOutcome(step=step, ok=False, error=error, drifted=drifted)

    def _count(self, parameter: Parameter, outcome: str) -> None:
        with self._count_lock:
            self.writes[parameter, outcome] = self.writes.get((parameter, outcome), 0) + 1


def _node_switch_text(item: PlanItem, error: str) -> str:
    return f"{item.parameter} of the node could not be set to {item.final}: {error}"


def _explain(parameter: Parameter, error: Exception) -> str:
    code = error.errno if isinstance(error, OSError) else None
    meaning = _MEANINGS.get((parameter, code or 0))
    return f"{error_text(error)}: {meaning}" if meaning else error_text(error)
