"""The format of the state file."""

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.decision import Grant
from interpose.core.policy.request import Amounts, Key
from interpose.resmgr.state.state import SavedEntry, State, decode, encode

STATE = State(
    policy="static",
    fingerprint="abc",
    entries=(
        SavedEntry(
            key=Key("p2", "b", 1),
            container_id="c2",
            grant=Grant(exclusive=CpuSet.parse("2-3"), envs={"A": "ä"}, command=("x",)),
            amounts=Amounts(milli=2000),
            extra_mems=CpuSet.parse("0-1"),
        ),
        SavedEntry(key=Key("p2", "b", 1, 1), container_id="c3", grant=Grant(), amounts=Amounts(milli=100)),
        SavedEntry(key=Key("p1", "a"), container_id="", grant=Grant(pools=("shared",)), amounts=Amounts(milli=100)),
    ),
    config={"policy": "ActivePolicy: static\n"},
    config_node="node-1",
)


def sealed(payload: Any, **more: Any) -> bytes:
    """A file with a right checksum, whatever is in it."""
    seal = hashlib.sha256(json.dumps(payload, separators=(",", ":"), sort_keys=True).encode()).hexdigest()
    return json.dumps({"version": 1, "sha256": seal, "state": payload, **more}).encode()


@pytest.mark.parametrize("state", [STATE, State(), replace(STATE, reset=True)])
def test_a_state_comes_back(state: State) -> None:
    """In the same order."""
    assert decode(encode(state)) == state


def test_people_find_one_container_per_line() -> None:
    """And see its version first."""
    lines = encode(STATE).decode().splitlines()
    assert lines[0].startswith('{"version":1,')
    assert ["p2" in lines[2], "p2" in lines[3], "p1" in lines[4]] == [True, True, True]


def test_layout_does_not_matter() -> None:
    """The checksum is that of the values."""
    assert decode(json.dumps(json.loads(encode(STATE)), indent=4).encode()) == STATE


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "is not valid JSON"),
        (b"\xff", "is not UTF-8 text (byte 0)"),
        (b"[" * 100_000, "is nested too deeply"),
        (b"[]", "file: expected a group of keys, found a list"),
        (b"{}", "file.version: is missing"),
        (sealed({}, version=2), "has version 2, this program reads version 1"),
        (sealed({}, sha256="00"), "is damaged: its checksum is that of something else"),
        (sealed({}), "state.policy: is missing"),
        (sealed([]), "state: expected a group of keys, found a list"),
        (
            sealed({"policy": "", "fingerprint": "", "entries": [{}], "config": {}, "config_node": ""}),
            "state.entries[0].pod_id: is missing",
        ),
        (encode(STATE).replace(b"2-3", b"2-4"), "is damaged: its checksum is that of something else"),
        (encode(STATE)[:-3], "is not valid JSON"),
        (b'{"version":' + b"9" * 5000 + b"}", "Exceeds the limit"),
    ],
)
def test_what_is_wrong_is_told(data: bytes, problem: str) -> None:
    """Before anything of it is used."""
    with pytest.raises(ValueError) as caught:
        decode(data)
    assert str(caught.value).startswith(problem)
