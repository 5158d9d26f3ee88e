"""Decisions are values: nothing is written unless it is said."""

import dataclasses

import pytest

from interpose.core.model.cpuset import EMPTY
from interpose.core.policy.decision import Action, Assignment, Decision, Grant
from interpose.core.policy.request import Key


def test_a_plain_grant_is_pinned_and_writes_nothing_else() -> None:
    """Memory nodes, shares, command stay as they are."""
    grant = Grant()
    assert grant.pinned
    assert (grant.exclusive, grant.pools, grant.mems, grant.shares, grant.command) == (EMPTY, (), None, None, None)
    assert (dict(grant.envs), dict(grant.details)) == ({}, {})


def test_a_plain_assignment_writes_nothing() -> None:
    """None is not the empty set."""
    assert Assignment() == Assignment(cpus=None, mems=None, shares=None)
    assert Assignment(cpus=EMPTY) != Assignment()


def test_decisions_cannot_be_changed() -> None:
    """They are handed to everybody."""
    decision = Decision(action=Action.RELEASE, key=Key("pod", "a"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        decision.reason = "another"  # type: ignore[misc]
