"""In which state the pods and containers of a plan were at the end, as far as the recording tells.

The calls of the plan say most of it. That a container ended by itself is seen only in what the runtime told others:
lists, states and events. Its exit code counts then, and only then: who is stopped may end in more than one way.

Pure.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from interpose.dump.model.frames import Message, MessageSide
from interpose.dump.replay.id_map import Reference, ReferenceKind
from interpose.dump.replay.plan import ReplayPlan, ReplayStep
from interpose.dump.replay.selection import RecordedCall
from interpose.dump.replay.visit import Parse, body_of, parts, type_name


class FinalState(StrEnum):
    """Of a container; a pod is running or exited."""

    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"
    GONE = "gone"
    UNKNOWN = "unknown"


# By the numbers of the wire: containers count created, running, exited, unknown; sandboxes ready, not ready.
CONTAINER_STATES: Final = (FinalState.CREATED, FinalState.RUNNING, FinalState.EXITED, FinalState.UNKNOWN)
POD_STATES: Final = (FinalState.RUNNING, FinalState.EXITED)
_STATUS_METHODS: Final = frozenset({"ContainerStatus", "ListContainers", "StreamContainers", "GetContainerEvents"})
_NEVER_STARTED: Final = (FinalState.CREATED, FinalState.EXITED)  # stopping it changes nothing
_AFTERWARDS: Final[Mapping[str, FinalState]] = {
    "RunPodSandbox": FinalState.RUNNING,
    "CreateContainer": FinalState.CREATED,
    "StartContainer": FinalState.RUNNING,
    "StopContainer": FinalState.EXITED,
    "RemoveContainer": FinalState.GONE,
    "StopPodSandbox": FinalState.EXITED,
    "RemovePodSandbox": FinalState.GONE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A state, and an exit code if it is known and says something."""

    state: FinalState
    exit_code: int | None = None

    def __str__(self) -> str:
        return self.state if self.exit_code is None else f"{self.state} ({self.exit_code})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """Somebody was told that a container had ended."""

    position: int  # of the frame that told it
    exit_code: int | None


class Exits:
    """By container, when it was first told that it had ended; with the exit code if that was ever told."""

    def __init__(self, parse: Parse) -> None:
        self._parse = parse
        self.found: dict[str, Exit] = {}

    def observe(self, calls: Iterable[RecordedCall]) -> Iterator[RecordedCall]:
        """The same calls: whoever reads them needs not read them twice."""
        for call in calls:
            self._observe_call(call)
            yield call

    def _observe_call(self, call: RecordedCall) -> None:
        flow = call.flow
        if flow.name not in _STATUS_METHODS or flow.method is None:
            return
        for position, message in zip(call.positions, flow.messages, strict=True):
            if message.side is not MessageSide.REPLY:
                continue
            for container, code in _ended(message, flow.method.response, self._parse):
                told = Exit(position=position, exit_code=code)
                self.found[container] = _merge_exits(self.found.get(container, told), told)


def _ended(message: Message, kind: str, parse: Parse) -> list[tuple[str, int | None]]:
    try:
        reply = parse(kind, body_of(message))
    except ValueError:
        return []
    return [
        (part.id, part.exit_code if type_name(part) == "ContainerStatus" else None)
        for part in parts(reply)
        if type_name(part) in ("ContainerStatus", "Container") and container_state(part.state) is FinalState.EXITED
    ]


def _merge_exits(one: Exit, other: Exit) -> Exit:
    code = one.exit_code if one.exit_code is not None else other.exit_code
    return Exit(position=min(one.position, other.position), exit_code=code)


def container_state(number: int) -> FinalState:
    """By its number on the wire."""
    return CONTAINER_STATES[number] if 0 <= number < len(CONTAINER_STATES) else FinalState.UNKNOWN


def pod_state(number: int) -> FinalState:
    """By its number on the wire."""
    return POD_STATES[number] if 0 <= number < len(POD_STATES) else FinalState.UNKNOWN


def expected_states(plan: ReplayPlan, exits: Mapping[str, Exit]) -> dict[Reference, Condition]:
    """Of everything the plan makes, by recorded id."""
    found: dict[Reference, Condition] = {}
    pod_of: dict[Reference, Reference] = {}
    for step in plan.steps:
        if step.code != 0 or step.name not in _AFTERWARDS:
            continue
        subject = _subject(step)
        if subject is None:
            continue
        if step.name == "CreateContainer" and step.references:
            pod_of[subject] = step.references[0]
        members = [reference for reference, pod in pod_of.items() if pod == subject]
        for reference in (subject, *members):
            _settle(found, reference, step, exits.get(reference.id))
    return {reference: _without_call(reference, condition, exits) for reference, condition in found.items()}


def _subject(step: ReplayStep) -> Reference | None:
    if step.made is not None:
        return step.made
    wanted = ReferenceKind.POD if "PodSandbox" in step.name else ReferenceKind.CONTAINER
    return next((reference for reference in step.references if reference.kind is wanted), None)


def _settle(found: dict[Reference, Condition], reference: Reference, step: ReplayStep, exit_: Exit | None) -> None:
    if reference != step.made and reference not in found:
        return  # made before the recording began
    state = _AFTERWARDS[step.name]
    before = found.get(reference)
    if before is not None and (before.state is FinalState.GONE or (before.state, state) == _NEVER_STARTED):
        return
    code = None
    if reference.kind is ReferenceKind.CONTAINER and state is FinalState.EXITED:
        itself = exit_ is not None and exit_.position < step.position
        code = exit_.exit_code if exit_ is not None and itself else None
        if before is not None and before.state is FinalState.EXITED:
            code = before.exit_code
    found[reference] = Condition(state=state, exit_code=code)


def _without_call(reference: Reference, condition: Condition, exits: Mapping[str, Exit]) -> Condition:
    exit_ = exits.get(reference.id)
    if condition.state is FinalState.RUNNING and reference.kind is ReferenceKind.CONTAINER and exit_ is not None:
        return Condition(state=FinalState.EXITED, exit_code=exit_.exit_code)
    return condition


def matches(wanted: Condition, found: Condition) -> bool:
    """Whether what is found is what the recording tells."""
    return wanted.state is found.state and wanted.exit_code in (None, found.exit_code)


def found_condition(status: Any) -> Condition:
    """Of a ContainerStatus, as the runtime tells it now."""
    state = container_state(status.state)
    return Condition(state=state, exit_code=status.exit_code if state is FinalState.EXITED else None)
