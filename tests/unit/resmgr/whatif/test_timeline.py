"""What decisions come to."""

from dataclasses import replace

import pytest

from interpose.core.model.cgroup import KubeQos
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.api import Setup
from interpose.core.policy.decision import Decision
from interpose.core.policy.registry import make
from interpose.core.policy.request import Amounts, Key, Request
from interpose.resmgr.whatif.compare import ComparisonResult, compare
from interpose.resmgr.whatif.timeline import Timeline, TimelineOutcome, TimelineStepKind
from tests.support.policy.machines import machine

SECOND = 1_000_000_000


def request(name: str, cpus: int) -> Request:
    milli = cpus * 1000
    amounts = Amounts(milli=milli, limit_milli=milli, memory=1, memory_limit=1)
    return Request(key=Key(name, "c"), namespace="ns", pod=name, qos=KubeQos.GUARANTEED, amounts=amounts)


class Account:
    """A policy whose decisions are written down at once."""

    def __init__(self) -> None:
        self.policy = make("static", Setup(topology=machine("n4c16"), reserved=CpuSet.parse("0")))
        self.retrospect = Timeline(self.policy)

    def at(self, second: int) -> None:
        """So late it is."""
        self.retrospect.advance(second * SECOND)

    def decide(self, what: TimelineStepKind, one: Request) -> Decision:
        before = self.policy.state.assignment(one.key)
        acts = {TimelineStepKind.CREATE: self.policy.allocate, TimelineStepKind.RESIZE: self.policy.resize}
        decision = acts[what](one) if what in acts else self.policy.release(one.key)
        others = {key: (f"ns/{key.pod_id}/c", True) for key in self.policy.state.grants}
        self.retrospect.add(what, decision, one, before, self.policy.state.assignment, others)
        return decision

    def outcome(self) -> TimelineOutcome:
        """What it came to."""
        return self.retrospect.outcome(strangers=0, guessed=0, without_place=0)


def test_nothing_comes_to_nothing() -> None:
    """Nobody divides by it."""
    summary = Account().outcome().summary
    assert (summary.placed, summary.exclusive_average, summary.agreement) == (0, 0.0, None)


def test_owned_cpus_are_counted_over_time() -> None:
    """Two of them for half of the time, on average one."""
    account = Account()
    account.at(0)
    account.decide(TimelineStepKind.CREATE, request("a", 2))
    account.at(5)
    account.decide(TimelineStepKind.RELEASE, request("a", 2))
    account.at(10)
    outcome = account.outcome()
    assert outcome.summary.exclusive_peak == 2
    assert outcome.summary.exclusive_average == pytest.approx(1.0)
    assert [(stay.title, str(stay.cpus), stay.since_ns, stay.until_ns) for stay in outcome.stays] == [
        ("ns/a/c", "2-3", 0, 5 * SECOND)
    ]


def test_a_stay_ends_where_the_cpus_are_others() -> None:
    """And another one begins; one that goes on ends with the account."""
    account = Account()
    account.at(0)
    account.decide(TimelineStepKind.CREATE, request("a", 2))
    account.at(1)
    account.decide(TimelineStepKind.RESIZE, request("a", 4))
    account.at(3)
    outcome = account.outcome()
    assert [(len(stay.cpus), stay.since_ns, stay.until_ns) for stay in outcome.stays] == [
        (2, 0, SECOND),
        (4, SECOND, 3 * SECOND),
    ]
    assert (outcome.summary.resized, outcome.summary.moves) == (1, 1)


def test_containers_count_once() -> None:
    """However often they were refused before they were placed; not at all if the runtime did not make them."""
    account = Account()
    account.at(0)
    account.decide(TimelineStepKind.CREATE, request("big", 10))
    assert account.decide(TimelineStepKind.CREATE, request("late", 8)).refusal is not None
    account.decide(TimelineStepKind.RELEASE, request("big", 10))
    account.decide(TimelineStepKind.CREATE, request("late", 8))
    account.decide(TimelineStepKind.CREATE, request("failed", 2))
    account.decide(TimelineStepKind.UNDO, request("failed", 2))
    account.decide(TimelineStepKind.CREATE, request("never", 9))
    summary = account.outcome().summary
    assert (summary.placed, summary.refused) == (2, 1)


def test_others_move_only_if_their_sets_are_others() -> None:
    """Shares may change as well; whoever is not there any more does not count."""
    account = Account()
    account.at(0)
    account.decide(TimelineStepKind.CREATE, request("a", 2))
    one = request("b", 2)
    decision = replace(account.policy.allocate(one), changed=(Key("a", "c"), Key("gone", "c")))
    others = {Key(name, "c"): (name, True) for name in ("a", "b")}
    assignment = account.policy.state.assignment
    assert account.retrospect.add(TimelineStepKind.CREATE, decision, one, assignment(one.key), assignment, others) == ()
    assert account.outcome().steps[-1].moved == ()


def test_agreement_is_a_part_of_the_time() -> None:
    """Of all containers together; asking twice changes nothing."""
    account = Account()
    key = Key("a", "c")
    account.at(0)
    account.retrospect.set_result(key, ComparisonResult.OTHER)
    account.at(1)
    account.retrospect.set_result(key, ComparisonResult.OTHER)
    account.retrospect.set_result(key, ComparisonResult.SAME)
    account.at(3)
    account.retrospect.remove(key)
    account.retrospect.remove(key)
    account.retrospect.set_result(Key("b", "c"), ComparisonResult.SAME)
    account.at(4)
    assert account.outcome().summary.agreement == pytest.approx(0.75)
    assert account.outcome().summary.agreement == pytest.approx(0.75)


def test_the_first_comparison_counts() -> None:
    """A create that is tried again is the same container."""
    account = Account()
    for then in (None, account.policy.state.assignment(Key("a", "c"))):
        account.retrospect.add_created(Key("a", "c"), "ns/a/c", compare(then, None))
    outcome = account.outcome()
    assert outcome.summary.results == {ComparisonResult.REFUSED_BOTH: 1}
    assert [title for title, _ in outcome.comparisons.values()] == ["ns/a/c"]
