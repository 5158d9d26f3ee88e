"""The table of rounds: medians, and whether the target is met."""

from bench.hookserver_reconcile import PODS, Rounds, as_text


def rounds(*cpu: float, pods: int = PODS) -> Rounds:
    """Rounds that cost so much."""
    return Rounds(version="v1", pods=pods, values=2524, cpu=cpu, wall=[0.2])


def test_the_median_counts() -> None:
    """One slow round is shown, and no more."""
    assert rounds(0.1, 0.9, 0.2).met
    line = as_text([rounds(0.1, 0.9, 0.2)]).splitlines()[1]
    assert line.split() == ["v1", "500", "2524", "200", "(900)", "200", "CPU", "<=", "250", "ms", "met"]


def test_a_missed_target_is_seen() -> None:
    """In capitals."""
    assert "MISSED" in as_text([rounds(0.3)])


def test_the_target_is_for_the_usual_number_of_pods() -> None:
    """Of others nothing is said."""
    assert "CPU <=" not in as_text([rounds(0.3, pods=5000)])
