"""Which calls are made again."""

from typing import Any

import pytest

from interpose.cri.methods import METHODS
from interpose.dump.model.call import Flow
from interpose.dump.model.frames import Flags
from interpose.dump.replay.selection import SORTS, Choices, Sort, omitted
from interpose.testing.recordings import Script
from tests.support.dump.recorded_node import flows_of

LIFE = [name for name, sort in SORTS.items() if sort is Sort.LIFE]


def flow(name: str, **more: Any) -> Flow:
    """A call of this method."""
    script = Script()
    script.call(name, b"", b"", **more)
    return flows_of(script.frames)[0]


def test_every_method_has_a_sort() -> None:
    """And nothing else has."""
    assert set(SORTS) == set(METHODS)
    assert len(LIFE) == 9


@pytest.mark.parametrize("name", LIFE)
def test_what_changes_pods_is_made_again(name: str) -> None:
    """Without being asked for."""
    assert omitted(flow(name), Choices()) == ""


@pytest.mark.parametrize(
    ("name", "choices", "why"),
    [
        ("PullImage", Choices(pull=True), "--pull"),
        ("ExecSync", Choices(execs=True), "--exec"),
        ("ListContainers", Choices(reads=True), "--reads"),
        ("Version", Choices(reads=True), "--reads"),
    ],
)
def test_the_rest_is_asked_for(name: str, choices: Choices, why: str) -> None:
    """The reason names the option."""
    assert why in omitted(flow(name), Choices())
    assert omitted(flow(name), choices) == ""


@pytest.mark.parametrize("name", ["Exec", "GetContainerEvents", "RemoveImage", "RestorePod", "UpdateRuntimeConfig"])
def test_some_are_never_made_again(name: str) -> None:
    """Whatever is asked for."""
    everything = Choices(pull=True, execs=True, reads=True, as_sent=True, pass_unknown=True)
    assert omitted(flow(name), everything)


def test_methods_nobody_knows_are_left_out() -> None:
    """They have no row."""
    assert "known" in omitted(flow("MakeCoffee"), Choices(reads=True))


def test_calls_of_the_relay_are_part_of_what_was_sent() -> None:
    """And of nothing else."""
    update = flow("UpdateContainerResources", origin="policy")
    assert "--as-sent" in omitted(update, Choices())
    assert omitted(update, Choices(as_sent=True)) == ""


def test_a_call_without_its_beginning_is_left_out() -> None:
    """A rotated file says so."""
    stop = flow("StopContainer")
    stop.flags |= Flags.CONTINUED
    assert omitted(stop, Choices()) == ""
    stop.messages.clear()
    assert "before" in omitted(stop, Choices())
