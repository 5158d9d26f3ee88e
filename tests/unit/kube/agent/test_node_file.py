"""The file that feeds the hook server follows the cluster."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from interpose.kube.agent.config_choice import ObservedObject
from interpose.kube.agent.node_document import SloPhase, SloState
from interpose.kube.agent.node_file import LOOK, SPACING, NodeFeed, StateFile
from interpose.kube.client.api import Object
from interpose.tasks import TaskBag
from interpose.testing.eventually import eventually


def check(found: Object) -> list[str]:
    """A spec with the key `bad` is wrong, and so is a label that is not text."""
    if "bad" in found.get("spec", {}):
        return ["bad is not known"]
    return ["label is wrong"] if 3 in found.get("node", {}).get("labels", {}).values() else []


class Stage:
    """A feed that runs, and what the cluster says."""

    def __init__(self, path: Path, deleted: str = "keep") -> None:
        self.path = path
        self.node = ObservedObject("n", True, {"metadata": {"name": "n", "labels": {"a": "b"}}})
        self.slo = ObservedObject("n", True, None)
        self.told: list[SloState] = []
        self.pauses: list[float | None] = []
        self.checked: list[Object] = []
        self.time = 0.0
        self.feed = NodeFeed(
            StateFile(str(path)),
            node="n",
            seen_node=lambda: self.node,
            seen_slo=lambda: self.slo,
            check=self._check,
            now=lambda: self.time,
            on_slo=self.told.append,
            deleted=deleted,
            chance=lambda: 0.0,
            pause=self._pause,
        )
        self.tasks = TaskBag()

    def _check(self, found: Object) -> list[str]:
        self.checked.append(found)
        return check(found)

    async def _pause(self, wake: asyncio.Event, seconds: float | None) -> None:
        self.pauses.append(seconds)
        await wake.wait()

    async def look(self) -> None:
        """It has looked at what the cluster says."""
        if not len(self.tasks):
            self.tasks.spawn(self.feed.run(), name="feed")
        before = len(self.pauses)
        self.time += SPACING
        self.feed.poke()
        await eventually(lambda: len(self.pauses) > before, "a look")

    async def say(self, spec: dict[str, Any] | None) -> None:
        """The cluster says something about the NodeSLO."""
        version = str(len(self.pauses))
        found = None if spec is None else {"metadata": {"name": "n", "resourceVersion": version}, "spec": spec}
        self.slo = ObservedObject("n", True, found)
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
    assert "Failed to read node state file" in caplog.text
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
    assert stage.pauses == [0.5, 1.0, 2.0]
    assert "everybody may write" in stage.feed.problem
    stage.path.parent.chmod(0o755)
    await stage.look()
    assert stage.feed.outcomes == {"failed": 3, "written": 1}
    assert stage.pauses[-1] == LOOK


async def test_node_that_is_not_known(stage: Stage) -> None:
    """Nothing is written."""
    stage.node = ObservedObject("n", False, None)
    await stage.look()
    assert not stage.path.exists()


async def test_node_that_cannot_be_used(stage: Stage) -> None:
    """Nothing is written, and that is told."""
    stage.node = ObservedObject("n", True, {"metadata": {"name": "n", "labels": {"a": 3}}})
    await stage.look()
    assert not stage.path.exists()
    assert stage.told[-1] == SloState(phase=SloPhase.REJECTED, problems=("label is wrong",))


@pytest.mark.parametrize("poked", [True, False])
async def test_file_that_somebody_took_away_comes_back(stage: Stage, poked: bool) -> None:
    """With the next change of the Node, or after a while."""
    await stage.say({"x": 1})
    assert stage.pauses[-1] == LOOK
    stage.path.unlink()
    if poked:
        await stage.look()
    else:
        stage.time += LOOK
        stage.feed._wake.set()  # the pause is over
        await eventually(stage.path.exists, "the file")
    assert stage.spec() == {"x": 1}


async def test_slo_is_looked_at_once(stage: Stage) -> None:
    """Not for each heartbeat of the Node: it may be large."""
    await stage.say({"x": 1})
    looks = len(stage.checked)
    for beat in range(5):
        found: Any = stage.node.object
        stage.node = ObservedObject("n", True, {**found, "status": {"beat": beat}})
        await stage.look()
    assert len(stage.checked) == looks
    await stage.say({"x": 2})
    assert len(stage.checked) == looks + 1


async def test_annotations_that_change_all_the_time(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """One write a second, with the newest, and not worth a line of the log each."""
    caplog.set_level("INFO")
    await stage.look()
    for number in range(10):
        stage.time -= SPACING  # no time passes
        stage.node = ObservedObject(
            "n", True, {"metadata": {"name": "n", "labels": {"a": "b"}, "annotations": {"x": str(number)}}}
        )
        await stage.look()
    assert stage.feed.outcomes == {"written": 1}
    assert stage.pauses[-1] == SPACING
    await stage.look()
    assert json.loads(stage.path.read_text())["node"]["annotations"] == {"x": "9"}
    assert stage.feed.outcomes == {"written": 2}
    assert caplog.text.count("Node state file was written") == 1
