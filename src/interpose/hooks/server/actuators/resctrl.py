"""The resctrl group of a pod: made, filled with its threads, and removed again.

The group is called as koordlet calls it, so nothing changes hands when one follows the other. What a wanted text does
not name is as in the root group. New containers are born outside the group; then the value found has a note that says
so, and is not the one wanted.
"""

import errno
import logging
from collections.abc import Collection
from typing import Final

from interpose.core.model.cgroup import CLEAR, Parameter, Value
from interpose.hooks.server.targets import ActuatorTarget
from interpose.host.processes import Groups, threads_below
from interpose.host.resctrl import ROOT_GROUP, ResctrlTree, Schemata, parse_schemata, render_schemata

_PREFIX: Final = "koordlet-"
_NOTE: Final = "#"
_ATTEMPTS: Final = 5  # threads started while others are moved

_log = logging.getLogger(__name__)


class ResctrlActuator:
    """An `Actuator` for RESCTRL: one resctrl group per pod."""

    def __init__(self, groups: Groups, resctrl: ResctrlTree) -> None:
        self._groups = groups
        self._resctrl = resctrl
        self._suspects: frozenset[str] = frozenset()

    def read(self, target: ActuatorTarget, parameter: Parameter) -> Value | None:
        """What the group may use, with a note if threads of the pod are not in it; None without a group."""
        group = self._group(target)
        threads = self._threads(target)
        try:
            text = _normalise(self._resctrl.schemata(group))
            outside = threads.difference(self._resctrl.tasks(group))
        except FileNotFoundError:
            return None
        if outside:
            outside &= self._threads(target)  # without those that ended meanwhile
        return f"{text}{_NOTE} threads outside the group: {len(outside)}\n" if outside else text

    def write(self, target: ActuatorTarget, parameter: Parameter, value: Value) -> None:
        """Make the group what the text says, with all threads of the pod in it; CLEAR removes it."""
        group = self._group(target)
        if value is CLEAR:
            self._resctrl.remove(group)
            return
        if not isinstance(value, str):
            raise OSError(errno.EINVAL, f"{parameter} is a text of schemata, not {value}")
        new = self._resctrl.make(group)
        try:
            wanted = self._complete(value)
            now = parse_schemata(self._resctrl.schemata(group))
            changes = {resource: values for resource, values in wanted.items() if now.get(resource) != values}
            self._resctrl.write_schemata(group, render_schemata(changes))
        except (OSError, ValueError) as error:
            if new:  # nothing is better than a group that restricts nothing and takes one of the few places
                self._resctrl.remove(group)
            raise error if isinstance(error, OSError) else OSError(errno.EINVAL, str(error)) from None
        self._move_threads(target, group)

    def same(self, parameter: Parameter, found: Value | None, wanted: Value) -> bool:
        """Whether the masks and numbers are those wanted, and every thread is in the group."""
        if not isinstance(found, str) or not isinstance(wanted, str):
            return found is None and wanted is CLEAR
        if _NOTE in found:
            return False
        try:
            return parse_schemata(found) == self._complete(wanted)
        except (OSError, ValueError):
            return False

    def drop(self, pod_uid: str) -> bool:
        """Remove the group of a pod that is over; False if it has none."""
        return self._resctrl.remove(f"{_PREFIX}{pod_uid}")

    def orphans(self, known: Collection[str]) -> frozenset[str]:
        """Groups of pods whose uid nobody knows."""
        try:
            groups = self._resctrl.groups()
        except FileNotFoundError:
            return frozenset()
        return frozenset(
            group for group in groups if group.startswith(_PREFIX) and group.removeprefix(_PREFIX) not in known
        )

    def remove_orphans(self, known: Collection[str]) -> tuple[str, ...]:
        """Remove the groups that were orphans the last time too; a pod that is just being made is not known yet."""
        orphans = self.orphans(known)
        removed = tuple(group for group in sorted(orphans & self._suspects) if self._try_remove(group))
        self._suspects = orphans.difference(removed)
        return removed

    def _try_remove(self, group: str) -> bool:
        """One that cannot be removed is tried again in the next round, and keeps nobody else's."""
        try:
            return self._resctrl.remove(group)
        except OSError as error:
            _log.debug("Group cannot be removed", extra={"kv": {"group": group, "err": str(error)}})
            return False

    def _group(self, target: ActuatorTarget) -> str:
        if not self._resctrl.mounted():
            raise OSError(errno.ENOTSUP, "resctrl is not mounted")
        if not target.pod_uid:
            raise OSError(errno.EINVAL, f"pod {target.name} has no uid to name its resctrl group")
        return f"{_PREFIX}{target.pod_uid}"

    def _threads(self, target: ActuatorTarget) -> frozenset[int]:
        return threads_below(self._groups, target.directory) if target.directory else frozenset()

    def _move_threads(self, target: ActuatorTarget, group: str) -> None:
        for _ in range(_ATTEMPTS):
            outside = self._threads(target) - frozenset(self._resctrl.tasks(group))
            if not outside:
                return
            for tid in sorted(outside):
                try:
                    self._resctrl.add_task(group, tid)
                except ProcessLookupError:
                    continue

    def _complete(self, text: str) -> Schemata:
        """The text as it is meant: with what the root group has where it says nothing."""
        complete = parse_schemata(self._resctrl.schemata(ROOT_GROUP))
        for resource, values in parse_schemata(_without_note(text)).items():
            complete[resource] = complete.get(resource, {}) | values
        return complete


def _normalise(text: str) -> str:
    try:
        return render_schemata(parse_schemata(text))
    except ValueError:
        return text  # whatever it is, it is not what anybody wants


def _without_note(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(_NOTE))
