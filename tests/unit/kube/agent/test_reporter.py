"""The loop that tells the cluster."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from interpose.kube.agent.config_choice import SelectedConfig
from interpose.kube.agent.config_kinds import ConfigSource
from interpose.kube.agent.node_document import SloPhase, SloState
from interpose.kube.agent.node_keys import STATUS
from interpose.kube.agent.push_state import PushPhase, PushState
from interpose.kube.agent.report import CONDITION
from interpose.kube.agent.reporter import Reporter
from interpose.kube.client.api import ApiError, Object, PatchKind, Resource
from interpose.net.http.errors import UnreachableError
from interpose.tasks import TaskBag
from interpose.testing.eventually import eventually

# Those that are told on the Node itself.
KINDS = ("event", "condition", "annotation")


def state(text: str = "one", phase: PushPhase = PushPhase.APPLIED) -> PushState:
    """Of a configuration."""
    return PushState(phase=phase, chosen=SelectedConfig(source="ns/a", version="1", data={"policy": text}))


class Cluster:
    """An API server with one Node. Each kind of report can be made to fail."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.annotations: list[str] = []
        self.conditions: list[Any] = []
        self.statuses: list[tuple[str, Any]] = []
        self.objects: dict[ConfigSource, Object] = {}
        self.fails: dict[str, Exception] = {}
        self.node: Object | None = {"metadata": {"name": "n", "uid": "u"}}
        self.stands: asyncio.Event | None = None  # events wait for it
        self.shows = False  # whether the Node is seen as it is at once

    async def create(self, resource: Resource, body: Object, *, namespace: str = "") -> Object:
        """An event."""
        assert (resource.plural, namespace) == ("events", "default")
        if self.stands is not None:
            await self.stands.wait()
        self._fail("event")
        self.events.append(dict(body))
        return body

    async def patch(
        self, resource: Resource, name: str, patch: Any, *, kind: PatchKind, namespace: str = "", subresource: str = ""
    ) -> Object:
        """The Node, its status, or an event."""
        if resource.plural == "events":
            assert (namespace, subresource, kind) == ("default", "", PatchKind.MERGE)
            self._fail("event")
            found = [one for one in self.events if one["metadata"]["name"] == name]
            if not found:
                raise ApiError(404, "NotFound", "no such event")
            found[0].update(patch)
            return {}
        if resource.kind == "BalloonsPolicy":
            assert (namespace, subresource, kind) == ("ns", "status", PatchKind.MERGE)
            self._fail("status")
            self.statuses.append((name, patch["status"]["nodes"]))
            return {}
        assert (resource.plural, name, namespace) == ("nodes", "n", "")
        if subresource:
            self._fail("condition")
            self.conditions += patch["status"]["conditions"]
        else:
            self._fail("annotation")
            self.annotations.append(patch["metadata"]["annotations"][STATUS])
        if self.shows:
            self.show()
        return {}

    def show(self) -> None:
        """The Node is seen as it is."""
        annotations = {STATUS: self.annotations[-1]} if self.annotations else {}
        self.node = {
            "metadata": {"name": "n", "uid": self._uid, "annotations": annotations},
            "status": {"conditions": self.conditions[-1:]},
        }

    @property
    def _uid(self) -> str:
        return str(self.node["metadata"]["uid"]) if self.node is not None else "u"

    def _fail(self, kind: str) -> None:
        if kind in self.fails:
            raise self.fails[kind]

    def counts(self) -> tuple[int, int, int]:
        """Events, conditions, annotations."""
        return len(self.events), len(self.conditions), len(self.annotations)


class Stage:
    """A reporter that runs, and a clock that jumps to the next moment when it is allowed to."""

    def __init__(self, kinds: tuple[str, ...] = KINDS, cluster: Cluster | None = None) -> None:
        self.cluster = cluster or Cluster()
        self.time = 0.0
        self.jumps = True
        self.pauses: list[float | None] = []
        self.waits: dict[asyncio.Event, float | None] = {}  # of each loop
        self.looks: Counter[asyncio.Event] = Counter()
        self.tasks = TaskBag()
        self.reporter = Reporter(
            self.cluster,
            node="n",
            observed_node=lambda: self.cluster.node,
            observed_objects=lambda: self.cluster.objects,
            kinds=kinds,
            now=lambda: self.time,
            wall=lambda: 1000.0 + self.time,
            chance=lambda: 0.0,
            pause=self._pause,
        )

    def start(self) -> None:
        """It runs."""
        self.tasks.spawn(self.reporter.run(), name="reporter")

    async def _pause(self, wake: asyncio.Event, seconds: float | None) -> None:
        self.pauses.append(seconds)
        self.waits[wake] = seconds
        self.looks[wake] += 1
        if seconds is None or not self.jumps:
            await wake.wait()
        else:
            until = self.time + seconds
            await asyncio.sleep(0)
            self.time = max(self.time, until)

    async def quiet(self) -> None:
        """Everything that was said is dealt with."""
        await asyncio.sleep(0)  # it has begun
        before = dict(self.looks)
        self.reporter.poke()
        await eventually(
            lambda: all(self.looks[one] > before.get(one, 0) for one in self.looks) and len(self.looks), "a look"
        )
        await eventually(lambda: all(one is None for one in self.waits.values()), "nothing left to do")


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """It runs."""
    made = Stage()
    made.start()
    yield made
    await made.tasks.cancel()


async def test_all_three_are_told_once(stage: Stage) -> None:
    """The watch needs a moment to show it; nothing is told again for that."""
    stage.reporter.on_state(state())
    await stage.quiet()
    assert stage.cluster.counts() == (1, 1, 1)
    assert stage.cluster.events[0]["reason"] == "ConfigApplied"
    assert stage.cluster.conditions[0]["type"] == CONDITION
    stage.cluster.show()
    await stage.quiet()
    assert stage.cluster.counts() == (1, 1, 1)
    assert stage.reporter.results == {
        ("event", "written"): 1,
        ("condition", "written"): 1,
        ("annotation", "written"): 1,
    }


async def test_nothing_is_told_before_the_node_is_known(stage: Stage) -> None:
    """It may show already what there is to tell."""
    node, stage.cluster.node = stage.cluster.node, None
    stage.reporter.on_state(state())
    await stage.quiet()
    assert stage.reporter.pending == ()
    assert stage.cluster.counts() == (0, 0, 0)
    stage.cluster.node = node
    stage.reporter.poke()
    await eventually(lambda: stage.cluster.counts() == (1, 1, 1), "reports")


async def test_agent_that_starts_again_repeats_nothing(stage: Stage) -> None:
    """The Node shows it."""
    stage.reporter.on_state(state())
    await stage.quiet()
    stage.cluster.show()
    again = Stage(cluster=stage.cluster)
    again.start()
    again.reporter.on_slo(SloState(phase=SloPhase.NONE))
    again.reporter.on_state(state())
    await again.quiet()
    assert stage.cluster.counts() == (1, 1, 1)
    await again.tasks.cancel()


async def test_newest_report_wins_when_the_server_is_back(stage: Stage) -> None:
    """What was in between is never told."""
    stage.jumps = False
    stage.cluster.fails = dict.fromkeys(KINDS, UnreachableError("refused"))
    stage.reporter.on_state(state("one"))
    await eventually(lambda: stage.reporter.results["annotation", "failed"] == 1, "a failure")
    assert set(stage.reporter.pending) == set(KINDS)
    assert stage.reporter.problems == dict.fromkeys(KINDS, "refused")
    stage.reporter.on_state(state("two"))
    stage.cluster.fails = {}
    stage.jumps = True
    await stage.quiet()
    assert stage.cluster.counts() == (1, 1, 1)
    assert stage.reporter.problems == {}
    assert not stage.reporter.pending


@pytest.mark.parametrize("kind", KINDS)
async def test_one_that_is_forbidden_holds_up_no_other(
    stage: Stage, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is tried again now and then, and logged seldom."""
    stage.cluster.fails = {kind: ApiError(403, "Forbidden", "no")}
    stage.cluster.shows = True
    stage.reporter.on_state(state())
    await eventually(lambda: stage.reporter.results[kind, "failed"] >= 3, "some tries")
    assert sum(stage.cluster.counts()) == 2
    said = [one for one in caplog.records if one.getMessage() == "Failed to write report"]
    assert 1 <= len(said) <= 1 + stage.time // 600.0


async def test_mistake_of_ours_ends_nothing(stage: Stage) -> None:
    """It is a failure like others."""
    stage.cluster.fails = {"event": RuntimeError("oh")}
    stage.cluster.shows = True
    stage.reporter.on_state(state())
    await eventually(lambda: stage.reporter.results["event", "failed"] >= 2, "some tries")
    assert stage.reporter.problems == {"event": "RuntimeError: oh"}
    assert stage.cluster.counts() == (0, 1, 1)


async def test_server_that_asks_for_patience(stage: Stage) -> None:
    """It is given."""
    stage.jumps = False
    stage.cluster.fails = {"annotation": ApiError(429, "TooManyRequests", "slow", retry_after=42.0)}
    stage.reporter.on_state(state())
    await eventually(lambda: 42.0 in stage.pauses, "the pause")


@pytest.mark.parametrize("kind", KINDS)
async def test_only_what_is_wanted_is_told(kind: str) -> None:
    """One, two or all three."""
    stage = Stage(kinds=(kind,))
    stage.start()
    stage.reporter.on_state(state())
    await stage.quiet()
    assert sum(stage.cluster.counts()) == 1
    await stage.tasks.cancel()


async def test_slo_is_told_too(stage: Stage) -> None:
    """As an event of its own, and in the annotation."""
    stage.reporter.on_state(state())
    stage.reporter.on_slo(SloState(phase=SloPhase.REJECTED, problems=("spec: is wrong",)))
    await stage.quiet()
    assert [one["reason"] for one in stage.cluster.events] == ["ConfigApplied", "NodeSLORejected"]
    assert "spec: is wrong" in stage.cluster.annotations[-1]


async def test_annotation_that_somebody_removed(stage: Stage) -> None:
    """It is put back when that is seen, and not at once each time."""
    stage.cluster.shows = True
    stage.reporter.on_state(state())
    await stage.quiet()
    bare = {"name": "n", "uid": "u", "resourceVersion": "8"}
    stage.cluster.node = {"metadata": bare, "status": {"conditions": stage.cluster.conditions}}
    stage.jumps = False
    stage.reporter.poke()
    await eventually(lambda: any(one is not None for one in stage.waits.values()), "patience")
    assert len(stage.cluster.annotations) == 1
    stage.jumps = True
    await stage.quiet()
    assert stage.cluster.counts() == (1, 1, 2)


async def test_node_that_was_made_anew(stage: Stage) -> None:
    """It is told what the one before was told, without an event of its own."""
    stage.cluster.shows = True
    stage.reporter.on_state(state())
    await stage.quiet()
    stage.cluster.shows = False
    stage.cluster.node = {"metadata": {"name": "n", "uid": "v", "resourceVersion": "9"}}
    await stage.quiet()
    assert stage.cluster.counts() == (1, 2, 2)


async def test_one_that_hangs_holds_up_no_other(stage: Stage) -> None:
    """Each kind goes its own way."""
    stage.cluster.stands = asyncio.Event()
    stage.reporter.on_state(state())
    await eventually(lambda: stage.cluster.counts() == (0, 1, 1), "the others")
    stage.cluster.stands.set()
    await eventually(lambda: stage.cluster.counts() == (1, 1, 1), "the event")


async def test_event_that_is_there_already(stage: Stage) -> None:
    """The agent before us told it; nothing else shows that."""
    stage.cluster.fails = {"event": ApiError(409, "AlreadyExists", "it is there")}
    stage.reporter.on_state(state())
    await stage.quiet()
    assert stage.cluster.counts() == (0, 1, 1)
    assert stage.reporter.problems == {}
    assert stage.reporter.pending == ()


async def test_asking_what_is_pending_changes_nothing(stage: Stage) -> None:
    """A scrape between two looks takes no part in it."""
    stage.reporter.on_state(state())
    assert set(stage.reporter.pending) == set(KINDS)
    assert set(stage.reporter.pending) == set(KINDS)
    await stage.quiet()
    assert stage.cluster.counts() == (1, 1, 1)


async def test_state_that_comes_and_goes(stage: Stage) -> None:
    """Writes have room between them, and events that are there are counted up."""
    stage.cluster.shows = True
    for text in ("one", "two", "one", "two"):
        stage.reporter.on_state(state(text))
        await stage.quiet()
    assert stage.cluster.counts() == (2, 4, 4)
    assert stage.time >= 15.0
    assert [one["count"] for one in stage.cluster.events] == [2, 2]
    assert stage.cluster.events[1]["lastTimestamp"] > stage.cluster.events[0]["lastTimestamp"]


async def test_event_to_count_up_that_is_gone(stage: Stage) -> None:
    """API servers forget them after an hour, and people delete them: it is made again."""
    for text in ("one", "two"):
        stage.reporter.on_state(state(text))
        await stage.quiet()
    stage.cluster.events.clear()
    stage.reporter.on_state(state("one"))
    await stage.quiet()
    [event] = stage.cluster.events
    assert event["count"] == 2
    assert stage.reporter.results["event", "failed"] == 0


async def test_event_that_may_not_be_counted_up(stage: Stage) -> None:
    """That is a problem like others, and the event stays to be told."""
    for text in ("one", "two"):
        stage.reporter.on_state(state(text))
        await stage.quiet()
    stage.jumps = False
    stage.cluster.fails["event"] = ApiError(403, "Forbidden", "you may not")
    stage.reporter.on_state(state("one"))
    await eventually(lambda: "event" in stage.reporter.problems, "the refusal")
    assert "event" in stage.reporter.pending
    assert [one["count"] for one in stage.cluster.events] == [1, 1]


DEFAULT = ConfigSource("BalloonsPolicy", "ns", "default")


def of_object(phase: PushPhase = PushPhase.APPLIED) -> PushState:
    """Of the object of a policy."""
    return PushState(phase=phase, chosen=SelectedConfig(source=str(DEFAULT), version="1", data={}, generation=2))


async def test_the_status_of_an_object_is_another_object() -> None:
    """It is patched where it is, in its namespace."""
    stage = Stage(kinds=("status",))
    stage.cluster.objects = {DEFAULT: {"metadata": {"resourceVersion": "1"}}}
    stage.reporter.on_state(of_object())
    stage.start()
    await eventually(lambda: stage.reporter.results["status", "written"] == 1, "a status")
    [(name, nodes)] = stage.cluster.statuses
    assert (name, nodes["n"]["status"], nodes["n"]["generation"]) == ("default", "Success", 2)
    assert stage.reporter.pending == ()
    await stage.tasks.cancel()


@pytest.mark.parametrize(("code", "fails"), [(404, False), (403, True)])
async def test_an_object_that_is_gone_needs_no_status(code: int, fails: bool) -> None:
    """There is nothing to be told; a right that is missing is a problem."""
    stage = Stage(kinds=("status",))
    stage.cluster.objects = {DEFAULT: {"metadata": {"resourceVersion": "1"}}}
    stage.cluster.fails["status"] = ApiError(code, "x", "no")
    stage.reporter.on_state(of_object())
    stage.start()
    if fails:
        await eventually(lambda: "status" in stage.reporter.problems, "a problem")
    else:
        await eventually(lambda: stage.reporter.pending == (), "nothing more to do")
        assert stage.reporter.problems == {}
    assert stage.reporter.results["status", "written"] == 0
    await stage.tasks.cancel()
