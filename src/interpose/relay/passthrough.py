"""Calls without a subscriber: frames of one stream go to the other as they arrive.

Two sinks are shared by all such calls: `RequestSink` on the client's streams, `ReplySink` on the backend's. A stream's
`peer` is the stream on the other side, and a client stream's `call` its method's counters, or None once counted.

Flow control is per hop: a stream gets credit when its bytes were written to the other side, never before. So a slow
reader fills one stream window of memory, and then its own sender waits.
"""

from bisect import bisect_left
from collections.abc import Callable
from typing import Final

from interpose.net.grpc.answer import answer, stop_upload
from interpose.net.grpc.status import Code, code_of_http, code_of_reset
from interpose.net.grpc.upstream import Upstream, Waiter
from interpose.net.h2.buffered import BufferedShare
from interpose.net.h2.client import ClientConnection
from interpose.net.h2.errors import ErrorCode
from interpose.net.h2.headers import Headers, HeaderShape
from interpose.net.h2.states import DONE
from interpose.net.h2.stream import DEFAULT_FRAME_SIZE, NOWHERE, SMALL_DATA, Stream
from interpose.relay.stats import BOUNDS, MethodStats

LOST: Final = "connection to the runtime was lost"


class CallRecorder:
    """Counts calls, each exactly once. A client stream's `call` holds its method's counters until the call is over."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock

    def begin(self, stream: Stream, stats: MethodStats) -> None:
        stats.started += 1
        stream.call = stats
        stream.since = self.clock()

    def mark_forwarded(self, stream: Stream) -> None:
        """The call had to wait in the relay; from now on its time is counted as the backend's."""
        now = self.clock()
        if stream.call is not None:
            stream.call.spent(now - stream.since)
        stream.since = now

    def finish(self, stream: Stream, code: int) -> None:
        """Count the call of this client stream, unless it was counted already."""
        stats: MethodStats | None = stream.call
        if stats is not None:
            stream.call = None
            stats.bytes_received += stream.received
            if stream.peer is not None:
                stats.bytes_sent += stream.peer.received
            stats.finish(code, self.clock() - stream.since)

    def finish_reset(self, stream: Stream, code: int) -> None:
        """The same for a call that ended because one side reset its stream."""
        if stream.call is not None:
            stream.call.resets += 1
        self.finish(stream, code)


def code_of(headers: Headers) -> int:
    """The gRPC code a final header block carries."""
    if headers.grpc_code >= 0:
        return headers.grpc_code
    http = headers.get(b":status")
    return code_of_http(int(http)) if http is not None else Code.UNKNOWN


class RequestSink:
    """The sink of client streams: passes requests to the backend."""

    def __init__(self, recorder: CallRecorder) -> None:
        self._recorder = recorder

    def on_headers(self, stream: Stream, headers: Headers, end: bool) -> None:
        if stream.peer is not None:
            stream.peer.send_headers(headers.wire, end)

    def on_data(self, stream: Stream, data: bytes, end: bool) -> None:
        peer = stream.peer
        if peer is None:
            stream.credit(len(data))
            return
        small = len(data) < SMALL_DATA and not end
        sent = peer.send_joined(data) if small else peer.send_data(data, end)
        if sent and not end:
            stream.credit(sent)

    def on_sent(self, stream: Stream, count: int) -> None:
        if stream.peer is not None:
            stream.peer.credit(count)

    def on_reset(self, stream: Stream, code: int) -> None:
        self._on_client_gone(stream, code)

    def on_lost(self, stream: Stream) -> None:
        self._on_client_gone(stream, ErrorCode.CANCEL)

    def shut(self, stream: Stream, code: int) -> None:
        self._recorder.finish(stream, code)
        self._give_up(stream, ErrorCode.CANCEL)

    def _on_client_gone(self, stream: Stream, code: int) -> None:
        self._recorder.finish_reset(stream, Code.CANCELLED)
        self._give_up(stream, code)

    def _give_up(self, stream: Stream, code: int) -> None:
        """Reset the backend's stream at once: the client does not wait any more."""
        peer = stream.peer
        if peer is not None:
            unlink(stream, peer)
            peer.reset(code)


class ReplySink:
    """The sink of backend streams: passes replies to the client."""

    def __init__(self, recorder: CallRecorder) -> None:
        self._recorder = recorder
        self._clock = recorder.clock

    def on_headers(self, stream: Stream, headers: Headers, end: bool) -> None:
        client = stream.peer
        # No window bounds interim responses, and who does not read has no use for them.
        if client is None or (client.conn.blocked and headers.shape is HeaderShape.INTERIM):
            return
        client.send_headers(headers.wire, end)
        if end:
            stats: MethodStats | None = client.call
            if stats is not None:  # what CallRecorder.finish does, in place: this runs for every call
                client.call = None
                window = stream.conn.stream_window
                stats.bytes_received += window - client.receive_window + client.credited
                stats.bytes_sent += window - stream.receive_window + stream.credited
                code = headers.grpc_code
                stats.codes[code if code >= 0 else code_of(headers)] += 1
                elapsed = self._clock() - client.since
                stats.backend_buckets[bisect_left(BOUNDS, elapsed)] += 1
                stats.backend_sum += elapsed
            if client.receiving == DONE:
                client.peer = stream.peer = client.splice = stream.splice = None

    def on_data(self, stream: Stream, data: bytes, end: bool) -> None:
        client = stream.peer
        if client is None:
            stream.credit(len(data))
            return
        sent = client.send_data(data, end)
        if end:
            # A body that ends without trailers has no status: HTTP, not gRPC, but it passes.
            self._recorder.finish(client, Code.UNKNOWN)
        elif sent:
            stream.credit(sent)

    def on_sent(self, stream: Stream, count: int) -> None:
        if stream.peer is not None:
            stream.peer.credit(count)

    def on_reset(self, stream: Stream, code: int) -> None:
        client = stream.peer
        if client is not None:
            # A backend that has answered may stop the upload; the answer itself may still wait for its reader.
            answered = client.call is None
            self._recorder.finish_reset(client, code_of_reset(code))
            unlink(client, stream)
            if answered:
                stop_upload(client)
            else:
                client.reset(code)

    def on_lost(self, stream: Stream) -> None:
        client = stream.peer
        if client is not None:
            answered = client.call is None
            self._recorder.finish(client, Code.UNAVAILABLE)
            unlink(client, stream)
            if answered:
                stop_upload(client)
            else:
                answer(client, Code.UNAVAILABLE, LOST)


def unlink(client: Stream, backend: Stream) -> None:
    """Break the pair, so that both are freed at once and no late event crosses."""
    client.peer = backend.peer = client.splice = backend.splice = None
    client.sink = backend.sink = NOWHERE


class Passthrough:
    """Opens the backend's side of a call and ties the two streams together."""

    def __init__(
        self, recorder: CallRecorder, requests: RequestSink | None = None, replies: ReplySink | None = None
    ) -> None:
        self._recorder = recorder
        self.requests = requests if requests is not None else RequestSink(recorder)
        self.replies = replies if replies is not None else ReplySink(recorder)
        self._spliced = requests is None and replies is None  # no tap or editor sees the messages

    def forward(self, stream: Stream, conn: ClientConnection, wire: bytes, end: bool) -> None:
        """Open the backend's stream for this call and send its headers."""
        peer = conn.open(self.replies, wire, end)
        peer.peer = stream
        stream.peer = peer
        stream.sink = self.requests
        if self._spliced:
            stream.splice = peer
            peer.splice = stream

    def on_unsent(self, code: int, why: str) -> None:
        """Called when the call ends before it could be sent on; a subclass reports it to its taps."""

    def wait_for_backend(self, stream: Stream, upstream: Upstream, wire: bytes, end: bool) -> None:
        """No backend now: buffer the request, within the stream's window, until there is one or time is up."""
        WaitingRequestSink(self, self._recorder, stream, upstream, wire, end)


class WaitingRequestSink:
    """The sink of a client stream that waits for a backend. What it holds counts as bytes that wait in memory."""

    def __init__(
        self, owner: Passthrough, recorder: CallRecorder, stream: Stream, upstream: Upstream, wire: bytes, end: bool
    ) -> None:
        self._owner = owner
        self._recorder = recorder
        self._stream = stream
        self._upstream = upstream
        self._wire = wire
        self._end = end
        self._body = bytearray()
        self.share = BufferedShare(stream.conn.buffered)
        self.share.add(len(wire))
        self._body_ends = False
        self._trailers: bytes | None = None
        self._waiter = Waiter(self._ready, self._expired, len(wire))
        stream.sink = self
        upstream.wait(self._waiter)

    def _ready(self, conn: ClientConnection) -> None:
        stream = self._stream
        self.share.release()
        self._recorder.mark_forwarded(stream)
        self._owner.forward(stream, conn, self._wire, self._end)
        requests, body = self._owner.requests, self._body
        # In whole frames, however small those were that came.
        for start in range(0, len(body) or self._body_ends, DEFAULT_FRAME_SIZE):
            stop = start + DEFAULT_FRAME_SIZE
            requests.on_data(stream, bytes(body[start:stop]), self._body_ends and stop >= len(body))
        if self._trailers is not None and stream.peer is not None:
            stream.peer.send_headers(self._trailers, True)

    def _expired(self, reason: str) -> None:
        stream = self._stream
        self.share.release()
        self._recorder.mark_forwarded(stream)
        self._recorder.finish(stream, Code.UNAVAILABLE)
        stream.sink = NOWHERE
        answer(stream, Code.UNAVAILABLE, reason)
        self._owner.on_unsent(Code.UNAVAILABLE, reason)

    def on_headers(self, stream: Stream, headers: Headers, end: bool) -> None:
        self._trailers = headers.wire

    def on_data(self, stream: Stream, data: bytes, end: bool) -> None:
        self._body += data
        self.share.add(len(data))
        self._body_ends = end

    def on_sent(self, stream: Stream, count: int) -> None:
        """Not called: this sink sends nothing."""

    def on_reset(self, stream: Stream, code: int) -> None:
        self.on_lost(stream)

    def on_lost(self, stream: Stream) -> None:
        self.shut(stream, Code.CANCELLED)

    def shut(self, stream: Stream, code: int) -> None:
        self._upstream.cancel(self._waiter)
        self.share.release()
        stream.sink = NOWHERE
        self._recorder.finish(stream, code)
        self._owner.on_unsent(code, "")
