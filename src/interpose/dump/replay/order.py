"""Calls with their places in the recording: what came before what.

A relay writes frames in the order in which things happened, so the places of frames say that. The clock of a node may
be set back or forth meanwhile; it only says how long the pauses were.

Pure: frames in, calls out.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from interpose.dump.model.call import KEPT_CALLS, SESSION, Assembler, Flow, Identify, Learn, What
from interpose.dump.model.frames import Begin, Flags, Frame, Header, Message, Side

# Somebody asks a runtime something every few seconds: a day without any call is a clock that was set.
_LONGEST_PAUSE: Final = 24 * 3600 * 10**9


@dataclass(slots=True, kw_only=True, eq=False)
class Called:
    """A call and the places of its frames, counted from the beginning of the recording."""

    flow: Flow
    begun: int
    at: int  # nanoseconds since the first call of the recording, by a clock that never goes back
    ended: int | None = None
    places: list[int] = field(default_factory=list)  # of `flow.messages`

    def place_of(self, side: Side) -> int | None:
        """Where its first message of a side is."""
        return next(
            (place for place, one in zip(self.places, self.flow.messages, strict=True) if one.side is side), None
        )


def called(frames: Iterable[Frame], identify: Identify | None = None, learn: Learn | None = None) -> Iterator[Called]:
    """The calls, each when it ended; then those that did not."""
    assembler = Assembler(identify, learn)
    clock = Clock()
    open_: dict[int, Called] = {}  # by number, as the assembler has them
    for place, frame in enumerate(frames):
        for number in _let_go(assembler, frame):
            yield open_.pop(number)
        event = assembler.feed(frame)
        if event.flow is None:
            continue
        number = event.flow.number
        if event.what is What.BEGIN:
            open_[number] = Called(flow=event.flow, begun=place, at=clock.passed(event.flow.time))
        elif event.what is What.MESSAGE and isinstance(frame, Message):
            _message(open_[number], place)
        elif event.what is What.END:
            done = open_.pop(number)
            done.ended = place
            yield done
    yield from open_.values()


def _message(one: Called, place: int) -> None:
    one.places.append(place)
    if len(one.places) > len(one.flow.messages):
        del one.places[1]  # as the assembler did with the message


def _let_go(assembler: Assembler, frame: Frame) -> list[int]:
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


class Clock:
    """Times that may jump, as times that only go on."""

    __slots__ = ("_last", "_passed")

    def __init__(self) -> None:
        self._last: int | None = None
        self._passed = 0

    def passed(self, time: int) -> int:
        """Nanoseconds since the first time; a jump takes no time."""
        pause = 0 if self._last is None else time - self._last
        self._last = time
        if 0 < pause <= _LONGEST_PAUSE:
            self._passed += pause
        return self._passed
