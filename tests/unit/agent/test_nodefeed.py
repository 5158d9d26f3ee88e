"""The file that feeds the hook server follows the cluster."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from interpose.agent.choice import Seen
from interpose.agent.nodefeed import NodeFeed
from interpose.agent.nodestate import SloPhase, SloState
from interpose.agent.statefile import StateFile
from interpose.rpc.tasks import TaskBag
from interpose.testing.eventually import eventually


def check(text: str) -> list[str]:
    """A spec with the key `bad` is wrong."""
    found = json.loads(text)
    return ["bad is not known"] if "bad" in found.get("nodeSLO", {}).get("spec", {}) else []


class Stage:
    """A feed that runs, and what the cluster says."""

    def __init__(self, path: Path, deleted: str = "keep") -> None:
        self.path = path
        self.node = Seen("n", True, {"metadata": {"name": "n", "labels": {"a": "b"}}})
        self.slo = Seen("n", True, None)
        self.told: list[SloState] = []
        self.pauses: list[float | None] = []
        self.feed = NodeFeed(
            StateFile(str(path)),
            node="n",
            seen_node=lambda: self.node,
            seen_slo=lambda: self.slo,
            check=check,
            on_slo=self.told.append,
            deleted=deleted,
            chance=lambda: 0.0,
            pause=self._pause,
        )
        self.tasks = TaskBag()

    async def _pause(self, wake: asyncio.Event, seconds: float | None) -> None:
        self.pauses.append(seconds)
        await wake.wait()

    async def look(self) -> None:
        """It has looked at what the cluster says."""
        if not len(self.tasks):
            self.tasks.spawn(self.feed.run(), name="feed")
        before = len(self.pauses)
        self.feed.poke()
        await eventually(lambda: len(self.pauses) > before, "a look")

    async def say(self, spec: dict[str, Any] | None) -> None:
        """The cluster says something about the NodeSLO."""
        found = None if spec is None else {"metadata": {"name": "n", "resourceVersion": "1"}, "spec": spec}
        self.slo = Seen("n", True, found)
        await self.look()

    def spec(self) -> Any:
        """What the file says."""
        return json.loads(self.path.read_text()).get("nodeSLO", {}).get("spec")


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """Nothing is there yet."""
    made = Stage(tmp_path / "node" / "state.json")
    yield made
    await made.tasks.cancel()


async def test_file_follows_the_cluster(stage: Stage) -> None:
    """And is written when something changed."""
    await stage.look()
    assert stage.spec() is None
    await stage.say({"x": 1})
    assert stage.spec() == {"x": 1}
    await stage.look()
    assert stage.feed.outcomes == {"written": 2}
    assert stage.feed.slo.phase is SloPhase.APPLIED
    assert [one.phase for one in stage.told] == [SloPhase.NONE, SloPhase.APPLIED]


async def test_bad_slo_changes_nothing(stage: Stage) -> None:
    """It is told what is wrong with it."""
    await stage.say({"x": 1})
    await stage.say({"bad": 1})
    assert stage.spec() == {"x": 1}
    assert stage.told[-1].problems == ("bad is not known",)


async def test_deleted_slo_outlives_a_restart(stage: Stage) -> None:
    """The file remembers it."""
    await stage.say({"x": 1})
    await stage.tasks.cancel()
    again = Stage(stage.path)
    await again.look()
    assert again.spec() == {"x": 1}
    assert again.feed.slo.phase is SloPhase.KEPT
    assert again.feed.outcomes == {}
    await again.tasks.cancel()


async def test_deleted_slo_is_dropped(stage: Stage) -> None:
    """If that is what is wanted."""
    await stage.say({"x": 1})
    await stage.tasks.cancel()
    again = Stage(stage.path, deleted="drop")
    await again.look()
    assert again.spec() is None
    await again.tasks.cancel()


async def test_file_of_the_run_before_that_is_bad(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing of it is used."""
    stage.path.parent.mkdir(mode=0o755)
    stage.path.mkdir()
    await stage.look()
    assert "Node state file could not be read" in caplog.text
    assert stage.feed.problem
    stage.path.rmdir()
    await stage.look()
    assert stage.spec() is None
    assert stage.feed.problem == ""


async def test_file_of_the_run_before_that_cannot_be_used(stage: Stage) -> None:
    """A spec that an older version wrote and this one does not know."""
    stage.path.parent.mkdir(mode=0o755)
    slo = {"metadata": {"name": "n"}, "spec": {"bad": 1}}
    stage.path.write_text(json.dumps({"kind": "NodeState", "node": {"name": "n"}, "nodeSLO": slo}))
    await stage.look()
    assert stage.spec() is None


async def test_disk_that_takes_nothing(stage: Stage) -> None:
    """It is tried again after longer and longer pauses."""
    stage.path.parent.mkdir()
    stage.path.parent.chmod(0o777)
    for _ in range(3):
        await stage.look()
    assert [pause for pause in stage.pauses if pause] == [0.5, 1.0, 2.0]
    assert "everybody may write" in stage.feed.problem
    stage.path.parent.chmod(0o755)
    await stage.look()
    assert stage.feed.outcomes == {"failed": 3, "written": 1}
    assert stage.pauses[-1] is None


async def test_node_that_is_not_known(stage: Stage) -> None:
    """Nothing is written."""
    stage.node = Seen("n", False, None)
    await stage.look()
    assert not stage.path.exists()
