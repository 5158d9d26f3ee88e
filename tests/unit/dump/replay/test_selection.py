"""Which calls are made again."""

from typing import Any

import pytest

from interpose.cri.methods import METHODS
from interpose.dump.model.call import Flow
from interpose.dump.model.frames import Flags
from interpose.dump.replay.selection import EFFECTS, ReplayChoices, ReplayEffect, omit_reason
from interpose.testing.recordings import Script
from tests.support.dump.recorded_node import flows_of

LIFE = [name for name, sort in EFFECTS.items() if sort is ReplayEffect.LIFE]


def flow(name: str, **more: Any) -> Flow:
    """A call of this method."""
    script = Script()
    script.call(name, b"", b"", **more)
    return flows_of(script.frames)[0]


def test_every_method_has_a_sort() -> None:
    """And nothing else has."""
    assert set(EFFECTS) == set(METHODS)
    assert len(LIFE) == 9


@pytest.mark.parametrize("name", LIFE)
def test_what_changes_pods_is_made_again(name: str) -> None:
    """Without being asked for."""
    assert omit_reason(flow(name), ReplayChoices()) == ""


@pytest.mark.parametrize(
    ("name", "choices", "why"),
    [
        ("PullImage", ReplayChoices(pull=True), "--pull"),
        ("ExecSync", ReplayChoices(execs=True), "--exec"),
        ("ListContainers", ReplayChoices(reads=True), "--reads"),
        ("Version", ReplayChoices(reads=True), "--reads"),
    ],
)
def test_the_rest_is_asked_for(name: str, choices: ReplayChoices, why: str) -> None:
    """The reason names the option."""
    assert why in omit_reason(flow(name), ReplayChoices())
    assert omit_reason(flow(name), choices) == ""


@pytest.mark.parametrize("name", ["Exec", "GetContainerEvents", "RemoveImage", "RestorePod", "UpdateRuntimeConfig"])
def test_some_are_never_made_again(name: str) -> None:
    """Whatever is asked for."""
    everything = ReplayChoices(pull=True, execs=True, reads=True, as_sent=True, pass_unknown=True)
    assert omit_reason(flow(name), everything)


def test_methods_nobody_knows_are_left_out() -> None:
    """They have no row."""
    assert "known" in omit_reason(flow("MakeCoffee"), ReplayChoices(reads=True))


def test_calls_of_the_relay_are_part_of_what_was_sent() -> None:
    """And of nothing else."""
    update = flow("UpdateContainerResources", origin="policy")
    assert "--as-sent" in omit_reason(update, ReplayChoices())
    assert omit_reason(update, ReplayChoices(as_sent=True)) == ""


def test_a_call_without_its_beginning_is_left_out() -> None:
    """A rotated file says so."""
    stop = flow("StopContainer")
    stop.flags |= Flags.CONTINUED
    assert omit_reason(stop, ReplayChoices()) == ""
    stop.messages.clear()
    assert "before" in omit_reason(stop, ReplayChoices())
