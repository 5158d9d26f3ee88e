"""The note a container carries."""

import json
from dataclasses import replace

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.decision import Grant
from interpose.core.policy.request import Amounts, Key, Request
from interpose.resmgr.state.grant_annotation import MAX_NOTE, GrantNote, grant_note, read_note

AMOUNTS = Amounts(milli=2000, memory=7)
REQUEST = Request(key=Key("p", "c"), amounts=AMOUNTS, envs={"SECRET": "x"}, command=("run",))
GRANT = Grant(exclusive=CpuSet.parse("2-3"), details={"pool": "x"}, envs={"CMK": "2"}, command=("sh",))


def test_a_note_is_read_back_without_variables_and_command() -> None:
    """Those the container has."""
    note = grant_note("static", REQUEST, GRANT)
    assert read_note(note) == GrantNote("static", replace(GRANT, envs={}, command=None), AMOUNTS)


def test_a_note_is_short_and_always_the_same() -> None:
    """No variable of the container is in it."""
    assert grant_note("static", REQUEST, GRANT) == (
        '{"amounts":{"extended":{},"limit_milli":null,"memory":7,"memory_limit":null,"milli":2000,"source":"estimate"},'
        '"details":{"pool":"x"},"exclusive":"2-3","mems":null,"milli":0,"pinned":true,"policy":"static","pools":[],'
        '"shares":null,"version":1}'
    )


def test_the_most_scattered_sets_fit() -> None:
    """Every other CPU of the largest machine."""
    scattered = CpuSet.of(range(0, 8192, 2))
    noted = read_note(grant_note("static", REQUEST, Grant(exclusive=scattered, mems=scattered)))
    assert noted is not None
    assert noted.grant.exclusive == scattered


GOOD = json.loads(grant_note("static", REQUEST, GRANT))


@pytest.mark.parametrize(
    "note",
    [
        "",
        "{",
        "[]",
        "7",
        "9" * 5000,
        "[" * 5000,
        "{}",
        json.dumps({**GOOD, "version": 2}),
        json.dumps({**GOOD, "version": "1"}),
        json.dumps({**GOOD, "policy": None}),
        json.dumps({**GOOD, "exclusive": "a"}),
        json.dumps({**GOOD, "amounts": {}}),
        json.dumps(GOOD) + " " * MAX_NOTE,
    ],
)
def test_a_note_of_somebody_else_is_none(note: str) -> None:
    """Or one of another version, or a damaged one."""
    assert read_note(note) is None


def test_variables_that_somebody_put_in_are_not_believed() -> None:
    """They are no part of a note."""
    noted = read_note(json.dumps({**GOOD, "envs": {"LD_PRELOAD": "x"}, "command": ["x"]}))
    assert noted is not None
    assert (dict(noted.grant.envs), noted.grant.command) == ({}, None)
