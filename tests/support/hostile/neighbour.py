"""A client that behaves, beside one that does not: so many calls a second, each timed.

`python -m tests.support.hostile.neighbour SOCKET RATE [fresh]` says when its first calls were answered, calls until
its standard input ends, waits for what is in flight, and prints its account as JSON. A call counts from the moment it
was due: that the machine was late is not told apart, so a run without an attack says how late it is. A connection that
is lost is made anew; its calls have failed. With `fresh` every call has a connection of its own.
"""

import json
import select
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from tests.support.hostile.calls import QUICK_CALL
from tests.support.net.h2_peer import PREFACE, headers, ping, settings, settings_ack, window_update

# How long the last calls may take before they count as unanswered.
PATIENCE = 60.0
# Calls that have to be answered before anything begins.
_FIRST = 20


@dataclass(kw_only=True)
class Account:
    """What a neighbour saw. Durations in seconds, of calls that were answered well."""

    durations: list[float] = field(default_factory=list)
    refused: int = 0
    lost: int = 0
    unanswered: int = 0

    @property
    def failed(self) -> int:
        """Calls without a good answer."""
        return self.refused + self.lost + self.unanswered

    @property
    def worst(self) -> float:
        """The longest call."""
        return max(self.durations, default=0.0)

    def percentile(self, share: float) -> float:
        """The duration that this share of the calls did not exceed."""
        ordered = sorted(self.durations)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


class Neighbour:
    """One connection at a time and the calls on it."""

    def __init__(self, path: str, rate: float, *, fresh: bool = False) -> None:
        self.account = Account()
        self._fresh = fresh
        self._path = path
        self._every = 1 / rate
        self._socket: socket.socket | None = None
        self._stream = 1
        self._rest = b""
        # By stream: when it was due, and whether a message has come.
        self._open: dict[int, list[float]] = {}

    def run(self, stop: int, began: Callable[[], None]) -> Account:
        """Call until this descriptor can be read, then wait for the rest."""
        at_work = False
        due = time.monotonic()
        while True:
            now = time.monotonic()
            while due <= now:
                self._call(due)
                due += self._every
            readers: list[int] = [stop, *(sock.fileno() for sock in self._sockets())]
            readable, _, _ = select.select(readers, [], [], max(0.0, due - time.monotonic()))
            if stop in readable:
                break
            if readable:
                self._read()
            if not at_work and len(self.account.durations) >= _FIRST:
                at_work = True
                began()
        end = time.monotonic() + PATIENCE
        while self._open and (left := end - time.monotonic()) > 0:
            if select.select(self._sockets(), [], [], min(left, 0.1))[0]:
                self._read()
        self.account.unanswered += len(self._open)
        return self.account

    def _sockets(self) -> list[socket.socket]:
        return [] if self._socket is None else [self._socket]

    def _call(self, due: float) -> None:
        if self._fresh and not self._open:
            self._drop()
        if self._socket is None and not self._connect():
            self.account.lost += 1
            return
        number, self._stream = self._stream, self._stream + 2
        self._open[number] = [due, 0.0]
        self._write(headers(number, QUICK_CALL, end=True))

    def _connect(self) -> bool:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(PATIENCE)
        try:
            sock.connect(self._path)
            sock.sendall(PREFACE + settings((4, 2**20)) + window_update(0, 2**20) + settings_ack())
        except OSError:
            sock.close()
            return False
        self._socket = sock
        self._stream = 1
        self._rest = b""
        return True

    def _write(self, out: bytes) -> None:
        if self._socket is not None:
            try:
                self._socket.sendall(out)
            except OSError:
                self._drop()

    def _drop(self) -> None:
        """The connection is gone."""
        self.account.lost += len(self._open)
        self._open.clear()
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _read(self) -> None:
        if self._socket is None:
            return
        try:
            received = self._socket.recv(1 << 18)
        except OSError:
            received = b""
        if not received:
            self._drop()
            return
        now = time.monotonic()
        received = self._rest + received
        at = 0
        while at + 9 <= len(received):
            end = at + 9 + int.from_bytes(received[at : at + 3], "big")
            if end > len(received):
                break
            self._frame(received[at + 3], received[at + 4], received[at + 5 : at + 9], received[at + 9 : end], now)
            at = end
        self._rest = received[at:]

    def _frame(self, kind: int, flags: int, stream: bytes, payload: bytes, now: float) -> None:
        number = int.from_bytes(stream, "big")
        call = self._open.get(number)
        if kind == 0 and call is not None:
            call[1] = 1.0
            self._write(window_update(0, max(1, len(payload))))
        if kind in (0, 1) and flags & 1 and call is not None:
            del self._open[number]
            if call[1]:
                self.account.durations.append(now - call[0])
            else:
                self.account.refused += 1
        elif kind == 3 and self._open.pop(number, None) is not None:
            self.account.refused += 1
        elif kind == 6 and not flags & 1:
            self._write(ping(payload, ack=True))
        elif kind == 7:
            # What is in flight may still be answered; the next call has a connection of its own.
            self.account.lost += len(self._open)
            self._drop()


if __name__ == "__main__":
    neighbour = Neighbour(sys.argv[1], float(sys.argv[2]), fresh="fresh" in sys.argv[3:])
    print(json.dumps(asdict(neighbour.run(sys.stdin.fileno(), lambda: print("at work", flush=True)))))
