"""Fuzz the reader of registration files: text of all kinds is read or refused, and nothing else happens.

    python tests/fuzz/fuzz_registration.py --seconds 60 [--seed 7] [--crashes FOLDER]
    python tests/fuzz/fuzz_registration.py --replay crash-registration-0123abcd.json

Inputs are mutations of the samples, from a seed that is printed. A broken promise is written to a file, named, and the
exit code is 1.
"""

import sys
from pathlib import Path

from interpose.errors import ConfigError
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.api.registration import parse_registration, render_registration
from tests.support.fuzz.text import Target, run

SAMPLES = Path(__file__).resolve().parents[2] / "samples/hookserver.d"
FILE = "/etc/runtime/hookserver.d/fuzz.json"
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


def check(data: bytes, _suffix: str) -> None:
    """The promises: a server that survives rendering, or problems that name the file and are short."""
    text = data.decode("utf-8", "surrogatepass")
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


def main() -> int:
    """Fuzz it."""
    target = Target(name="registration", check=check, samples=[*SAMPLES.glob("*.json")], pieces=PIECES)
    return run(target, __doc__ or "")


if __name__ == "__main__":
    sys.exit(main())
