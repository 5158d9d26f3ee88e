"""What trying a point comes to, without a runtime."""

from pathlib import Path
from typing import Any, cast

import grpc
import pytest

from conformance.bench import Bench
from conformance.judge import judge
from conformance.points import Finding, Kind, Need, Point
from conformance.world import World


class RefusedError(grpc.RpcError):  # type: ignore[misc]
    """A status as grpcio raises it."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.NOT_FOUND

    def details(self) -> str:
        return "nobody"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Nobody is called."""
    return World(socket=tmp_path, client=cast(Any, None), folder=tmp_path, shelf=cast(Any, None))


def raising(error: BaseException) -> Point:
    """A point whose check ends like this."""

    def check(_bench: Bench) -> None:
        raise error

    return Point(name="x", check=check)


def test_a_check_that_returns_passes(world: World) -> None:
    """Nothing else does."""
    assert judge(Point(name="x", check=lambda _bench: None), world) == Finding(kind=Kind.PASSES)


def test_a_status_is_a_refusal(world: World) -> None:
    """With its code and its text."""
    assert judge(raising(RefusedError()), world) == Finding(kind=Kind.REFUSED, code="NOT_FOUND", words="nobody")


@pytest.mark.parametrize("error", [AssertionError("no"), KeyError("info"), OSError("gone")])
def test_everything_else_differs(world: World, error: Exception) -> None:
    """Answers may lack anything a check looks for."""
    finding = judge(raising(error), world)
    assert finding.kind is Kind.DIFFERS
    assert type(error).__name__ in finding.words
    assert "test_judge.py" in finding.words
    assert finding.words.endswith(": raise error")


def test_what_a_check_made_is_undone_when_it_fails(world: World) -> None:
    """The last one first; a failure there is one of the point."""
    undone: list[str] = []

    def check(bench: Bench) -> None:
        bench.later(undone.append, "first")
        bench.later(undone.append, "second")
        raise AssertionError

    judge(Point(name="x", check=check), world)
    assert undone == ["second", "first"]


def test_a_need_that_is_not_met_is_told(world: World) -> None:
    """The check is not even begun."""
    point = raising(AssertionError())
    need = Need(words="a moon", met=lambda: False)
    found = judge(Point(name="x", check=point.check, need=need), world)
    assert found == Finding(kind=Kind.UNTRIED, words="a moon")
