"""Fuzz the readers of what policies find on pods and on the disk: text of all kinds is read or refused.

    python tests/fuzz/fuzz_policy_texts.py --seconds 60 [--seed 7] [--crashes FOLDER]
    python tests/fuzz/fuzz_policy_texts.py --replay crash-policy-texts-0123abcd.note

Three readers: annotations of webhooks (.annotation), notes about grants (.note), and the state file, as a whole (.json)
and behind a checksum that is right (.state). Inputs are mutations of samples made here, from a seed that is printed. A
broken promise is written to a file, named, and the exit code is 1.
"""

import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from interpose.core.model.cgroup import shares_of
from interpose.core.model.cpuset import CpuSet
from interpose.core.model.pod import Container, Pod
from interpose.core.model.resources import LinuxResources
from interpose.core.policy.decision import Grant
from interpose.core.policy.request import Amounts, Key, Request
from interpose.resmgr.container_request import ANNOTATIONS, make_request
from interpose.resmgr.state.grant_annotation import grant_note, read_note
from interpose.resmgr.state.state import SavedEntry, State, decode, encode, state_from_plain
from tests.support.fuzz.text import Target, run

GRANT = Grant(exclusive=CpuSet.parse("2-3,8"), pools=("shared",), mems=CpuSet.parse("0"), details={"pool": "x"})
REQUEST = Request(key=Key("p", "main"), amounts=Amounts(milli=2000, limit_milli=2000, extended={"x.io/y": 1}))
STATE = State(
    policy="static",
    fingerprint="abc",
    entries=(
        SavedEntry(
            key=REQUEST.key, container_id="c", grant=GRANT, amounts=REQUEST.amounts, extra_mems=CpuSet.parse("0-1")
        ),
    ),
    config={"policy": "Active: static"},
)
BOTH = {"cpu": "1500m", "memory": "1Gi", "cmk.intel.com/exclusive-cores": 2}
ANNOTATION = json.dumps({"initContainers": {"init": {}}, "containers": {"main": {"requests": BOTH, "limits": BOTH}}})
ASKED = LinuxResources(cpu_shares=1536, cpu_quota=150_000, cpu_period=100_000, memory_limit_in_bytes=1 << 30)
SAMPLES: Mapping[str, str] = {
    "pod.annotation": ANNOTATION,
    "container.note": grant_note("static", REQUEST, GRANT),
    "whole.json": encode(STATE).decode(),
    "inner.state": json.dumps(json.loads(encode(STATE))["state"]),
}
# Pieces that mean something to the readers, whole and broken.
PIECES = [
    *(
        '"containers": ',
        '"initContainers": ',
        '"resources": ',
        '"main": ',
        '"requests": ',
        '"limits": ',
        '"cpu": ',
        '"memory": ',
    ),
    *('"x.io/y": ', '"500m"', '"1.5"', '"1e3"', '"1E"', '"-1"', '"9e40"', '"1Gi"', '"0.0000000000001"', '"9000"'),
    *('"version": 1', '"version": 2', '"policy": ', '"exclusive": ', '"0-8191"', '"0-8192"', '"8191-0"', '"0-9:1/2"'),
    *('"pools": ', '"pinned": ', '"mems": ', '"details": ', '"amounts": ', '"source": ', '"resize"', '"envs": '),
    *('"entries": ', '"sha256": ', '"state": ', '"attempt": ', '"command": '),
    *("{", "}", "[", "]", ",", ":", "null", "true", "false", "NaN", "-Infinity", "1e999", "-0", "1.0", "1" * 20),
    *("9" * 5000, "[" * 3000, '{"a":' * 3000, "," * 5000, " " * 70_000),
    *("\ufeff", '"\\ud800"', '"\\u0000"', "\udcff", "\0", "\x1b[2J", "\n", '"' + "x" * 300 + '"'),
]


def check_annotation(text: str) -> None:
    """A request always; more CPU than the kubelet asked for never; problems name the annotation and are short."""
    container = Container(id="", pod_id="p", name="main", resources=ASKED, requested=ASKED)
    made = make_request(container, Pod(id="p", annotations={ANNOTATIONS[0]: text}))
    # What the kubelet asked for may be the limit of the pod: then the container asks for nothing itself.
    possible = (ASKED.cpu_shares,) if made.request.pod_amounts is None else (ASKED.cpu_shares, shares_of(0))
    assert shares_of(made.request.milli) in possible, f"{made.request.milli} is not what the kubelet asked for"
    for line in made.problems:
        assert line.startswith(f"annotation {ANNOTATIONS[0]}"), f"does not name the annotation: {line!r:.200}"
        _check_line(line)


def check_note(text: str) -> None:
    """A note that says the same when it is written again, or none."""
    noted = read_note(text)
    if noted is not None:
        again = grant_note(noted.policy, Request(key=REQUEST.key, amounts=noted.amounts), noted.grant)
        assert read_note(again) == noted, "writing changed the value"


def check_file(text: str) -> None:
    """The state that was saved, or a reason why not: there is no third."""
    try:
        assert decode(text.encode("utf-8", "surrogatepass")) == STATE, "damage gave another state"
    except ValueError as error:
        _check_line(str(error))


def check_state(text: str) -> None:
    """A state that survives saving, or a reason why not."""
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError):
        return
    try:
        state = state_from_plain(plain)
    except ValueError as error:
        _check_line(str(error))
    else:
        assert decode(encode(state)) == state, "saving changed the value"


def _check_line(line: str) -> None:
    assert line.isprintable(), f"would move the cursor: {line!r:.200}"
    assert 0 < len(line) < 500, f"is {len(line)} characters long: {line!r:.200}"


CHECKS: Mapping[str, Callable[[str], None]] = {
    ".annotation": check_annotation,
    ".note": check_note,
    ".json": check_file,
    ".state": check_state,
}


def check(data: bytes, suffix: str) -> None:
    """The promises of the reader that the sample is for."""
    CHECKS[suffix](data.decode("utf-8", "surrogatepass"))


def main() -> int:
    """Fuzz them."""
    with tempfile.TemporaryDirectory() as scratch:
        for name, text in SAMPLES.items():
            (Path(scratch) / name).write_text(text)
        samples = sorted(Path(scratch).iterdir())
        return run(Target(name="policy-texts", check=check, samples=samples, pieces=PIECES), __doc__ or "")


if __name__ == "__main__":
    sys.exit(main())
