"""Fuzz the reader of registration files: text of all kinds is read or refused, and nothing else happens.

    python tests/fuzz/fuzz_registration.py --seconds 60 [--seed 7] [--crashes FOLDER]
    python tests/fuzz/fuzz_registration.py --replay crash-registration-0123abcd.json

Inputs are mutations of the samples, from a seed that is printed. A broken promise is written to a file, named, and the
exit code is 1.
"""

import argparse
import hashlib
import random
import sys
import time
import traceback
from pathlib import Path

from interpose.errors import ConfigError
from interpose.hookapi.hookpoint import HookPoint
from interpose.hookapi.registration import parse_registration, render_registration

SAMPLES = Path(__file__).resolve().parents[2] / "samples/hookserver.d"
FILE = "/etc/runtime/hookserver.d/fuzz.json"
REPORT_EVERY = 5.0
# Pieces that mean something to the reader, whole and broken.
PIECES = [
    *(f'"{point}"' for point in HookPoint),
    *('"PreRemoveRunPodSandbox"', '"Fail"', '"Ignore"', '"fail"', '"500ms"', '"unix:/a"', '"@a"', '"/"'),
    *('"remote-endpoint": ', '"failure-policy": ', '"runtime-hooks": ', '"priority": ', '"timeout": ', '"selector": '),
    *('"namespaces": ', '"labels": ', '"runtime-handlers": ', '"Priority": ', '"\\u017felector": '),
    *(
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "null",
        "true",
        "NaN",
        "-Infinity",
        "1e999",
        "-0",
        "9" * 5000,
        "[" * 3000,
        "\ufeff",
    ),
    *('"\\ud800"', '"\\u0000"', "\udcff", "\0", "\x1b[2J", "\n", '"' + "x" * 300 + '"'),
]


def check(text: str) -> None:
    """The promises: a server that survives rendering, or problems that name the file and are short."""
    try:
        server, warnings = parse_registration(text, FILE)
    except ConfigError as error:
        said = error.problems
        assert said, "refused without a reason"
    else:
        said = list(warnings)
        again = parse_registration(render_registration(server), FILE).server
        assert again == server, "rendering changed the value"
    for line in said:
        assert line.startswith(f"file {FILE}"), f"does not name the file: {line!r:.200}"
        assert line.isprintable(), f"would move the cursor: {line!r:.200}"
        assert len(line) < 500, f"is {len(line)} characters long: {line!r:.200}"


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


def attempt(text: str, folder: Path) -> bool:
    """Run one input; whether all promises held. One that broke a promise is kept."""
    try:
        check(text)
    except Exception:
        traceback.print_exc()
        data = text.encode("utf-8", "surrogatepass")
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"crash-registration-{hashlib.sha256(data).hexdigest()[:12]}.json"
        path.write_bytes(data)
        print(f"promise broken, input kept: {path}", flush=True)
        return False
    return True


def mutate(seconds: float, seed: int, folder: Path) -> int:
    """Try until the time is over; the exit code."""
    print(f"seed {seed}, target registration, {seconds:g} s", flush=True)
    rng = random.Random(seed)
    seeds = [path.read_text() for path in sorted(SAMPLES.glob("*.json"))]
    start = last = time.monotonic()
    tried = broken = 0
    while (now := time.monotonic()) - start < seconds:
        text = rng.choice(seeds)
        for _ in range(rng.choice((1, 1, 2, 4, 16))):
            text = change(rng, text)
        tried += 1
        broken += not attempt(text, folder)
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
    if options.replay:
        check(options.replay.read_bytes().decode("utf-8", "surrogatepass"))
        print(f"{options.replay.name}: all promises of registration hold")
        return 0
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    return mutate(options.seconds, seed, options.crashes)


if __name__ == "__main__":
    sys.exit(main())
