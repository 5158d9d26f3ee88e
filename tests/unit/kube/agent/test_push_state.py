"""When a push is due, and what is told about it."""

from dataclasses import replace
from typing import Any

import pytest

from interpose.kube.agent.config_choice import ChoiceResult, ConfigChoice, SelectedConfig
from interpose.kube.agent.push_state import UNREACHABLE_AFTER, Push, PushPhase, PushPlan

INTERVAL = 2.0
GRACE = 30.0


def chosen(text: str, *, source: str = "ns/a", version: str = "1") -> SelectedConfig:
    """A configuration."""
    return SelectedConfig(source=source, version=version, data={"policy": text} if text else {})


def choice(text: str, *, gone: bool = False, **more: Any) -> ConfigChoice:
    """It is what the cluster wants."""
    return ConfigChoice(verdict=ChoiceResult.CHOSEN, chosen=chosen(text, **more), gone=gone)


MISSING = ConfigChoice(verdict=ChoiceResult.MISSING)
WAIT = ConfigChoice(verdict=ChoiceResult.WAIT)
UNUSABLE = ConfigChoice(verdict=ChoiceResult.UNUSABLE, chosen=chosen("bad"), problems=("too large",))


def plan(*, withdraw: bool = True, up: bool = True, patience: float = UNREACHABLE_AFTER) -> PushPlan:
    """Without chance: pauses are half their step."""
    made = PushPlan(interval=INTERVAL, grace=GRACE, withdraw=withdraw, chance=lambda: 0.0, unreachable_after=patience)
    if up:
        made.connection(1, "", 0.0)
    return made


def begun(made: PushPlan, now: float) -> Push:
    """There is a push, and this is it."""
    push = made.begin(now)
    assert push is not None
    return push


def phase(made: PushPlan, now: float) -> PushPhase:
    """How it stands."""
    return made.state(now, 0.0).phase


def in_force(text: str = "one", **more: Any) -> PushPlan:
    """Something was accepted at 0."""
    made = plan(**more)
    made.consider(choice(text), 0.0)
    begun(made, 0.0)
    made.accepted()
    return made


# -- reasons to push


def test_first_push_is_due_at_once() -> None:
    """As soon as something is wanted."""
    made = plan()
    assert made.begin(0.0) is None
    made.consider(choice("one"), 0.0)
    assert made.due(0.0) == 0.0
    assert begun(made, 0.0).data == {"policy": "one"}


def test_relay_must_be_there() -> None:
    """Nothing is due before."""
    made = plan(up=False)
    made.consider(choice("one"), 0.0)
    assert made.begin(0.0) is None
    assert made.due(0.0) is None
    made.connection(1, "", 1.0)
    assert begun(made, 1.0).session == 1


def test_one_at_a_time() -> None:
    """The next one waits for the answer."""
    made = plan()
    made.consider(choice("one"), 0.0)
    begun(made, 0.0)
    made.consider(choice("two"), 5.0)
    assert made.begin(5.0) is None
    assert made.due(5.0) is None


def test_accepted_is_not_pushed_again() -> None:
    """There is no reason."""
    made = in_force()
    made.consider(choice("one"), 10.0)
    assert made.due(10.0) is None
    assert made.begin(1000.0) is None


def test_another_version_of_the_same_is_no_news() -> None:
    """Nor is it pushed, nor told."""
    made = in_force()
    before = made.state(1.0, 0.0)
    made.consider(choice("one", version="2"), 1.0)
    assert made.begin(10.0) is None
    assert made.state(10.0, 0.0) == before


def test_same_content_from_another_map_is_told_and_not_pushed() -> None:
    """The relay does not care where it is from, people do."""
    made = in_force()
    made.consider(choice("one", source="ns/b"), 1.0)
    assert made.begin(10.0) is None
    state = made.state(10.0, 0.0)
    assert state.phase is PushPhase.APPLIED
    assert state.chosen is not None
    assert state.chosen.source == "ns/b"


def test_pushes_are_an_interval_apart() -> None:
    """And the newest wish is what is pushed."""
    made = in_force()
    made.consider(choice("two"), 0.5)
    made.consider(choice("three"), 0.6)
    assert made.due(0.6) == INTERVAL
    assert made.begin(1.9) is None
    assert begun(made, 2.0).data == {"policy": "three"}


def test_wish_that_came_back_is_not_pushed() -> None:
    """It is in force."""
    made = in_force()
    made.consider(choice("two"), 0.5)
    made.consider(choice("one"), 0.6)
    assert made.begin(10.0) is None
    assert phase(made, 10.0) is PushPhase.APPLIED


def test_other_wish_during_a_push_follows_it() -> None:
    """What was accepted is not what is wanted."""
    made = plan()
    made.consider(choice("one"), 0.0)
    begun(made, 0.0)
    made.consider(choice("two"), 1.0)
    made.accepted()
    assert phase(made, 1.0) is PushPhase.WAITING
    assert begun(made, 2.0).data == {"policy": "two"}


def test_relay_that_is_there_anew_is_sent_it_again() -> None:
    """It may have forgotten everything."""
    made = in_force()
    made.connection(None, "gone", 5.0)
    made.connection(2, "", 6.0)
    assert begun(made, 6.0).data == {"policy": "one"}


def test_relay_that_came_anew_during_a_push() -> None:
    """The answer was from the one before."""
    made = plan()
    made.consider(choice("one"), 0.0)
    begun(made, 0.0)
    made.connection(2, "", 1.0)
    made.accepted()
    assert begun(made, 2.0).session == 2


# -- failures


def test_failed_push_is_repeated_after_longer_and_longer_pauses() -> None:
    """Up to a minute."""
    made = plan(patience=9999.0)
    made.consider(choice("one"), 0.0)
    now, pauses = 0.0, []
    for _ in range(10):
        begun(made, now)
        made.failed("oh", now)
        due = made.due(now)
        assert due is not None
        pauses.append(due - now)
        now = due
    assert pauses == [2.0, 2.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0, 30.0]


def test_other_wish_after_a_failure_does_not_wait() -> None:
    """Longer than the interval."""
    made = plan()
    made.consider(choice("one"), 0.0)
    for now in (0.0, 10.0, 20.0, 30.0, 40.0):
        begun(made, now)
        made.failed("oh", now)
    made.consider(choice("two"), 41.0)
    assert begun(made, 42.0).data == {"policy": "two"}


def test_relay_that_comes_back_after_a_failure_is_sent_it_at_once() -> None:
    """That is what the failure was about."""
    made = plan()
    made.consider(choice("one"), 0.0)
    begun(made, 0.0)
    made.failed("lost", 0.0)
    made.connection(None, "gone", 0.0)
    made.connection(2, "", 0.1)
    assert begun(made, 2.0).session == 2


def test_relay_that_goes_down_again_and_again_is_spared() -> None:
    """It may be the configuration that does it."""
    made = plan()
    made.consider(choice("one"), 0.0)
    now = 0.0
    for session in range(2, 8):
        begun(made, now)
        made.failed("lost", now)
        made.connection(session, "", now)
        now += 20.0
    made.connection(99, "", now - 15.0)
    assert made.begin(now - 15.0) is None


def test_rejected_is_repeated_slowly() -> None:
    """A refusal may be about the moment."""
    made = plan()
    made.consider(choice("one"), 0.0)
    now, pauses = 0.0, []
    for _ in range(7):
        begun(made, now)
        made.rejected(("no",), now)
        due = made.due(now)
        assert due is not None
        pauses.append(due - now)
        now = due
    assert pauses == [15.0, 30.0, 60.0, 120.0, 240.0, 300.0, 300.0]


def test_rejected_and_then_accepted() -> None:
    """The moment came."""
    made = plan()
    made.consider(choice("one"), 0.0)
    begun(made, 0.0)
    made.rejected(("no",), 0.0)
    assert phase(made, 0.0) is PushPhase.REJECTED
    begun(made, 15.0)
    made.accepted()
    assert made.state(15.0, 3.0).is_same(in_force().state(0.0, 4.0))


def test_answer_without_a_push() -> None:
    """A mistake of ours is not overlooked."""
    with pytest.raises(RuntimeError):
        plan().accepted()


# -- missing


def test_missing_is_withdrawn_after_its_grace() -> None:
    """Delete and create again is how some people edit."""
    made = in_force()
    made.consider(MISSING, 10.0)
    made.consider(MISSING, 20.0)
    assert made.due(20.0) == 40.0
    assert made.begin(39.0) is None
    assert begun(made, 40.0) == Push(data={}, session=1, chosen=None)
    assert phase(made, 40.0) is PushPhase.WAITING
    made.accepted()
    assert phase(made, 40.0) is PushPhase.WITHDRAWN
    made.consider(MISSING, 50.0)
    assert made.due(50.0) is None


def test_missing_and_there_again() -> None:
    """Nothing happened."""
    made = in_force()
    made.consider(MISSING, 10.0)
    made.consider(choice("one", version="2"), 20.0)
    assert made.begin(100.0) is None
    assert phase(made, 100.0) is PushPhase.APPLIED


def test_missing_and_out_of_sight() -> None:
    """What is not known is not missing."""
    made = in_force()
    made.consider(MISSING, 10.0)
    made.consider(WAIT, 20.0)
    assert made.begin(100.0) is None


def test_missing_is_kept_if_that_is_wanted() -> None:
    """That is told after the grace. The relay is even sent it again."""
    made = in_force(withdraw=False)
    made.consider(MISSING, 10.0)
    assert phase(made, 10.0) is PushPhase.APPLIED
    assert made.begin(100.0) is None
    assert phase(made, 100.0) is PushPhase.KEPT
    made.consider(MISSING, 100.0)
    assert made.due(100.0) is None
    made.connection(2, "", 101.0)
    assert begun(made, 101.0).data == {"policy": "one"}


def test_empty_map_is_applied_and_not_withdrawn() -> None:
    """To the relay it is the same."""
    made = in_force("")
    assert phase(made, 0.0) is PushPhase.APPLIED
    made.consider(MISSING, 1.0)
    assert made.begin(100.0) is None
    assert phase(made, 100.0) is PushPhase.WITHDRAWN


# -- unusable


def test_unusable_is_told_and_not_pushed() -> None:
    """What is in force stays."""
    made = in_force()
    made.consider(UNUSABLE, 5.0)
    assert made.begin(100.0) is None
    assert made.due(100.0) is None
    state = made.state(100.0, 0.0)
    assert (state.phase, state.problems) == (PushPhase.REJECTED, ("too large",))
    assert state.last_good == chosen("one")


def test_unusable_and_then_mended() -> None:
    """It is pushed, or was in force all the time."""
    made = in_force()
    made.consider(UNUSABLE, 5.0)
    made.consider(choice("one"), 6.0)
    assert made.begin(100.0) is None
    assert phase(made, 100.0) is PushPhase.APPLIED


@pytest.mark.parametrize(("withdraw", "expected"), [(True, PushPhase.WAITING), (False, PushPhase.KEPT)])
def test_unusable_and_then_missing(withdraw: bool, expected: PushPhase) -> None:
    """Nothing is wrong with a map that is gone."""
    made = plan(withdraw=withdraw)
    made.consider(UNUSABLE, 0.0)
    made.consider(MISSING, 1.0)
    assert phase(made, 1.0) is PushPhase.REJECTED
    made.begin(31.0)
    assert phase(made, 31.0) is expected


# -- a map that is gone, and another one in its place


def test_lower_map_counts_after_the_grace() -> None:
    """The one that is gone may be on its way back."""
    made = in_force()
    made.consider(choice("two", source="ns/b", gone=True), 10.0)
    made.consider(choice("three", source="ns/b", gone=True), 20.0)
    assert phase(made, 20.0) is PushPhase.APPLIED
    assert made.went_by == "ns/a"
    assert made.due(20.0) == 40.0
    assert begun(made, 40.0).data == {"policy": "three"}
    assert made.went_by == "ns/b"


def test_map_that_is_replaced() -> None:
    """Deleted and created again: the one below it is never in force."""
    made = in_force()
    made.consider(choice("two", source="ns/b", gone=True), 10.0)
    made.consider(choice("one", version="9"), 11.0)
    assert made.begin(100.0) is None
    assert phase(made, 100.0) is PushPhase.APPLIED


def test_higher_map_counts_at_once() -> None:
    """Nothing is gone."""
    made = in_force()
    made.consider(choice("two", source="ns/higher"), 10.0)
    assert begun(made, 10.0).data == {"policy": "two"}


def test_lower_map_that_cannot_be_used_is_told_after_the_grace() -> None:
    """As it would be sent."""
    made = in_force()
    made.consider(replace(UNUSABLE, gone=True), 10.0)
    assert phase(made, 10.0) is PushPhase.APPLIED
    assert made.begin(40.0) is None
    assert phase(made, 40.0) is PushPhase.REJECTED


@pytest.mark.parametrize(
    "wanted", [MISSING, ConfigChoice(verdict=ChoiceResult.CHOSEN, chosen=chosen("two"), gone=True)]
)
def test_grace_runs_only_while_somebody_knows(wanted: ConfigChoice) -> None:
    """It begins anew when the API server is back."""
    made = in_force()
    made.consider(wanted, 10.0)
    made.consider(replace(wanted, sure=False), 15.0)
    assert made.begin(100.0) is None
    made.consider(wanted, 101.0)
    assert made.due(101.0) == 131.0
    assert begun(made, 131.0).data != {"policy": "one"}


# -- nothing that may be seen


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (ConfigChoice(verdict=ChoiceResult.UNSEEN, notes=("a may not be read",), before="ns/a"), PushPhase.KEPT),
        (
            ConfigChoice(verdict=ChoiceResult.FORBIDDEN, problems=("a may not be read",), before="ns/a"),
            PushPhase.FORBIDDEN,
        ),
    ],
)
def test_what_may_not_be_seen_changes_nothing(said: ConfigChoice, expected: PushPhase) -> None:
    """It is told, with the map that the node goes by."""
    made = in_force()
    made.consider(said, 10.0)
    assert made.begin(100.0) is None
    state = made.state(100.0, 0.0)
    assert (state.phase, state.problems, state.source) == (expected, ("a may not be read",), "ns/a")
    made.connection(2, "", 101.0)
    assert begun(made, 101.0).data == {"policy": "one"}


def test_what_may_not_be_seen_by_an_agent_that_has_just_started() -> None:
    """Nothing is sent to a relay that may have something."""
    made = plan()
    made.consider(ConfigChoice(verdict=ChoiceResult.UNSEEN), 0.0)
    assert made.begin(100.0) is None
    assert made.state(100.0, 0.0).source == ""
    assert made.went_by is None


def test_seen_again() -> None:
    """All is well."""
    made = in_force()
    made.consider(ConfigChoice(verdict=ChoiceResult.FORBIDDEN), 10.0)
    made.consider(choice("one"), 20.0)
    assert phase(made, 20.0) is PushPhase.APPLIED


# -- a relay that has forgotten


def test_new_relay_gets_the_last_good_before_what_was_rejected() -> None:
    """What was in force stays in force, also if the relay lost it; then the other one is tried again."""
    made = in_force()
    made.consider(choice("bad"), 5.0)
    begun(made, 5.0)
    made.rejected(("no",), 5.0)
    made.connection(2, "", 10.0)
    assert begun(made, 10.0) == Push(data={"policy": "one"}, session=2, chosen=chosen("one"), again=True)
    assert phase(made, 10.0) is PushPhase.REJECTED
    made.accepted()
    assert phase(made, 10.0) is PushPhase.REJECTED
    assert begun(made, 12.0).data == {"policy": "bad"}
    made.rejected(("no",), 12.0)
    due = made.due(12.0)
    assert due is not None
    assert due >= 27.0
    assert begun(made, due).data == {"policy": "bad"}


@pytest.mark.parametrize("said", [UNUSABLE, MISSING])
def test_new_relay_gets_the_last_good_while_there_is_nothing_to_send(said: ConfigChoice) -> None:
    """Once."""
    made = in_force(withdraw=False)
    made.consider(UNUSABLE, 5.0)
    made.consider(said, 6.0)
    made.begin(36.0)
    made.connection(2, "", 40.0)
    assert begun(made, 40.0).again
    made.accepted()
    assert made.due(41.0) is None


def test_last_good_that_is_good_no_more() -> None:
    """It is not sent again, and what is wanted is."""
    made = in_force()
    made.consider(choice("bad"), 5.0)
    begun(made, 5.0)
    made.rejected(("no",), 5.0)
    made.connection(2, "", 10.0)
    begun(made, 10.0)
    made.rejected(("no",), 10.0)
    assert begun(made, 12.0).data == {"policy": "bad"}
    assert made.state(12.0, 0.0).problems == ("no",)


def test_last_good_that_did_not_arrive_is_sent_again() -> None:
    """After a pause, as everything is."""
    made = in_force()
    made.consider(UNUSABLE, 5.0)
    made.connection(2, "", 10.0)
    for now in (10.0, 12.0, 14.0):
        assert begun(made, now).again
        made.failed("oh", now)
    assert made.due(14.0) == 16.0


def test_last_good_is_wanted_again() -> None:
    """It is confirmed as what is wanted."""
    made = in_force()
    made.consider(UNUSABLE, 5.0)
    made.connection(2, "", 10.0)
    begun(made, 10.0)
    made.accepted()
    made.consider(choice("one"), 11.0)
    assert not begun(made, 12.0).again
    made.accepted()
    assert phase(made, 12.0) is PushPhase.APPLIED


def test_last_good_that_was_rejected_later_is_what_is_wanted() -> None:
    """There is nothing to fall back on."""
    made = in_force()
    made.connection(2, "", 5.0)
    begun(made, 5.0)
    made.rejected(("not now",), 5.0)
    made.connection(3, "", 10.0)
    assert not begun(made, 10.0).again


def test_nothing_to_fall_back_on_after_a_withdrawal() -> None:
    """The relay's own settings are in force."""
    made = in_force()
    made.consider(MISSING, 0.0)
    begun(made, 30.0)
    made.accepted()
    made.consider(UNUSABLE, 40.0)
    made.connection(2, "", 41.0)
    assert made.begin(50.0) is None


# -- trouble


def test_nothing_wanted_is_waiting() -> None:
    """Whatever the relay does."""
    made = plan(up=False)
    made.connection(None, "refused", 0.0)
    assert phase(made, 1000.0) is PushPhase.WAITING


def test_relay_that_is_away_for_long_is_told() -> None:
    """A restart is not worth a word."""
    made = in_force()
    made.connection(None, "refused", 5.0)
    assert phase(made, 5.0 + UNREACHABLE_AFTER - 1) is PushPhase.APPLIED
    assert made.due(5.0) == 5.0 + UNREACHABLE_AFTER
    state = made.state(5.0 + UNREACHABLE_AFTER, 0.0)
    assert (state.phase, state.problems) == (PushPhase.UNREACHABLE, ("refused",))
    assert made.due(5.0 + UNREACHABLE_AFTER) is None


def test_calls_that_fail_for_long_are_told_too() -> None:
    """A relay that is there and does not answer is of no use."""
    made = in_force()
    made.connection(2, "", 5.0)
    begun(made, 5.0)
    made.failed("DEADLINE_EXCEEDED: no answer", 20.0)
    begun(made, 22.0)
    made.failed("DEADLINE_EXCEEDED: no answer", 37.0)
    assert made.state(37.0, 0.0).problems == ("DEADLINE_EXCEEDED: no answer",)


@pytest.mark.parametrize("refused", [True, False])
def test_trouble_ends_with_an_answer(refused: bool) -> None:
    """Also with a refusal."""
    made = in_force()
    made.connection(None, "refused", 5.0)
    made.connection(2, "", 50.0)
    assert phase(made, 50.0) is PushPhase.APPLIED
    begun(made, 50.0)
    made.failed("oh", 50.0)
    begun(made, 70.0)
    if refused:
        made.rejected(("no",), 70.0)
    else:
        made.accepted()
    assert phase(made, 70.0) is (PushPhase.REJECTED if refused else PushPhase.APPLIED)


def test_another_generation_that_says_the_same_is_told_and_not_sent() -> None:
    """The relay has it already; the object has to say so of the newest generation."""
    made = plan()
    made.consider(replace(choice("one"), chosen=replace(chosen("one"), generation=1)), 0.0)
    begun(made, 0.0)
    made.accepted()
    made.consider(replace(choice("one"), chosen=replace(chosen("one"), generation=2)), 5.0)
    assert made.begin(100.0) is None
    state = made.state(100.0, 0.0)
    assert state.phase is PushPhase.APPLIED
    assert state.chosen is not None
    assert state.chosen.generation == 2
