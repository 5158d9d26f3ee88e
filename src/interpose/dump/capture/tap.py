"""The relay's side of seeing: a tap that turns what passes into frames for whoever reads.

It looks at nothing it copies. A method no reader wants is not tapped at all, and of a method whose name is enough no
message is copied.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from interpose.dump.capture.queue import FrameQueue, Losses
from interpose.dump.model.frames import (
    Flags,
    MessageSide,
    Packing,
    encode_begin,
    encode_end,
    encode_message,
    pack_fields,
    pack_texts,
)
from interpose.relay.api import Direction, Interest, Sighting

_SIDES: Final = {
    Direction.REQUEST: MessageSide.REQUEST,
    Direction.FORWARDED: MessageSide.FORWARDED,
    Direction.RECEIVED: MessageSide.RECEIVED,
    Direction.REPLY: MessageSide.REPLY,
}
# The same in every call of gRPC.
_PLAIN: Final = frozenset((b"te", b"content-type"))
_TOO_LARGE: Final = "not kept, it is larger than the queue of the reader"
_TOO_SLOW: Final = "not kept, the reader was too slow"
_INTERCEPTED: Final = int(Flags.INTERCEPTED)  # an enumeration costs more to look at than a call's other numbers
_PLAIN_BODY: Final = int(Packing.PLAIN)
_NO_TEXT: Final = pack_texts("")
_MOST_KNOWN: Final = 64
_LONGEST_KNOWN: Final = 1024


class _Subscribers(NamedTuple):
    """Who wants to know of a method, who reads what is said, and how its frames begin."""

    watchers: tuple[FrameQueue, ...]
    readers: tuple[FrameQueue, ...]
    texts: bytes


class _CallState:
    """A call in flight: since when, and who reads what of it."""

    __slots__ = ("readers", "since", "watchers")

    def __init__(self, since: int, watchers: Sequence[FrameQueue], readers: Sequence[FrameQueue]) -> None:
        self.since = since
        self.watchers = watchers
        self.readers = readers


class DumpTap:
    """A tap with any number of readers. `wall` and `clock` give nanoseconds; `changed` is told when readers change."""

    name = "dump"

    def __init__(
        self, wall: Callable[[], int], clock: Callable[[], int], changed: Callable[[], None] = lambda: None
    ) -> None:
        self.queues: tuple[FrameQueue, ...] = ()
        self.losses = Losses()
        self._wall = wall
        self._clock = clock
        self._changed = changed
        self._seen: dict[int, _CallState] = {}
        self._audiences: dict[tuple[bytes, str], _Subscribers] = {}  # by path and origin
        self._known: dict[bytes, bytes] = {}  # metadata as frames hold it

    def attach(self, queue: FrameQueue) -> None:
        self._readers((*self.queues, queue))

    def detach(self, queue: FrameQueue) -> None:
        """Stop copying frames to a queue, also those of calls in flight."""
        if queue not in self.queues:
            return
        self.losses.add_closed(queue)
        self._readers(tuple(other for other in self.queues if other is not queue))
        for seen in self._seen.values():
            seen.watchers = [other for other in seen.watchers if other is not queue]
            seen.readers = [other for other in seen.readers if other is not queue]

    def _readers(self, queues: tuple[FrameQueue, ...]) -> None:
        self.queues = queues
        self._audiences.clear()
        self._changed()

    # -- what the relay calls

    def interest(self, method: str) -> Interest:
        """As much as the most curious reader wants."""
        return max((queue.interest(method) for queue in self.queues), default=Interest.NONE)

    def on_begin(self, call: Sighting) -> None:
        """Tell everybody who wants to know of this method."""
        audience = self._audiences.get((call.path, call.origin))
        if audience is None:
            audience = self._choose(call)
        watchers, readers, texts = audience
        if not watchers:
            return
        number, peer = call.number, call.peer
        pid, uid = (0, 0) if peer is None else (peer.pid, peer.uid)
        flags = _INTERCEPTED if call.intercepted else 0
        self._seen[number] = _CallState(self._clock(), watchers, readers)
        key = call.metadata_key
        fields = self._known.get(key) if key is not None else None
        if fields is None:
            fields = self._pack_metadata(call, key)
        data = encode_begin(number, self._wall(), pid, uid, flags, texts + fields)
        for queue in watchers:
            if not queue.put(data, reserve=True):
                queue.lose(len(data))

    def _pack_metadata(self, call: Sighting, key: bytes | None) -> bytes:
        """Nearly all calls of a client have the same, so it is kept."""
        fields = pack_fields([item for item in call.metadata if item[0] not in _PLAIN])
        if key is not None and len(key) <= _LONGEST_KNOWN:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = fields
        return fields

    def on_message(self, call: Sighting, direction: Direction, message: bytes) -> None:
        """Copy it for those who read."""
        seen = self._seen.get(call.number)
        if seen is None or not seen.readers:
            return
        at = self._clock() - seen.since
        side = _SIDES[direction]
        data = b""  # made when somebody has room for it: it is a copy
        for queue in seen.readers:
            if not data and queue.has_room(len(message)):
                data = encode_message(call.number, at, side, _PLAIN_BODY, len(message), message)
            if not data or not queue.put(data):
                queue.bodies_lost += 1
                why = _TOO_SLOW if len(message) < queue.limit else _TOO_LARGE
                self._absent(queue, call.number, at, side, len(message), why)

    def on_unseen(self, call: Sighting, direction: Direction, size: int, why: str) -> None:
        """Say that there was one."""
        seen = self._seen.get(call.number)
        if seen is not None:
            at = self._clock() - seen.since
            for queue in seen.readers:
                self._absent(queue, call.number, at, _SIDES[direction], size, why)

    def _absent(self, queue: FrameQueue, number: int, at: int, side: MessageSide, size: int, why: str) -> None:
        data = encode_message(number, at, side, Packing.ABSENT, size, why.encode())
        if not queue.put(data, reserve=True):
            queue.lose(size)

    def on_end(self, call: Sighting, code: int, message: str, changed_by: Sequence[str]) -> None:
        """Tell everybody who heard of its beginning."""
        seen = self._seen.pop(call.number, None)
        if seen is None:
            return
        elapsed = self._clock() - seen.since
        texts = pack_texts(message, *changed_by) if message or changed_by else _NO_TEXT
        data = encode_end(call.number, elapsed, code, texts)
        for queue in seen.watchers:
            if not queue.put(data, reserve=True):
                queue.lose(len(data))

    def _choose(self, call: Sighting) -> _Subscribers:
        name = call.method.name if call.method is not None else ""
        wanted = [(queue, queue.interest(name)) for queue in self.queues]
        audience = _Subscribers(
            tuple(queue for queue, interest in wanted if interest >= Interest.CALLS),
            tuple(queue for queue, interest in wanted if interest >= Interest.MESSAGES),
            pack_texts(call.path.decode("utf-8", "backslashreplace"), call.origin),
        )
        if call.method is not None:  # there are few of them; names that a client made up are not remembered
            self._audiences[call.path, call.origin] = audience
        return audience
