"""Which recorded calls are made again: a table of methods, and what the caller chose. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from interpose.cri.methods import METHODS
from interpose.dump.model.call import KEPT_CALLS, SESSION, Assembler, CallEventKind, Flow, Identify, Learn
from interpose.dump.model.frames import Begin, Flags, Frame, Header, Message, MessageSide


class ReplayEffect(StrEnum):
    """What making a call again does."""

    LIFE = "life"  # pods and containers come, change and go
    PULL = "pull"
    EXEC = "exec"
    READ = "read"
    NEVER = "never"


_LIFE: Final = (
    "RunPodSandbox",
    "CreateContainer",
    "StartContainer",
    "StopContainer",
    "RemoveContainer",
    "StopPodSandbox",
    "RemovePodSandbox",
    "UpdateContainerResources",
    "UpdatePodSandboxResources",
)
_URL: Final = "what gives an address that works once"
_CHECKPOINT: Final = "what is about checkpoint files of the recorded node"
# Why a call is never made again.
_NEVER: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Exec": _URL,
        "Attach": _URL,
        "PortForward": _URL,
        "CheckpointContainer": _CHECKPOINT,
        "CheckpointPod": _CHECKPOINT,
        "RestorePod": _CHECKPOINT,
        "ReopenContainerLog": "what is about log files of the recorded node",
        "UpdateRuntimeConfig": "what changes the runtime and not a pod",
        "RemoveImage": "what removes images that others may use",
        **{method.name: "streams" for method in METHODS.values() if method.server_streaming},
    }
)
EFFECTS: Final[Mapping[str, ReplayEffect]] = MappingProxyType(
    dict.fromkeys(METHODS, ReplayEffect.READ)
    | dict.fromkeys(_LIFE, ReplayEffect.LIFE)
    | {"PullImage": ReplayEffect.PULL, "ExecSync": ReplayEffect.EXEC}
    | dict.fromkeys(_NEVER, ReplayEffect.NEVER)
)
_SWITCHES: Final[Mapping[ReplayEffect, str]] = MappingProxyType(
    {
        ReplayEffect.PULL: "pulls of images (--pull makes them)",
        ReplayEffect.EXEC: "commands run in containers (--exec makes them)",
        ReplayEffect.READ: "what changes nothing (--reads makes them)",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayChoices:
    """What the caller of a replay wants."""

    pull: bool = False
    execs: bool = False
    reads: bool = False
    as_sent: bool = False  # what the runtime got instead of what the caller sent; calls of the relay's own, too
    pass_unknown: bool = False  # send ids that nobody made again as they are


def omit_reason(flow: Flow, choices: ReplayChoices) -> str:
    """Why a call is not chosen; empty if it is."""
    effect = EFFECTS.get(flow.name) if flow.method is not None else None
    if effect is None:
        return "no method of the CRI that is known"
    if effect is ReplayEffect.NEVER:
        return _NEVER[flow.name]
    wanted = {
        ReplayEffect.LIFE: True,
        ReplayEffect.PULL: choices.pull,
        ReplayEffect.EXEC: choices.execs,
        ReplayEffect.READ: choices.reads,
    }[effect]
    if not wanted:
        return _SWITCHES[effect]
    if flow.originated and not choices.as_sent:
        return "calls of the relay itself (--as-sent makes them)"
    if flow.flags & Flags.CONTINUED and not flow.messages:
        return "calls that began before the recording"
    return ""


# Somebody asks a runtime something every few seconds: a day without any call is a clock that was set.
_LONGEST_PAUSE: Final = 24 * 3600 * 10**9


@dataclass(slots=True, kw_only=True, eq=False)
class RecordedCall:
    """A call and the places of its frames, counted from the beginning of the recording."""

    flow: Flow
    begin: int
    at: int  # nanoseconds since the first call of the recording, by a clock that never goes back
    ended: int | None = None
    positions: list[int] = field(default_factory=list)  # of `flow.messages`

    def position_of(self, side: MessageSide) -> int | None:
        """Where its first message of a side is."""
        return next(
            (
                position
                for position, message in zip(self.positions, self.flow.messages, strict=True)
                if message.side is side
            ),
            None,
        )


def recorded_calls(
    frames: Iterable[Frame], identify: Identify | None = None, learn: Learn | None = None
) -> Iterator[RecordedCall]:
    """The calls, each when it ended; then those that did not."""
    assembler = Assembler(identify, learn)
    clock = MonotonicClock()
    open_: dict[int, RecordedCall] = {}  # by number, as the assembler has them
    for position, frame in enumerate(frames):
        for number in _ended_by(assembler, frame):
            yield open_.pop(number)
        event = assembler.feed(frame)
        if event.flow is None:
            continue
        number = event.flow.number
        if event.kind is CallEventKind.BEGIN:
            open_[number] = RecordedCall(flow=event.flow, begin=position, at=clock.elapsed(event.flow.time))
        elif event.kind is CallEventKind.MESSAGE and isinstance(frame, Message):
            _message(open_[number], position)
        elif event.kind is CallEventKind.END:
            done = open_.pop(number)
            done.ended = position
            yield done
    yield from open_.values()


def _message(called: RecordedCall, position: int) -> None:
    called.positions.append(position)
    if len(called.positions) > len(called.flow.messages):
        del called.positions[1]  # as the assembler did with the message


def _ended_by(assembler: Assembler, frame: Frame) -> list[int]:
    """Calls that will not end any more, because this frame makes the assembler forget them."""
    if isinstance(frame, Header):
        last = assembler.header
        other = last is not None and last.facts.get(SESSION) != frame.facts.get(SESSION)
        return list(assembler.open) if other else []
    if not isinstance(frame, Begin):
        return []
    if frame.number in assembler.open:
        return [] if frame.flags & Flags.CONTINUED else [frame.number]
    return [next(iter(assembler.open))] if len(assembler.open) >= KEPT_CALLS else []


class MonotonicClock:
    """Times that may jump, as times that only go on."""

    __slots__ = ("_elapsed", "_last")

    def __init__(self) -> None:
        self._last: int | None = None
        self._elapsed = 0

    def elapsed(self, time: int) -> int:
        """Nanoseconds since the first time; a jump takes no time."""
        pause = 0 if self._last is None else time - self._last
        self._last = time
        if 0 < pause <= _LONGEST_PAUSE:
            self._elapsed += pause
        return self._elapsed
