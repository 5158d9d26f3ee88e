"""The loop of the fuzzers: inputs of all kinds against checks that raise when a promise is broken.

A fuzzer brings its targets, where their inputs start from, and how one becomes another; from here it has its command
line. With atheris installed it is guided by coverage; otherwise, or if a seed is given, inputs are mutations from a
seed that is printed. An input that broke a promise is kept in a file whose name says for which target.
"""

import argparse
import hashlib
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

REPORT_EVERY: Final = 5.0


class Mutator:
    """New inputs from old ones, by blind changes of bytes."""

    def __init__(self, rng: random.Random, target: str, seeds: Sequence[bytes]) -> None:
        self.rng = rng
        self.target = target
        self.seeds = seeds

    def next(self) -> bytes:
        """One input."""
        return self.changed(self.rng.choice(self.seeds))

    def learn(self, data: bytes, seen: Any) -> None:
        """What the check of this input returned. Who looks for something keeps what came nearest."""

    def changed(self, data: bytes) -> bytes:
        """Some changes, or none."""
        for _ in range(self.rng.choice((0, 1, 1, 2, 4, 16))):
            data = self.change(data)
        return data

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Fuzzer:
    """What is fuzzed. `faultless` sees in what a check returns that the input was a right one; those are counted."""

    targets: Mapping[str, Callable[[bytes], Any]]
    seeds: Callable[[str], Sequence[bytes]]
    longest: int
    mutator: Callable[[random.Random, str, Sequence[bytes]], Mutator] = Mutator
    faultless: Callable[[Any], bool] | None = None

    def run(self, description: str, arguments: Sequence[str] | None = None) -> int:
        """Read the command line and choose the loop; the exit code."""
        parser = command_line(description)
        parser.add_argument("--target", choices=sorted(self.targets), help="one target only (default: all, in turn)")
        options = parser.parse_args(arguments)
        if options.replay:
            return self._replay(options.replay, options.target)
        targets = [options.target] if options.target else sorted(self.targets)
        if options.seed is None and _has_atheris():
            return self._guided(targets, options.seconds, options.crashes)
        return self._mutate(targets, options.seconds, seed_of(options.seed), options.crashes)

    def _mutate(self, targets: Sequence[str], seconds: float, seed: int, folder: Path) -> int:
        """The loop without atheris: the targets in turn."""
        print(f"seed {seed}, targets {', '.join(targets)}, {seconds:g} s", flush=True)
        mutators = [self.mutator(random.Random(f"{seed}-{target}"), target, self.seeds(target)) for target in targets]
        start = last = time.monotonic()
        done = right = 0
        while (now := time.monotonic()) - start < seconds:
            for mutator in mutators:
                data = mutator.next()[: self.longest]
                try:
                    seen = self.targets[mutator.target](data)
                except Exception:
                    keep(folder, mutator.target, data)
                    return 1
                mutator.learn(data, seen)
                done += 1
                right += self.faultless is not None and self.faultless(seen)
            if now - last >= REPORT_EVERY:
                last = now
                counted = "" if self.faultless is None else f", {right} without fault"
                print(f"{now - start:6.1f} s {done} executions{counted}", flush=True)
        print(f"done: {done} executions in {time.monotonic() - start:.1f} s, no promise broken", flush=True)
        return 0

    def _guided(self, targets: Sequence[str], seconds: float, folder: Path) -> int:
        """The loop with atheris, which ends the process itself. The first byte of an input chooses the target."""
        import atheris

        def one(data: bytes) -> None:
            if not data:
                return
            target = targets[data[0] % len(targets)]
            try:
                self.targets[target](data[1:])
            except Exception:
                keep(folder, target, data[1:])
                raise SystemExit(1) from None

        with tempfile.TemporaryDirectory() as start:
            for number, target in enumerate(targets):
                for i, seed in enumerate(self.seeds(target)):
                    (Path(start) / f"{target}-{i}").write_bytes(bytes((number,)) + seed)
            atheris.instrument_all()
            atheris.Setup([sys.argv[0], f"-max_total_time={int(seconds)}", f"-max_len={self.longest}", start], one)
            atheris.Fuzz()
        return 0

    def _replay(self, path: Path, target: str | None) -> int:
        """Run one kept input; its name says for whom, unless the target is given."""
        parts = path.name.split("-")
        name = target or (parts[1] if len(parts) == 3 and parts[1] in self.targets else None)
        if name is None:
            raise SystemExit(f"--replay {path}: the name says no target; give --target")
        self.targets[name](path.read_bytes())
        print(f"{path.name}: all promises of {name} hold")
        return 0


def command_line(description: str) -> argparse.ArgumentParser:
    """What every fuzzer understands; of the description the first line is shown."""
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to try (default 60)")
    parser.add_argument("--seed", type=int, help="of the mutations (default: a new one, printed)")
    parser.add_argument("--crashes", type=Path, default=Path("build/fuzz-crashes"), help="where broken inputs are kept")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run this one input only")
    return parser


def seed_of(given: int | None) -> int:
    """The seed that was given, or a new one."""
    return random.SystemRandom().randrange(10**6) if given is None else given


def keep(folder: Path, target: str, data: bytes, suffix: str = ".bin") -> None:
    """Say which promise is being broken, and keep the input that broke it."""
    traceback.print_exc()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"crash-{target}-{hashlib.sha256(data).hexdigest()[:12]}{suffix}"
    path.write_bytes(data)
    print(f"promise broken, input kept: {path}", flush=True)


def _has_atheris() -> bool:
    """Whether coverage can guide us; a given seed asks for the plain loop."""
    try:
        import atheris  # noqa: F401
    except ImportError:
        return False
    return True
