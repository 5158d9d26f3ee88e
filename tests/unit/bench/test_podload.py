"""The client for pods: turns that add up, and a measurement that counts what it should."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import pytest

from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.serve import serve_runtime

PROJECT = Path(__file__).parents[3]


@pytest.fixture
def podload(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module as its own program."""
    monkeypatch.syspath_prepend(str(PROJECT))
    return importlib.import_module("bench.podload")


def test_turns_add_up(podload: Any) -> None:
    """The last turn has what is left."""
    assert podload.turns(50) == [20, 20, 10]
    assert podload.turns(20) == [20]
    assert podload.turns(0) == []


async def test_only_runs_are_timed_and_no_pod_stays(podload: Any, tmp_path: Path) -> None:
    """The warm-up and the removal of pods are not measured; each socket gets its calls."""
    one, two = FakeRuntime(), FakeRuntime()
    async with serve_runtime(tmp_path / "a", one), serve_runtime(tmp_path / "b", two):
        sockets = [f"{tmp_path / 'a'}={os.getpid()}", str(tmp_path / "b")]
        targets = await podload.work("run", sockets, calls=25, warm_up=3)

    assert [len(target.durations) for target in targets] == [25, 25]
    assert targets[0].cpu > 0
    assert targets[1].cpu == 0
    assert one.calls["RunPodSandbox"] == two.calls["RunPodSandbox"] == 28
    assert not one.sandboxes
    assert not two.sandboxes


async def test_filling_leaves_pods_with_a_container(podload: Any, tmp_path: Path) -> None:
    """As many as asked for."""
    runtime = FakeRuntime()
    async with serve_runtime(tmp_path / "a", runtime):
        await podload.work("fill", [str(tmp_path / "a")], calls=3, warm_up=0)

    assert (len(runtime.sandboxes), len(runtime.containers)) == (3, 3)
