"""Fuzz the HTTP/2 engine: bytes of all kinds against the promises in `interpose.testing.h2fuzz`.

    python tests/fuzz/fuzz_h2.py --seconds 60 [--target server] [--seed 7] [--crashes FOLDER]
    python tests/fuzz/fuzz_h2.py --replay crash-server-0123abcd.bin

With atheris installed it is guided by coverage; otherwise inputs are mutations of the corpus, from a seed that is
printed. A broken promise is written to a file, named, and the exit code is 1.
"""

import argparse
import hashlib
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from interpose.testing import h2peer
from interpose.testing.h2bench import REQUEST, RESPONSE, TRAILERS
from interpose.testing.h2fuzz import TARGETS
from interpose.testing.h2hpack import Encoder, Pair

CORPUS = Path(__file__).resolve().parent.parent / "data/h2corpus"
LONGEST = 60_000
REPORT_EVERY = 5.0
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


class Mutator:
    """New inputs from old ones: blind changes of bytes, and whole frames that make sense."""

    def __init__(self, rng: random.Random, target: str) -> None:
        self.rng = rng
        self.target = target
        self.seeds = seeds(target)

    def next(self) -> bytes:
        """One input."""
        rng = self.rng
        data = rng.choice(self.seeds)
        if self.target != "hpack" and rng.random() < 0.6:
            data = self.seeds[-1] + b"".join(self.frame() for _ in range(rng.randrange(1, 25)))
        for _ in range(rng.choice((0, 1, 1, 2, 4, 16))):
            data = self.change(data)
        return data[:LONGEST]

    def change(self, data: bytes) -> bytes:
        """One blind change."""
        rng = self.rng
        at = rng.randrange(len(data) + 1)
        size = rng.choice((1, 1, 2, 4, 9, 50))
        match rng.randrange(6):
            case 0:
                return data[:at] + rng.randbytes(size) + data[at:]
            case 1:
                return data[:at] + data[at + size :]
            case 2:
                return data[:at] + rng.randbytes(size) + data[at + size :]
            case 3:
                return data[:at] + bytes(byte ^ 1 << rng.randrange(8) for byte in data[at : at + 1]) + data[at + 1 :]
            case 4:
                other = rng.choice(self.seeds)
                return data[:at] + other[rng.randrange(len(other) + 1) :]
            case _:
                start = rng.randrange(len(data) + 1)
                return data[:at] + data[start : start + size * 4] + data[at:]

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


def save(folder: Path, target: str, data: bytes) -> Path:
    """Keep an input that broke a promise."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"crash-{target}-{hashlib.sha256(data).hexdigest()[:12]}.bin"
    path.write_bytes(data)
    return path


def attempt(target: str, data: bytes, folder: Path) -> bool:
    """Run one input; whether all promises held."""
    try:
        TARGETS[target](data)
    except Exception:
        traceback.print_exc()
        print(f"promise broken, input kept: {save(folder, target, data)}", flush=True)
        return False
    return True


def mutate(targets: list[str], seconds: float, seed: int, folder: Path) -> int:
    """The loop without atheris: the targets in turn."""
    print(f"seed {seed}, targets {', '.join(targets)}, {seconds:g} s", flush=True)
    mutators = [Mutator(random.Random(f"{seed}-{target}"), target) for target in targets]
    start = last = time.monotonic()
    done = 0
    while (now := time.monotonic()) - start < seconds:
        for mutator in mutators:
            if not attempt(mutator.target, mutator.next(), folder):
                return 1
            done += 1
        if now - last >= REPORT_EVERY:
            last = now
            print(f"{now - start:6.1f} s {done} executions", flush=True)
    print(f"done: {done} executions in {time.monotonic() - start:.1f} s, no promise broken", flush=True)
    return 0


def guided(targets: list[str], seconds: float, folder: Path) -> int:
    """The loop with atheris, which ends the process itself. The first byte of an input chooses the target."""
    import atheris

    def one(data: bytes) -> None:
        if data and not attempt(targets[data[0] % len(targets)], data[1:], folder):
            raise SystemExit(1)

    with tempfile.TemporaryDirectory() as start:
        for number, target in enumerate(targets):
            for i, seed in enumerate(seeds(target)):
                (Path(start) / f"{target}-{i}").write_bytes(bytes((number,)) + seed)
        atheris.instrument_all()
        atheris.Setup([sys.argv[0], f"-max_total_time={int(seconds)}", f"-max_len={LONGEST}", start], one)
        atheris.Fuzz()
    return 0


def replay(path: Path, target: str | None) -> int:
    """Run one kept input; its name says for whom, unless the target is given."""
    parts = path.name.split("-")
    name = target or (parts[1] if len(parts) == 3 and parts[1] in TARGETS else None)
    if name is None:
        raise SystemExit(f"--replay {path}: the name says no target; give --target")
    TARGETS[name](path.read_bytes())
    print(f"{path.name}: all promises of {name} hold")
    return 0


def main() -> int:
    """Read the command line and choose the loop."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to try (default 60)")
    parser.add_argument("--target", choices=sorted(TARGETS), help="one target only (default: all, in turn)")
    parser.add_argument("--seed", type=int, help="of the mutations (default: a new one, printed)")
    parser.add_argument("--crashes", type=Path, default=Path("build/fuzz-crashes"), help="where broken inputs are kept")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run this one input only")
    options = parser.parse_args()
    if options.replay:
        return replay(options.replay, options.target)
    targets = [options.target] if options.target else sorted(TARGETS)
    if options.seed is None and has_atheris():
        return guided(targets, options.seconds, options.crashes)
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    return mutate(targets, options.seconds, seed, options.crashes)


def has_atheris() -> bool:
    """Whether coverage can guide us; a given seed asks for the plain loop."""
    try:
        import atheris  # noqa: F401
    except ImportError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
