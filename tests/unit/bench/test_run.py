"""What --only leaves of a run."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parents[3]


@pytest.fixture
def choose(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Chooses among everything there is."""
    monkeypatch.syspath_prepend(str(PROJECT))
    run = importlib.import_module("bench.run")
    people, loads, hook_loads = run.contestants(), run.workloads(), run.hook_workloads()
    return lambda only: run.choose(only, people, loads, hook_loads)


def names(loads: Any) -> list[str]:
    return [load.name for load in loads]


def test_everything_is_the_default(choose: Any) -> None:
    """Contestants, footprint and hooks in one run."""
    plan = choose("")

    assert "version-16" in names(plan.loads)
    assert "hooks-run" in names(plan.hook_loads)
    assert plan.footprint
    assert plan.hook_footprint
    assert plan.hooks


def test_hooks_alone(choose: Any) -> None:
    """The group's name stands for all of its loads, and for nothing else."""
    plan = choose("hooks")

    assert names(plan.hook_loads) == ["hooks-run", "hooks-list", "hooks-version-1", "hooks-version-16"]
    assert plan.hook_footprint
    assert plan.hook_turns
    assert not plan.loads
    assert not plan.footprint


def test_single_loads(choose: Any) -> None:
    """Loads are chosen by name, from both groups."""
    plan = choose("version-1,hooks-run")

    assert (names(plan.loads), names(plan.hook_loads)) == (["version-1"], ["hooks-run"])
    assert not plan.footprint
    assert not plan.hook_footprint


def test_naming_a_contestant_leaves_its_work(choose: Any) -> None:
    """Hooks are no contestant's work."""
    plan = choose("interpose,haproxy")

    assert names(plan.people) == ["haproxy", "interpose"]
    assert plan.loads
    assert plan.footprint
    assert not plan.hooks


def test_unknown_names_are_told(choose: Any) -> None:
    """With what is known."""
    with pytest.raises(SystemExit, match=r"unknown nonsense; known are .*hooks-run"):
        choose("nonsense")
