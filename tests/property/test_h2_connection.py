"""Laws of a connection: delivery in any pieces, any garbage, and bytes that arrive as they were sent."""

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from interpose.net.h2.headers import Headers, encode
from interpose.net.h2.limits import Limits
from interpose.net.h2.stream import Stream
from interpose.testing.eventually import WAIT_LIMIT
from tests.support.fuzz import h2 as h2fuzz
from tests.support.net import h2_bench, h2_peer
from tests.support.net.h2_bench import REQUEST, RESPONSE, TRAILERS, Event

ROOT = Path(__file__).resolve().parents[2]
INITIAL_WINDOW = 4
WINDOW = 20_000

# A call: its body in pieces with their padding, whether trailers end it, and whether it is cancelled instead.
bodies = st.lists(st.tuples(st.integers(1, 3000), st.none() | st.integers(0, 255)), max_size=4)
calls = st.lists(st.tuples(bodies, st.sampled_from(["data", "trailers", "reset"])), min_size=1, max_size=6)
between = st.sampled_from(
    [
        b"",
        b"",
        h2_peer.ping(),
        h2_peer.settings((1, 0), (4, 70_000)),
        h2_peer.priority(1),
        h2_peer.raw(0xAB, 1, 0, b"?"),
    ]
)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[bytes, list[Event]]:
    """A client's bytes, and what the server's sinks have to hear, in order."""
    bench = h2_bench.fresh_server()
    waiting = []
    for position, (body, ending) in enumerate(draw(calls)):
        number = 2 * position + 1
        steps: list[tuple[bytes, Event]] = []
        for size, pad in body:
            content = bytes((number,)) * size
            steps.append((h2_peer.data(number, content, pad=pad), ("data", number, content, False)))
        if ending == "data":
            steps.append((h2_peer.data(number, b"", end=True), ("data", number, b"", True)))
        elif ending == "trailers":
            block = bench.encoder.block([(b"x", b"y")], "plain")
            steps.append((h2_peer.headers(number, block, end=True), ("headers", number, [(b"x", b"y")], True)))
        else:
            steps.append((h2_peer.rst_stream(number, 8), ("reset", number, 8)))
        waiting.append((number, steps))
    wire = [h2_peer.PREFACE, h2_peer.settings()]
    expected: list[Event] = []
    opened: list[list[tuple[bytes, Event]]] = []
    while waiting or opened:
        if waiting and (not opened or draw(st.booleans())):
            number, steps = waiting.pop(0)
            block = bench.encoder.block(REQUEST)
            middle = draw(st.integers(0, len(block)))
            wire += [h2_peer.headers(number, block[:middle], more=True), h2_peer.continuation(number, block[middle:])]
            expected.append(("request", number, REQUEST, False))
            opened.append(steps)
        else:
            steps = opened[draw(st.integers(0, len(opened) - 1))]
            part, event = steps.pop(0)
            wire.append(part)
            expected.append(event)
            opened = [steps for steps in opened if steps]
        wire.append(draw(between))
    return b"".join(wire), expected


@given(conversations(), st.data())
def test_pieces_do_not_matter(conversation: tuple[bytes, list[Event]], data: st.DataObject) -> None:
    """Cut anywhere, a valid conversation gives the events it stands for, and the same answers."""
    wire, expected = conversation
    cuts = sorted(data.draw(st.sets(st.integers(0, len(wire)), max_size=20)) | {0, len(wire)})
    whole, parts = h2_bench.fresh_server(), h2_bench.fresh_server()
    whole.feed(wire)
    for start, end in pairwise(cuts):
        parts.feed(wire[start:end])
    assert whole.code is None
    assert whole.events == parts.events == expected
    assert whole.bytes_out() == parts.bytes_out()


@given(st.binary(max_size=200))
def test_garbage_from_the_start(data: bytes) -> None:
    """Whatever comes first, nothing escapes."""
    h2fuzz.check_server(data)
    h2fuzz.check_client(data)


frames = st.builds(
    h2_peer.raw,
    st.integers(0, 11),
    st.integers(0, 255),
    st.sampled_from([0, 1, 1, 2, 3, 5, 7, 2**31 - 1, 2**32 - 1]),
    st.binary(max_size=20) | st.sampled_from([encode(pairs) for pairs in (REQUEST, RESPONSE, TRAILERS)]),
    length=st.none() | st.none() | st.integers(0, 20_000),
)


@given(st.lists(frames, max_size=15), st.binary(max_size=10))
def test_garbage_after_the_greeting(parts: list[bytes], rest: bytes) -> None:
    """Frames without sense, on a connection that had begun well."""
    wire = b"".join(parts) + rest
    h2fuzz.check_server(h2_peer.PREFACE + h2_peer.settings() + wire)
    h2fuzz.check_client(h2_peer.settings() + wire)


class RelaySink:
    """Passes a stream on to its peer, and gives credit when the bytes have left."""

    def on_headers(self, stream: Stream, headers: Headers, end: bool) -> None:
        """Not used: requests only."""

    def on_data(self, stream: Stream, data: bytes, end: bool) -> None:
        assert stream.peer is not None
        stream.credit(stream.peer.send_data(data, end))

    def on_sent(self, stream: Stream, count: int) -> None:
        assert stream.peer is not None
        stream.peer.credit(count)

    def on_reset(self, stream: Stream, code: int) -> None:
        raise AssertionError(f"stream {stream.number} was reset with {code}")

    def on_lost(self, stream: Stream) -> None:
        raise AssertionError(f"stream {stream.number} was lost")


class Relaying(RuleBasedStateMachine):
    """A client sends bodies through our server role and our client role to a backend; windows open as they please."""

    STREAMS = 3
    SPLICED = False

    def __init__(self) -> None:
        super().__init__()
        self.limits = Limits(stream_window=WINDOW, connection_window=10**6)
        self.front = h2_bench.server(self.limits)
        self.back = h2_bench.client(self.limits, (INITIAL_WINDOW, 1000))
        self.sink = RelaySink()
        self.front.conn.accept = self._accept
        self.numbers = [2 * i + 1 for i in range(self.STREAMS)]
        self.sent = dict.fromkeys(self.numbers, b"")
        self.ended: set[int] = set()
        self.got = dict.fromkeys(self.numbers, b"")
        self.got_end: set[int] = set()
        self.allowed = dict.fromkeys(self.numbers, WINDOW)  # what the client may still send
        self.granted = dict.fromkeys(self.numbers, 1000)  # what the backend lets us send
        self.granted_in_all = 65_535
        self.initial = 1000
        self.front.feed(*[self.front.request(number) for number in self.numbers])

    def _accept(self, stream: Stream, headers: Headers, end: bool) -> None:
        stream.sink = self.sink
        stream.peer = self.back.conn.open(self.sink, headers.wire, end)
        stream.peer.peer = stream
        stream.splice = stream.peer if self.SPLICED else None

    @rule(which=st.integers(0, STREAMS - 1), size=st.integers(0, 16_384), end=st.sampled_from([False] * 7 + [True]))
    def send(self, which: int, size: int, end: bool) -> None:
        """The client sends what its window allows."""
        number = self.numbers[which]
        if number in self.ended:
            return
        size = min(size, self.allowed[number])
        at = len(self.sent[number])
        body = bytes((number + at + i) % 251 for i in range(size))
        self.sent[number] += body
        self.allowed[number] -= size
        if end:
            self.ended.add(number)
        self.front.feed(h2_peer.data(number, body, end=end))

    @rule(which=st.integers(0, STREAMS - 1), size=st.integers(1, 30_000))
    def open_stream_window(self, which: int, size: int) -> None:
        """The backend takes more of one stream."""
        number = self.numbers[which]
        self.granted[number] += size
        self.back.feed(h2_peer.window_update(number, size))

    @rule(size=st.integers(1, 50_000))
    def open_connection_window(self, size: int) -> None:
        """The backend takes more of all."""
        self.granted_in_all += size
        self.back.feed(h2_peer.window_update(0, size))

    @rule(size=st.integers(0, 30_000))
    def change_initial_window(self, size: int) -> None:
        """Open streams follow, down below zero if need be."""
        for number in self.numbers:
            self.granted[number] += size - self.initial
        self.initial = size
        self.back.feed(h2_peer.settings((INITIAL_WINDOW, size)))

    @rule()
    def block_transport(self) -> None:
        """The socket to the backend is full."""
        self.back.conn.blocked = True

    @rule()
    def resume_transport(self) -> None:
        """It takes bytes again."""
        self.back.conn.resume()

    @rule()
    def tick(self) -> None:
        """A second passes."""
        self.front.tick()
        self.back.tick()

    @invariant()
    def nothing_is_lost_or_early(self) -> None:
        """Bytes arrive in order and only within the windows; what waits in memory is bounded by our own window."""
        for frame in self.back.frames("DATA"):
            self.got[frame.stream] += frame.payload
            self.granted[frame.stream] -= len(frame.payload)
            self.granted_in_all -= len(frame.payload)
            if frame.payload:
                assert self.granted[frame.stream] >= 0
            if frame.end:
                self.got_end.add(frame.stream)
        for frame in self.front.frames("WINDOW_UPDATE"):
            if frame.stream:
                self.allowed[frame.stream] += frame.number
        assert self.granted_in_all >= 0
        assert self.front.code is None
        assert self.back.code is None
        for number in self.numbers:
            assert self.sent[number].startswith(self.got[number])
            assert len(self.sent[number]) - len(self.got[number]) <= WINDOW
            if number in self.got_end:
                assert number in self.ended
                assert self.sent[number] == self.got[number]

    def teardown(self) -> None:
        """With wide windows everything comes through, ends included, and the client may send on."""
        self.back.conn.resume()
        self.open_connection_window(10**6)
        for which in range(self.STREAMS):
            self.open_stream_window(which, 10**6)
        self.nothing_is_lost_or_early()
        assert self.got == self.sent
        assert self.got_end == self.ended
        for number in self.numbers:
            assert number in self.ended or self.allowed[number] > WINDOW // 2


class SplicedRelaying(Relaying):
    """The same, with the streams spliced: what nothing stands in the way of never meets the sink."""

    SPLICED = True


TestRelaying = Relaying.TestCase
TestRelaying.settings = settings(stateful_step_count=40)
TestSplicedRelaying = SplicedRelaying.TestCase
TestSplicedRelaying.settings = settings(stateful_step_count=40)


def test_fuzzer_runs() -> None:
    """A short run of the fuzzer finds nothing, and says how to repeat it."""
    command = [sys.executable, str(ROOT / "tests/fuzz/fuzz_h2.py"), "--seconds", "3", "--seed", "1"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WAIT_LIMIT)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "seed 1" in result.stdout
    assert "executions" in result.stdout


def test_fuzzer_replays(tmp_path: Path) -> None:
    """A kept input runs again, for the target its name says; without one the fuzzer asks."""
    kept = tmp_path / "crash-server-0123456789ab.bin"
    kept.write_bytes(encode(REQUEST))
    command = [sys.executable, str(ROOT / "tests/fuzz/fuzz_h2.py"), "--replay"]
    result = subprocess.run([*command, str(kept)], capture_output=True, text=True, check=False, timeout=WAIT_LIMIT)
    assert (result.returncode, result.stdout) == (0, f"{kept.name}: all promises of server hold\n")
    unnamed = kept.rename(tmp_path / "input.bin")
    result = subprocess.run([*command, str(unnamed)], capture_output=True, text=True, check=False, timeout=WAIT_LIMIT)
    assert result.returncode == 1
    assert "--target" in result.stderr
