"""Delays between tries."""

import pytest

from interpose.core.backoff import Backoff


def test_doubles_up_to_a_bound() -> None:
    """Each delay is twice the one before, until the bound is reached."""
    backoff = Backoff(0.2, 1.0)
    assert [backoff.next() for _ in range(5)] == [0.2, 0.4, 0.8, 1.0, 1.0]
    assert backoff.failures == 5


def test_first_delay_is_bounded_too() -> None:
    """A bound below the first delay is the bound all the same."""
    assert Backoff(5.0, 1.0).next() == 1.0


def test_jitter_shortens_a_delay() -> None:
    """By default half of a delay is certain, the other half is chance."""
    assert Backoff(0.2, 1.0, random=lambda: 0.0).next() == 0.1
    assert Backoff(0.2, 1.0, random=lambda: 1.0).next() == 0.2
    assert Backoff(0.2, 1.0, random=lambda: 0.0, jitter=0.1).next() == pytest.approx(0.18)


def test_begins_again_after_a_success() -> None:
    """After a success the next failure is the first one."""
    backoff = Backoff(0.2, 1.0)
    backoff.next()
    backoff.next()
    backoff.reset()
    assert backoff.next() == 0.2


def test_callers_may_count_for_themselves() -> None:
    """A delay for a number of failures leaves the count alone; no failure is no delay."""
    backoff = Backoff(0.2, 1.0)
    assert [backoff.delay(failures) for failures in range(4)] == [0.0, 0.2, 0.4, 0.8]
    assert backoff.failures == 0


def test_many_failures_are_no_overflow() -> None:
    """A peer that was away for days is tried again like one that was away for a minute."""
    assert Backoff(0.25, 30.0).delay(1_000_000) == 30.0


def test_server_asks_for_a_pause() -> None:
    """The delay is at least what the server asks for, but not for ever; nonsense is ignored."""
    backoff = Backoff(0.2, 0.2, random=lambda: 0.0)
    assert backoff.next(7.0) == 7.0
    assert backoff.next(1e9) == 300.0
    assert backoff.next(0.01) == 0.1
    assert backoff.next(0.0) == 0.1
    assert backoff.next(-5.0) == 0.1
    assert Backoff(0.2, 30.0, random=lambda: 1.0).next(10.0) == 11.0
    assert Backoff(0.2, 30.0).next(10.0) == 10.0
