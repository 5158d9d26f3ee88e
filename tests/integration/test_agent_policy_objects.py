"""Objects of policies by way of an agent: which one a node goes by, and what becomes of it in the object's status."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from interpose.kube.client.api import BALLOONS_POLICIES, TOPOLOGY_AWARE_POLICIES
from interpose.testing.eventually import eventually
from interpose.testing.fakeruntime import FakeRuntime
from tests.support.kube.agent_stack import MAP, NAMESPACE, NODE, QUICK, Agent, Cluster, cluster
from tests.support.kube.deployed import kustomized
from tests.support.policy.machines import machine
from tests.support.policy.stack import PolicyStack, policy_stack

DEPLOY = Path(__file__).parents[2] / "deploy"
OBJECTS_FIRST = ("--config-sources", "BalloonsPolicy,TopologyAwarePolicy,ConfigMap")
STATIC = {"policy": "Active: static\nReservedResources: {CPU: 2}\n"}
OTHER = {"status": "Success", "generation": 7, "errors": "", "timestamp": "2026-01-01T00:00:00Z"}


def reserving(cpus: int) -> dict[str, Any]:
    """A spec."""
    return {"reservedResources": {"cpu": str(cpus)}}


class Relay:
    """The relay of the node, which can go and come back."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running = AsyncExitStack()
        self._stack: PolicyStack | None = None

    async def start(self) -> None:
        """Begin."""
        socket = str(self._folder / "config.sock")
        self._stack = await self._running.enter_async_context(
            policy_stack(self._folder, machine("n4c16"), runtime=FakeRuntime(), config_socket=socket)
        )

    async def stop(self) -> None:
        """End."""
        await self._running.aclose()
        self._stack = None

    @property
    def policy(self) -> tuple[str, int]:
        """The policy in force, and how many CPUs are reserved."""
        assert self._stack is not None
        configuration = self._stack.tracker.configuration
        return configuration.policy, configuration.reserved if isinstance(configuration.reserved, int) else 0

    async def has(self, policy: str, reserved: int = 0) -> None:
        """Wait for a policy."""
        await eventually(lambda: self.policy == (policy, 1000 * reserved), f"{policy} with {reserved} reserved CPUs")


@pytest.fixture
async def here(scratch: Path) -> AsyncIterator[Cluster]:
    """A cluster with one node."""
    async with cluster(scratch) as running:
        yield running


@pytest.fixture
async def relay(scratch: Path) -> AsyncIterator[Relay]:
    """The relay, running."""
    made = Relay(scratch)
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
def agent(scratch: Path, here: Cluster) -> Iterator[Agent]:
    """An agent that was not started yet, for which objects count before ConfigMaps."""
    made = Agent(scratch, here.kubeconfig, options=(*QUICK, *OBJECTS_FIRST))
    try:
        yield made
    finally:
        made.__exit__()


async def told(here: Cluster, status: str, name: str = "default") -> Mapping[str, Any]:
    """Wait until the entry of the node says this of the newest generation, and return it."""

    def newest() -> bool:
        generation = here.server.get(BALLOONS_POLICIES, name, namespace=NAMESPACE)["metadata"]["generation"]
        entry = here.statuses(name).get(NODE, {})
        return (entry.get("status"), entry.get("generation")) == (status, generation)

    await eventually(newest, f"{status} of the newest generation")
    found: Mapping[str, Any] = here.statuses(name)[NODE]
    return found


async def test_an_object_is_in_force_and_says_so(here: Cluster, agent: Agent, relay: Relay) -> None:
    """It appears and is edited; its status, the condition and `interpose agent status` tell."""
    agent.start()
    here.apply(reserving(2))
    await relay.has("balloons", 2)
    assert (await told(here, "Success"))["errors"] == ""
    here.apply(reserving(3))
    await relay.has("balloons", 3)
    await told(here, "Success")
    condition = await here.reported("ConfigApplied")
    assert condition["message"].startswith(f"BalloonsPolicy {NAMESPACE}/default is in force")
    await eventually(lambda: here.annotation["source"] == f"BalloonsPolicy {NAMESPACE}/default", "the annotation")
    [counting] = [one for one in agent.status()["config_maps"] if one["counts"]]
    assert (counting["kind"], counting["name"]) == ("BalloonsPolicy", "default")


async def test_an_object_that_cannot_be_used_is_a_failure(here: Cluster, agent: Agent, relay: Relay) -> None:
    """What was good stays in force, the reason is in the status, and goes when the mistake is mended."""
    agent.start()
    here.apply(reserving(2))
    await told(here, "Success")
    here.apply({**reserving(3), "balloonTypes": [{"name": "a", "minCpu": 1}]})
    entry = await told(here, "Failure")
    assert entry["errors"] == (
        f"the configuration was rejected: BalloonsPolicy {NAMESPACE}/default: spec.balloonTypes[0].minCpu: is not a "
        "known key, did you mean minCPUs?"
    )
    assert relay.policy == ("balloons", 2000)
    here.apply(reserving(3))
    assert (await told(here, "Success"))["errors"] == ""
    assert relay.policy == ("balloons", 3000)


async def test_the_entries_of_other_nodes_are_theirs(here: Cluster, agent: Agent, relay: Relay) -> None:
    """The node moves from the default object to that of a group and back: only its own entry comes and goes."""
    here.apply(reserving(2))
    here.apply(reserving(3), "group.batch")
    for name in ("default", "group.batch"):
        found = here.server.get(BALLOONS_POLICIES, name, namespace=NAMESPACE)
        here.server.put(BALLOONS_POLICIES, {**found, "status": {"nodes": {"n2": OTHER}}})
    agent.start()
    await relay.has("balloons", 2)
    await told(here, "Success")
    here.label(object_group="batch")
    await relay.has("balloons", 3)
    await told(here, "Success", "group.batch")
    await eventually(lambda: here.statuses() == {"n2": OTHER}, "the entry of the default object to go")
    here.label(object_group="")
    await relay.has("balloons", 2)
    await eventually(lambda: here.statuses("group.batch") == {"n2": OTHER}, "the entry of the group's object to go")
    assert (await told(here, "Success"))["status"] == "Success"
    assert here.statuses()["n2"] == OTHER


async def test_a_relay_that_is_away_gets_it_when_it_is_back(here: Cluster, agent: Agent, relay: Relay) -> None:
    """The newest one, and only then it is a success."""
    await relay.stop()
    agent.start()
    here.apply(reserving(2))
    here.apply(reserving(3))
    await eventually(lambda: agent.status()["configuration"]["map"] is not None, "the agent to know")
    assert NODE not in here.statuses()
    await relay.start()
    await relay.has("balloons", 3)
    await told(here, "Success")


async def test_an_api_server_that_is_away_changes_nothing(here: Cluster, agent: Agent, relay: Relay) -> None:
    """What was in force stays, and what changed meanwhile counts when it is back."""
    agent.start()
    here.apply(reserving(2))
    await told(here, "Success")
    await here.server.stop()
    await eventually(lambda: not agent.status()["api"]["up"] or agent.status()["api"]["error"], "the agent to know")
    assert relay.policy == ("balloons", 2000)
    here.apply(reserving(3))
    await here.server.start()
    await relay.has("balloons", 3)
    await told(here, "Success")


async def test_kinds_count_in_the_order_of_the_setting(here: Cluster, agent: Agent, relay: Relay) -> None:
    """An object before any ConfigMap, and the ConfigMap when there is no object; entries go with the objects."""
    here.configure(STATIC, f"{MAP}.node.{NODE}")
    agent.start()
    await relay.has("static", 2)
    here.apply(reserving(4), resource=TOPOLOGY_AWARE_POLICIES)
    await relay.has("topology-aware", 4)
    here.apply(reserving(3))
    await relay.has("balloons", 3)
    await told(here, "Success")
    await eventually(
        lambda: not here.statuses(resource=TOPOLOGY_AWARE_POLICIES), "the entry in the object of the other kind to go"
    )
    here.server.remove(BALLOONS_POLICIES, "default", namespace=NAMESPACE)
    await relay.has("topology-aware", 4)
    here.server.remove(TOPOLOGY_AWARE_POLICIES, "default", namespace=NAMESPACE)
    await relay.has("static", 2)


async def test_by_default_objects_are_not_looked_at(here: Cluster, scratch: Path, relay: Relay) -> None:
    """Nothing changes for clusters that have them for other programs."""
    here.apply(reserving(3))
    here.configure(STATIC)
    with Agent(scratch, here.kubeconfig, options=QUICK) as agent:
        await relay.has("static", 2)
        await here.reported("ConfigApplied")
        assert {one["kind"] for one in agent.status()["config_maps"]} == {"ConfigMap"}
        assert agent.status()["reports"]["kinds"] == ["annotation", "condition", "event"]
    assert here.statuses() == {}
    assert not [one for one in here.server.requests if "config.nri" in one.path]


async def test_a_cluster_without_the_definitions_has_no_objects(here: Cluster, agent: Agent, relay: Relay) -> None:
    """That is known after some seconds; then ConfigMaps count."""
    here.server.hidden |= {BALLOONS_POLICIES, TOPOLOGY_AWARE_POLICIES}
    here.configure(STATIC)
    agent.start()
    await relay.has("static", 2)


async def test_the_rights_of_the_option_are_enough(scratch: Path, relay: Relay) -> None:
    """The roles of the base and of options/policy-objects, and no others."""
    folders = ("kustomize/base", "kustomize/options/policy-objects")
    found = [document for folder in folders for document in kustomized(DEPLOY / folder)]
    roles = {(one["kind"], one["metadata"]["name"]): one for one in found if "rules" in one}
    async with cluster(scratch, tokens={"admin-token": "admin", "its-token": "it"}) as here:
        for one in found:
            if one["kind"].endswith("RoleBinding") and one["subjects"][0]["name"] == "interpose-agent":
                rules = roles[one["roleRef"]["kind"], one["roleRef"]["name"]]["rules"]
                here.server.access.restrict("it", rules, namespace=one["metadata"].get("namespace", ""))
        here.apply(reserving(2))
        kubeconfig = here.server.kubeconfig(scratch / "its", token="its-token")
        agent = Agent(scratch, kubeconfig, options=(*QUICK, "--config-sources", "BalloonsPolicy"))
        try:
            await asyncio.to_thread(agent.start)
            await relay.has("balloons", 2)
            await told(here, "Success")
        finally:
            await asyncio.to_thread(agent.__exit__)
        assert not [one for one in here.server.requests if one.code == 403]
