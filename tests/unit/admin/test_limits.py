"""What connections share."""

from interpose.admin.limits import BodyBudget, Visit


def test_the_budget_is_never_exceeded_and_comes_back() -> None:
    """What does not fit takes nothing."""
    budget = BodyBudget(10)
    assert budget.take(6)
    assert not budget.take(5)
    assert budget.take(4)
    budget.give_back(6)
    assert (budget.used, budget.take(6)) == (4, True)


def test_a_visit_is_idle_only_while_it_waits() -> None:
    """One that has not been greeted yet is not idle either: nobody may be sent away in the middle of that."""
    visit = Visit()
    assert visit.busy
    visit.rest(7.0)
    assert (visit.busy, visit.idle_since, visit.requests) == (False, 7.0, 0)
    visit.begin()
    assert (visit.busy, visit.requests) == (True, 1)
