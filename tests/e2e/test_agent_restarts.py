"""Agent, relay and API server come and go in any order while containers run on CPUs 0 and 1: in the end the node has
what the cluster says, each configuration was put in force once, and no container noticed anything else.
"""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest

from interpose.kube.client.api import CONFIG_MAPS
from tests.support.kube.agent_stack import MAP, NAMESPACE
from tests.support.lab.cri import CriClient
from tests.support.lab.policy_pods import BURSTABLE, PolicyPod
from tests.support.lab.processes import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.lab.cluster import LabCluster, PodAgent
    from tests.support.lab.containerd import Containerd
    from tests.support.lab.policy_pods import PolicyRelay
    from tests.support.lab.qos_pods import Kubepods

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("two_cpus")]

AGENT, RELAY, CLUSTER = "agent", "relay", "API server"


class Node:
    """A node under the policy static with one container that shares and one that has a CPU alone."""

    def __init__(self, cluster: LabCluster, agent: PodAgent, relay: PolicyRelay, web: PolicyPod, db: PolicyPod) -> None:
        self.cluster, self.agent, self.relay, self.web, self.db = cluster, agent, relay, web, db
        self.reserved = 0
        self.edits = 1
        cluster.create(self.map())
        self.wait_newest()
        self.pids = (web.pid, db.pid)

    def map(self) -> dict[str, str]:
        """The newest configuration."""
        return {"policy": f"Active: static\nReservedResources: {{CPU: 'cpuset:{self.reserved}'}}\n"}

    def edit(self) -> None:
        """The other CPU is kept for the system: both containers have to move."""
        self.reserved = 1 - self.reserved
        self.edits += 1
        self.cluster.edit(self.map())

    def wait_newest(self) -> None:
        """Until the containers have what the cluster says, and nothing more is to come."""
        self.web.wait_cpus(str(self.reserved))
        self.db.wait_cpus(str(1 - self.reserved))
        wait_for(self.known, what="the agent to have the newest map", every=0.02)
        assert self.relay.configured() == self.edits
        # One that is killed before this comes back with the configuration before.
        wait_for(lambda: not self.relay.policy()["state_file"]["dirty"], what="the state file to be written")

    def known(self) -> bool:
        """Whether the agent says that the newest map is in force."""
        newest = self.cluster.look(lambda seen: seen.server.get(CONFIG_MAPS, MAP, namespace=NAMESPACE))
        found = self.agent.status()["configuration"]
        return bool(found["state"] == "applied" and found["map"]["version"] == newest["metadata"]["resourceVersion"])

    def assert_untouched(self, reserved: int) -> None:
        """Containers have what this configuration gave them, and are the same processes."""
        assert (self.web.cpus, self.db.cpus) == (str(reserved), str(1 - reserved))
        assert (self.web.pid, self.db.pid) == self.pids

    # -- who goes and comes

    def stop(self, who: str, *, rudely: bool) -> None:
        """Take one of the three away."""
        if who == CLUSTER:
            self.cluster.away()
        elif rudely:
            (self.agent if who == AGENT else self.relay).kill()
        elif who == AGENT:
            self.agent.stop()
        else:
            assert self.relay.child.stop() == 0

    def start(self, who: str, *, forgetful: bool) -> None:
        """Bring it back."""
        if who == CLUSTER:
            self.cluster.back(forgetful=forgetful)
        elif who == AGENT:
            self.agent.start()
        else:
            self.relay.start()


@pytest.fixture
def node(
    cluster: LabCluster, agent: PodAgent, node_relay: PolicyRelay, containerd: Containerd, kubepods: Kubepods
) -> Iterator[Node]:
    """The containers are looked at past the relay, which is not always there."""
    with (
        CriClient(containerd.socket) as runtime,
        CriClient(node_relay.socket) as client,
        PolicyPod(client, kubepods, "web", 100, BURSTABLE) as web,
        PolicyPod(client, kubepods, "db") as db,
    ):
        web.client = db.client = runtime
        yield Node(cluster, agent, node_relay, web, db)


def test_all_three_go_and_come_in_any_order(node: Node) -> None:
    """With an edit while somebody was away. The relay and the agent are killed every other time."""
    for number, order in enumerate(permutations((AGENT, RELAY, CLUSTER))):
        before, edited = node.reserved, False
        for who in order:
            if who == CLUSTER and who != order[0]:
                node.edit()  # the others are away, or one of them
                edited = True
            node.stop(who, rudely=bool(number % 2))
        node.assert_untouched(before)
        for who in order:
            node.start(who, forgetful=bool(number % 2))
            if who == CLUSTER and not edited:
                node.edit()
        node.wait_newest()
        node.assert_untouched(node.reserved)


def test_what_is_in_force_is_not_put_in_force_again(node: Node) -> None:
    """Whoever comes back without news: a relay is told what it has already, an agent finds what it wants."""
    unchanged = 'interpose_policy_configurations_total{outcome="unchanged"}'

    def wait_told(times: int) -> None:
        wait_for(lambda: f"{unchanged} {times:.1f}" in node.relay.metrics(), what="the relay to be told")
        node.wait_newest()

    for rudely in (False, True):
        node.stop(RELAY, rudely=rudely)
        node.start(RELAY, forgetful=False)
        wait_told(1)
    node.stop(AGENT, rudely=True)
    node.start(AGENT, forgetful=False)
    wait_told(2)
    node.stop(CLUSTER, rudely=False)
    wait_for(lambda: node.agent.status()["node_object"]["problem"], what="the agent to notice", every=0.02)
    node.start(CLUSTER, forgetful=True)
    wait_for(lambda: not problems(node.agent.status()), what="the agent to follow again", every=0.02)
    wait_told(2)
    assert node.agent.status()["configuration"]["pushes"] == {"accepted": 1}
    node.assert_untouched(node.reserved)
    assert len(node.cluster.events("ConfigApplied")) == 1


def problems(status: Any) -> list[str]:
    """Why objects of the cluster are not followed."""
    return [one["problem"] for one in (status["node_object"], *status["config_maps"]) if one["problem"]]


def test_tokens_rotate_and_the_api_server_is_away_for_a_while(node: Node) -> None:
    """The agent goes on with the token that is in the files now. What is in force stays so whoever is away."""
    cluster, agent = node.cluster, node.agent
    for token in ("second-token", "third-token"):
        cluster.rotate(token)
        cluster.wait_refused("interpose-agent")
        node.edit()
        agent.lay_down()
        node.wait_newest()
    cluster.away()
    wait_for(lambda: agent.status()["node_object"]["problem"], what="the agent to notice", every=0.02)
    node.assert_untouched(node.reserved)
    assert node.known()
    # It comes back with another token as well.
    cluster.rotate("fourth-token")
    agent.lay_down()
    cluster.back(forgetful=True)
    node.edit()
    node.wait_newest()
    node.assert_untouched(node.reserved)
    assert cluster.condition["status"] == "True"
