"""From frames to the calls that a filter selects.

`CallSelector` puts frames together, hides what is to be hidden, knows the subjects of calls and applies a filter. Calls
come in the order in which they end, because only then everything is known about them; those that never do come last.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from interpose.dump.filter.language import Filter
from interpose.dump.filter.terms import Texts
from interpose.dump.model.call import SESSION, Assembler, CallEvent, CallEventKind, Flow, begin_frame, part_of
from interpose.dump.model.frames import Begin, Context, Dropped, Flags, Frame, Header, MessageSide
from interpose.dump.model.subject import NAMING_REPLIES, Subjects

# Calls in flight about which it is known whether they are wanted; the oldest are asked about again.
_HELD: Final = 10_000


class CallSelector:
    """One pass over frames that selects the calls a filter matches."""

    def __init__(self, wanted: Filter, texts: Texts, *, hide: Callable[[Frame], Frame] | None = None) -> None:
        self._filter = wanted
        self._texts = texts
        self._hide = hide
        self._subjects = Subjects()
        self._assembler = Assembler(self._subjects.identify, self._subjects.learn)
        self._late = wanted.needs_end()
        # Methods whose answer may say whom a call is about, if somebody asks for that.
        self._named_late = NAMING_REPLIES if wanted.needs_subject() else frozenset()
        self._doubtful: set[int] = set()  # calls in flight before a file that is missing
        self.seen_calls = 0  # calls
        self.shown_calls = 0

    @property
    def dropped(self) -> int:
        """Frames that never reached the recording."""
        return self._assembler.dropped

    @property
    def facts(self) -> dict[str, object]:
        """What the last header said."""
        header = self._assembler.header
        return {} if header is None else dict(header.facts)

    def flows(self, frames: Iterable[Frame], *, unfinished: bool = True) -> Iterator[Flow]:
        """The calls that are wanted."""
        for event, lost in self._events(frames):
            over = [event.flow] if event.kind is CallEventKind.END and event.flow is not None else []
            yield from filter(self._is_wanted, [*lost, *over])
        if unfinished:
            yield from filter(self._is_wanted, list(self._assembler.open.values()))

    def events(self, frames: Iterable[Frame], *, unfinished: bool = True) -> Iterator[CallEvent]:
        """The same frame by frame. If the end of a call decides whether it is wanted, all of it comes at its end."""
        wanted: dict[int, bool] = {}
        for event, lost in self._events(frames):
            for lost_call in filter(self._decided_late, lost):
                yield from self._whole(lost_call)
            flow = event.flow
            if event.kind is CallEventKind.DROPPED:
                yield event
            elif flow is None or event.kind is CallEventKind.OTHER:
                continue
            elif not self._decided_late(flow):
                yield from self._early(event, flow, wanted)
            elif event.kind is CallEventKind.END:
                yield from self._whole(flow)
        if unfinished:
            for open_call in filter(self._decided_late, list(self._assembler.open.values())):
                yield from self._whole(open_call)

    def _decided_late(self, flow: Flow) -> bool:
        """Whether the request does not tell: its answer says whom it is about, and a filter asks for that."""
        if self._late or not self._named_late:
            return self._late
        method = flow.method
        return method is not None and method.name in self._named_late and not method.server_streaming

    def _early(self, event: CallEvent, flow: Flow, wanted: dict[int, bool]) -> Iterator[CallEvent]:
        """Decided by the request, or by the end if there was none."""
        if event.kind is CallEventKind.BEGIN:
            wanted.pop(flow.number, None)  # of another process
            return
        if flow.number not in wanted:
            wanted[flow.number] = self._is_wanted(flow)
            if wanted[flow.number]:
                yield CallEvent(CallEventKind.BEGIN, flow, begin_frame(flow))
            if len(wanted) > _HELD:
                del wanted[next(iter(wanted))]
        if wanted[flow.number]:
            yield event
        if event.kind is CallEventKind.END:
            del wanted[flow.number]

    def _events(self, frames: Iterable[Frame]) -> Iterator[tuple[CallEvent, list[Flow]]]:
        """What each frame does, and the calls that will never end because of it."""
        hide, open_calls = self._hide, self._assembler.open
        for frame in frames:
            lost = self._missed(frame)
            # Another process begins, or a call with the number of one whose end was lost.
            known = list(open_calls.values()) if isinstance(frame, Header) else []
            if isinstance(frame, Begin) and frame.number in open_calls:
                known = [open_calls[frame.number]]
            event = self._assembler.feed(frame if hide is None else hide(frame))
            self.seen_calls += event.kind is CallEventKind.BEGIN
            for call in known:
                if open_calls.get(call.number) is not call:
                    call.lost = True
                    lost.append(call)
            yield event, lost
        for number in self._doubtful & open_calls.keys():
            open_calls[number].lost = True

    def _missed(self, frame: Frame) -> list[Flow]:
        """Calls that ended in a file that is missing: they do not go on in the one behind it."""
        last = self._assembler.header
        if isinstance(frame, Header):
            same = last is not None and last.facts.get(SESSION) == frame.facts.get(SESSION)
            if last is not None and same and part_of(frame) > part_of(last) + 1 > 1:
                self._doubtful = set(self._assembler.open)
            return []
        if not self._doubtful or isinstance(frame, Context | Dropped):
            return []
        if isinstance(frame, Begin) and frame.flags & Flags.CONTINUED:
            self._doubtful.discard(frame.number)
            return []
        missed, self._doubtful = self._doubtful, set()
        return [one for number in sorted(missed) if (one := self._assembler.lose(number)) is not None]

    def select(self, flow: Flow) -> Iterator[Flow]:
        """A call that was found elsewhere, if it is wanted."""
        self.seen_calls += 1
        return filter(self._is_wanted, [flow])

    def _is_wanted(self, flow: Flow) -> bool:
        found = self._filter.matches(flow, self._texts)
        self.shown_calls += found
        return found

    def _whole(self, flow: Flow) -> Iterator[CallEvent]:
        """Everything that is still known of a call, as if it came now."""
        if not self._is_wanted(flow):
            return
        yield from events_of(flow)


def events_of(flow: Flow) -> Iterator[CallEvent]:
    """The events of a call that is known already; messages that were let go of are counted in one."""
    yield CallEvent(CallEventKind.BEGIN, flow, begin_frame(flow))
    missing = flow.forgotten_replies
    for message in flow.messages:
        if missing and message.side is not MessageSide.REQUEST:
            # Behind the request: it says what the stream is.
            yield CallEvent(
                CallEventKind.DROPPED, flow, Dropped(frames=missing, size=flow.forgotten_size, time=flow.time)
            )
            missing = 0
        yield CallEvent(CallEventKind.MESSAGE, flow, message)
    if flow.end is not None:
        yield CallEvent(CallEventKind.END, flow, flow.end)
