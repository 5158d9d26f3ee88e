"""Showing passing messages to taps.

The tapped sinks do what the pass-through sinks do and, beside it, cut copies of the bytes into messages. Whatever a tap
raises is counted and logged once; the call never notices. What cannot be copied (a message over the limit, too many at
once, an unknown encoding) is reported as unseen, and the next message is copied again.
"""

import itertools
import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from interpose.net.grpc.exchange import plain
from interpose.net.grpc.framing import PREFIX
from interpose.net.grpc.status import Code, RpcError, code_of_reset, unquote_message
from interpose.net.h2.headers import Headers
from interpose.net.h2.stream import Stream
from interpose.relay.api import Direction, Interest, Reply, Sighting, Tap
from interpose.relay.passthrough import LOST, CallRecorder, Passthrough, ReplySink, RequestSink, code_of

_log = logging.getLogger(__name__)

# The largest message that is copied. Lists of a full node have a tenth of that; larger ones would hold the loop.
COPY_LIMIT: Final = 4 << 20
# What a compressed message may open to: that is done here, while calls wait. No kubelet compresses.
OPEN_LIMIT: Final = 1 << 20
# Of all calls together, what has begun to come and is not whole yet.
COPY_BUDGET: Final = 64 << 20
# Counted under this name instead of a tap's: no tap failed.
UNREADABLE: Final = "unreadable message"
# A member of an enumeration takes longer to look up than all else that is done with it here.
_REQUEST: Final = Direction.REQUEST
_REPLY: Final = Direction.REPLY


class TapRegistry:
    """The taps of a relay; catches and counts their exceptions."""

    def __init__(self, taps: Iterable[Tap] = (), *, limit: int = COPY_LIMIT, budget: int = COPY_BUDGET) -> None:
        self.taps = tuple(taps)
        self.errors: Counter[str] = Counter()
        self.limit = limit
        self.room = budget  # bytes that may still be promised to messages on their way
        self._numbers = itertools.count(1)

    def failures(self) -> dict[str, int]:
        """`errors`, with zeros for what never failed."""
        return {**dict.fromkeys((UNREADABLE, *(tap.name for tap in self.taps)), 0), **self.errors}

    def taps_for(self, method: str, least: Interest = Interest.CALLS) -> tuple[Tap, ...]:
        """The taps with at least this interest in a method. One whose `interest` raises sees nothing."""
        return tuple(tap for tap in self.taps if self._interest(tap, method) >= least)

    def _interest(self, tap: Tap, method: str) -> Interest:
        try:
            return tap.interest(method)
        except Exception as error:
            self._note(tap, error)
            return Interest.NONE

    def number(self) -> int:
        return next(self._numbers)

    def begin(self, taps: Sequence[Tap], call: Sighting) -> None:
        for tap in taps:
            try:
                tap.on_begin(call)
            except Exception as error:
                self._note(tap, error)

    def show(self, taps: Sequence[Tap], call: Sighting, direction: Direction, message: bytes) -> None:
        for tap in taps:
            try:
                tap.on_message(call, direction, message)
            except Exception as error:
                self._note(tap, error)

    def unseen(self, taps: Sequence[Tap], call: Sighting, direction: Direction, size: int, why: str) -> None:
        """Report a message whose content cannot be shown; it counts as an error of its own."""
        self.errors[UNREADABLE] += 1
        for tap in taps:
            try:
                tap.on_unseen(call, direction, size, why)
            except Exception as error:
                self._note(tap, error)

    def end(
        self, taps: Sequence[Tap], call: Sighting, code: int, message: str = "", changed_by: Sequence[str] = ()
    ) -> None:
        for tap in taps:
            try:
                tap.on_end(call, code, message, changed_by)
            except Exception as error:
                self._note(tap, error)

    def _note(self, tap: Tap, error: Exception) -> None:
        self.errors[tap.name] += 1
        if self.errors[tap.name] == 1:
            _log.error("Tap failed; further failures are only counted", extra={"kv": {"tap": tap.name}}, exc_info=error)


class MessageCopy(NamedTuple):
    """One message of a body, or the reason why it was not copied."""

    compressed: bool
    message: bytes
    size: int
    why: str = ""


class MessageCopier:
    """Cuts one direction of a call into messages. Memory for a message is promised before it is collected."""

    __slots__ = ("_pending", "_promised", "_skip", "_tap_registry")

    def __init__(self, tap_registry: TapRegistry) -> None:
        self._tap_registry = tap_registry
        self._pending = bytearray()
        self._skip = 0  # bytes to come of a message that is not copied
        self._promised = 0

    @property
    def between(self) -> bool:
        """Whether what comes next is the beginning of a message."""
        return not self._pending and not self._skip

    def feed(self, data: bytes) -> list[MessageCopy]:
        """What these bytes complete."""
        found: list[MessageCopy] = []
        pending = self._pending
        pending += data
        while pending:
            if self._skip:
                gone = min(self._skip, len(pending))
                del pending[:gone]
                self._skip -= gone
                continue
            if len(pending) < PREFIX:
                break
            size = int.from_bytes(pending[1:PREFIX], "big")
            if len(pending) >= PREFIX + size and size <= self._tap_registry.limit:
                with memoryview(pending) as view:  # a slice of it is no copy of its own
                    found.append(MessageCopy(bool(pending[0] & 1), bytes(view[PREFIX : PREFIX + size]), size))
                del pending[: PREFIX + size]
                self.release()
            elif why := self._refusal(size):
                found.append(MessageCopy(False, b"", size, why))
                self._skip = PREFIX + size
            else:
                break
        return found

    def _refusal(self, size: int) -> str:
        """Why a message that is still to come will not be copied."""
        tap_registry = self._tap_registry
        if size > tap_registry.limit:
            return f"larger than the {tap_registry.limit} bytes that are copied"
        if not self._promised:
            if size > tap_registry.room:
                return "too much was being copied at that moment"
            self._promised = size
            tap_registry.room -= size
        return ""

    def release(self) -> None:
        """The promise is not needed any more."""
        self._tap_registry.room += self._promised
        self._promised = 0


class CallView:
    """One call as its taps see it. Those in `readers` see its messages, too."""

    __slots__ = ("_copies", "_headers", "_readers", "_tap_registry", "_taps", "call", "changed_by", "received")

    def __init__(self, tap_registry: TapRegistry, taps: Sequence[Tap], readers: Sequence[Tap], call: Sighting) -> None:
        self._tap_registry = tap_registry
        self._taps = taps
        self._readers = readers
        self.call = call
        self.changed_by: Sequence[str] = ()
        self.received: bytes | None = None  # what the runtime answered, if that is known before the caller gets it
        # Made when they are needed: of most calls nothing has to be kept.
        self._headers: dict[Direction, Headers] | None = None
        self._copies: dict[Direction, MessageCopier] | None = None
        tap_registry.begin(taps, call)

    @property
    def reads(self) -> bool:
        """Whether a tap is interested in messages."""
        return bool(self._readers)

    def headers(self, direction: Direction, headers: Headers) -> None:
        """The block that names the compression."""
        if self._readers:
            if self._headers is None:
                self._headers = {}
            self._headers.setdefault(direction, headers)

    def data(self, direction: Direction, data: bytes) -> None:
        """Bytes of the body; whole messages are shown."""
        if not self._readers or not self._taps:
            return
        copies = None if self._copies is None else self._copies.get(direction)
        if (copies is None or copies.between) and data[:1] == b"\x00":
            size = len(data) - PREFIX
            if int.from_bytes(data[1:PREFIX], "big") == size <= self._tap_registry.limit:
                # One message, whole and plain: nearly all are.
                self._tap_registry.show(self._readers, self.call, direction, bytes(data[PREFIX:]))
                return
        if copies is None:
            copies = MessageCopier(self._tap_registry)
            if self._copies is None:
                self._copies = {}
            self._copies[direction] = copies
        for compressed, message, size, why in copies.feed(data):
            if why:
                self._tap_registry.unseen(self._readers, self.call, direction, size, why)
            elif compressed:
                self._unpack(direction, message)
            else:
                self._tap_registry.show(self._readers, self.call, direction, message)

    def _unpack(self, direction: Direction, message: bytes) -> None:
        try:
            text = plain((self._headers or {}).get(direction), True, message, min(OPEN_LIMIT, self._tap_registry.limit))
        except RpcError as error:
            self._tap_registry.unseen(self._readers, self.call, direction, len(message), error.message)
        else:
            self._tap_registry.show(self._readers, self.call, direction, text)

    def show(self, direction: Direction, message: bytes) -> None:
        """Show one whole, uncompressed message."""
        if not self._readers or not self._taps:
            return
        if len(message) > self._tap_registry.limit:
            why = f"larger than the {self._tap_registry.limit} bytes that are copied"
            self._tap_registry.unseen(self._readers, self.call, direction, len(message), why)
        else:
            self._tap_registry.show(self._readers, self.call, direction, message)

    def on_runtime_reply(self, reply: Reply) -> None:
        """Keep the runtime's reply as it came, before interceptors change it."""
        self.received = reply.body.received if reply.body is not None and reply.body.readable else None

    def unseen(self, direction: Direction, size: int, why: str) -> None:
        """Report a message whose content cannot be shown."""
        if self._readers and self._taps:
            self._tap_registry.unseen(self._readers, self.call, direction, size, why)

    def end(self, code: int, message: str = "") -> None:
        """Report the end of the call, once, and release the copies."""
        if self._taps:
            taps, self._taps = self._taps, ()
            self._tap_registry.end(taps, self.call, code, message, self.changed_by)
            if self._copies is not None:
                for copies in self._copies.values():
                    copies.release()


class TappedRequestSink(RequestSink):
    """A request sink that shows messages to taps."""

    def __init__(self, recorder: CallRecorder, view: CallView) -> None:
        super().__init__(recorder)
        self._view = view

    def on_data(self, stream: Stream, data: bytes, end: bool) -> None:
        self._view.data(_REQUEST, data)
        super().on_data(stream, data, end)

    def on_reset(self, stream: Stream, code: int) -> None:
        super().on_reset(stream, code)
        self._view.end(Code.CANCELLED)

    def on_lost(self, stream: Stream) -> None:
        super().on_lost(stream)
        self._view.end(Code.CANCELLED)

    def shut(self, stream: Stream, code: int) -> None:
        super().shut(stream, code)
        self._view.end(code)


class TappedReplySink(ReplySink):
    """A reply sink that shows messages to taps."""

    def __init__(self, recorder: CallRecorder, view: CallView) -> None:
        super().__init__(recorder)
        self._view = view

    def on_headers(self, stream: Stream, headers: Headers, end: bool) -> None:
        super().on_headers(stream, headers, end)
        if end:
            code = code_of(headers)
            self._view.end(code, unquote_message(headers.get(b"grpc-message") or b"") if code else "")
        else:
            self._view.headers(_REPLY, headers)

    def on_data(self, stream: Stream, data: bytes, end: bool) -> None:
        self._view.data(_REPLY, data)
        super().on_data(stream, data, end)
        if end:
            self._view.end(Code.UNKNOWN)

    def on_reset(self, stream: Stream, code: int) -> None:
        super().on_reset(stream, code)
        self._view.end(code_of_reset(code), f"the runtime reset the call (HTTP/2 error {code})")

    def on_lost(self, stream: Stream) -> None:
        super().on_lost(stream)
        self._view.end(Code.UNAVAILABLE, LOST)


class TappedPassthrough(Passthrough):
    """The pass-through of one call whose messages taps see."""

    def __init__(self, recorder: CallRecorder, view: CallView) -> None:
        super().__init__(recorder, TappedRequestSink(recorder, view), TappedReplySink(recorder, view))
        self._spliced = not view.reads  # then its body may take the short way past the sinks
        self._view = view

    def on_unsent(self, code: int, why: str) -> None:
        self._view.end(code, why)
