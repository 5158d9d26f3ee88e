"""The Node object is kept as the policy wants it, in the background, whatever the agent does."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from interpose.core.model.jsonpatch import PatchOperation
from interpose.kube.agent.node_patches import UnmetError, capacity_patch, node_patch, read_steps
from interpose.kube.client.api import NODES, ApiError, PatchKind
from interpose.net.grpc.status import Code, RpcError
from interpose.resmgr.publish.node_state import ANNOTATION, CORES, TAINT, NodeMarks
from interpose.resmgr.publish.publisher import Publisher, PublishResult
from interpose.tasks import TaskBag
from interpose.testing.eventually import eventually
from tests.support.kube.node_api import NodeApi, plain_node

LABEL = "cmk.intel.com/cmk-node"
FOUR = NodeMarks(capacities={CORES: 4})
ALL = NodeMarks(capacities={CORES: 4}, labels={LABEL: "true"}, taints=(TAINT,))


class Agent:
    """An agent over an API server in this process. It can be away, hang, refuse, and answer nonsense."""

    def __init__(self) -> None:
        self.api = NodeApi()
        self.away = ""
        self.refuses = ""
        self.nonsense = False
        self.asked = 0

    async def get_node(self) -> dict[str, Any]:
        """The node as it is."""
        self.asked += 1
        if self.away:
            raise RpcError(Code.UNAVAILABLE, self.away)
        if self.nonsense:
            return {"metadata": 1}
        return dict(await self.api.get(NODES, "n1"))

    async def patch_node(self, operations: Iterable[tuple[str, str, str]]) -> None:
        steps = read_steps([PatchOperation(*operation) for operation in operations])
        try:
            await self._send(node_patch(steps, self.api.node))
        except UnmetError as error:
            raise RpcError(Code.FAILED_PRECONDITION, str(error)) from None

    async def update_node_capacity(self, capacities: Mapping[str, str]) -> None:
        await self._send(capacity_patch(capacities), PatchKind.MERGE, "status")

    async def _send(self, patch: Any, kind: PatchKind = PatchKind.JSON, subresource: str = "") -> None:
        if self.refuses:
            raise RpcError(Code.PERMISSION_DENIED, self.refuses)
        try:
            await self.api.patch(NODES, "n1", patch, kind=kind, subresource=subresource)
        except ApiError as error:
            raise RpcError(Code.FAILED_PRECONDITION, str(error)) from None

    @property
    def cores(self) -> str | None:
        """What the cluster sees."""
        found: str | None = self.api.node["status"]["capacity"].get(CORES)
        return found


class Naps:
    """Short pauses take no time here."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)


@asynccontextmanager
async def running(agent: Agent, wanted: NodeMarks | None = None) -> AsyncIterator[Publisher]:
    """A publisher at work."""
    publisher = Publisher(agent, sleep=Naps(), chance=lambda: 0.0)
    publisher.set_desired(wanted)
    tasks = TaskBag()
    tasks.spawn(publisher.run(), name="publish")
    try:
        yield publisher
    finally:
        await tasks.cancel()


async def test_marks_arrive(caplog: pytest.LogCaptureFixture) -> None:
    """With their note, and it is told once."""
    caplog.set_level(logging.INFO)
    agent = Agent()
    async with running(agent, ALL) as publisher:
        await eventually(lambda: publisher.published, "marks to arrive")
        assert agent.cores == "4"
        assert agent.api.node["metadata"]["labels"][LABEL] == "true"
        assert agent.api.node["spec"]["taints"] == [TAINT._asdict()]
        assert json.loads(agent.api.node["metadata"]["annotations"][ANNOTATION])["capacities"] == {CORES: 4}
        assert publisher.results == {PublishResult.PUBLISHED: 1}
        assert publisher.desired == ALL
    assert caplog.text.count("Node labels and capacity published") == 1


async def test_a_node_that_shows_them_is_only_looked_at(caplog: pytest.LogCaptureFixture) -> None:
    """A restart changes nothing."""
    agent = Agent()
    async with running(agent, ALL) as publisher:
        await eventually(lambda: publisher.published, "marks to arrive")
    sent = len(agent.api.patches)
    caplog.set_level(logging.INFO)
    async with running(agent, ALL) as again:
        await eventually(lambda: again.published, "a look")
        assert again.results == {PublishResult.UNCHANGED: 1}
    assert len(agent.api.patches) == sent
    assert caplog.text == ""


async def test_without_a_wish_the_agent_is_not_asked() -> None:
    """Nobody knows what to show."""
    agent = Agent()
    async with running(agent) as publisher:
        publisher.wake()
        await asyncio.sleep(0)
        assert agent.asked == 0
        publisher.set_desired(FOUR)
        await eventually(lambda: publisher.published, "the first wish")


async def test_the_newest_wish_counts() -> None:
    """One that came while another was carried out follows it."""
    agent = Agent()
    agent.api.gate.clear()
    async with running(agent, FOUR) as publisher:
        await eventually(lambda: agent.api.standing, "a call that stands")
        for cores in (5, 6):
            publisher.set_desired(NodeMarks(capacities={CORES: cores}))
        agent.api.gate.set()
        await eventually(lambda: agent.cores == "6", "the newest")
        await eventually(lambda: publisher.published, "the end of it")
        assert publisher.results[PublishResult.PUBLISHED] == 2


async def test_the_same_wish_again_is_none() -> None:
    """Configurations come in force that want the same."""
    agent = Agent()
    async with running(agent, FOUR) as publisher:
        await eventually(lambda: publisher.published, "marks to arrive")
        publisher.set_desired(NodeMarks(capacities={CORES: 4}))
        await asyncio.sleep(0)
        assert publisher.published
        assert agent.asked == 1


async def test_an_absent_agent_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Once, however often it is tried; when it comes back there is no waiting."""
    agent = Agent()
    agent.away = "the agent at /run/a.sock is not reachable"
    async with running(agent, FOUR) as publisher:
        await eventually(lambda: publisher.problem, "trouble")
        for tries in (2, 3):
            publisher.wake()
            await eventually(lambda tries=tries: agent.asked == tries, "another try")  # type: ignore[misc]
        assert publisher.problem == agent.away
        assert not publisher.published
        assert caplog.text.count("Failed to publish to the Node") == 1
        assert caplog.records[0].levelno == logging.WARNING
        agent.away = ""
        publisher.wake()
        await eventually(lambda: publisher.published, "marks to arrive")
        assert publisher.problem == ""
        assert publisher.results[PublishResult.UNREACHABLE] == 3


async def test_an_agent_that_is_not_needed_is_not_missed(caplog: pytest.LogCaptureFixture) -> None:
    """Most policies show nothing."""
    caplog.set_level(logging.INFO)
    agent = Agent()
    agent.away = "nobody there"
    async with running(agent, NodeMarks()) as publisher:
        await eventually(lambda: publisher.problem, "trouble")
    assert caplog.text == ""


async def test_pauses_grow_and_end() -> None:
    """From a second to a minute; each with a share of chance."""
    publisher = Publisher(Agent(), chance=lambda: 1.0)
    pauses = [publisher._pause(PublishResult.UNREACHABLE, FOUR) for _ in range(8)]
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    assert publisher._pause(PublishResult.PUBLISHED, FOUR) == 30
    assert publisher._pause(PublishResult.REFUSED, FOUR) == 1
    publisher.wake()
    assert publisher._pause(PublishResult.CONFLICT, FOUR) == 1
    early = Publisher(Agent(), chance=lambda: 0.0)
    assert (early._pause(PublishResult.FAILED, FOUR), early._pause(PublishResult.UNCHANGED, FOUR)) == (0.5, 15)


async def test_it_is_tried_again_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has to say that the agent is back."""
    monkeypatch.setattr("interpose.resmgr.publish.publisher.FIRST_PAUSE", 0.001)
    agent = Agent()
    agent.away = "nobody there"
    async with running(agent, FOUR) as publisher:
        await eventually(lambda: agent.asked > 2, "tries")
        agent.away = ""
        await eventually(lambda: publisher.published, "marks to arrive")


async def test_drift_is_repaired(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A kubelet that starts anew forgets extended resources. It is told, as somebody may do it again and again."""
    monkeypatch.setattr("interpose.resmgr.publish.publisher.REPAIR", 0.001)
    agent = Agent()
    async with running(agent, FOUR) as publisher:
        await eventually(lambda: publisher.results[PublishResult.UNCHANGED], "a look")
        agent.api.change(lambda node: node["status"]["capacity"].update({CORES: "0"}))
        await eventually(lambda: agent.cores == "4", "repair")
        await eventually(lambda: publisher.results[PublishResult.PUBLISHED] == 2, "the end of it")
        agent.api.change(lambda node: node["status"]["capacity"].update({CORES: "0"}))
        await eventually(lambda: publisher.results[PublishResult.PUBLISHED] == 3, "another repair")
    assert caplog.text.count("Node did not show any more what the policy wants") == 1


async def test_a_node_that_is_made_anew_is_marked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has nothing of what the old one had, our note included."""
    monkeypatch.setattr("interpose.resmgr.publish.publisher.REPAIR", 0.001)
    agent = Agent()
    async with running(agent, ALL) as publisher:
        await eventually(lambda: publisher.published, "marks to arrive")
        agent.api.node = plain_node(uid="u2", resourceVersion="99")
        await eventually(lambda: agent.cores == "4", "marks to arrive again")
        assert agent.api.node["spec"]["taints"] == [TAINT._asdict()]
        assert ANNOTATION in agent.api.node["metadata"]["annotations"]


async def test_where_nothing_is_wanted_nobody_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once what was ours is gone; an agent that comes back is."""
    monkeypatch.setattr("interpose.resmgr.publish.publisher.REPAIR", 0.001)
    agent = Agent()
    async with running(agent, ALL) as publisher:
        await eventually(lambda: publisher.published, "marks to arrive")
        publisher.set_desired(NodeMarks())
        await eventually(lambda: publisher.published, "their end")
        assert ANNOTATION not in agent.api.node["metadata"]["annotations"]
        asked = agent.asked
        await asyncio.sleep(0.02)  # nothing is waited for: nothing is to happen
        assert agent.asked == asked
        publisher.wake()
        await eventually(lambda: agent.asked == asked + 1, "another look")


async def test_a_refusal_is_told_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    """Somebody may give the agent its rights later."""
    agent = Agent()
    agent.refuses = "nodes is forbidden"
    async with running(agent, FOUR) as publisher:
        await eventually(lambda: publisher.results[PublishResult.REFUSED], "a refusal")
        assert publisher.problem == "nodes is forbidden"
        assert "nodes is forbidden" in json.dumps([getattr(record, "kv", {}) for record in caplog.records])
        agent.refuses = ""
        publisher.wake()
        await eventually(lambda: publisher.published, "marks to arrive")


async def test_others_may_change_the_node_at_the_same_time() -> None:
    """Their taint stays, ours comes."""
    agent = Agent()
    theirs = [{"key": "example.com/x", "effect": "NoExecute"}]

    def interfere() -> None:
        agent.api.before_patch = lambda: None
        agent.api.change(lambda node: node["spec"].update(taints=list(theirs)))

    agent.api.before_patch = interfere
    async with running(agent, ALL) as publisher:
        await eventually(lambda: publisher.published, "marks to arrive")
        assert agent.api.node["spec"]["taints"] == [*theirs, TAINT._asdict()]
        assert publisher.results == {PublishResult.PUBLISHED: 1}


async def test_a_node_that_always_changes_is_left_for_later() -> None:
    """After a few tries; that is no reason to hammer."""
    agent = Agent()
    agent.api.before_patch = lambda: agent.api.change(lambda _: None)
    async with running(agent, ALL) as publisher:
        await eventually(lambda: publisher.results[PublishResult.CONFLICT], "giving up for now")
        assert agent.asked == 3


async def test_an_answer_that_is_no_node() -> None:
    """It is told, and nothing is changed for it."""
    agent = Agent()
    agent.nonsense = True
    async with running(agent, FOUR) as publisher:
        await eventually(lambda: publisher.results[PublishResult.REFUSED], "trouble")
        assert "the agent's answer cannot be used: not a Node object" in publisher.problem
    assert agent.api.patches == []


async def test_a_mistake_of_ours_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged with its place, and tried again like everything else."""
    agent = Agent()
    agent.api.errors.append(RuntimeError("oh"))
    async with running(agent, FOUR) as publisher:
        await eventually(lambda: publisher.results[PublishResult.FAILED], "trouble")
        assert publisher.problem == "RuntimeError: oh"
        assert "Traceback" in caplog.text
        publisher.wake()
        await eventually(lambda: publisher.published, "marks to arrive")
