"""What the policy of a relay publishes follows its books, with an agent and without one."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interpose.config.relay.settings import PolicySettings
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.static_pools.options import Pool, PoolCpuList, PoolsOptions
from interpose.net.grpc.transport import Hub
from interpose.resmgr.config.configuration import Configuration
from interpose.resmgr.publish.node_publisher import NodePublisher
from interpose.resmgr.publish.node_state import NodeMarks
from interpose.testing.eventually import eventually
from tests.support.policy.node import PolicyNode, static

CORES = "cmk.intel.com/exclusive-cores"


def pools(*exclusive: str) -> Configuration:
    """static-pools with these exclusive lists."""
    lists = tuple(PoolCpuList(cpus=CpuSet.parse(text), text=text, socket=0) for text in exclusive)
    shared = PoolCpuList(cpus=CpuSet.parse("8-15"), text="8-15", socket=1)
    found = {"exclusive": Pool(exclusive=True, lists=lists), "shared": Pool(exclusive=False, lists=(shared,))}
    return Configuration(policy="static-pools", options=PoolsOptions(pools=found), origin="test")


@pytest.fixture
async def node() -> AsyncIterator[PolicyNode]:
    """With two exclusive lists."""
    node = PolicyNode(configuration=pools("2-3", "4"))
    yield node
    await node.close()


async def test_without_an_agent_it_is_said_what_nobody_publishes(
    node: PolicyNode, caplog: pytest.LogCaptureFixture
) -> None:
    """Once in the log, and for as long as it is so among the problems."""
    publishing = NodePublisher(PolicySettings(), Hub())
    publishing.start(node.tracker)
    publishing.tick(node.tracker)
    note = f"{CORES}: 2 is not published: policy.agent_socket is none"
    assert publishing.problems() == [f"note: {note}"]
    assert [getattr(record, "kv", None) for record in caplog.records] == [{"what": note}]
    assert list(publishing.collect()) == []
    await publishing.close()


async def test_a_policy_that_publishes_nothing_needs_no_agent(
    node: PolicyNode, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is said then, or any more."""
    publishing = NodePublisher(PolicySettings(), Hub())
    publishing.start(node.tracker)
    node.tracker.configuration = static()
    caplog.clear()
    publishing.tick(node.tracker)
    assert publishing.problems() == []
    assert caplog.text == ""
    await publishing.close()


async def test_an_agent_that_is_away_is_a_problem_only_while_something_is_wanted(
    node: PolicyNode, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The text names the socket, and what the cluster does not know."""
    caplog.set_level(logging.WARNING)
    publishing = NodePublisher(PolicySettings(agent_socket=str(tmp_path / "a.sock")), Hub())
    publishing.start(node.tracker)
    (problem,) = await eventually(publishing.problems, "trouble")
    assert problem.startswith(f"{CORES}: 2 could not be published: the agent at {tmp_path}/a.sock is not reachable: ")
    assert "Failed to publish to the Node" in caplog.text
    assert {family.name for family in publishing.collect()} == {
        "interpose_policy_published",
        "interpose_policy_publishing_total",
    }
    node.tracker.configuration = static()
    publishing.tick(node.tracker)
    assert publishing.problems() == []
    await publishing.close()


async def test_nothing_follows_after_the_end(node: PolicyNode) -> None:
    """A successor decides then."""
    publishing = NodePublisher(PolicySettings(agent_socket="/nowhere/a.sock"), Hub())
    publishing.tick(node.tracker)  # not begun yet
    publishing.start(node.tracker)
    await publishing.close()
    node.tracker.configuration = pools("2")
    publishing.tick(node.tracker)
    assert publishing._desired is not None
    assert publishing._desired.capacities == {CORES: 2}
    await publishing.close()


async def test_while_everything_changes_nothing_is_said(node: PolicyNode) -> None:
    """It may be undone."""
    publishing = NodePublisher(PolicySettings(), Hub())
    publishing.start(node.tracker)
    node.tracker.reconfiguring = True
    node.tracker.configuration = pools("2")
    publishing.tick(node.tracker)
    assert f"{CORES}: 2 " in publishing.problems()[0]
    node.tracker.reconfiguring = False
    publishing.tick(node.tracker)
    assert f"{CORES}: 1 " in publishing.problems()[0]
    await publishing.close()


async def test_nothing_is_taken_back_before_the_cluster_could_speak(node: PolicyNode) -> None:
    """A node that has lost its state starts without a policy; the agent brings it a moment later."""
    settings = PolicySettings(agent_socket="/nowhere/a.sock", config_socket="/nowhere/c.sock")
    node.tracker.configuration = static()
    publishing = NodePublisher(settings, Hub())
    publishing.start(node.tracker)
    for _ in range(59):
        publishing.tick(node.tracker)
    before = publishing._desired
    publishing.tick(node.tracker)
    assert (before, publishing._desired) == (None, NodeMarks())
    await publishing.close()


async def test_what_the_cluster_takes_back_goes_at_once(node: PolicyNode) -> None:
    """It has spoken: there is nothing to wait for, however young the relay is."""
    publishing = NodePublisher(PolicySettings(agent_socket="/nowhere/a.sock", config_socket="/nowhere/c.sock"), Hub())
    publishing.start(node.tracker)
    publishing.tick(node.tracker)
    assert publishing._desired == NodeMarks(capacities={CORES: 2})
    node.tracker.configuration = static()
    publishing.tick(node.tracker)
    assert publishing._desired == NodeMarks()
    await publishing.close()


async def test_what_is_wanted_is_published_at_once(node: PolicyNode) -> None:
    """There is nothing to wait for."""
    publishing = NodePublisher(PolicySettings(agent_socket="/nowhere/a.sock", config_socket="/nowhere/c.sock"), Hub())
    publishing.start(node.tracker)
    assert publishing._desired == NodeMarks(capacities={CORES: 2})
    await publishing.close()
