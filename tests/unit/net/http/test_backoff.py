"""Waits between tries."""

from interpose.net.http.backoff import Backoff


def test_doubles_up_to_a_bound() -> None:
    """Half of the step is certain, the other half is chance."""
    backoff = Backoff(lambda: 1.0, first=0.2, most=1.0)
    assert [backoff.next() for _ in range(5)] == [0.2, 0.4, 0.8, 1.0, 1.0]
    assert Backoff(lambda: 0.0, first=0.2).next() == 0.1


def test_begins_anew_after_a_success() -> None:
    """The next failure is the first one."""
    backoff = Backoff(lambda: 1.0, first=0.2)
    backoff.next()
    backoff.next()
    backoff.reset()
    assert backoff.next() == 0.2


def test_server_asks_for_patience() -> None:
    """At least as long as it says, but not for ever; nonsense is no wish."""
    backoff = Backoff(lambda: 0.0, first=0.2, most=0.2)
    assert backoff.next(7.0) == 7.0
    assert backoff.next(1e9) == 300.0
    assert backoff.next(0.01) == 0.1
    assert backoff.next(0.0) == 0.1
    assert backoff.next(-5.0) == 0.1
    assert Backoff(lambda: 1.0).next(10.0) == 11.0
