"""What a round did, as a value."""

import pytest

from interpose.node.pods.sync.result import StepReason, SyncResult, SyncStep, SyncStepKind, without_countdown


def test_a_round_is_good_if_all_its_steps_are() -> None:
    """One that did nothing is."""
    good = SyncStep(act=SyncStepKind.START, target="a")
    bad = SyncStep(act=SyncStepKind.START, target="b", error="no", reason=StepReason.CREATE)
    assert SyncResult().ok
    assert SyncResult(steps=(good,)).ok
    assert not SyncResult(steps=(good, bad)).ok
    assert SyncResult(steps=(good, bad)).errors == (bad,)


def test_a_step_that_waits_has_not_failed_for_good() -> None:
    """The two back-offs."""
    waits = {
        reason
        for reason in StepReason
        if SyncStep(act=SyncStepKind.START, target="a", error="x", reason=reason).is_waiting
    }
    assert waits == {StepReason.CRASH_LOOP, StepReason.IMAGE_BACKOFF}


@pytest.mark.parametrize(
    ("message", "rest"),
    [
        ("back-off 10 s: next start in 8 s", "back-off 10 s"),
        ("Back-off pulling image 'b': no: next try in 299 s", "Back-off pulling image 'b': no"),
        ("next start in 8 s", ""),
        ("took 8 s", "took 8 s"),
    ],
)
def test_how_long_it_still_takes_is_not_what_is_said(message: str, rest: str) -> None:
    """The same wait has the same words."""
    assert without_countdown(message) == rest
