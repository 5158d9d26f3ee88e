"""How much work an attack makes, counted and not timed: lines of the engine that ran for what the attacker sent.

A relay without sockets stands between an attacker and the backend of attacks. Each step it takes, a read that is
handled or a slice of what was left of it, is counted by itself: the longest is how long everybody else would wait.
Counts are the same on every machine, however busy. `python -m tests.support.hostile.workmeter [NAME ...]` shows
them for the attacks of the table.
"""

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import interpose
from interpose.net.h2.client import ClientConnection
from interpose.net.h2.connection import Connection
from interpose.net.h2.headers import Headers
from interpose.net.h2.hpack_tables import HuffmanDecoder
from interpose.net.h2.limits import Limits
from interpose.net.h2.server import ServerConnection
from interpose.net.h2.stream import Flushable, Stream
from interpose.relay.passthrough import CallRecorder, Passthrough
from interpose.relay.stats import MethodStats
from tests.support.hostile.attacks import ATTACKS
from tests.support.hostile.backend import BackendConnection
from tests.support.hostile.calls import Attack
from tests.support.hostile.peer import CutError, HostilePeer, SpentError

STEP_LINES = 300_000
"""What one step may take: 5 ms where a line is 18 ns, as measured on the machine of the benchmarks."""
STEP_BYTES = 2 << 20
"""What one step may write. A few bytes can stand for many."""
LINES_PER_BYTE = 12
"""What a byte of a client may cost in the long run: a small frame that moves something is a hundred lines."""
FIRST_LINES = 10_000
"""What is not counted: a connection begins with more than its bytes say."""

# What an event loop reads at once.
READ_SIZE = 256 * 1024
_SOURCES = Path(interpose.__file__).parent
_MEASURED = tuple(str(_SOURCES / name) for name in ("net/h2", "net/grpc", "relay"))


class WorkMeter:
    """Counts lines of the engine inside `measure`; `largest` and `written` are the most that one step took."""

    def __init__(self) -> None:
        self.lines = 0
        self.steps = 0
        self.largest = 0
        self.written = 0

    def measure(self, step: Callable[[], None]) -> None:
        """Run one step."""
        before = self.lines
        previous = sys.gettrace()
        sys.settrace(self._enter)
        try:
            step()
        finally:
            sys.settrace(previous)
        self.steps += 1
        self.largest = max(self.largest, self.lines - before)

    def _enter(self, frame: FrameType, _event: str, _value: Any) -> Any:
        return self._count if frame.f_code.co_filename.startswith(_MEASURED) else None

    def _count(self, _frame: FrameType, event: str, _value: Any) -> Any:
        if event == "line":
            self.lines += 1
        return self._count


class _Pipe:
    """The transport of a backend that lives in the same thread."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def is_closing(self) -> bool:
        return False

    def take(self) -> bytes:
        """What was written since the last look."""
        data = b"".join(self.written)
        self.written.clear()
        return data


class _PatientBackend(BackendConnection):
    """Does everything at once, and floods once: there is no loop that would call again."""

    frames_in_a_turn = 10**9

    def _again(self, act: Callable[[], None]) -> None:
        """Not here."""


class InMemoryRelay:
    """One client's connection and one to the backend, with everything between them that a relay has but sockets."""

    def __init__(self, meter: WorkMeter, limits: Limits | None = None) -> None:
        self.meter = meter
        self.answers = bytearray()
        self._to_backend = bytearray()
        self._dirty: list[Flushable] = []
        huffman = HuffmanDecoder()
        limits = limits or Limits()
        self.client = ServerConnection(limits=limits, huffman=huffman, dirty=self._dirty)
        self._upstream = ClientConnection(
            limits=Limits(streams=4000, idle_frames=10**9, resets=10**9), huffman=huffman, dirty=self._dirty
        )
        self._passthrough = Passthrough(CallRecorder(lambda: 0.0))
        self._stats = MethodStats("service", "method")
        self._recorder = CallRecorder(lambda: 0.0)
        self._pipe = _Pipe()
        self._backend = _PatientBackend()
        self.client.write = self.answers.extend
        self.client.accept = self._accept
        self._upstream.write = self._to_backend.extend
        self._backend.connection_made(self._pipe)  # type: ignore[arg-type]
        self._upstream.start()
        self._settle()

    def _accept(self, stream: Stream, headers: Headers, end: bool) -> None:
        self._recorder.begin(stream, self._stats)
        self._passthrough.forward(stream, self._upstream, headers.wire, end)

    def receive(self, data: bytes) -> None:
        """Bytes of the client, in one read."""
        self._steps(self.client, data)
        self._settle()

    def _steps(self, conn: Connection, data: bytes) -> None:
        self._measured(lambda: conn.receive(data))
        while conn.unread:
            self._measured(conn.proceed)

    def _measured(self, act: Callable[[], None]) -> None:
        before = len(self.answers) + len(self._to_backend)
        self.meter.measure(lambda: self._step(act))
        self.meter.written = max(self.meter.written, len(self.answers) + len(self._to_backend) - before)

    def _step(self, act: Callable[[], None]) -> None:
        act()
        while self._dirty:
            self._dirty.pop().flush()

    def _settle(self) -> None:
        """Until nobody has anything to say to the other."""
        self._step(lambda: None)
        while True:
            while self._to_backend:
                data = bytes(self._to_backend)
                self._to_backend.clear()
                self._backend.data_received(data)
            replies = self._pipe.take()
            if not replies:
                return
            for at in range(0, len(replies), READ_SIZE):
                self._steps(self._upstream, replies[at : at + READ_SIZE])

    @property
    def failed(self) -> bool:
        """Whether the client was cut."""
        return self.client.failed is not None


class MeteredPeer(HostilePeer):
    """A hostile client of a relay in memory; it is cut, or has sent what it may."""

    def __init__(self, relay: InMemoryRelay, budget: int) -> None:
        self.reads = True
        self.seen: Counter[str] = Counter()
        self.sent = 0
        self._relay = relay
        self._budget = budget
        self._stream = -1
        self._rest = b""

    def __exit__(self, *_: object) -> None:
        """There is nothing to close."""

    def another(self) -> HostilePeer:
        return MeteredPeer(InMemoryRelay(self._relay.meter), 1000)

    def send(self, data: bytes) -> None:
        for at in range(0, len(data), READ_SIZE):
            self._wait(write=True, within=0)
            part = data[at : at + READ_SIZE]
            self.sent += len(part)
            self._relay.receive(part)
            if self._relay.failed:
                raise CutError("failed")

    def idle(self, seconds: float) -> None:
        if seconds > 1:
            raise SpentError
        self._wait(write=False, within=0)

    def await_frames(self, kind: str, count: int, seconds: float = 2.0) -> None:
        self._wait(write=False, within=0)

    def read(self, size: int) -> None:
        self._wait(write=False, within=0)

    def _wait(self, *, write: bool, within: float) -> None:
        self._count(bytes(self._relay.answers))
        self._relay.answers.clear()
        if self.sent >= self._budget:
            raise SpentError


def work_of(attack: Attack, budget: int) -> tuple[WorkMeter, MeteredPeer]:
    """Run an attack until it was cut or has sent this many bytes."""
    meter = WorkMeter()
    peer = MeteredPeer(InMemoryRelay(meter), budget)
    with suppress(CutError, SpentError):
        attack(peer)
    return meter, peer


def check_work(data: bytes) -> float:
    """Hold the relay to the limits above for what one client sends; the lines that each byte took."""
    meter = WorkMeter()
    relay = InMemoryRelay(meter)
    for at in range(0, len(data), READ_SIZE):
        relay.receive(data[at : at + READ_SIZE])
    judge(meter, len(data))
    return meter.lines / max(1, len(data))


def judge(meter: WorkMeter, size: int) -> None:
    """AssertionError if so many bytes made too much work."""
    assert meter.largest <= STEP_LINES, f"one step took {meter.largest} lines"
    assert meter.written <= STEP_BYTES, f"one step wrote {meter.written} bytes"
    assert meter.lines <= FIRST_LINES + LINES_PER_BYTE * size, f"{size} bytes took {meter.lines} lines"


def main(names: Sequence[str]) -> None:
    """One line for each attack."""
    print("attack                              bytes sent  lines a byte  lines in a step  bytes out in a step")
    for row in ATTACKS:
        if row.timed or (names and row.name not in names):
            continue
        meter, peer = work_of(row.attack, 200_000)
        each = meter.lines / max(1, peer.sent)
        print(f"{row.name:<36}{peer.sent:>10}{each:>14.1f}{meter.largest:>17}{meter.written:>21}")


if __name__ == "__main__":
    main(sys.argv[1:])
