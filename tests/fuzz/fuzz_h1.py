"""Fuzz the HTTP/1.1 readers: bytes of all kinds against the promises in `interpose.testing.h1fuzz`.

    python tests/fuzz/fuzz_h1.py --seconds 60 [--target requests] [--seed 7] [--crashes FOLDER]
    python tests/fuzz/fuzz_h1.py --replay crash-requests-0123abcd.bin

With atheris installed it is guided by coverage; otherwise inputs are mutations of the corpus, from a seed that is
printed. A broken promise is written to a file, named, and the exit code is 1.
"""

import argparse
import hashlib
import json
import random
import sys
import tempfile
import time
import traceback
from pathlib import Path

from interpose.testing.h1fuzz import TARGETS

CORPUS = Path(__file__).resolve().parent.parent / "data/h1corpus"
LONGEST = 8000  # the promises are checked with small limits
REPORT_EVERY = 5.0
# What smuggling is made of.
WORDS = (
    b"\r\n", b"\r", b"\n", b"\r\n\r\n", b"\n\n", b" ", b"\t", b"\x00", b"\x01", b"\x0b", b"\x0c", b"\x7f", b"\xff",
    b":", b",", b";", b"%", b"?", b"204", b"304", b"101", b"+5", b"-5", b"0x5", b"5 ", b"X: y\r\n",
    b"chunked", b"identity",
    b"Content-Length: 5\r\n", b"Content-Length: 0\r\n", b"content-length:", b"Transfer-Encoding: chunked\r\n",
    b"transfer-encoding:", b"Host: x\r\n", b"Connection: close\r\n", b"Expect: 100-continue\r\n",
    b"Upgrade: h2c\r\n", b"HTTP/1.1", b"HTTP/1.0", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n", b"0\r\n\r\n", b"5\r\nhello\r\n", b"0\r\n", b"5;a=b\r\nhello\r\n",
    b"ffffffffffffffff\r\n", b"X" * 600, b"X: " + b"y" * 900 + b"\r\n",
)  # fmt: skip


def seeds(target: str) -> list[bytes]:
    """Where mutation starts from. The files that are made to be long are left out: cut, they teach nothing."""
    index = json.loads((CORPUS / "index.json").read_text())
    kind = "request" if target == "requests" else "answer"
    mark = b"" if target == "requests" else b"\x00"
    files = [(CORPUS / f"{name}.bin").read_bytes() for name, case in sorted(index.items()) if case["kind"] == kind]
    return [mark + data for data in files if len(data) < LONGEST]


class Mutator:
    """New inputs from old ones: blind changes of bytes, and words that mean something somewhere else."""

    def __init__(self, rng: random.Random, target: str) -> None:
        self.rng = rng
        self.target = target
        self.seeds = seeds(target)

    def next(self) -> bytes:
        """One input: some messages after each other, changed here and there."""
        rng = self.rng
        data = b"".join(rng.choice(self.seeds) for _ in range(rng.choice((1, 1, 1, 2, 3))))
        for _ in range(rng.choice((0, 1, 1, 2, 4, 16))):
            data = self.change(data)
        if self.target == "answers":
            data = bytes((rng.randrange(4),)) + data[1:]
        return data[:LONGEST]

    def change(self, data: bytes) -> bytes:
        """One change."""
        rng = self.rng
        at = rng.randrange(len(data) + 1)
        size = rng.choice((1, 1, 2, 4, 9, 50))
        match rng.randrange(8):
            case 0:
                return data[:at] + rng.randbytes(size) + data[at:]
            case 1:
                return data[:at] + data[at + size :]
            case 2:
                return data[:at] + bytes(byte ^ 1 << rng.randrange(8) for byte in data[at : at + 1]) + data[at + 1 :]
            case 3:
                other = rng.choice(self.seeds)
                return data[:at] + other[rng.randrange(len(other) + 1) :]
            case 4:
                start = rng.randrange(len(data) + 1)
                return data[:at] + data[start : start + size * 4] + data[at:]
            case 5:  # beside a line end, where it counts
                lines = data.split(b"\r\n")
                number = rng.randrange(len(lines))
                lines[number] = rng.choice((lines[number] + rng.choice(WORDS), rng.choice(WORDS) + lines[number]))
                return b"\r\n".join(lines)
            case 6:
                word = rng.choice(WORDS)
                return data[:at] + word + data[at + rng.choice((0, len(word))) :]
            case _:  # a line end of another kind
                return data.replace(b"\r\n", rng.choice((b"\n", b"\r", b"\r\r\n", b"\r\n ")), rng.randrange(1, 4))


def save(folder: Path, target: str, data: bytes) -> Path:
    """Keep an input that broke a promise."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"crash-{target}-{hashlib.sha256(data).hexdigest()[:12]}.bin"
    path.write_bytes(data)
    return path


def attempt(target: str, data: bytes, folder: Path) -> bool | None:
    """Run one input; whether it was read without fault. None: a promise is broken."""
    try:
        return TARGETS[target](data).status is None
    except Exception:
        traceback.print_exc()
        print(f"promise broken, input kept: {save(folder, target, data)}", flush=True)
        return None


def mutate(targets: list[str], seconds: float, seed: int, folder: Path) -> int:
    """The loop without atheris: the targets in turn."""
    print(f"seed {seed}, targets {', '.join(targets)}, {seconds:g} s", flush=True)
    mutators = [Mutator(random.Random(f"{seed}-{target}"), target) for target in targets]
    start = last = time.monotonic()
    done = fine = 0
    while (now := time.monotonic()) - start < seconds:
        for mutator in mutators:
            held = attempt(mutator.target, mutator.next(), folder)
            if held is None:
                return 1
            done += 1
            fine += held
        if now - last >= REPORT_EVERY:
            last = now
            print(f"{now - start:6.1f} s {done} executions, {fine} without fault", flush=True)
    print(f"done: {done} executions in {time.monotonic() - start:.1f} s, no promise broken", flush=True)
    return 0


def guided(targets: list[str], seconds: float, folder: Path) -> int:
    """The loop with atheris, which ends the process itself. The first byte of an input chooses the target."""
    import atheris

    def one(data: bytes) -> None:
        if data and attempt(targets[data[0] % len(targets)], data[1:], folder) is None:
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
