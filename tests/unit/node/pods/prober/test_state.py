"""The rules of probes."""

import pytest

from interpose.node.pods.prober.state import ProbeKind, ProbeState, probes_of
from interpose.node.pods.spec import ExecAction, Probe
from tests.support.node.managed_node import container


def track(kind: ProbeKind = ProbeKind.LIVENESS, **fields: int) -> ProbeState:
    """A probe of a container that has just begun to run, at second 100."""
    probe = Probe(action=ExecAction(command=("true",)), **fields)
    made = ProbeState(kind=kind, container=container(), probe=probe)
    made.update("a", running=True, now=100.0, age=0.0)
    return made


def test_a_container_has_the_probes_of_its_manifest() -> None:
    """None of which it does not name."""
    probe = Probe(action=ExecAction(command=("true",)))
    assert probes_of(container()) == {}
    assert probes_of(container(readiness=probe)) == {ProbeKind.READINESS: probe}


def test_nobody_is_asked_before_the_initial_delay() -> None:
    """It counts from the start of the container."""
    one = track(initial_delay=5)
    assert not one.is_due(104.9, started=True)
    assert one.is_due(105.0, started=True)


@pytest.mark.parametrize(("age", "due"), [(0.0, 100.0 + 5), (2.0, 100.0 + 3), (60.0, 100.0), (-3600.0, 100.0 + 5)])
def test_the_initial_delay_is_never_longer_than_it_is(age: float, due: float) -> None:
    """Part of it may be over when the container is seen first; a start in the future is a clock that was set."""
    one = ProbeState(kind=ProbeKind.LIVENESS, container=container(), probe=track(initial_delay=5).probe)
    one.update("a", running=True, now=100.0, age=age)
    assert one.due == due


def test_the_initial_delay_begins_when_the_container_does() -> None:
    """Not when it is created, and only once."""
    one = ProbeState(kind=ProbeKind.LIVENESS, container=container(), probe=track(initial_delay=5).probe)
    one.update("a", running=False, now=100.0, age=1e9)
    one.update("a", running=True, now=200.0, age=0.0)
    assert one.due == 205.0
    one.update("a", running=True, now=204.0, age=-3600.0)
    assert one.due == 205.0


def test_the_next_asking_is_a_period_later() -> None:
    """Counted from the beginning of the one before."""
    one = track(period=7)
    one.mark_begun(100.0)
    assert one.due == 107.0
    assert not one.is_due(106.9, started=True)


def test_a_single_failure_below_the_threshold_changes_nothing() -> None:
    """And a success in between begins the row anew."""
    one = track(failure_threshold=2)
    assert not one.add_outcome("a", False, "no")
    assert one.words == "no"
    one.add_outcome("a", True)
    assert one.words == ""
    assert not one.add_outcome("a", False)
    assert one.result is True
    assert one.add_outcome("a", False)
    assert one.result is False


def test_success_has_a_threshold_too() -> None:
    """Of readiness probes it may be more than one."""
    one = track(ProbeKind.READINESS, success_threshold=2)
    assert not one.add_outcome("a", True)
    assert one.result is False
    assert one.add_outcome("a", True)
    assert one.result is True


@pytest.mark.parametrize("kind", [ProbeKind.LIVENESS, ProbeKind.STARTUP])
def test_a_container_that_is_to_be_ended_is_not_asked_again(kind: ProbeKind) -> None:
    """Its successor is."""
    one = track(kind, failure_threshold=1)
    assert one.add_outcome("a", False)
    assert not one.is_due(1000.0, started=kind is ProbeKind.LIVENESS)
    assert one.next_due(started=kind is ProbeKind.LIVENESS) is None
    one.update("b", running=True, now=1000.0, age=0.0)
    assert one.result is None
    assert one.is_due(1000.0, started=kind is ProbeKind.LIVENESS)


def test_readiness_is_asked_again_after_failures() -> None:
    """Who is not ready may become it."""
    one = track(ProbeKind.READINESS, failure_threshold=1)
    one.add_outcome("a", False)
    assert one.is_due(1000.0, started=True)
    assert one.add_outcome("a", True)


def test_before_the_start_only_the_startup_probe_is_asked() -> None:
    """And it is not asked any more afterwards."""
    startup, liveness = track(ProbeKind.STARTUP), track()
    assert startup.is_due(200.0, started=False)
    assert startup.next_due(started=False) == 100.0
    assert not liveness.is_due(200.0, started=False)
    assert liveness.next_due(started=False) is None
    startup.add_outcome("a", True)
    assert not startup.is_due(200.0, started=True)
    assert startup.next_due(started=True) is None
    assert liveness.next_due(started=True) == 100.0


def test_readiness_is_false_until_it_is_said() -> None:
    """Of the others nothing is known."""
    assert track(ProbeKind.READINESS).result is False
    assert track().result is None


def test_a_container_that_does_not_run_is_not_ready_and_not_asked() -> None:
    """Whatever it said before."""
    one = track(ProbeKind.READINESS)
    one.add_outcome("a", True)
    one.update("a", running=False, now=100.0, age=0.0)
    assert one.result is False
    assert not one.is_due(200.0, started=True)
    liveness = track()
    liveness.add_outcome("a", True)
    liveness.update("a", running=False, now=100.0, age=0.0)
    assert liveness.result is True


def test_an_answer_about_an_earlier_container_is_none() -> None:
    """It was asked before, and came late."""
    one = track(failure_threshold=1)
    one.update("b", running=True, now=200.0, age=0.0)
    assert not one.add_outcome("a", False)
    assert one.result is None
    one.update("b", running=False, now=200.0, age=0.0)
    assert not one.add_outcome("b", False)


def test_why_it_could_not_be_asked_is_kept_and_counts_for_nothing() -> None:
    """Nor for a container that came after it."""
    one = track(ProbeKind.READINESS, failure_threshold=1)
    one.mark_unavailable("a", "no such program")
    one.mark_unavailable("before", "gone")
    assert (one.words, one.result) == ("no such program", False)
    assert one.add_outcome("a", True)
    assert one.words == ""
