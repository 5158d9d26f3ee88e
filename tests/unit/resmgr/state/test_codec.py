"""Grants and amounts as plain values."""

import json
from typing import Any

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.decision import Grant
from interpose.core.policy.request import Amounts, Key, RequestSource
from interpose.resmgr.state.codec import (
    Fields,
    amounts_from_plain,
    amounts_to_plain,
    grant_from_plain,
    grant_to_plain,
    key_from_plain,
    key_to_plain,
)

GRANT = Grant(
    exclusive=CpuSet.parse("2-3"),
    pools=("shared",),
    pinned=False,
    mems=CpuSet.parse("0"),
    shares=512,
    milli=250,
    envs={"A": "1"},
    command=("sh", "-c"),
    details={"pool": "x"},
)
AMOUNTS = Amounts(
    milli=1, limit_milli=2, memory=3, memory_limit=4, extended={"x.io/y": 5}, source=RequestSource.ANNOTATION
)


@pytest.mark.parametrize("grant", [GRANT, Grant()])
def test_a_grant_comes_back(grant: Grant) -> None:
    """A grant is the same after a way through JSON."""
    assert grant_from_plain(json.loads(json.dumps(grant_to_plain(grant)))) == grant


@pytest.mark.parametrize("amounts", [AMOUNTS, Amounts()])
def test_amounts_come_back(amounts: Amounts) -> None:
    """Amounts are the same after a way through JSON."""
    assert amounts_from_plain(json.loads(json.dumps(amounts_to_plain(amounts)))) == amounts


def test_keys_nobody_knows_are_ignored() -> None:
    """Something may be added later."""
    assert grant_from_plain({**grant_to_plain(GRANT), "later": 1}) == GRANT


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"exclusive": "x"}, "grant.exclusive: 'x' is not a list of CPUs: 'x' is neither a number nor a range"),
        ({"exclusive": None}, "grant.exclusive: expected text, found null"),
        ({"pools": "shared"}, "grant.pools: expected a list, found 'shared'"),
        ({"pools": ["a", 1]}, "grant.pools[1]: expected text, found a whole number"),
        ({"pinned": 1}, "grant.pinned: expected true or false, found a whole number"),
        ({"shares": True}, "grant.shares: expected a whole number, found true or false"),
        ({"milli": 1.5}, "grant.milli: expected a whole number, found a number with a fraction"),
        ({"milli": 1 << 63}, "grant.milli: expected a number of 64 bits, found one of 64"),
        ({"details": []}, "grant.details: expected a group of keys, found a list"),
        ({"details": {"a": {}}}, "grant.details['a']: expected text, found a group of keys"),
        ({"command": {}}, "grant.command: expected a list, found a group of keys"),
    ],
)
def test_a_wrong_value_is_named(change: dict[str, Any], problem: str) -> None:
    """The error names the key of the value."""
    with pytest.raises(ValueError) as caught:
        grant_from_plain({**grant_to_plain(GRANT), **change})
    assert str(caught.value) == problem


def test_a_missing_value_is_named() -> None:
    """Nothing is made up."""
    plain = grant_to_plain(GRANT)
    del plain["mems"]
    with pytest.raises(ValueError, match=r"^grant\.mems: is missing$"):
        grant_from_plain(plain)


def test_a_source_nobody_knows_is_named() -> None:
    """With those there are."""
    with pytest.raises(ValueError) as caught:
        amounts_from_plain({**amounts_to_plain(AMOUNTS), "source": "hearsay"})
    assert str(caught.value) == (
        "amounts.source: expected one of annotation, estimate, resize, manifest, found 'hearsay'"
    )


@pytest.mark.parametrize("key", [Key("p", "app"), Key("p", "app", 3), Key("p", "app", 3, 1)])
def test_a_key_comes_back(key: Key) -> None:
    """Through JSON; of a twin only, there is more to say."""
    plain = json.loads(json.dumps(key_to_plain(key)))
    assert key_from_plain(Fields(plain, "key")) == key
    assert ("twin" in plain) is bool(key.duplicate)
