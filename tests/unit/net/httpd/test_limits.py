"""What connections share."""

import pytest

from interpose.net.httpd.limits import BodyBudget, HttpSession, Stage, choose_eviction


def test_the_budget_is_never_exceeded_and_comes_back() -> None:
    """What does not fit takes nothing."""
    budget = BodyBudget(10)
    assert budget.take(6)
    assert not budget.take(5)
    assert budget.take(4)
    budget.give_back(6)
    assert (budget.used, budget.take(6)) == (4, True)


def test_a_visit_is_busy_from_the_first_byte_to_the_last() -> None:
    """Until it has had an answer it is new, whatever it has sent."""
    session = HttpSession(since=1.0)
    assert (session.busy, session.stage) == (False, Stage.NEW)
    session.on_request(2.0)
    assert (session.busy, session.stage, session.requests, session.since) == (True, Stage.NEW, 1, 1.0)
    session.on_request_complete(3.0)
    assert (session.busy, session.stage, session.since) == (True, Stage.WORKING, 3.0)
    session.on_response(4.0)
    assert (session.busy, session.stage, session.since) == (True, Stage.UNDER_WAY, 4.0)
    session.on_idle(5.0)
    assert (session.busy, session.stage, session.since) == (False, Stage.IDLE, 5.0)
    session.on_request(6.0)
    assert (session.busy, session.stage, session.requests, session.since) == (True, Stage.UNDER_WAY, 2, 6.0)


NEW, IDLE, UNDER_WAY, WORKING = Stage


@pytest.mark.parametrize(
    ("clients", "expected"),
    [
        ([], None),
        ([("a", 1.0, WORKING)], None),
        # Who never had an answer goes before who had one, however long that was ago.
        ([("a", 1.0, IDLE), ("b", 9.0, NEW), ("c", 2.0, UNDER_WAY)], 1),
        # The oldest of them.
        ([("a", 3.0, NEW), ("a", 2.0, NEW), ("a", 4.0, NEW)], 1),
        # An address that has many gives one of its own.
        ([("a", 1.0, NEW), ("b", 2.0, NEW), ("b", 3.0, NEW)], 1),
        ([("a", 1.0, IDLE), ("b", 3.0, UNDER_WAY), ("b", 2.0, UNDER_WAY)], 2),
        # Of those who had an answer one that wants nothing goes first.
        ([("a", 1.0, UNDER_WAY), ("a", 2.0, IDLE), ("a", 3.0, WORKING)], 1),
        # Shares are counted for each kind: an API server with many idle connections may open a new one.
        ([("a", 1.0, IDLE), ("a", 2.0, IDLE), ("a", 5.0, NEW), ("b", 3.0, NEW), ("b", 4.0, NEW)], 3),
    ],
)
def test_who_goes_first(clients: list[tuple[str, float, Stage]], expected: int | None) -> None:
    """One after the other."""
    sessions = [HttpSession(address=address, since=since, stage=stage) for address, since, stage in clients]
    assert choose_eviction(sessions) is (None if expected is None else sessions[expected])
