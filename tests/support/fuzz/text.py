"""The fuzzing of readers of text files: samples are changed at random, and each result must keep the reader's promises.

A reader brings its check (which raises when a promise is broken), its samples, and pieces of text that mean something
to it.
"""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.fuzz.loop import REPORT_EVERY, command_line, keep, seed_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is fuzzed. `check` gets an input and the ending of the sample's name that it was made of."""

    name: str
    check: Callable[[bytes, str], None]
    samples: Sequence[Path]
    pieces: Sequence[str]


def run(target: Target, description: str, arguments: Sequence[str] | None = None) -> int:
    """Read the command line and fuzz, or run one input again; the exit code."""
    options = command_line(description).parse_args(arguments)
    if options.replay:
        target.check(options.replay.read_bytes(), options.replay.suffix)
        print(f"{options.replay.name}: all promises of {target.name} hold")
        return 0
    return _mutate(target, options.seconds, seed_of(options.seed), options.crashes)


def _mutate(target: Target, seconds: float, seed: int, folder: Path) -> int:
    """Try until the time is over."""
    print(f"seed {seed}, target {target.name}, {seconds:g} s", flush=True)
    rng = random.Random(seed)
    seeds = [(path.read_text(), path.suffix) for path in sorted(target.samples)]
    start = last = time.monotonic()
    tried = broken = 0
    while (now := time.monotonic()) - start < seconds:
        text, suffix = rng.choice(seeds)
        for _ in range(rng.choice((1, 1, 2, 4, 16))):
            text = _change(rng, text, target.pieces)
        tried += 1
        broken += not _attempt(target, text.encode("utf-8", "surrogatepass"), suffix, folder)
        if now - last >= REPORT_EVERY:
            last = now
            print(f"{now - start:6.0f} s  {tried} inputs, {broken} broke a promise", flush=True)
    print(f"done: {tried} inputs, {broken} broke a promise", flush=True)
    return 1 if broken else 0


def _change(rng: random.Random, text: str, pieces: Sequence[str]) -> str:
    """One change: something in, something out, something twice."""
    at = rng.randrange(len(text) + 1)
    size = rng.choice((1, 1, 2, 5, 20))
    match rng.randrange(5):
        case 0:
            return text[:at] + rng.choice(pieces) + text[at:]
        case 1:
            return text[:at] + text[at + size :]
        case 2:
            return text[:at] + chr(rng.randrange(rng.choice((128, 0x11_0000)))) + text[at + 1 :]
        case 3:
            return text[:at] + rng.choice(pieces) + text[at + size :]
        case _:
            start = rng.randrange(len(text) + 1)
            return text[:at] + text[start : start + size * 4] + text[at:]


def _attempt(target: Target, data: bytes, suffix: str, folder: Path) -> bool:
    """Run one input; whether all promises held. One that broke a promise is kept."""
    try:
        target.check(data, suffix)
    except Exception:
        keep(folder, target.name, data, suffix)
        return False
    return True
