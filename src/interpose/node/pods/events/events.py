"""Events of a pod as Kubernetes has them: with a reason and a message, equal ones counted. Pure.

They are kept as lines of JSON, one for each time something happened, or with a count; a line that cannot be understood
counts as not there. Times are nanoseconds of the day.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from interpose.node.pods.sync.result import ProgressEvent, ProgressPhase, StepReason, without_countdown

MOST_EVENTS: Final = 200  # of a pod: more than a person reads, and a file of some dozen KiB
_LONGEST: Final = 1024  # of a message, as in the API


class EventType(StrEnum):
    """The type of an event, as Kubernetes has it."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEvent:
    """An event, seen once or several times. `container` is empty if it concerns the pod."""

    type: EventType
    reason: str
    message: str
    container: str = ""
    first: int = 0
    last: int = 0
    count: int = 1

    @property
    def kind(self) -> tuple[str, ...]:
        """What equal events have in common."""
        return (self.type, self.reason, self.message, self.container)


# The kubelet's reasons and words of what is no failure; {name} is the container, {detail} that of the progress event.
_NORMAL: Final = {
    ProgressPhase.PULLING: ("Pulling", "Pulling image {detail!r}"),
    ProgressPhase.PULLED: ("Pulled", "Successfully pulled image {detail!r}"),
    ProgressPhase.IMAGE_PRESENT: ("Pulled", "Container image {detail!r} already present on machine"),
    ProgressPhase.STARTING: ("Created", "Created container {name}"),
    ProgressPhase.STARTED: ("Started", "Started container {name}"),
    ProgressPhase.STOPPING: ("Killing", "Stopping container {name} {detail}"),
    ProgressPhase.RESIZED: ("ResizeCompleted", "Resized container {name}"),
}
_WARNINGS: Final = {
    ProgressPhase.PRE_STOP_FAILED: ("FailedPreStopHook", "{detail}"),
    ProgressPhase.UNHEALTHY: ("Unhealthy", "{detail}"),
    ProgressPhase.EXPIRED: ("DeadlineExceeded", "{detail}"),
}
# Reasons of events where they are not those of containers that wait.
_FAILURES: Final = {
    StepReason.IMAGE_INVALID: "InspectFailed",
    StepReason.IMAGE_INSPECT: "InspectFailed",
    StepReason.IMAGE_NEVER_PULL: "ErrImageNeverPull",
    StepReason.IMAGE_PULL: "Failed",
    StepReason.REGISTRY_UNAVAILABLE: "Failed",
    StepReason.SIGNATURE: "Failed",
    StepReason.CREATE_CONFIG: "Failed",
    StepReason.CREATE: "Failed",
    StepReason.RUN: "Failed",
    StepReason.POST_START: "FailedPostStartHook",
    StepReason.FAILED_SANDBOX_CONFIG: "FailedCreatePodSandBox",
    StepReason.FAILED_KILL: "FailedKillPod",
    StepReason.FAILED_KILL_SANDBOX: "FailedKillPod",
    StepReason.FAILED_RESIZE: "ResizeError",
}
# What the runtime said, and nothing before it that says what failed.
_BARE: Final = (StepReason.CREATE_CONFIG, StepReason.CREATE, StepReason.RUN)


def event_of(progress: ProgressEvent, now: int) -> PodEvent | None:
    """The event for a progress event; None if Kubernetes has none for it."""
    if progress.phase is ProgressPhase.WAITING:
        words = without_countdown(progress.detail)
        crashed = progress.reason is StepReason.CRASH_LOOP
        message = f"Back-off restarting failed container {progress.container}" if crashed else words
        return _event(EventType.WARNING, "BackOff", message, progress.container, now)
    if progress.phase is ProgressPhase.FAILED:
        reason = _FAILURES.get(progress.reason, progress.reason.value)
        message = f"Error: {progress.detail}" if progress.reason in _BARE else progress.detail
        return _event(EventType.WARNING, reason, message, progress.container, now)
    for kind, table in ((EventType.NORMAL, _NORMAL), (EventType.WARNING, _WARNINGS)):
        if progress.phase in table:
            reason, form = table[progress.phase]
            message = form.format(name=progress.container, detail=progress.detail)
            return _event(kind, reason, message, progress.container, now)
    return None


def make_scheduled_event(node: str, source: str, now: int) -> PodEvent:
    """The first event of a pod: its manifest is on this node."""
    return _event(EventType.NORMAL, "Scheduled", f"Assigned to {node} by manifest {source}", "", now)


def _event(kind: EventType, reason: str, message: str, container: str, now: int) -> PodEvent:
    words = " ".join(message.split())
    short = words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"
    return PodEvent(type=kind, reason=reason, message=short, container=container, first=now, last=now)


def merge_repeated(events: Iterable[PodEvent], most: int = MOST_EVENTS) -> list[PodEvent]:
    """Equal events as one, in the order in which they were last seen; the newest, if they are too many."""
    found: dict[tuple[str, ...], PodEvent] = {}
    for event in events:
        kind = event.kind
        if (known := found.get(kind)) is not None:
            event = replace(
                event,
                first=min(known.first, event.first),
                last=max(known.last, event.last),
                count=known.count + event.count,
            )
        found[kind] = event
    ordered = sorted(found.values(), key=lambda event: event.last)
    return ordered[max(len(ordered) - most, 0) :]


def to_line(event: PodEvent) -> bytes:
    """The event as a line."""
    document = {
        "first": event.first,
        "last": event.last,
        "count": event.count,
        "type": event.type.value,
        "reason": event.reason,
        "container": event.container,
        "message": event.message,
    }
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def from_lines(data: bytes) -> list[PodEvent]:
    """The events in lines; those that cannot be understood are left out, the last one may be incomplete."""
    found = []
    for line in data.split(b"\n"):
        try:
            document = json.loads(line)
            found.append(
                PodEvent(
                    type=EventType(document["type"]),
                    reason=str(document["reason"]),
                    message=str(document["message"]),
                    container=str(document["container"]),
                    first=int(document["first"]),
                    last=int(document["last"]),
                    count=int(document["count"]),
                )
            )
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            continue
    return found
