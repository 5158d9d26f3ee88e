"""The breaker as a table of what happens and what state follows."""

import pytest

from interpose.hooks.dispatch.breaker import Breaker, BreakerState


class Bench:
    """A breaker with a clock, and outcomes of whole calls."""

    def __init__(self, **more: float) -> None:
        self.now = 100.0
        self.breaker = Breaker(**more)  # type: ignore[arg-type]
        self.refused = 0

    def ticket(self) -> int:
        """Ask; the answer has to be yes."""
        ticket = self.breaker.enter(self.now)
        assert ticket is not None
        return ticket

    def play(self, story: str) -> BreakerState:
        """One letter per event; see the branches."""
        for event in story.replace(" ", ""):
            if event in "012345678":
                self.now += int(event)
            elif event == "r":
                self.breaker.reset()
            elif (ticket := self.breaker.enter(self.now)) is None:
                self.refused += 1
            elif event == "F":
                self.breaker.record_failure(ticket, self.now)
            elif event == "S":
                self.breaker.record_success(ticket)
            elif event == "A":
                self.breaker.record_abandoned(ticket)
            elif event == "G":
                self.breaker.record_success(ticket)
                self.breaker.retract_success(self.now)
        return self.breaker.state


# S success, F failure, A abandoned, G an answer nobody could read, r the socket came back, digits are seconds.
STORIES = [
    ("", BreakerState.CLOSED, 0, 0),
    ("FF", BreakerState.CLOSED, 0, 0),
    ("FFSFF", BreakerState.CLOSED, 0, 0),
    ("FFAFS", BreakerState.OPEN, 1, 1),
    ("FFF", BreakerState.OPEN, 1, 0),
    ("FFF SS", BreakerState.OPEN, 1, 2),
    ("FFF 1 S", BreakerState.CLOSED, 1, 0),
    ("FFF 1 S FF", BreakerState.CLOSED, 1, 0),
    ("FFF 1 F", BreakerState.OPEN, 2, 0),
    ("FFF 1F 1S", BreakerState.OPEN, 2, 1),
    ("FFF 1F 2S", BreakerState.CLOSED, 2, 0),
    ("FFF 1F 2F 3S", BreakerState.OPEN, 3, 1),
    ("FFF 1F 2F 4S FFF 1S", BreakerState.CLOSED, 4, 0),
    ("FFF 1A S", BreakerState.CLOSED, 1, 0),
    ("FFF r", BreakerState.CLOSED, 1, 0),
    ("FFF r F", BreakerState.OPEN, 2, 0),
    ("FFF r SFF", BreakerState.CLOSED, 1, 0),
    ("FFF r S", BreakerState.CLOSED, 1, 0),
    ("FFF 1F 2F r F S", BreakerState.OPEN, 4, 1),
    ("FFF 1F 2F r F 1S", BreakerState.CLOSED, 4, 0),
    ("FF r F", BreakerState.OPEN, 1, 0),
    ("GG", BreakerState.CLOSED, 0, 0),
    ("GGG", BreakerState.OPEN, 1, 0),
    ("GFG", BreakerState.OPEN, 1, 0),
    ("GGSGG", BreakerState.CLOSED, 0, 0),
    ("FFF 1G", BreakerState.OPEN, 2, 0),
    ("FFF 1G 1S", BreakerState.OPEN, 2, 1),
    ("FFF 1G 2S", BreakerState.CLOSED, 2, 0),
]


@pytest.mark.parametrize(("story", "state", "openings", "refused"), STORIES, ids=[row[0] or "-" for row in STORIES])
def test_stories(story: str, state: BreakerState, openings: int, refused: int) -> None:
    """Where each story ends, how often the breaker opened and whom it sent away."""
    bench = Bench()
    assert bench.play(story) is state
    assert (bench.breaker.openings, bench.refused) == (openings, refused)


def test_half_open_lets_one_through_at_a_time() -> None:
    """The others are refused until the trial has an outcome."""
    bench = Bench()
    bench.play("FFF 1")
    trial = bench.ticket()
    assert bench.play("") is BreakerState.HALF_OPEN
    assert bench.breaker.enter(bench.now) is None
    bench.breaker.record_success(trial)
    bench.ticket()
    bench.ticket()


def test_the_pause_has_a_longest() -> None:
    """Doubled again and again, it stays there."""
    bench = Bench(pause=1.0, longest=5.0)
    bench.play("FFF 1F 2F 4F")
    assert bench.breaker.retry_in(bench.now) == 5.0
    bench.play("5F")
    assert bench.breaker.retry_in(bench.now) == 5.0


def test_the_time_of_the_next_trial() -> None:
    """Known while open, else there is nothing to wait for."""
    bench = Bench()
    assert bench.breaker.retry_in(bench.now) == 0.0
    bench.play("FFF")
    assert bench.breaker.retry_in(bench.now + 0.25) == 0.75
    assert bench.breaker.retry_in(bench.now + 7) == 0.0


def test_calls_that_fail_together_open_it_once() -> None:
    """What began before it opened does not make the pause longer."""
    bench = Bench()
    tickets = [bench.ticket() for _ in range(6)]
    for ticket in tickets:
        bench.breaker.record_failure(ticket, bench.now)
    assert (bench.breaker.openings, bench.breaker.retry_in(bench.now)) == (1, 1.0)


@pytest.mark.parametrize("outcome", ["record_failure", "record_success", "record_abandoned"])
def test_a_late_outcome_is_not_that_of_the_trial(outcome: str) -> None:
    """A call from before it opened ends during the trial: the trial alone decides."""
    bench = Bench()
    late = bench.ticket()
    bench.play("FFF 1")
    trial = bench.ticket()
    if outcome == "record_failure":
        bench.breaker.record_failure(late, bench.now)
    else:
        getattr(bench.breaker, outcome)(late)
    assert bench.play("") is BreakerState.HALF_OPEN
    assert bench.breaker.enter(bench.now) is None
    bench.breaker.record_failure(trial, bench.now)
    assert bench.play("") is BreakerState.OPEN


def test_a_trial_of_the_old_socket_says_nothing_about_the_new_one() -> None:
    """The socket came back during a trial: all may ask at once, whatever becomes of the trial."""
    bench = Bench()
    bench.play("FFF 1")
    old = bench.ticket()
    bench.breaker.reset()
    both = bench.ticket(), bench.ticket()
    bench.breaker.record_failure(old, bench.now)
    assert bench.play("") is BreakerState.CLOSED
    bench.breaker.record_failure(both[0], bench.now)
    assert bench.play("") is BreakerState.OPEN
    bench.breaker.record_failure(both[1], bench.now)
    assert bench.breaker.openings == 2


def test_an_unreadable_late_answer_is_one_failure() -> None:
    """It undoes no success of another call."""
    bench = Bench()
    late = bench.ticket()
    bench.play("FFF 1S")
    bench.breaker.record_success(late)
    bench.breaker.retract_success(bench.now)
    assert bench.play("") is BreakerState.CLOSED
    assert bench.play("FF") is BreakerState.OPEN


def test_disown_while_open_is_nothing() -> None:
    """It is open already."""
    bench = Bench()
    bench.play("FFF")
    bench.breaker.retract_success(bench.now + 0.5)
    assert (bench.breaker.openings, bench.breaker.retry_in(bench.now)) == (1, 1.0)
