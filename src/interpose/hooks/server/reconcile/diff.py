"""Comparing what is wanted with what is there: each difference becomes an item, and so does what nobody wants any more.

Reads, and ends entries of the journal that are over; writes nothing else. What cannot be read is an item too. What is
as wanted costs one read and no object: a round has thousands of those, and hardly ever another.
"""

import errno
import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from interpose.core.model.cgroup import CLEAR, UNLIMITED, Level, Parameter, Value
from interpose.core.model.cpuset import CpuSet
from interpose.hooks.server.actuators.api import Actuator, RuntimeComparison
from interpose.hooks.server.node.relay_policy import Ownership
from interpose.hooks.server.reconcile.journal import Journal, JournalEntry
from interpose.hooks.server.reconcile.plan import (
    BOUNDED,
    CHANGES,
    COLLECTIVE,
    SETS,
    SPOILS,
    PlanAction,
    PlanItem,
    WriteRoute,
    is_off,
    route,
)
from interpose.hooks.server.reconcile.retry import RetryBackoff, RetryDelay, ValueKey
from interpose.hooks.server.targets import ActuatorTarget, DesiredValue

_log = logging.getLogger(__name__)

Known = Mapping[tuple[str, Parameter], Value | None]  # by key of a container
Allowed = Callable[[Parameter, str], str]  # all CPUs or memory nodes that a directory's children can have

_ACTIONS: Final[Mapping[int | None, PlanAction]] = MappingProxyType(
    {
        errno.ENOENT: PlanAction.GONE,
        errno.ESRCH: PlanAction.GONE,
        errno.ENODEV: PlanAction.GONE,  # a group that was removed while its file was open
        errno.ENOTSUP: PlanAction.UNSUPPORTED,
    }
)
_ABOVE_PODS: Final = frozenset((Level.NODE, Level.QOS, Level.HOST_APP))
_SWITCHES: Final[Mapping[Parameter, Parameter]] = MappingProxyType({spoiled: it for it, spoiled in SPOILS.items()})


def is_same(actuator: Actuator, parameter: Parameter, found: Value | None, wanted: Value | None) -> bool:
    """Whether a value is there. Nothing of one's own is what clearing leads to; no limit is none."""
    if wanted is None:
        wanted = UNLIMITED if parameter in BOUNDED else CLEAR
    if found is None and (wanted is CLEAR or (wanted is UNLIMITED and parameter in BOUNDED)):
        return True
    return actuator.same(parameter, found, wanted)


def is_in_place(
    actuator: Actuator,
    target: ActuatorTarget,
    parameter: Parameter,
    now: Value | None,
    wanted: Value | None,
    allowed: Allowed | None,
) -> bool:
    """Whether a value is in place. CRI cannot clear a set, so a cleared one is there in full: all that is allowed."""
    if is_same(actuator, parameter, now, wanted):
        return True
    if (
        wanted is not None
        and route(target, parameter) is WriteRoute.CRI
        and isinstance(actuator, RuntimeComparison)
        and actuator.same_by_runtime(parameter, now, wanted)
    ):
        return True
    if (wanted is not CLEAR and wanted is not None) or allowed is None:
        return False
    if not isinstance(now, str) or parameter not in SETS or route(target, parameter) is WriteRoute.FILE:
        return False
    whole = allowed(parameter, target.directory.rpartition("/")[0])
    return bool(whole) and CpuSet.parse(whole) <= CpuSet.parse(now)


def action_of(error: Exception) -> PlanAction:
    """What an error means: HELD unless it is a normal thing."""
    return _ACTIONS.get(error.errno, PlanAction.HELD) if isinstance(error, OSError) else PlanAction.HELD


def error_text(error: Exception) -> str:
    """An error in words. One that is no OSError is a mistake of ours, and costs this value only."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror} ({errno.errorcode.get(error.errno or 0, error.errno)})"
    return f"{type(error).__name__}: {error}"


def log_release(retry: RetryDelay | None, target: ActuatorTarget, parameter: Parameter) -> None:
    """Say that something that was refused is settled."""
    if retry is not None:
        fields = {"target": target.name or target.key, "parameter": str(parameter), "refusals": retry.refusals}
        _log.info("Rejected value is now in place or no longer needed", extra={"kv": fields})


def _set_item(desired: DesiredValue, now: Value | None) -> PlanItem:
    target, parameter, value, plugin, reason = desired
    return PlanItem(
        target=target, parameter=parameter, now=now, wanted=value, plugin=plugin, reason=reason, action=PlanAction.SET
    )


class StateDiff:
    """One round of looking."""

    def __init__(
        self,
        actuators: Mapping[Parameter, Actuator],
        journal: Journal,
        retries: RetryBackoff,
        *,
        time: float,
        known: Known,
        allowed: Allowed | None,
        detail: bool,
        forget: bool,
        owned: Ownership,
    ) -> None:
        self.items: list[PlanItem] = []
        self.unchanged = 0
        self.left_to_policy: Counter[tuple[str, Parameter]] = Counter()  # values that are a policy's, by plugin
        self._owned = owned
        self._actuators = actuators
        self._journal = journal
        self._retries = retries
        self._time = time
        self._known = known
        self._allowed = allowed
        self._detail = detail
        self._forget = forget  # whether entries of the journal may be ended
        self._cleared: list[tuple[DesiredValue, str]] = []  # sets that have what their parent has, as a copy

    def compare(self, desired_by_key: Mapping[ValueKey, DesiredValue]) -> None:
        """What differs from what is wanted."""
        actuators, retries = self._actuators, self._retries
        for key, desired in desired_by_key.items():
            target, parameter, value, plugin, reason = desired
            actuator = actuators.get(parameter)
            now: Value | None = None
            note = ""
            if self._owned.has(target, parameter):
                action, note = self._leave_to_policy(key, plugin)
                if not self._detail:
                    continue
            elif actuator is None:
                action = PlanAction.UNSUPPORTED
            else:
                try:
                    now = self._read(actuator, target, parameter)
                    unchanged = is_in_place(
                        actuator, target, parameter, now, value, self._allowed
                    ) and not self._was_cut_off(target, parameter)
                    action = PlanAction.KEEP if unchanged else PlanAction.SET
                except Exception as error:  # whatever it is, the others are looked at
                    action, note = action_of(error), error_text(error)
            if action is PlanAction.KEEP:
                self.unchanged += 1
                if key in retries:
                    log_release(retries.release(key), target, parameter)
                if value is CLEAR and isinstance(now, str):
                    self._cleared.append((desired, now))
                if not self._detail:
                    continue
            elif action is PlanAction.SET and (wait := retries.wait_reason(key, value, self._time)):
                action, note = PlanAction.HELD, wait
            self.items.append(
                PlanItem(
                    target=target,
                    parameter=parameter,
                    now=now,
                    wanted=value,
                    plugin=plugin,
                    reason=reason,
                    action=action,
                    note=note,
                )
            )

    def _leave_to_policy(self, key: ValueKey, plugin: str) -> tuple[PlanAction, str]:
        """A value is another's: what is known of it stays as it is, and counts again when the other has ended."""
        self.left_to_policy[plugin, key[2]] += 1
        self._retries.release(key)
        return PlanAction.LEFT, f"{self._owned.owner} decides about it"

    def plan_restores(
        self,
        live: Mapping[tuple[Level, str], ActuatorTarget],
        desired_by_key: Mapping[ValueKey, DesiredValue],
        unsure: Collection[tuple[Level, str, str]],
        *,
        whole: bool,
    ) -> None:
        """What was set once and is not wanted any more; entries of targets that are gone are ended."""
        for level, key in self._journal.targets():
            target = live.get((level, key))
            if target is None and whole:
                target = self._orphaned_target(level, key)
            if target is None:
                continue
            for parameter, entry in self._journal.entries_of(level, key).items():
                if (level, key, parameter) not in desired_by_key and (level, key, entry.plugin) not in unsure:
                    self._plan_restore(target, parameter, entry)

    def follow_parents(self) -> None:
        """On cgroup v1 a cleared set is a copy of the parent's. It is as wanted until the parent's changes."""
        changing = {
            (item.parameter, item.target.directory)
            for item in self.items
            if item.parameter in SETS and item.action in CHANGES
        }
        following: dict[ValueKey, PlanItem] = {}
        for desired, now in sorted(self._cleared, key=lambda pair: pair[0].target.directory):
            target, parameter = desired.target, desired.parameter
            if (parameter, target.directory.rpartition("/")[0]) in changing:
                changing.add((parameter, target.directory))
                following[target.level, target.key, parameter] = _set_item(desired, now)
        if following:
            self.unchanged -= len(following)
            self.items = [
                item for item in self.items if (item.target.level, item.target.key, item.parameter) not in following
            ]
            self.items += following.values()

    def hold_switched(self, desired_by_key: Mapping[ValueKey, DesiredValue]) -> None:
        """Values that the kernel replaces and does not take while a switch is on.

        If it stays on, wanted ones are held, and others are no matter yet. If it is switched off, what is read of them
        now says nothing about what they will be then.
        """
        ending = {
            (item.target.level, item.target.key, SPOILS[item.parameter])
            for item in self.items
            if item.parameter in SPOILS and item.action in CHANGES and is_off(item.final)
        }
        items: dict[ValueKey, PlanItem] = {}
        for item in self.items:
            target, parameter = item.target, item.parameter
            key = (target.level, target.key, parameter)
            if parameter in _SWITCHES and item.action in CHANGES and key not in ending:
                item = self._waiting(item, _SWITCHES[parameter])
                if item.action is PlanAction.KEEP:
                    self.unchanged += 1
                    if not self._detail:
                        continue
            items[key] = item
        for key in ending & desired_by_key.keys():
            if key not in items or items[key].action is PlanAction.KEEP:
                self.unchanged -= 1
                items[key] = _set_item(desired_by_key[key], None)
        self.items = list(items.values())

    def _waiting(self, item: PlanItem, switch: Parameter) -> PlanItem:
        if not self._is_on(item.target, switch):
            return item
        action = PlanAction.KEEP if item.action is PlanAction.RESTORE else PlanAction.HELD
        return replace(item, action=action, note=f"the kernel does not take it while {switch} is on")

    def _plan_restore(self, target: ActuatorTarget, parameter: Parameter, entry: JournalEntry) -> None:
        key = (target.level, target.key, parameter)
        actuator = self._actuators.get(parameter)
        now: Value | None = None
        note = ""
        if self._owned.has(target, parameter):
            action, note = self._leave_to_policy(key, entry.plugin)
            if not self._detail:
                return
        elif actuator is None:
            action = PlanAction.UNSUPPORTED
        else:
            try:
                now = self._read(actuator, target, parameter)
                action = self._restore_action(actuator, target, parameter, entry, now)
            except Exception as error:
                action, note = action_of(error), error_text(error)
        if action is PlanAction.KEEP:
            self.unchanged += 1
            if self._forget:
                self._journal.forget(*key)
                log_release(self._retries.release(key), target, parameter)
            if not self._detail:
                return
        original = self._original(actuator, target, parameter, entry, now)
        final = CLEAR if original is None else original
        if action is PlanAction.RESTORE:
            self._note_undone(target, parameter, entry.plugin, now, final)
        if action is PlanAction.RESTORE and (wait := self._retries.wait_reason(key, final, self._time)):
            action, note = PlanAction.HELD, wait
        self.items.append(
            PlanItem(
                target=target,
                parameter=parameter,
                now=now,
                wanted=original,
                plugin=entry.plugin,
                reason="no plugin sets it any more",
                action=action,
                note=note,
            )
        )

    def _note_undone(
        self, target: ActuatorTarget, parameter: Parameter, plugin: str, now: Value | None, final: Value
    ) -> None:
        """What was put back already and is as before is somebody's doing: doing it again at once would have no end."""
        error = f"restored to {final}, found {now} again: {self._owned.owner} sets it"
        if self._retries.record_undone((target.level, target.key, parameter), final, error, self._time):
            fields = {
                "target": target.name or target.key,
                "parameter": str(parameter),
                "value": str(final),
                "plugin": plugin,
                "undone_by": self._owned.owner,
            }
            _log.warning("Restored value was changed back by another process, will be retried", extra={"kv": fields})

    def _original(
        self,
        actuator: Actuator | None,
        target: ActuatorTarget,
        parameter: Parameter,
        entry: JournalEntry,
        now: Value | None,
    ) -> Value | None:
        """What to go back to."""
        if not entry.moved or actuator is None:
            return entry.found
        return entry.original(has_written=is_in_place(actuator, target, parameter, now, entry.written, self._allowed))

    def _restore_action(
        self, actuator: Actuator, target: ActuatorTarget, parameter: Parameter, entry: JournalEntry, now: Value | None
    ) -> PlanAction:
        """KEEP if nothing is to be undone: it is as it was, or somebody else has set something of his own."""
        if parameter in _SWITCHES and self._is_on(target, _SWITCHES[parameter]):
            # What is read is the kernel's doing, and of no use unless it was us who switched it on.
            switched = self._journal.get(target.level, target.key, _SWITCHES[parameter])
            return PlanAction.KEEP if switched is None else PlanAction.RESTORE
        if is_in_place(
            actuator, target, parameter, now, self._original(actuator, target, parameter, entry, now), self._allowed
        ):
            return PlanAction.RESTORE if self._runtime_has(target, parameter, entry.written) else PlanAction.KEEP
        spoiled = parameter in _SWITCHES and entry.written is CLEAR
        if spoiled or parameter in COLLECTIVE:
            return PlanAction.RESTORE
        ours = [value for value in (entry.written, entry.before) if value is not None]
        if any(is_in_place(actuator, target, parameter, now, value, self._allowed) for value in ours):
            return PlanAction.RESTORE
        fields = {"target": target.name or target.key, "parameter": str(parameter), "plugin": entry.plugin}
        _log.info("Value changed by another process, not restored", extra={"kv": fields})
        return PlanAction.KEEP

    def _read(self, actuator: Actuator, target: ActuatorTarget, parameter: Parameter) -> Value | None:
        if (target.running and target.directory) or route(target, parameter) is WriteRoute.FILE:
            return actuator.read(target, parameter)
        if (target.key, parameter) not in self._known:
            raise FileNotFoundError(errno.ENOENT, "it does not run, and nothing is known of it")
        return self._known[target.key, parameter]

    def _was_cut_off(self, target: ActuatorTarget, parameter: Parameter) -> bool:
        """Whether an update was cut off: it has reached the kernel, but the runtime has taken it back.

        With its next update, of whatever, the runtime would put back what it remembers.
        """
        if target.level is not Level.CONTAINER or (target.key, parameter) not in self._known:
            return False
        entry = self._journal.get(target.level, target.key, parameter)
        if entry is None or entry.before is None or entry.before == entry.written:
            return False
        return self._runtime_has(target, parameter, entry.before)

    def _runtime_has(self, target: ActuatorTarget, parameter: Parameter, value: Value) -> bool:
        """Whether this is what the runtime says of a container."""
        if target.level is not Level.CONTAINER or (target.key, parameter) not in self._known:
            return False
        known = self._known[target.key, parameter]
        return value is CLEAR if known is None else known == value

    def _orphaned_target(self, level: Level, key: str) -> ActuatorTarget | None:
        """A target that nobody told of, if it is there and what it has is to be put back.

        A pod or container that the runtime does not tell of may be about to run, or may be ready again in a moment:
        what is known of it stays as long as it has a cgroup. What is above pods is over when nobody names it any more.
        """
        target = self._journal.target_of(level, key)
        if target is not None and level is Level.CONTAINER and not target.directory:
            target = None  # noted when it had no cgroup; if it has one, somebody will tell of it
        if target is not None and self._exists(target):
            return target if level in _ABOVE_PODS else None
        if self._forget:
            self._journal.forget_target(level, key)
        return None

    def _exists(self, target: ActuatorTarget) -> bool:
        entries = self._journal.entries_of(target.level, target.key)
        for parameter in entries.keys() & self._actuators.keys():
            try:
                self._actuators[parameter].read(target, parameter)
            except Exception as error:
                if action_of(error) is PlanAction.GONE:
                    continue
            return True
        return False

    def _is_on(self, target: ActuatorTarget, parameter: Parameter) -> bool:
        actuator = self._actuators.get(parameter)
        if actuator is None or not target.directory:
            return False
        try:
            return not is_off(actuator.read(target, parameter))
        except OSError:
            return False
