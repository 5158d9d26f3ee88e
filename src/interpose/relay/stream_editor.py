"""Editing the replies of a stream, message by message as they pass.

The edited sinks do what the tapped sinks do, except that replies are cut into messages, shown to the editors, and sent
on one by one. A message no editor changed goes on as the bytes that came, compression included; a changed one is sent
plain. Taps see what the client gets.

What cannot be edited passes: a message over the limit goes on piece by piece as it arrives and the next one is edited
again, the same for a message in an unknown encoding. So an editor, like a tap, cannot fail a call.

Flow control is per hop. The backend gets credit while nothing waits for the client, so that a message may be larger
than a window, and none while something does. In memory is at most one message being collected or waiting to be
written, and one window.
"""

import logging
from collections import Counter
from collections.abc import Callable, Sequence

from interpose.cri.methods import Method
from interpose.net.grpc.exchange import plain
from interpose.net.grpc.framing import PREFIX, frame, too_large
from interpose.net.grpc.status import Code, RpcError
from interpose.net.h2.headers import Headers
from interpose.net.h2.stream import Stream
from interpose.relay.api import Direction, StreamEditor
from interpose.relay.passthrough import CallRecorder, Passthrough
from interpose.relay.taps import UNREADABLE, CallView, TappedReplySink, TappedRequestSink

_log = logging.getLogger(__name__)


class StreamEditors:
    """The stream editors of a relay; catches and counts their exceptions."""

    def __init__(self, editors: Sequence[StreamEditor]) -> None:
        self.editors = tuple(editors)
        self.errors: Counter[tuple[str, str]] = Counter()  # (editor or UNREADABLE, method)

    @property
    def methods(self) -> frozenset[str]:
        """Names of all methods that an editor subscribes to."""
        return frozenset(name for editor in self.editors for name in editor.methods)

    def failures(self) -> dict[tuple[str, str], int]:
        """`errors`, with zeros for what never failed."""
        never = {
            (name, method): 0
            for editor in self.editors
            for method in editor.methods
            for name in (editor.name, UNREADABLE)
        }
        return {**never, **self.errors}

    def editors_for(self, method: str) -> tuple[StreamEditor, ...]:
        return tuple(editor for editor in self.editors if method in editor.methods)

    def edit(self, editors: Sequence[StreamEditor], method: Method, message: bytes) -> bytes:
        """The message after all of these editors, each sees the result of the one before."""
        for editor in editors:
            try:
                edited: object = editor.edit(method, message)  # foreign code: checked below
                if not isinstance(edited, bytes):
                    raise TypeError(f"{editor.name} returned a {type(edited).__name__}, which is no message")
                message = edited
            except Exception as error:
                self.note(editor.name, method, error)
        return message

    def note(self, name: str, method: Method, error: Exception) -> None:
        """Count a message that was forwarded unchanged; the first error of an editor and method is logged."""
        key = (name, method.name)
        self.errors[key] += 1
        if self.errors[key] == 1:
            _log.error(
                "Stream editor failed, reply forwarded unchanged; further failures are only counted",
                extra={"kv": {"editor": name, "method": method.name}},
                exc_info=error,
            )


class MessageSplitter:
    """Cuts a body into framed messages as they were on the wire; joined again, the pieces are the body.

    Holds at most one unfinished message of at most `limit` bytes. A larger one comes out in pieces, as it goes in.
    """

    def __init__(self, limit: int, on_oversized: Callable[[int], None]) -> None:
        self._limit = limit
        self._on_oversized = on_oversized  # called with the size of each
        self._pending = bytearray()
        self._passing = 0  # bytes to come of a message over the limit

    def feed(self, data: bytes) -> list[tuple[bool, bytes]]:
        """The pieces that these bytes complete, each with whether it is a whole message."""
        pending = self._pending
        pending += data
        found: list[tuple[bool, bytes]] = []
        start = 0
        while start < len(pending):
            if not self._passing:
                if len(pending) - start < PREFIX:
                    break
                length = int.from_bytes(pending[start + 1 : start + PREFIX], "big")
                end = start + PREFIX + length
                if length <= self._limit:
                    if end > len(pending):
                        break
                    found.append((True, bytes(pending[start:end])))
                    start = end
                    continue
                self._passing = PREFIX + length
                self._on_oversized(length)
            part = bytes(pending[start : start + self._passing])
            found.append((False, part))
            self._passing -= len(part)
            start += len(part)
        del pending[:start]
        return found

    def rest(self) -> bytes:
        """The bytes of a message that will not be finished."""
        rest = bytes(self._pending)
        self._pending.clear()
        return rest


class StreamEdit:
    """The replies of one call on their way through its editors."""

    def __init__(self, owner: StreamEditors, editors: Sequence[StreamEditor], method: Method, limit: int) -> None:
        self._owner = owner
        self._editors = editors
        self._method = method
        self._limit = limit
        self._cutter = MessageSplitter(limit, self._oversized)
        self.on_changed: Callable[[bytes], None] = _ignore  # called with the original of each changed message
        self._headers: Headers | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the editors of this call."""
        return tuple(editor.name for editor in self._editors)

    def headers(self, headers: Headers) -> Headers:
        """The block that names the compression, as it goes on: the length of the body is not known yet."""
        self._headers = headers
        fields = [field for field in headers.fields if field.name != b"content-length"]
        return headers if len(fields) == len(headers.fields) else Headers(fields)

    def data(self, data: bytes) -> bytes:
        """What may be sent on after these bytes have come; often nothing, or more than came."""
        return b"".join([self._edited(piece) if whole else piece for whole, piece in self._cutter.feed(data)])

    def rest(self) -> bytes:
        """What was held back, at the end of the body."""
        return self._cutter.rest()

    def _oversized(self, size: int) -> None:
        self._owner.note(UNREADABLE, self._method, too_large(size, self._limit))

    def _edited(self, framed: bytes) -> bytes:
        try:
            message = plain(self._headers, bool(framed[0] & 1), framed[PREFIX:], self._limit)
        except RpcError as error:
            self._owner.note(UNREADABLE, self._method, error)
            return framed
        edited = self._owner.edit(self._editors, self._method, message)
        if edited == message:
            return framed
        self.on_changed(message)
        return frame(edited)


def _ignore(_message: bytes) -> None:
    """No tap sees this call."""


class EditedReplySink(TappedReplySink):
    """The reply sink of a call whose replies are edited. One per call."""

    def __init__(self, recorder: CallRecorder, view: CallView, editing: StreamEdit) -> None:
        super().__init__(recorder, view)
        self._editing = editing
        editing.on_changed = self._changed
        self._owed = 0  # bytes received from the backend without credit given for them

    def on_headers(self, stream: Stream, headers: Headers, end: bool) -> None:
        if not end:
            super().on_headers(stream, self._editing.headers(headers), False)
            return
        client = stream.peer
        if client is not None:
            self._send(client, self._editing.rest(), False)
        super().on_headers(stream, headers, True)

    def on_data(self, stream: Stream, data: bytes, end: bool) -> None:
        client = stream.peer
        if client is None:
            stream.credit(len(data))
            return
        self._owed += len(data)
        out = self._editing.data(data)
        self._send(client, out + self._editing.rest() if end else out, end)
        if end:
            # A body that ends without trailers has no status: HTTP, not gRPC, but it passes.
            self._recorder.finish(client, Code.UNKNOWN)
            self._view.end(Code.UNKNOWN)
        else:
            self.credit_backend(client)

    def _send(self, client: Stream, out: bytes, end: bool) -> None:
        if out or end:
            self._view.data(Direction.REPLY, out)
            client.send_body(out, end)

    def _changed(self, message: bytes) -> None:
        self._view.changed_by = self._editing.names
        self._view.show(Direction.RECEIVED, message)

    def credit_backend(self, client: Stream) -> None:
        """Give the backend its credit if nothing waits for this client."""
        backend = client.peer
        if backend is not None and client.ready and self._owed:
            owed, self._owed = self._owed, 0
            backend.credit(owed)


class EditedRequestSink(TappedRequestSink):
    """The request sink of such a call. Requests pass; but bytes sent to the client are not those that came."""

    def __init__(self, recorder: CallRecorder, view: CallView, replies: EditedReplySink) -> None:
        super().__init__(recorder, view)
        self._replies = replies

    def on_sent(self, stream: Stream, count: int) -> None:
        self._replies.credit_backend(stream)


class EditedPassthrough(Passthrough):
    """The pass-through of one call whose replies are edited."""

    def __init__(self, recorder: CallRecorder, view: CallView, editing: StreamEdit) -> None:
        replies = EditedReplySink(recorder, view, editing)
        super().__init__(recorder, EditedRequestSink(recorder, view, replies), replies)
        self._view = view

    def on_unsent(self, code: int, why: str) -> None:
        self._view.end(code, why)
