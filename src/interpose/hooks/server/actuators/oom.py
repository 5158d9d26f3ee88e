"""The OOM score of a container: the one value that all of its processes have.

There is no such value in the kernel, only one per process, which children inherit. So reading is looking at all of
them, and writing goes on until a look finds nobody with another value.
"""

import errno
from typing import Final

from interpose.core.model.cgroup import CLEAR, Parameter, Value
from interpose.hooks.server.targets import ActuatorTarget
from interpose.host.processes import Groups, Processes, processes_below

_ATTEMPTS: Final = 5  # a process forked while we write has the value of its parent at that moment
_GONE: Final = (FileNotFoundError, ProcessLookupError)


class OomActuator:
    """An `Actuator` for OOM_SCORE_ADJ of the processes of containers."""

    def __init__(self, groups: Groups, processes: Processes) -> None:
        self._groups = groups
        self._processes = processes

    def read(self, target: ActuatorTarget, parameter: Parameter) -> Value | None:
        """The value all processes share; None if they differ, or if there are none."""
        values = set(self._scores(target).values())
        return values.pop() if len(values) == 1 else None

    def write(self, target: ActuatorTarget, parameter: Parameter, value: Value) -> None:
        """Give every process the value. To clear it is to leave it: a process has no default to go back to."""
        if value is CLEAR:
            return
        if not isinstance(value, int):
            raise OSError(errno.EINVAL, f"{parameter} is a number, not {value}")
        for _ in range(_ATTEMPTS):
            scores = self._scores(target)
            if not scores:
                raise ProcessLookupError(errno.ESRCH, "no process in it", target.directory)
            differing = [pid for pid, score in scores.items() if score != value]
            if not differing:
                return
            for pid in differing:
                try:
                    self._processes.set_oom_score_adj(pid, value)
                except _GONE:
                    continue

    def same(self, parameter: Parameter, found: Value | None, wanted: Value) -> bool:
        """Whether everybody has the value."""
        return wanted is CLEAR or found == wanted

    def _scores(self, target: ActuatorTarget) -> dict[int, int]:
        if not target.directory:
            raise FileNotFoundError(errno.ENOENT, "it has no cgroup", target.name)
        scores = {}
        for pid in processes_below(self._groups, target.directory):
            try:
                scores[pid] = self._processes.oom_score_adj(pid)
            except _GONE:
                continue
        return scores
