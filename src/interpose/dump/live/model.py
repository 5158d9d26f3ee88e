"""What the live view knows: the calls it keeps, which of them are shown and in what order, and where the cursor is.

Pure: events and times come in as values. What is kept is bounded by calls and by bytes. New calls join the list in
batches; a filter may take several turns to look at all of them, so that a slow one never stops the screen.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

from interpose.dump.model.call import CallEvent, CallEventKind, Flow
from interpose.dump.model.frames import Dropped, End, Frame, Message, MessageSide

KEPT_CALLS: Final = 5000
KEPT_BYTES: Final = 256 << 20  # of messages: a list of all containers may have a megabyte
_LOOKED_AT: Final = 100  # of the oldest calls, for one that nobody wants any more
RATE_SECONDS: Final = 5.0  # calls per second are those of this time


@dataclass(slots=True, kw_only=True, eq=False)
class CallRow:
    """A call in the list."""

    serial: int  # numbers of calls begin anew with the relay; these do not
    flow: Flow
    kept_bytes: int = 0  # bytes in memory
    traffic: int = 0  # bytes between caller and relay
    messages: int = 0  # from and to the caller
    visible: bool = False  # the filter lets it through
    marked: bool = False
    cut: bool = False  # the source went away before the call was over

    @property
    def open(self) -> bool:
        """Whether it is in flight, as far as we can know."""
        return self.flow.end is None and not self.cut


class Order(StrEnum):
    """What the list is sorted by."""

    TIME = "time"
    METHOD = "method"
    SUBJECT = "subject"
    STATUS = "status"
    DURATION = "duration"
    SIZE = "size"


_KEYS: Final[Mapping[Order, Callable[[CallRow], Any]]] = MappingProxyType(
    {
        Order.TIME: lambda row: row.serial,
        Order.METHOD: lambda row: row.flow.name,
        Order.SUBJECT: lambda row: str(row.flow.subject),
        Order.STATUS: lambda row: -1 if row.flow.end is None else row.flow.end.code,
        # What is in flight is the longest so far.
        Order.DURATION: lambda row: (row.open, row.flow.duration or 0),
        Order.SIZE: lambda row: row.traffic,
    }
)
_ORDERS: Final = tuple(Order)

# Whether a call is wanted. None in its place: all are.
Wanted = Callable[[Flow], bool]


def _never() -> bool:
    return False


class LiveModel:
    """The state of the screen. Call `take` with what came and `refresh` before looking at `view`."""

    def __init__(self, *, keep: int = KEPT_CALLS, keep_bytes: int = KEPT_BYTES) -> None:
        self._keep = keep
        self._keep_bytes = keep_bytes
        self._serial = 0
        self._bytes = 0
        self._rows: dict[int, CallRow] = {}
        self._waiting: dict[int, CallRow] = {}  # came while paused
        self._of_flow: dict[int, CallRow] = {}  # by identity: a call has no key of its own
        self._unjudged: dict[int, CallRow] = {}
        self._begun: deque[tuple[float, int]] = deque()
        self._wanted: Wanted | None = None
        self._stale = True
        self._at = 0
        self.view: list[CallRow] = []
        self.selected: CallRow | None = None
        self.follow = True
        self.paused = False
        self.order = Order.TIME
        self.descending = False
        self.newest = 0  # nanoseconds since the epoch: the time of the last thing that happened
        self.calls = 0
        self.errors = 0
        self.dropped = 0  # frames that the relay could not send us
        self.forgotten = 0  # calls that had to make room
        self.missed = 0  # calls that came while paused and found no room
        self.cut = 0  # calls whose end we cannot see any more

    # -- what comes in

    def add_events(self, events: Sequence[CallEvent], now: float) -> None:
        """What happened, and the time in seconds of any clock."""
        before = self.calls
        for event in events:
            if event.kind is CallEventKind.DROPPED:
                self.dropped += event.frame.frames if isinstance(event.frame, Dropped) else 0
            elif event.flow is not None:
                self._call(event.kind, event.flow, event.frame)
        self._begun.append((now, self.calls - before))
        while self._begun[0][0] < now - RATE_SECONDS:
            self._begun.popleft()

    def _call(self, what: CallEventKind, flow: Flow, frame: Frame) -> None:
        since = frame.elapsed if isinstance(frame, End) else frame.at if isinstance(frame, Message) else 0
        self.newest = max(self.newest, flow.time + since)
        if what is CallEventKind.BEGIN:
            self._add(flow)
            return
        if what is CallEventKind.END:
            self.errors += flow.failed
        row = self._of_flow.get(id(flow))
        if row is None:
            return  # forgotten or cleared
        self._unjudged[row.serial] = row
        self._stale = True
        if isinstance(frame, Message):
            self._message(row, frame)

    def _add(self, flow: Flow) -> None:
        self.calls += 1
        self._serial += 1
        row = CallRow(serial=self._serial, flow=flow)
        (self._waiting if self.paused else self._rows)[row.serial] = row
        self._of_flow[id(flow)] = self._unjudged[row.serial] = row
        self._make_room()
        self._stale = True

    def _message(self, row: CallRow, message: Message) -> None:
        if message.side in (MessageSide.REQUEST, MessageSide.REPLY):
            row.traffic += message.size
            row.messages += 1
        if not row.flow.forgotten:  # otherwise one came and one went
            row.kept_bytes += len(message.body)
            self._bytes += len(message.body)
            self._make_room()

    def _make_room(self) -> None:
        while len(self._rows) + len(self._waiting) > self._keep or (self._bytes > self._keep_bytes and self._of_flow):
            # Who paused wants to look at the list: what waits goes first.
            room = self._waiting or self._rows
            old = list(islice(room.values(), _LOOKED_AT))
            self._forget(next((row for row in old if not row.marked and not row.open), old[0]))
            if room is self._waiting:
                self.missed += 1
            else:
                self.forgotten += 1

    def _forget(self, row: CallRow) -> None:
        self._rows.pop(row.serial, None)
        self._waiting.pop(row.serial, None)
        self._unjudged.pop(row.serial, None)
        del self._of_flow[id(row.flow)]
        self._bytes -= row.kept_bytes
        self._stale = True

    def cut_off(self) -> None:
        """The source is another one from now on: what is in flight will not be seen to end."""
        for row in self._of_flow.values():
            if row.open:
                row.cut = True
                self.cut += 1
        self._stale = True

    # -- what is seen

    def refresh(self, enough: Callable[[], bool] = _never) -> bool:
        """Bring `view` up to date; stop looking at further calls when it is enough. False if nothing changed."""
        if not self._stale:
            return False
        self._judge(enough)
        self.view = [row for row in self._rows.values() if row.visible]
        if self.order is not Order.TIME or self.descending:
            self.view.sort(key=_KEYS[self.order], reverse=self.descending)
        self._keep_selection()
        self._stale = bool(self._unjudged)
        return True

    def _judge(self, enough: Callable[[], bool]) -> None:
        if self._wanted is None:
            for row in self._unjudged.values():
                row.visible = True
            self._unjudged.clear()
            return
        while self._unjudged:
            _serial, row = self._unjudged.popitem()  # the newest first
            row.visible = self._wanted(row.flow)
            if enough():
                break

    def _keep_selection(self) -> None:
        if not self.view:
            self.selected, self._at = None, 0
        elif self.follow:
            self._select(self._newest())
        elif self.selected is not None and self.selected.visible and self.selected.serial in self._rows:
            self._at = self.view.index(self.selected)
        else:
            self._select(min(self._at, len(self.view) - 1))

    def _newest(self) -> int:
        if self.order is Order.TIME:
            return 0 if self.descending else len(self.view) - 1
        return max(range(len(self.view)), key=lambda index: self.view[index].serial)

    def _select(self, at: int) -> None:
        self._at = at
        self.selected = self.view[at]

    @property
    def at(self) -> int:
        """Where the cursor is in `view`."""
        return self._at

    @property
    def unjudged(self) -> int:
        """Calls that the filter has not looked at yet."""
        return len(self._unjudged)

    @property
    def call_count(self) -> int:
        """Calls in memory, shown or not."""
        return len(self._of_flow)

    @property
    def waiting(self) -> int:
        """Calls that came while paused."""
        return len(self._waiting)

    def rate(self, now: float) -> float:
        """Calls per second, of the last seconds."""
        return sum(count for when, count in self._begun if when >= now - RATE_SECONDS) / RATE_SECONDS

    def rows(self) -> Iterator[CallRow]:
        """All calls in memory, in the order they came."""
        yield from self._rows.values()
        yield from self._waiting.values()

    def marked(self) -> list[CallRow]:
        """The marked ones, in the order they came."""
        return [row for row in self.rows() if row.marked]

    # -- what people do

    def move(self, by: int) -> None:
        """The cursor down or, if negative, up."""
        self.go(self._at + by)

    def go(self, to: int) -> None:
        """The cursor to this place of the list, or the nearest there is. To leave the newest call ends following."""
        if self.view:
            self._select(max(0, min(to, len(self.view) - 1)))
            self.follow = self.follow and self._at == self._newest()

    def go_last(self) -> None:
        """The cursor to the end."""
        self.go(len(self.view) - 1)

    def toggle_follow(self) -> None:
        """Let the cursor stay with the newest call, or no longer."""
        self.follow = not self.follow
        self._stale = True

    def toggle_pause(self) -> None:
        """Hold the list still, or let in what waited. Calls that are shown go on in either case."""
        self.paused = not self.paused
        if not self.paused:
            self._rows |= self._waiting
            self._waiting.clear()
            self._stale = True

    def set_wanted(self, wanted: Wanted | None) -> None:
        """Show the calls that another filter matches."""
        self._wanted = wanted
        for row in self._of_flow.values():
            row.visible = False
        self._unjudged = {row.serial: row for row in self.rows()}
        self._stale = True

    def next_order(self) -> None:
        """Sort by the next column."""
        self.order = _ORDERS[(_ORDERS.index(self.order) + 1) % len(_ORDERS)]
        # What one looks for in numbers is the largest.
        self.descending = self.order in (Order.DURATION, Order.SIZE, Order.STATUS)
        self._stale = True

    def reverse(self) -> None:
        """Sort the other way round."""
        self.descending = not self.descending
        self._stale = True

    def toggle_mark(self) -> None:
        """Mark the selected call, or no longer."""
        if self.selected is not None:
            self.selected.marked = not self.selected.marked

    def unmark_all(self) -> None:
        for row in self.rows():
            row.marked = False

    def clear(self, *, but_marked: bool = False) -> None:
        """Empty the list. Nobody has to be told what goes: it was seen."""
        for row in list(self.rows()):
            if not (but_marked and row.marked):
                self._forget(row)
        self._stale = True
