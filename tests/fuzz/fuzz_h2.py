"""Fuzz the HTTP/2 engine: bytes of all kinds against the promises in `tests.support.fuzz.h2`.

    python tests/fuzz/fuzz_h2.py --seconds 60 [--target server] [--seed 7] [--crashes FOLDER]
    python tests/fuzz/fuzz_h2.py --replay crash-server-0123abcd.bin

With atheris installed it is guided by coverage; otherwise inputs are mutations of the corpus, from a seed that is
printed. A broken promise is written to a file, named, and the exit code is 1. The target `work` looks for bytes that
cost a relay the most: it goes on from the dearest that it has found, and too dear is a broken promise, too.
"""

import random
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from interpose.native import build
from tests.support.fuzz.h2 import TARGETS
from tests.support.fuzz.loop import Fuzzer, Mutator
from tests.support.hostile.attacks import ATTACKS, AttackRow
from tests.support.hostile.peer import CutError, SpentError
from tests.support.hostile.workmeter import InMemoryRelay, MeteredPeer, WorkMeter, check_work
from tests.support.net import h2_peer
from tests.support.net.h2_bench import REQUEST, RESPONSE, TRAILERS
from tests.support.net.hpack import Encoder, Pair

CORPUS = Path(__file__).resolve().parent.parent / "data/h2corpus"
LONGEST = 60_000
# Of the dearest inputs so many are kept; a shorter one than this is dear only because it begins.
KEPT, SHORTEST = 20, 2000
NUMBERS = (0, 1, 2, 3, 5, 7, 9, 15, 99, 2**31 - 1, 2**31 + 1)
VALUES = (0, 1, 2, 100, 16_383, 16_384, 65_535, 2**24 - 1, 2**31 - 1, 2**31, 2**32 - 1)


def seeds(target: str) -> list[bytes]:
    """Where mutation starts from."""
    if target == "work":
        return [*(said for said in map(beginning, ATTACKS) if said), *seeds("server")]
    files = sorted(CORPUS.glob("*.bin"))
    if target == "hpack":
        blocks = [Encoder().block(pairs) for pairs in (REQUEST, RESPONSE, TRAILERS)]
        hand_made = [b"\x3f\xe1\x1f\x82", b"\x20\x40\x01a\x01b\xbe", b"\x10\x01a\x01b", b"\x00\x81\x1f\x81\x1f"]
        return [bytes((len(block),)) + block for block in blocks + hand_made]
    found = [path.read_bytes() for path in files if path.name.startswith("client_") == (target == "client")]
    hello = h2_peer.settings() if target == "client" else h2_peer.PREFACE + h2_peer.settings()
    return [*found, hello]


class Listening(MeteredPeer):
    """Notes what an attack sends."""

    def __init__(self) -> None:
        super().__init__(InMemoryRelay(WorkMeter()), LONGEST)
        self.said = b""

    def send(self, data: bytes) -> None:
        self.said += data[:LONGEST]
        super().send(data[:LONGEST])


def beginning(row: AttackRow) -> bytes:
    """The first bytes of an attack, as long as they need no event loop."""
    peer = Listening()
    with suppress(CutError, SpentError, RuntimeError):
        row.attack(peer)
    return peer.said[:LONGEST]


class Frames(Mutator):
    """Beside blind changes, whole frames that make sense. Of the inputs that cost the most some are kept."""

    def __init__(self, rng: random.Random, target: str, seeds: Sequence[bytes]) -> None:
        super().__init__(rng, target, seeds)
        self._dearest: list[tuple[float, bytes]] = []

    def learn(self, data: bytes, seen: Any) -> None:
        if self.target != "work" or len(data) < SHORTEST:
            return
        self._dearest = sorted([*self._dearest, (seen, data)])[-KEPT:]
        if self._dearest[-1][1] == data:
            print(f"dearest so far: {len(data)} bytes, {seen:.1f} lines each", flush=True)

    def next(self) -> bytes:
        """One input."""
        rng = self.rng
        if self._dearest and rng.random() < 0.7:
            return self.changed(self.repeated(rng.choice(self._dearest)[1]))
        data = rng.choice(self.seeds)
        if self.target != "hpack" and rng.random() < 0.6:
            data = self.seeds[-1] + b"".join(self.frame() for _ in range(rng.randrange(1, 25)))
        return self.changed(data)

    def repeated(self, data: bytes) -> bytes:
        """Sometimes with new frames in it, or with a part of it many times over: that is how small costs add up."""
        rng = self.rng
        at = rng.randrange(len(data) + 1)
        match rng.randrange(3):
            case 0:
                return data[:at] + self.frame() * rng.choice((1, 10, 100, 1000)) + data[at:]
            case 1:
                part = data[at : at + rng.choice((9, 13, 17, 50, 500))]
                return data[: at + len(part)] + part * rng.choice((1, 10, 100)) + data[at + len(part) :]
            case _:
                return data

    def frame(self) -> bytes:
        """A frame that may be in place, or not."""
        rng = self.rng
        number = rng.choice(NUMBERS)
        value = rng.choice(VALUES)
        end = rng.random() < 0.4
        pad = rng.choice((None, None, 0, 5, 255))
        body = bytes(rng.choice((0, 1, 5, 300, 3000, 16_000)))
        makers: list[Callable[[], bytes]] = [
            lambda: h2_peer.data(number, body, end=end, pad=pad),
            lambda: h2_peer.headers(number, self.block(), end=end, pad=pad, depends_on=rng.choice((None, None, 0, 3))),
            lambda: h2_peer.headers(number, self.block(), end=end, more=rng.random() < 0.5),
            lambda: h2_peer.continuation(number, self.block(), more=rng.random() < 0.5),
            lambda: h2_peer.priority(number, rng.choice(NUMBERS)),
            lambda: h2_peer.rst_stream(number, value),
            lambda: h2_peer.settings((rng.randrange(8), value)),
            h2_peer.settings_ack,
            lambda: h2_peer.ping(rng.choice((b"draining", b"12345678")), ack=end),
            lambda: h2_peer.goaway(number, value % 14),
            lambda: h2_peer.window_update(number, value),
            lambda: h2_peer.raw(rng.randrange(14), rng.randrange(256), number, rng.randbytes(rng.randrange(12))),
        ]
        return rng.choice(makers)()

    def block(self) -> bytes:
        """A header block, mostly of a shape that fits; without a memory of earlier ones."""
        rng = self.rng
        fitting: list[Pair] = RESPONSE if self.target == "client" else REQUEST
        pairs = list(rng.choice((fitting, fitting, TRAILERS, REQUEST, RESPONSE, [])))
        if rng.random() < 0.3:
            pairs.insert(rng.randrange(len(pairs) + 1), (rng.randbytes(2).hex().encode(), rng.randbytes(9)))
        return Encoder().block(pairs, rng.choice(("plain", "index", "never")), coded=rng.random() < 0.5)


# Work is counted in lines of Python, and machine code has none.
WORK: dict[str, Callable[[bytes], Any]] = {} if build() == "compiled" else {"work": check_work}
FUZZER = Fuzzer(targets={**TARGETS, **WORK}, seeds=seeds, longest=LONGEST, mutator=Frames)

if __name__ == "__main__":
    sys.exit(FUZZER.run(__doc__ or ""))
