"""Fuzz the HTTP/2 engine: bytes of all kinds against the promises in `interpose.testing.h2fuzz`.

    python tests/fuzz/fuzz_h2.py --seconds 60 [--target server] [--seed 7] [--crashes FOLDER]
    python tests/fuzz/fuzz_h2.py --replay crash-server-0123abcd.bin

With atheris installed it is guided by coverage; otherwise inputs are mutations of the corpus, from a seed that is
printed. A broken promise is written to a file, named, and the exit code is 1.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from interpose.testing import h2peer
from interpose.testing.fuzzloop import Fuzzer, Mutator
from interpose.testing.h2bench import REQUEST, RESPONSE, TRAILERS
from interpose.testing.h2fuzz import TARGETS
from interpose.testing.h2hpack import Encoder, Pair

CORPUS = Path(__file__).resolve().parent.parent / "data/h2corpus"
LONGEST = 60_000
NUMBERS = (0, 1, 2, 3, 5, 7, 9, 15, 99, 2**31 - 1, 2**31 + 1)
VALUES = (0, 1, 2, 100, 16_383, 16_384, 65_535, 2**24 - 1, 2**31 - 1, 2**31, 2**32 - 1)


def seeds(target: str) -> list[bytes]:
    """Where mutation starts from."""
    files = sorted(CORPUS.glob("*.bin"))
    if target == "hpack":
        blocks = [Encoder().block(pairs) for pairs in (REQUEST, RESPONSE, TRAILERS)]
        hand_made = [b"\x3f\xe1\x1f\x82", b"\x20\x40\x01a\x01b\xbe", b"\x10\x01a\x01b", b"\x00\x81\x1f\x81\x1f"]
        return [bytes((len(block),)) + block for block in blocks + hand_made]
    found = [path.read_bytes() for path in files if path.name.startswith("client_") == (target == "client")]
    hello = h2peer.settings() if target == "client" else h2peer.PREFACE + h2peer.settings()
    return [*found, hello]


class Frames(Mutator):
    """Beside blind changes, whole frames that make sense."""

    def next(self) -> bytes:
        """One input."""
        rng = self.rng
        data = rng.choice(self.seeds)
        if self.target != "hpack" and rng.random() < 0.6:
            data = self.seeds[-1] + b"".join(self.frame() for _ in range(rng.randrange(1, 25)))
        return self.changed(data)

    def frame(self) -> bytes:
        """A frame that may be in place, or not."""
        rng = self.rng
        number = rng.choice(NUMBERS)
        value = rng.choice(VALUES)
        end = rng.random() < 0.4
        pad = rng.choice((None, None, 0, 5, 255))
        body = bytes(rng.choice((0, 1, 5, 300, 3000, 16_000)))
        makers: list[Callable[[], bytes]] = [
            lambda: h2peer.data(number, body, end=end, pad=pad),
            lambda: h2peer.headers(number, self.block(), end=end, pad=pad, depends_on=rng.choice((None, None, 0, 3))),
            lambda: h2peer.headers(number, self.block(), end=end, more=rng.random() < 0.5),
            lambda: h2peer.continuation(number, self.block(), more=rng.random() < 0.5),
            lambda: h2peer.priority(number, rng.choice(NUMBERS)),
            lambda: h2peer.rst_stream(number, value),
            lambda: h2peer.settings((rng.randrange(8), value)),
            h2peer.settings_ack,
            lambda: h2peer.ping(rng.choice((b"draining", b"12345678")), ack=end),
            lambda: h2peer.goaway(number, value % 14),
            lambda: h2peer.window_update(number, value),
            lambda: h2peer.raw(rng.randrange(14), rng.randrange(256), number, rng.randbytes(rng.randrange(12))),
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


FUZZER = Fuzzer(targets=TARGETS, seeds=seeds, longest=LONGEST, mutator=Frames)

if __name__ == "__main__":
    sys.exit(FUZZER.run(__doc__ or ""))
