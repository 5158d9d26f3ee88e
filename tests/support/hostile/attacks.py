"""The table of attacks: what each writes, over and over, until it is cut or time is up.

A row's function gets a fresh connection and returns or raises at its end; whoever runs it connects again. Chunks are
built once, before the first byte goes out, so that even a Python client keeps a proxy busy.
"""

import gzip
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from tests.support.hostile.calls import (
    BIG_CALL,
    EMPTY_MESSAGE,
    FLOOD_CALL,
    MIDDLING_CALL,
    QUICK_CALL,
    STALLED_CALL,
    STREAMS,
    TABLE,
    TAKEN_CALL,
    WINDOW,
    Attack,
    filled,
    opened,
    repeat,
    request,
    send_numbered,
    waiting_replies,
)
from tests.support.hostile.header_attacks import (
    HUFFMAN_COMMON,
    HUFFMAN_RARE,
    INSERTED,
    STATIC_FIELD,
    calls_with,
    changing_headers,
    continuation_flood,
    insertions,
    large_entry_calls,
    many_small_continuations,
    one_byte_continuations,
    referenced_at_once,
    trailers,
)
from tests.support.hostile.paths import INTERCEPTED
from tests.support.hostile.peer import HostilePeer
from tests.support.net.h2_peer import (
    data,
    goaway,
    headers,
    ping,
    priority,
    raw,
    rst_stream,
    settings,
    settings_ack,
    window_update,
)
from tests.support.net.hpack import Encoder, integer

_LARGEST_WINDOW: Final = 2**31 - 1
_DEFAULT_WINDOW: Final = 65_535


@dataclass(frozen=True, kw_only=True)
class AttackRow:
    """An attack. `group` is the kind of work that it makes; `attack` runs on one connection."""

    name: str
    group: str
    attack: Attack
    about_connections: bool = False  # whether it is new connections that a neighbour would not get

    @property
    def timed(self) -> bool:
        """Whether it needs time that passes, or more than one connection."""
        return self.name in ("all-calls-taken", "backend-flood", "idle-connections", "slow-reader")


# What moves windows.


def connection_updates(peer: HostilePeer) -> None:
    """Credit for the connection, none of which helps a stream."""
    waiting_replies(peer)
    repeat(peer, filled(window_update(0, 1)))


def stream_updates(peer: HostilePeer) -> None:
    """One byte of credit for each stream in turn: every reply goes out in frames of one byte."""
    numbers = waiting_replies(peer)
    repeat(peer, b"".join(window_update(number, 1) for number in numbers) * 20)


def one_stream_updates(peer: HostilePeer) -> None:
    """One byte of credit after another for one stream among many."""
    number = waiting_replies(peer)[0]
    repeat(peer, filled(window_update(number, 1)))


def window_up_and_down(peer: HostilePeer) -> None:
    """INITIAL_WINDOW_SIZE changes the windows of all streams, again and again."""
    waiting_replies(peer)
    repeat(peer, filled(settings((WINDOW, 1)) + settings((WINDOW, 0))))


def window_up_and_down_in_one_frame(peer: HostilePeer) -> None:
    """The same with as many changes as a frame holds."""
    waiting_replies(peer)
    repeat(peer, settings(*[(WINDOW, 1), (WINDOW, 0)] * 1300) * 10)


def closed_stream_updates(peer: HostilePeer) -> None:
    """Credit for streams that have ended."""
    peer.hello()
    numbers = opened(peer, QUICK_CALL, 100, end=True)
    peer.await_frames("HEADERS", 100)
    repeat(peer, b"".join(window_update(number, 1) for number in numbers) * 200)


# What opens and ends calls.


def rapid_reset(peer: HostilePeer) -> None:
    """CVE-2023-44487: calls that are cancelled as soon as they are made."""
    peer.hello()
    send_numbered(peer, lambda number: headers(number, QUICK_CALL, end=True) + rst_stream(number))


def rapid_reset_of_uploads(peer: HostilePeer) -> None:
    """The same with calls that are still open when they are cancelled."""
    peer.hello()
    send_numbered(peer, lambda number: headers(number, TAKEN_CALL) + rst_stream(number))


def reset_in_the_next_read(peer: HostilePeer) -> None:
    """Many calls, a moment, then all of them cancelled: no single read has both."""
    peer.hello((WINDOW, 0))
    while True:
        numbers = opened(peer, MIDDLING_CALL, 500, end=True)
        peer.idle(0.005)
        peer.send(b"".join(rst_stream(number) for number in numbers))


def reset_after_the_reply_began(peer: HostilePeer) -> None:
    """Cancelled when the reply waits in full."""
    peer.hello((WINDOW, 0))
    while True:
        before = peer.seen["HEADERS"]
        numbers = opened(peer, MIDDLING_CALL, 500, end=True)
        peer.await_frames("HEADERS", before + 500)
        peer.send(b"".join(rst_stream(number) for number in numbers))


def made_you_reset(peer: HostilePeer) -> None:
    """CVE-2025-8671: the other side has to cancel."""
    peer.hello()
    send_numbered(peer, lambda number: headers(number, QUICK_CALL, end=True) + window_update(number, 0))


def made_you_reset_by_data(peer: HostilePeer) -> None:
    """The same by DATA behind the end."""
    peer.hello()
    send_numbered(peer, lambda number: headers(number, QUICK_CALL, end=True) + data(number, b"x"))


def malformed_calls(peer: HostilePeer) -> None:
    """Requests without a path, each to be refused on its own."""
    block = Encoder().block([(b":method", b"POST"), (b":scheme", b"http")], "plain")
    peer.hello()
    send_numbered(peer, lambda number: headers(number, block, end=True))


def refused_streams(peer: HostilePeer) -> None:
    """Far more calls at once than are allowed."""
    peer.hello()
    send_numbered(peer, lambda number: headers(number, STALLED_CALL))


def half_closed_pile(peer: HostilePeer) -> None:
    """As many calls as are allowed that never end."""
    peer.hello()
    opened(peer, STALLED_CALL, STREAMS, end=False)
    peer.idle(3600)


def all_calls_taken(peer: HostilePeer) -> None:
    """Calls that never end, on as many connections as it takes to have all that a proxy allows."""
    with ExitStack() as stack:
        for one in (peer, *(stack.enter_context(peer.another()) for _ in range(5))):
            one.hello()
            opened(one, STALLED_CALL, STREAMS, end=False)
        peer.idle(3600)


def as_many_calls_as_possible(peer: HostilePeer) -> None:
    """No attack, a heavy user: calls all the time, hundreds at once."""
    peer.hello()
    done = 0
    while True:
        opened(peer, QUICK_CALL, 200, end=True)
        done += 400  # headers and trailers
        peer.await_frames("HEADERS", done - 400)


def unknown_methods(peer: HostilePeer) -> None:
    """Calls of methods that nobody has, each with another name."""
    peer.hello()
    while True:
        for _ in range(10):
            numbers = [peer.next_stream() for _ in range(50)]
            peer.send(b"".join(headers(n, request(b"/no.Such/Method%d" % n), end=True) for n in numbers))


# Calls that somebody reads on the way.


def intercepted_calls(peer: HostilePeer) -> None:
    """Hundreds at once that a policy has to decide about."""
    block = request(INTERCEPTED)
    peer.hello()
    while True:
        before = peer.seen["HEADERS"]
        numbers = [peer.next_stream() for _ in range(500)]
        peer.send(b"".join(headers(number, block) + data(number, EMPTY_MESSAGE, end=True) for number in numbers))
        peer.await_frames("HEADERS", before + 500)


def unpacked_messages(peer: HostilePeer) -> None:
    """A few bytes each that unpack to megabytes."""
    body = gzip.compress(b"\xc2\x3e\x80\x80\x80\x0f" + bytes(15 << 21), mtime=0)
    message = b"\x01" + len(body).to_bytes(4, "big") + body
    block = request(INTERCEPTED, (b"grpc-encoding", b"gzip"))
    peer.hello()
    while True:
        before = peer.seen["HEADERS"]
        for number in [peer.next_stream() for _ in range(50)]:
            parts = [message[at : at + 16_000] for at in range(0, len(message), 16_000)]
            peer.send(headers(number, block) + b"".join(data(number, one, end=one is parts[-1]) for one in parts))
        peer.await_frames("HEADERS", before + 50)


def collected_messages(peer: HostilePeer) -> None:
    """Large messages that never end, each to be collected before it goes on."""
    block = request(INTERCEPTED)
    peer.hello()
    numbers = opened(peer, block, 200, end=False)
    while True:
        for number in numbers:
            peer.send(data(number, bytes(16_000)))
        peer.idle(0.001)


# Bodies.


def _upload(call: bytes, frame: Callable[[int], bytes], *, streams: int = 1) -> Attack:
    """Uploads in frames of one kind, as much as the windows allow; each stream within its own."""

    def attack(peer: HostilePeer) -> None:
        peer.hello()
        while True:
            numbers = opened(peer, call, streams, end=False)
            for number in numbers:
                one = frame(number)
                size = max(1, len(one) - 9)
                peer.send(one * (_DEFAULT_WINDOW // size))
            for number in numbers:
                peer.send(rst_stream(number))
            peer.idle(0.001)

    return attack


def _kept_upload(frame: Callable[[int], bytes], size: int) -> Attack:
    """Bytes for a backend that takes none, on many streams that stay open."""

    def attack(peer: HostilePeer) -> None:
        peer.hello()
        for number in opened(peer, STALLED_CALL, 200, end=False):
            peer.send(frame(number) * (_DEFAULT_WINDOW // size))
        peer.idle(3600)

    return attack


def _flood_on_a_call(frame: bytes) -> Attack:
    """One open call on stream 1, then the same frame for ever."""

    def attack(peer: HostilePeer) -> None:
        peer.hello()
        peer.send(headers(1, TAKEN_CALL))
        repeat(peer, filled(frame))

    return attack


# Frames without a call.


def _flood(frame: bytes, *, reads: bool = True) -> Attack:
    def attack(peer: HostilePeer) -> None:
        peer.hello()
        peer.reads = reads
        repeat(peer, filled(frame))

    return attack


# Readers and writers that take their time.


def unread_replies(peer: HostilePeer) -> None:
    """Large replies with all the credit in the world, and nobody who reads them."""
    peer.hello((WINDOW, _LARGEST_WINDOW))
    peer.send(window_update(0, _LARGEST_WINDOW - _DEFAULT_WINDOW))
    peer.reads = False
    while True:
        opened(peer, BIG_CALL, 300, end=True)
        peer.idle(0.05)


def slow_reader(peer: HostilePeer) -> None:
    """The same, read by a few bytes at a time."""
    peer.hello((WINDOW, _LARGEST_WINDOW))
    peer.send(window_update(0, _LARGEST_WINDOW - _DEFAULT_WINDOW))
    peer.reads = False
    opened(peer, BIG_CALL, STREAMS, end=True)
    while True:
        peer.idle(0.001)
        peer.read(100)


def large_replies(peer: HostilePeer) -> None:
    """A heavy user: large replies as fast as they come."""
    peer.hello((WINDOW, _LARGEST_WINDOW))
    peer.send(window_update(0, _LARGEST_WINDOW - _DEFAULT_WINDOW))
    while True:
        before = peer.seen["HEADERS"]
        opened(peer, BIG_CALL, 50, end=True)
        peer.send(window_update(0, 1))
        peer.await_frames("HEADERS", before + 100)


def unwanted_replies(peer: HostilePeer) -> None:
    """Large replies that their windows let wait."""
    peer.hello((WINDOW, 0))
    opened(peer, BIG_CALL, STREAMS, end=True)
    peer.idle(3600)


def slow_writer(peer: HostilePeer) -> None:
    """A call, byte by byte."""
    peer.hello()
    for byte in headers(1, QUICK_CALL, end=True):
        peer.send(bytes((byte,)))
        peer.idle(0.02)


def backend_flood(peer: HostilePeer) -> None:
    """Calls to which the backend answers with interim responses without end, and nobody reads them."""
    peer.hello()
    peer.reads = False
    opened(peer, FLOOD_CALL, 4, end=True)
    peer.idle(3600)


# Connections.


def connect_and_leave(peer: HostilePeer) -> None:
    """A connection that is used for nothing."""
    peer.hello()


def idle_connections(peer: HostilePeer) -> None:
    """Hundreds of connections that say hello and nothing more."""
    with ExitStack() as stack:
        for _ in range(600):
            one = stack.enter_context(peer.another())
            one.hello()
        peer.hello()
        peer.idle(3600)


def broken_frames(peer: HostilePeer) -> None:
    """Ends with an error at once, and comes again."""
    peer.hello()
    peer.send(raw(0, 0, 0, b"x"))
    peer.idle(5)


def http1_requests(peer: HostilePeer) -> None:
    """The wrong protocol."""
    peer.send(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    peer.idle(5)


def cut_in_the_middle(peer: HostilePeer) -> None:
    """Leaves with hundreds of calls in flight."""
    peer.hello((WINDOW, 0))
    opened(peer, MIDDLING_CALL, 500, end=True)
    peer.await_frames("HEADERS", 500, 0.5)


def goaway_and_on(peer: HostilePeer) -> None:
    """Says good-bye before every call."""
    peer.hello()
    send_numbered(peer, lambda number: goaway(0) + headers(number, QUICK_CALL, end=True), 50)


def _rows() -> Iterator[tuple[str, str, Attack]]:
    windows = "windows"
    yield windows, "connection-updates", connection_updates
    yield windows, "stream-updates", stream_updates
    yield windows, "one-stream-updates", one_stream_updates
    yield windows, "closed-stream-updates", closed_stream_updates
    yield windows, "window-settings", window_up_and_down
    yield windows, "window-settings-in-one-frame", window_up_and_down_in_one_frame

    calls = "calls"
    yield calls, "rapid-reset", rapid_reset
    yield calls, "rapid-reset-uploads", rapid_reset_of_uploads
    yield calls, "reset-in-the-next-read", reset_in_the_next_read
    yield calls, "reset-after-reply", reset_after_the_reply_began
    yield calls, "made-you-reset", made_you_reset
    yield calls, "made-you-reset-by-data", made_you_reset_by_data
    yield calls, "malformed-calls", malformed_calls
    yield calls, "refused-streams", refused_streams
    yield calls, "half-closed-pile", half_closed_pile
    yield calls, "all-calls-taken", all_calls_taken
    yield calls, "many-calls", as_many_calls_as_possible
    yield calls, "unknown-methods", unknown_methods

    yield calls, "intercepted-calls", intercepted_calls
    yield calls, "unpacked-messages", unpacked_messages
    yield calls, "collected-messages", collected_messages

    blocks = "header blocks"
    yield blocks, "referenced-entry", referenced_at_once
    yield blocks, "referenced-entry-over-the-limit", large_entry_calls(1000)
    yield blocks, "small-continuations", many_small_continuations
    yield blocks, "continuation-flood", continuation_flood
    yield blocks, "one-byte-continuations", one_byte_continuations
    yield blocks, "indexed-fields", calls_with(QUICK_CALL + STATIC_FIELD * 16_000)
    yield blocks, "indexed-fields-within-the-limit", calls_with(QUICK_CALL + STATIC_FIELD * 900)
    yield blocks, "table-insertions", calls_with(QUICK_CALL + INSERTED)
    yield blocks, "table-size-changes", calls_with(integer(0, 5, 0x20) + integer(4096, 5, 0x20) + QUICK_CALL)
    yield blocks, "table-filled-and-emptied", calls_with(b"\x20\x3f\xe1\x1f" + QUICK_CALL + insertions(1, 110))
    yield blocks, "huffman-rare", calls_with(QUICK_CALL + HUFFMAN_RARE)
    yield blocks, "huffman-common", calls_with(QUICK_CALL + HUFFMAN_COMMON)
    yield blocks, "changing-headers", changing_headers
    yield blocks, "trailers", trailers(Encoder().block([(b"x-end", b"1")], "plain"))
    yield blocks, "trailers-indexed-fields", trailers(STATIC_FIELD * 800)

    bodies = "bodies"
    yield bodies, "empty-data", _flood_on_a_call(data(1))
    yield bodies, "one-byte-data", _upload(TAKEN_CALL, lambda n: data(n, b"x"))
    yield bodies, "padded-data", _upload(TAKEN_CALL, lambda n: data(n, b"x", pad=255))
    yield bodies, "padding-only-data", _flood_on_a_call(data(1, pad=0))
    yield bodies, "small-data-nobody-takes", _kept_upload(lambda n: data(n, b"xy"), 2)
    yield bodies, "large-data-nobody-takes", _kept_upload(lambda n: data(n, bytes(16_000)), 16_000)
    yield bodies, "large-uploads", _upload(TAKEN_CALL, lambda n: data(n, bytes(16_000)), streams=50)

    control = "control frames"
    for name, frame in (
        ("ping", ping()),
        ("ping-ack", ping(ack=True)),
        ("settings", settings()),
        ("settings-ack", settings_ack()),
        ("settings-of-the-table", settings((TABLE, 0)) + settings((TABLE, 4096))),
        ("priority", priority(1)),
        ("goaway", goaway(0)),
        ("unknown-frames", raw(0x99, 0, 0)),
    ):
        yield control, name, _flood(frame)
    yield control, "ping-unread", _flood(ping(), reads=False)
    yield control, "settings-unread", _flood(settings(), reads=False)
    yield control, "goaway-and-on", goaway_and_on

    pace = "pace"
    yield pace, "unwanted-replies", unwanted_replies
    yield pace, "unread-replies", unread_replies
    yield pace, "slow-reader", slow_reader
    yield pace, "slow-writer", slow_writer
    yield pace, "large-replies", large_replies
    yield pace, "backend-flood", backend_flood

    connections = "connections"
    yield connections, "connect-and-leave", connect_and_leave
    yield connections, "broken-frames", broken_frames
    yield connections, "http1", http1_requests
    yield connections, "cut-in-the-middle", cut_in_the_middle
    yield connections, "idle-connections", idle_connections


ATTACKS: Final = tuple(
    AttackRow(name=name, group=group, attack=attack, about_connections=group == "connections")
    for group, name, attack in _rows()
)
