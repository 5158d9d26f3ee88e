"""Fuzz the reader of documents about the node: bytes of all kinds are read or refused, and nothing else happens.

    python tests/fuzz/fuzz_nodeslo.py --seconds 60 [--seed 7] [--crashes FOLDER]
    python tests/fuzz/fuzz_nodeslo.py --replay crash-nodeslo-0123abcd.yaml

Inputs are mutations of the samples, from a seed that is printed. A broken promise is written to a file, named, and the
exit code is 1.
"""

import argparse
import hashlib
import logging
import random
import sys
import tempfile
import time
import traceback
from pathlib import Path

from interpose.runtimehooks.nodefile import NodeFile

SAMPLES = Path(__file__).resolve().parents[2] / "samples/nodeslo"
REPORT_EVERY = 5.0
# Pieces that mean something to the reader, whole and broken.
PIECES = [
    *("apiVersion: interpose/v1\n", "kind: NodeState\n", '"kind": "NodeSLO", ', "spec:\n", '"nodeSLO": null, '),
    *("enable: true", "enable: maybe", "groupIdentity: 3", "groupIdentity: -1", "schedIdle: 1e3", "coreExpeller: on"),
    *("cpuPolicy: coreSched", "cpuSuppressPolicy: cfsQuota", "hostApplications:\n", "- name: a\n", "qos: LS\n"),
    *("cgroupPath: {}", "relativePath: ../..", "base: Kubepods", "labels: {a: b}", "hostApplications: [{name: a}]"),
    *("&a ", "*a", "<<: *a", "!!python/object:x ", "!t ", "---\n", "...\n", "? ", "| \n", "> \n", "%YAML 9\n", "\t"),
    *("{", "}", "[", "]", ",", ":", "\n", "\n  ", "null", "~", "true", "NaN", "-Infinity", "1e999", "0x1", "0o7"),
    *("9" * 5000, "[" * 3000, "{a: " * 3000, "\ufeff", '"\\ud800"', '"\\u0000"', "\0", "\x1b[2J", "\x85", "x" * 300),
]


class Promises:
    """Reads documents from files of its own folder, as the program does."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def check(self, data: bytes, suffix: str) -> None:
        """The promises: a document, or problems that name the file and are short; never both, never an exception."""
        path = self._folder / f"node{suffix}"
        path.write_bytes(data)
        path.chmod(0o644)
        file = NodeFile(str(path), lambda document: None)
        assert file.load() is (file.document is not None)
        assert bool(file.problems) is (file.document is None), "neither used nor refused with a reason, or both"
        for line in file.problems:
            assert line.startswith(f"file {path}"), f"does not name the file: {line!r:.200}"
            assert line.isprintable(), f"would move the cursor: {line!r:.200}"
            assert len(line) < 1000, f"is {len(line)} characters long: {line!r:.200}"


def change(rng: random.Random, text: str) -> str:
    """One change: something in, something out, something twice."""
    at = rng.randrange(len(text) + 1)
    size = rng.choice((1, 1, 2, 5, 20))
    match rng.randrange(5):
        case 0:
            return text[:at] + rng.choice(PIECES) + text[at:]
        case 1:
            return text[:at] + text[at + size :]
        case 2:
            return text[:at] + chr(rng.randrange(rng.choice((128, 0x11_0000)))) + text[at + 1 :]
        case 3:
            return text[:at] + rng.choice(PIECES) + text[at + size :]
        case _:
            start = rng.randrange(len(text) + 1)
            return text[:at] + text[start : start + size * 4] + text[at:]


def attempt(promises: Promises, data: bytes, suffix: str, folder: Path) -> bool:
    """Run one input; whether all promises held. One that broke a promise is kept."""
    try:
        promises.check(data, suffix)
    except Exception:
        traceback.print_exc()
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"crash-nodeslo-{hashlib.sha256(data).hexdigest()[:12]}{suffix}"
        path.write_bytes(data)
        print(f"promise broken, input kept: {path}", flush=True)
        return False
    return True


def mutate(promises: Promises, seconds: float, seed: int, folder: Path) -> int:
    """Try until the time is over; the exit code."""
    print(f"seed {seed}, target nodeslo, {seconds:g} s", flush=True)
    rng = random.Random(seed)
    seeds = [(path.read_text(), path.suffix) for path in sorted(SAMPLES.iterdir())]
    start = last = time.monotonic()
    tried = broken = 0
    while (now := time.monotonic()) - start < seconds:
        text, suffix = rng.choice(seeds)
        for _ in range(rng.choice((1, 1, 2, 4, 16))):
            text = change(rng, text)
        tried += 1
        broken += not attempt(promises, text.encode("utf-8", "surrogatepass"), suffix, folder)
        if now - last >= REPORT_EVERY:
            last = now
            print(f"{now - start:6.0f} s  {tried} inputs, {broken} broke a promise", flush=True)
    print(f"done: {tried} inputs, {broken} broke a promise", flush=True)
    return 1 if broken else 0


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to try (default 60)")
    parser.add_argument("--seed", type=int, help="of the mutations (default: a new one, printed)")
    parser.add_argument("--crashes", type=Path, default=Path("build/fuzz-crashes"), help="where broken inputs are kept")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run this one input only")
    options = parser.parse_args()
    logging.disable()  # every refusal would be a line
    with tempfile.TemporaryDirectory() as scratch:
        promises = Promises(Path(scratch))
        if options.replay:
            promises.check(options.replay.read_bytes(), options.replay.suffix)
            print(f"{options.replay.name}: all promises of nodeslo hold")
            return 0
        seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
        return mutate(promises, options.seconds, seed, options.crashes)


if __name__ == "__main__":
    sys.exit(main())
