"""When a refused value is tried again."""

from interpose.core.model.cgroup import Level, Parameter
from interpose.hooks.server.reconcile.retry import RetryBackoff, ValueKey

SPOT: ValueKey = (Level.POD, "p", Parameter.CPU_QUOTA)


def test_a_refused_value_waits() -> None:
    """For a second; the reason says why and for how long."""
    holds = RetryBackoff()
    assert holds.record_refusal(SPOT, 5, "no", 10.0)
    assert holds.wait_reason(SPOT, 5, 10.5) == "no; again in 0 s"
    assert holds.wait_reason(SPOT, 5, 11.0) == ""
    assert SPOT in holds
    assert len(holds) == 1


def test_each_refusal_doubles_the_wait_up_to_a_limit() -> None:
    """And only the first is news."""
    holds = RetryBackoff()
    time, waits = 0.0, []
    holds.record_refusal(SPOT, 5, "no", time)
    for _ in range(12):
        wait = next(seconds for seconds in range(1000) if not holds.wait_reason(SPOT, 5, time + seconds))
        waits.append(wait)
        time += wait
        assert not holds.record_refusal(SPOT, 5, "no", time)
    assert waits[:5] == [1, 2, 4, 8, 16]
    assert waits[-1] == 300.0


def test_a_second_refusal_during_the_wait_does_not_prolong_it() -> None:
    """One round may try the same value twice."""
    holds = RetryBackoff()
    holds.record_refusal(SPOT, 5, "no", 0.0)
    assert not holds.record_refusal(SPOT, 5, "still no", 0.0)
    assert holds.wait_reason(SPOT, 5, 0.5).startswith("still no")
    assert holds.wait_reason(SPOT, 5, 1.0) == ""


def test_another_value_starts_anew() -> None:
    """It may be one that is taken."""
    holds = RetryBackoff()
    holds.record_refusal(SPOT, 5, "no", 0.0)
    assert holds.wait_reason(SPOT, 6, 0.5) == ""
    assert holds.record_refusal(SPOT, 6, "no", 0.5)


def test_release_gives_what_was_held() -> None:
    """Once."""
    holds = RetryBackoff()
    holds.record_refusal(SPOT, 5, "no", 0.0)
    hold = holds.release(SPOT)
    assert hold is not None
    assert hold.refusals == 1
    assert holds.release(SPOT) is None


def test_what_is_of_no_interest_is_forgotten() -> None:
    """Targets that are gone leave nothing behind."""
    holds = RetryBackoff()
    holds.record_refusal(SPOT, 5, "no", 0.0)
    holds.record_refusal((Level.POD, "q", Parameter.CPU_QUOTA), 5, "no", 0.0)
    holds.retain(lambda spot: spot[1] == "q")
    assert SPOT not in holds
    assert len(holds) == 1


def test_a_restore_that_is_undone_waits_longer_each_time() -> None:
    """However well it went in between; only the first time is news."""
    holds, time, waits = RetryBackoff(), 0.0, []
    assert not holds.record_undone(SPOT, 5, "no", time)  # it was never put back
    for number in range(12):
        assert holds.record_restore(SPOT, 5) is None
        assert SPOT not in holds
        assert holds.record_undone(SPOT, 5, "undone", time) is (number == 0)
        assert not holds.record_undone(SPOT, 5, "undone", time)  # somebody else looks
        wait = next(seconds for seconds in range(1000) if not holds.wait_reason(SPOT, 5, time + seconds))
        waits.append(wait)
        time += wait
    assert waits[:5] == [1, 2, 4, 8, 16]
    assert waits[-1] == 300.0


def test_a_restore_of_something_else_starts_anew() -> None:
    """So does one of a value that somebody wanted in between; what was refused before is told once."""
    holds = RetryBackoff()
    holds.record_restore(SPOT, 5)
    assert not holds.record_undone(SPOT, 6, "undone", 0.0)
    holds.forget_restore(SPOT)
    assert not holds.record_undone(SPOT, 5, "undone", 0.0)
    holds.record_refusal(SPOT, 5, "no", 0.0)
    hold = holds.record_restore(SPOT, 5)
    assert hold is not None
    assert hold.error == "no"
    assert holds.record_undone(SPOT, 5, "undone", 0.0)


def test_what_was_put_back_on_targets_that_are_gone_is_forgotten() -> None:
    """Nobody can undo it."""
    holds = RetryBackoff()
    holds.record_restore(SPOT, 5)
    holds.retain(lambda _spot: False)
    assert not holds.record_undone(SPOT, 5, "undone", 0.0)
