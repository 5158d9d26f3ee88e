"""Replies of a stream, cut into messages, edited and sent on: what passes, what is held, who gets credit."""

import gzip
import logging
import random
from collections.abc import Callable, Collection, Sequence

import pytest

from interpose.cri.methods import METHODS, Method
from interpose.net.grpc.framing import frame
from interpose.net.h2.client import ClientConnection
from interpose.net.h2.headers import Headers, encode, make_field
from interpose.net.h2.limits import Limits
from interpose.net.h2.server import ServerConnection
from interpose.relay.api import Direction, Interest, Sighting
from interpose.relay.passthrough import CallRecorder
from interpose.relay.stats import MethodStats
from interpose.relay.stream_editor import EditedPassthrough, MessageSplitter, StreamEdit, StreamEditors
from interpose.relay.taps import UNREADABLE, CallView, TapRegistry
from tests.support.net import h2_bench, h2_peer
from tests.support.net.h2_bench import REQUEST, RESPONSE, TRAILERS, Bench

EVENTS = METHODS["GetContainerEvents"]
LIMIT = 100_000
GZIP = (b"grpc-encoding", b"gzip")


def packed(message: bytes) -> bytes:
    """A compressed message as it is on the wire."""
    body = gzip.compress(message, mtime=0)
    return b"\x01" + len(body).to_bytes(4, "big") + body


class Editor:
    """An editor made of one function."""

    def __init__(
        self,
        edit: Callable[[bytes], bytes],
        name: str = "editor",
        methods: Collection[str] = ("GetContainerEvents",),
    ) -> None:
        self.name = name
        self.methods = methods
        self._edit = edit
        self.seen: list[bytes] = []

    def edit(self, method: Method, message: bytes) -> bytes:
        """Remember, and do as told."""
        assert method is EVENTS
        self.seen.append(message)
        return self._edit(message)


def same(message: bytes) -> bytes:
    """No change; another object, as an editor that parses would give."""
    return bytes(bytearray(message))


def doubled(message: bytes) -> bytes:
    """A longer message."""
    return message + message


def broken(_message: bytes) -> bytes:
    """A bug."""
    raise ZeroDivisionError


# -- the cutter


class Cut:
    """A cutter and what it said about sizes."""

    def __init__(self, limit: int) -> None:
        self.oversized: list[int] = []
        self.cutter = MessageSplitter(limit, self.oversized.append)


@pytest.mark.parametrize("seed", range(20))
def test_pieces_are_the_body(seed: int) -> None:
    """However it was cut on the way: whole messages within the limit, nothing lost, nothing held but one message."""
    rng = random.Random(seed)
    messages = [rng.randbytes(rng.choice([0, 1, 5, 30, 31, 200])) for _ in range(20)]
    body = b"".join(frame(message) for message in messages) + b"\x00\x00\x00\x00\x09rest"
    cut = Cut(30)
    pieces: list[tuple[bool, bytes]] = []
    position = 0
    while position < len(body):
        step = rng.choice([1, 4, 7, 64, 500])
        pieces += cut.cutter.feed(body[position : position + step])
        position += step
        held = min(position, len(body)) - sum(len(piece) for _, piece in pieces)
        assert held <= 30 + 5
    assert b"".join(piece for _, piece in pieces) + cut.cutter.rest() == body
    assert [piece for whole, piece in pieces if whole] == [frame(message) for message in messages if len(message) <= 30]
    assert cut.oversized == [len(message) for message in messages if len(message) > 30]


def test_message_over_the_limit_is_not_held() -> None:
    """It comes out as it goes in, from its first byte on; the next one is whole again."""
    cut = Cut(10)
    big = frame(bytes(11))
    assert cut.cutter.feed(big[:6]) == [(False, big[:6])]
    assert cut.cutter.feed(big[6:] + frame(b"next")) == [(False, big[6:]), (True, frame(b"next"))]
    assert cut.oversized == [11]


def test_rest_is_given_once() -> None:
    """The bytes of a message that never ended."""
    cut = Cut(10)
    cut.cutter.feed(frame(b"a") + b"\x00\x00")
    assert (cut.cutter.rest(), cut.cutter.rest()) == (b"\x00\x00", b"")


# -- the guard


def test_subscription_by_method() -> None:
    """An editor edits what it named."""
    one, other = Editor(same), Editor(same, methods=("GetContainerEvents", "StreamContainers"))
    editors = StreamEditors([one, other])
    assert editors.editors_for("GetContainerEvents") == (one, other)
    assert editors.editors_for("StreamContainers") == (other,)
    assert editors.editors_for("StreamImages") == ()
    assert editors.methods == {"GetContainerEvents", "StreamContainers"}


def test_editors_run_in_order() -> None:
    """Each sees what the one before made of it."""
    one, other = Editor(lambda text: text + b"1"), Editor(lambda text: text + b"2")
    editors = StreamEditors([one, other])
    assert editors.edit((one, other), EVENTS, b"x") == b"x12"


def test_failing_editor_is_logged_once_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    """The message passes it as it came, the next one is asked."""
    bad, good = Editor(broken, "bad"), Editor(doubled, "good")
    editors = StreamEditors([bad, good])
    with caplog.at_level(logging.ERROR):
        assert [editors.edit((bad, good), EVENTS, b"x") for _ in range(3)] == [b"xx"] * 3
    assert (editors.errors, len(caplog.records)) == ({("bad", "GetContainerEvents"): 3}, 1)


def test_failures_that_never_were_count_zero() -> None:
    """So that the first of its kind is seen as an increase."""
    editors = StreamEditors([Editor(doubled, "good")])
    editors.note("good", EVENTS, ZeroDivisionError())
    assert editors.failures() == {("good", EVENTS.name): 1, (UNREADABLE, EVENTS.name): 0}
    assert StreamEditors([]).failures() == {}


def test_what_is_no_message_is_not_sent() -> None:
    """An editor that forgets to return."""
    forgetful = Editor(lambda _message: None)  # type: ignore[arg-type,return-value]
    editors = StreamEditors([forgetful])
    assert editors.edit((forgetful,), EVENTS, b"x") == b"x"
    assert editors.errors == {("editor", "GetContainerEvents"): 1}


# -- one call


def editing(*several: Editor, limit: int = LIMIT) -> tuple[StreamEdit, StreamEditors]:
    """The replies of a call."""
    owner = StreamEditors(several)
    return StreamEdit(owner, several, EVENTS, limit), owner


def test_unchanged_message_is_the_bytes_that_came() -> None:
    """Odd flags and compression included, though the editor saw it plain."""
    editor = Editor(same)
    one, owner = editing(editor)
    one.headers(Headers([make_field(*GZIP)]))
    body = frame(b"plain") + packed(b"small") + b"\x80" + frame(b"odd")[1:]
    assert one.data(body) == body
    assert editor.seen == [b"plain", b"small", b"odd"]
    assert owner.errors == {}


def test_changed_compressed_message_is_sent_plain() -> None:
    """A message may be plain whatever the encoding says."""
    one, _ = editing(Editor(doubled))
    one.headers(Headers([make_field(*GZIP)]))
    assert one.data(packed(b"ab") + packed(b"cd")) == frame(b"abab") + frame(b"cdcd")


def test_compression_is_named_by_the_response_not_by_what_came_before() -> None:
    """An interim response says nothing about the body."""
    editor = Editor(same)
    one, _ = editing(editor)
    one.headers(Headers([make_field(b":status", b"103")]))
    one.headers(Headers([make_field(b":status", b"200"), make_field(*GZIP)]))
    one.data(packed(b"ab"))
    assert editor.seen == [b"ab"]


@pytest.mark.parametrize(
    ("field", "body"),
    [
        ((b"grpc-encoding", b"odd"), packed(b"ab")),
        (GZIP, b"\x01\x00\x00\x00\x02ab"),
        (GZIP, packed(bytes(LIMIT + 1))),
        (GZIP, frame(bytes(LIMIT + 1))),
    ],
    ids=["encoding", "garbage", "bomb", "size"],
)
def test_message_that_cannot_be_read_passes(field: tuple[bytes, bytes], body: bytes) -> None:
    """Counted; the next one is edited."""
    one, owner = editing(Editor(doubled))
    one.headers(Headers([make_field(*field)]))
    assert one.data(body + frame(b"ab")) == body + frame(b"abab")
    assert owner.errors == {(UNREADABLE, "GetContainerEvents"): 1}


def test_announced_length_does_not_travel() -> None:
    """Nobody knows what the edited body will measure; any other block passes as the object it was."""
    one, _ = editing(Editor(same))
    plain = Headers([make_field(*pair) for pair in RESPONSE])
    assert one.headers(plain) is plain
    block = Headers([*plain.fields, make_field(b"content-length", b"7")])
    assert one.headers(block).items() == plain.items()


# -- the sinks, between two connections


class Notes:
    """A tap that writes down replies and ends."""

    name = "notes"

    def __init__(self) -> None:
        self.seen: list[bytes] = []
        self.received: list[bytes] = []
        self.ends: list[int] = []
        self.changed_by: tuple[str, ...] = ()

    def interest(self, method: str) -> Interest:
        """In everything."""
        return Interest.MESSAGES

    def on_begin(self, call: Sighting) -> None:
        """A beginning."""

    def on_message(self, call: Sighting, direction: Direction, message: bytes) -> None:
        """A message."""
        if direction is Direction.REPLY:
            self.seen.append(message)
        elif direction is Direction.RECEIVED:
            self.received.append(message)

    def on_unseen(self, call: Sighting, direction: Direction, size: int, why: str) -> None:
        """A message that is not shown."""

    def on_end(self, call: Sighting, code: int, message: str, changed_by: Sequence[str]) -> None:
        """An end."""
        self.ends.append(code)
        self.changed_by = tuple(changed_by)


class Pair:
    """A client's connection, a backend's, and one call from the one to the other whose replies are edited."""

    def __init__(self, editor: Editor, *, window: int = 1 << 20, limit: int = LIMIT, tap: Notes | None = None) -> None:
        self.client: Bench[ServerConnection] = h2_bench.server(None, (4, window))
        self.backend: Bench[ClientConnection] = h2_bench.client(Limits(stream_window=65536))
        self.client.feed(h2_peer.window_update(0, 1 << 24))
        self.stats = MethodStats("s", "m")
        recorder = CallRecorder(lambda: 1.0)
        self.client.feed(self.client.request(1, end=True))
        self.stream = self.client.stream(1)
        recorder.begin(self.stream, self.stats)
        one, self.owner = editing(editor, limit=limit)
        taps = [tap] if tap is not None else []
        view = CallView(TapRegistry(taps, limit=limit), taps, taps, Sighting(1, EVENTS.paths[0].encode(), EVENTS))
        self.passthrough = EditedPassthrough(recorder, view, one)
        self.passthrough.forward(self.stream, self.backend.conn, encode(REQUEST), True)
        self.backend.bytes_out()
        self.backend.feed(self.backend.response(1))
        self.client.bytes_out()

    def send(self, body: bytes) -> None:
        """Body bytes of the backend, in frames."""
        for start in range(0, len(body), 16384):
            self.backend.feed(h2_peer.data(1, body[start : start + 16384]))

    def end(self) -> None:
        """The backend's trailers."""
        self.backend.feed(self.backend.response(1, TRAILERS, end=True))

    def credit(self) -> int:
        """Bytes the backend may send more since the last look."""
        return sum(
            int.from_bytes(one.payload, "big") for one in self.backend.frames("WINDOW_UPDATE") if one.stream == 1
        )

    def body(self) -> bytes:
        """What the client got since the last look."""
        return b"".join(one.payload for one in self.client.frames("DATA"))


def test_message_is_sent_when_it_is_whole() -> None:
    """Not before; in one go with what came with it."""
    pair = Pair(Editor(doubled))
    pair.send(frame(b"ab")[:6])
    assert pair.body() == b""
    pair.send(frame(b"ab")[6:] + frame(b"cd"))
    assert pair.body() == frame(b"abab") + frame(b"cdcd")


def test_end_of_the_stream_passes() -> None:
    """Trailers as they came, counted, and nothing is left of the call."""
    tap = Notes()
    pair = Pair(Editor(doubled), tap=tap)
    pair.send(frame(b"ab"))
    pair.end()
    frames = pair.client.frames("DATA", "HEADERS")
    assert [(one.kind, one.end) for one in frames] == [("DATA", False), ("HEADERS", True)]
    assert (pair.stats.codes[0], pair.stats.in_flight) == (1, 0)
    assert (tap.seen, tap.ends) == ([b"abab"], [0])
    assert not pair.client.conn.streams
    assert not pair.backend.conn.streams


def test_body_that_ends_within_a_message_is_passed_on() -> None:
    """The backend broke the rule, and its client has to see it as it is."""
    pair = Pair(Editor(doubled))
    pair.send(frame(b"ab") + b"\x00\x00\x00\x00\x09half")
    pair.end()
    assert pair.body() == frame(b"abab") + b"\x00\x00\x00\x00\x09half"


def test_body_that_ends_without_trailers() -> None:
    """HTTP, not gRPC, but it passes; counted as UNKNOWN."""
    tap = Notes()
    pair = Pair(Editor(doubled), tap=tap)
    pair.backend.feed(h2_peer.data(1, frame(b"ab") + b"\x00", end=True))
    frames = pair.client.frames("DATA")
    assert (b"".join(one.payload for one in frames), frames[-1].end) == (frame(b"abab") + b"\x00", True)
    assert (pair.stats.codes[2], tap.ends) == (1, [2])


def test_message_larger_than_a_window_is_collected() -> None:
    """Credit comes while it is held, or its end would never come."""
    editor = Editor(same)
    pair = Pair(editor)
    message = bytes(90_000)
    sent = 0
    allowed = 65536
    body = frame(message)
    while sent < len(body):
        step = min(allowed, len(body) - sent)
        assert step > 0
        pair.send(body[sent : sent + step])
        sent += step
        allowed += pair.credit() - step
    assert editor.seen == [message]
    assert pair.body() == body


def test_slow_reader_stops_its_own_sender() -> None:
    """With bytes waiting for the client the backend gets no credit, for whole messages or parts; afterwards for all."""
    pair = Pair(Editor(doubled), window=10)
    pair.send(frame(bytes(10)))
    pair.send(frame(bytes(40_000)) + frame(bytes(50_000))[:20_000])
    assert pair.credit() == 0
    assert len(pair.body()) == 10
    assert pair.stream.queued == 2 * 40_010 + 2 * 5 - 10
    pair.client.feed(h2_peer.window_update(1, 1 << 20))
    assert len(pair.body()) == 2 * 40_010 + 2 * 5 - 10
    assert pair.credit() == 40_010 + 2 * 5 + 20_000
    assert pair.stream.queued == 0


def test_part_of_what_waits_is_not_enough_for_credit() -> None:
    """What is held stays below one message and one window however slowly the client reads."""
    pair = Pair(Editor(same), window=0)
    pair.send(frame(b""))
    pair.send(frame(bytes(60_000)))
    pair.client.feed(h2_peer.window_update(1, 40_000))
    assert len(pair.body()) == 40_000
    assert pair.credit() == 0
    pair.client.feed(h2_peer.window_update(1, 40_000))
    assert len(pair.body()) == 20_010
    assert pair.credit() == 60_010


def test_message_over_the_limit_is_under_flow_control_too() -> None:
    """It is not collected: what waits for a slow reader is one window."""
    pair = Pair(Editor(doubled), window=10, limit=1000)
    pair.send(frame(bytes(100_000))[:65536])
    assert pair.credit() == 0
    assert pair.stream.queued == 65526
    pair.client.feed(h2_peer.window_update(1, 1 << 20))
    assert pair.credit() == 65536


def test_trailers_wait_behind_what_waits() -> None:
    """A complete reply in the queue is delivered, also when the backend goes away behind it."""
    pair = Pair(Editor(doubled), window=0)
    pair.send(frame(b"ab"))
    pair.end()
    pair.backend.conn.lost()
    assert pair.client.frames("DATA", "HEADERS") == []
    pair.client.feed(h2_peer.window_update(1, 100))
    frames = pair.client.frames("DATA", "HEADERS")
    assert [one.kind for one in frames] == ["DATA", "HEADERS"]
    assert frames[0].payload == frame(b"abab")
    assert sum(pair.stats.codes) == pair.stats.codes[0] == 1


def test_backend_that_is_lost_midway() -> None:
    """Whole messages were delivered, half of one is not, then UNAVAILABLE."""
    tap = Notes()
    pair = Pair(Editor(doubled), tap=tap)
    pair.send(frame(b"ab") + frame(b"half")[:7])
    pair.backend.conn.lost()
    frames = pair.client.frames("DATA", "HEADERS")
    assert b"".join(one.payload for one in frames if one.kind == "DATA") == frame(b"abab")
    assert frames[-1].end
    assert (pair.stats.codes[14], tap.ends) == (1, [14])


def test_reset_by_the_backend_passes_with_its_code() -> None:
    """Half a message is dropped with it."""
    tap = Notes()
    pair = Pair(Editor(doubled), tap=tap)
    pair.send(frame(b"half")[:7])
    pair.backend.feed(h2_peer.rst_stream(1, 2))
    assert [(one.kind, one.code) for one in pair.client.frames("RST_STREAM", "DATA")] == [("RST_STREAM", 2)]
    assert (pair.stats.resets, tap.ends) == (1, [13])


def test_cancellation_reaches_the_backend_at_once() -> None:
    """And what it still sends is dropped, with credit."""
    tap = Notes()
    pair = Pair(Editor(doubled), tap=tap)
    pair.client.feed(h2_peer.rst_stream(1, 8))
    assert [one.code for one in pair.backend.frames("RST_STREAM")] == [8]
    assert (pair.stats.codes[1], tap.ends) == (1, [1])


def test_call_that_never_reached_a_backend_is_over_for_taps() -> None:
    """The way of an edited call tells them like any other."""
    tap = Notes()
    pair = Pair(Editor(same), tap=tap)
    pair.passthrough.on_unsent(14, "away")
    assert tap.ends == [14]


def test_taps_see_what_was_edited_as_it_came_too() -> None:
    """And who edited; what nobody changed is shown once."""
    tap = Notes()
    pair = Pair(Editor(lambda message: message * 2 if message == b"ab" else message), tap=tap)
    pair.send(frame(b"ab") + frame(b"cd"))
    pair.end()
    assert (tap.received, tap.seen, tap.changed_by) == ([b"ab"], [b"abab", b"cd"], ("editor",))
