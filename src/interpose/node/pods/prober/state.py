"""The rules of probes: when one is due, and what its results mean. Pure; times are passed in: seconds of a clock that
is never set, so that a clock that is stops nothing.

A track is one probe of one container of a pod, over all its instances. Until its startup probe has succeeded a
container is asked nothing else. What counts is a row of equal results, never a single one. A container that failed its
startup or liveness probe is not asked again: it is about to be ended, and its successor has another id.
"""

from dataclasses import dataclass
from enum import StrEnum

from interpose.node.pods.spec import ContainerSpec, Probe


class ProbeKind(StrEnum):
    """The three probes that a container can have."""

    STARTUP = "startup"
    READINESS = "readiness"
    LIVENESS = "liveness"


def probes_of(container: ContainerSpec) -> dict[ProbeKind, Probe]:
    """The probes that a container has."""
    given = {
        ProbeKind.STARTUP: container.startup,
        ProbeKind.READINESS: container.readiness,
        ProbeKind.LIVENESS: container.liveness,
    }
    return {kind: probe for kind, probe in given.items() if probe is not None}


@dataclass(slots=True, kw_only=True)
class ProbeState:
    """One probe of one container. `result` is what counts for the pod; None: there is none yet."""

    kind: ProbeKind
    container: ContainerSpec
    probe: Probe
    container_id: str = ""
    running: bool = False
    due: float = 0.0  # when to probe next
    result: bool | None = None
    words: str = ""  # why the last attempt failed, or could not be made
    _last: bool | None = None
    _row: int = 0
    _held: bool = False
    _timed: bool = False  # it was seen running

    def update(self, container_id: str, *, running: bool, now: float, age: float) -> None:
        """The newest instance of the container, as the runtime shows it, `age` seconds after its start. That is the
        difference of two times of day, which may be anything: the initial delay is never longer than it is."""
        if container_id != self.container_id:
            self.container_id = container_id
            self.words = ""
            self._last, self._row, self._held, self._timed = None, 0, False, False
            # A container is ready only after its probe has succeeded.
            self.result = False if self.kind is ProbeKind.READINESS else None
        self.running = running
        if running and not self._timed:
            self._timed = True
            self.due = now + min(max(self.probe.initial_delay - age, 0.0), self.probe.initial_delay)
        if not running and self.kind is ProbeKind.READINESS:
            self.result = False

    def is_due(self, now: float, *, started: bool) -> bool:
        """Whether to probe now. `started`: the startup probe has succeeded, or there is none."""
        if not self.running or self._held or now < self.due:
            return False
        if self.kind is ProbeKind.STARTUP:
            return self.result is not True
        return started

    def next_due(self, *, started: bool) -> float | None:
        """When the next attempt is due; None: not before something else happens."""
        if not self.running or self._held or started is (self.kind is ProbeKind.STARTUP):
            return None
        return self.due

    def mark_begun(self, now: float) -> None:
        """Note that an attempt begins; the next one is due a period later."""
        self.due = now + self.probe.period

    def mark_unavailable(self, container_id: str, words: str) -> None:
        """Note why an attempt could not be made. That is no result."""
        if container_id == self.container_id:
            self.words = words

    def add_outcome(self, container_id: str, good: bool, words: str = "") -> bool:
        """Count an attempt; whether the result has changed. An attempt on an earlier instance does not count."""
        if container_id != self.container_id or not self.running:
            return False
        self.words = "" if good else words
        self._row = self._row + 1 if good is self._last else 1
        self._last = good
        if self._row < (self.probe.success_threshold if good else self.probe.failure_threshold):
            return False
        before, self.result = self.result, good
        if not good and self.kind is not ProbeKind.READINESS:
            self._held = True
        return before is not good
