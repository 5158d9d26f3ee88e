"""A node that is configured from its cluster: kubectl, API server, agent, relay and a real containerd on CPUs 0 and 1.

What is typed is what an operator types. Values of containers are those of the kernel.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.support.kube.agent_stack import GROUP_LABEL, MAP, NAMESPACE
from tests.support.lab.cri import CriClient
from tests.support.lab.policy_pods import BURSTABLE, PolicyPod, scrape
from tests.support.lab.processes import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.lab.cluster import LabCluster, PodAgent
    from tests.support.lab.policy_pods import PolicyRelay
    from tests.support.lab.qos_pods import Kubepods

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("two_cpus")]


def static(reserved: str = "0") -> dict[str, str]:
    """A map for the policy static with this CPU kept for the system."""
    chosen = f"Active: static\nReservedResources: {{CPU: 'cpuset:{reserved}'}}\n"
    return {"policy": chosen, "policy.static": "RelaxedIsolation: false\n"}


def pools(exclusive: str, shared: str) -> str:
    """Options of static-pools."""
    lists = {"exclusive": (True, exclusive), "shared": (False, shared)}
    found = {
        name: {"exclusive": alone, "cpuLists": [{"Cpuset": cpus, "Socket": 0}]} for name, (alone, cpus) in lists.items()
    }
    return json.dumps({"pools": found, "LabelNode": True, "TaintNode": True})


@pytest.fixture
def client(node_relay: PolicyRelay) -> Iterator[CriClient]:
    """The kubelet's."""
    with CriClient(node_relay.socket) as connected:
        yield connected


@pytest.fixture
def web(client: CriClient, kubepods: Kubepods) -> Iterator[PolicyPod]:
    """Shares CPUs with others."""
    with PolicyPod(client, kubepods, "web", 100, BURSTABLE) as pod:
        yield pod


@pytest.fixture
def db(client: CriClient, kubepods: Kubepods) -> Iterator[PolicyPod]:
    """Wants one CPU alone, if there is a policy that gives it."""
    with PolicyPod(client, kubepods, "db") as pod:
        yield pod


def test_a_config_map_moves_what_runs(
    cluster: LabCluster, agent: PodAgent, node_relay: PolicyRelay, web: PolicyPod, db: PolicyPod
) -> None:
    """From files, then edited, then refused, then put right: containers follow, and the cluster is told each time."""
    assert (web.cpus, db.cpus, node_relay.policy()["policy"]) == ("0-1", "0-1", "none")
    cluster.create(static())
    db.wait_cpus("1")
    web.wait_cpus("0")
    assert node_relay.policy()["origin"] == "agent of node n1"
    told = cluster.wait_event("ConfigApplied")
    assert (told["type"], told["involvedObject"]["name"]) == ("Normal", "n1")
    assert f"ConfigMap {NAMESPACE}/{MAP} is in force" in told["message"]
    condition = cluster.wait_condition("ConfigApplied")
    assert (condition["status"], condition["message"]) == ("True", told["message"])
    wait_for(lambda: cluster.look(lambda seen: seen.annotation), what="the annotation")
    shown = cluster.look(lambda seen: seen.annotation)
    assert (shown["state"], shown["source"], shown["message"]) == ("applied", f"{NAMESPACE}/{MAP}", told["message"])
    # As people see it.
    described = cluster.kubectl("describe", "node", "n1")
    assert re.search(r"InterposeConfigured +True .* ConfigApplied +ConfigMap", described)
    assert re.search(r"Normal +ConfigApplied .* interpose-agent +ConfigMap", described)
    assert_counted(agent, node_relay, accepted=1, rejected=0)

    cluster.edit(static("1"))
    db.wait_cpus("0")
    web.wait_cpus("1")

    # Nothing would be left for the one that has a CPU alone.
    cluster.edit(static("0-1"))
    refused = cluster.wait_event("ConfigRejected")
    assert refused["type"] == "Warning"
    assert "lab/db/main" in refused["message"]
    condition = cluster.wait_condition("ConfigRejected")
    assert (condition["status"], condition["message"]) == ("False", refused["message"])
    assert (web.cpus, db.cpus, node_relay.policy()["reserved"]) == ("1", "0", "1")
    assert "interpose_agent_config_applied 0.0" in scrape(agent.admin)

    # Half a document, told as well; then one that can be used.
    cluster.edit({"policy": "Active: [static"})
    assert "policy" in cluster.wait_event("ConfigRejected", 2)["message"]
    assert (web.cpus, db.cpus) == ("1", "0")
    cluster.edit({**static(), "policy.static": "RelaxedIsolation: true\n"})
    db.wait_cpus("1")
    web.wait_cpus("0")
    assert cluster.wait_condition("ConfigApplied", "is in force")["status"] == "True"
    assert_counted(agent, node_relay, accepted=3, rejected=2)
    assert node_relay.configured() == 3
    assert (db.born, db.runs_on) == ("0-1", "1")


def assert_counted(agent: PodAgent, relay: PolicyRelay, *, accepted: int, rejected: int) -> None:
    """Both sides count the same."""
    agents, relays = scrape(agent.admin).splitlines(), relay.metrics().splitlines()
    assert "interpose_agent_config_applied 1.0" in agents
    for outcome, count in (("accepted", accepted), ("rejected", rejected)):
        assert f'interpose_agent_config_pushes_total{{result="{outcome}"}} {count:.1f}' in agents
        assert f'interpose_policy_configurations_total{{outcome="{outcome}"}} {count:.1f}' in relays


def test_pools_of_the_cluster_show_on_the_node(
    cluster: LabCluster, agent: PodAgent, node_relay: PolicyRelay, web: PolicyPod
) -> None:
    """The key for this node wins, those of others cause nothing; capacity, label and taint come and go with pools."""
    general = {"policy": "Active: static-pools\n", "policy.static-pools": pools("0", "1")}
    cluster.create({**general, "policy.static-pools.n1": pools("1", "0")})
    web.wait_cpus("0")
    cluster.wait_event("ConfigApplied")
    wait_for(lambda: marks(cluster) == ("1", "true", "cmk=true:NoSchedule"), what="the marks of the pools")
    wait_for(lambda: "interpose_policy_published 1.0" in node_relay.metrics(), what="the metric")
    cluster.edit({**general, "policy.static-pools.n1": pools("1", "0"), "policy.static-pools.n2": "for: another"})
    # Without its own key it has what all have. The edit before has been seen by then, and was none for this node.
    cluster.edit(general)
    web.wait_cpus("1")
    cluster.wait_event("ConfigApplied", 2)
    assert node_relay.configured() == 2
    # Others may mark the node too: theirs stay.
    cluster.kubectl("taint", "node", "n1", "team=blue:NoSchedule")
    cluster.edit(static())
    web.wait_cpus("0-1")
    wait_for(lambda: marks(cluster) == ("0", None, "team=blue:NoSchedule"), what="the marks to be gone")
    assert "interpose/published" not in cluster.kubectl("get", "node", "n1", "-o", "yaml")


def marks(cluster: LabCluster) -> tuple[str | None, str | None, str]:
    """Capacity of exclusive cores, label and taints of the node."""
    node = cluster.kubectl.json("get", "node", "n1")
    taints = [f"{one['key']}={one['value']}:{one['effect']}" for one in node.get("spec", {}).get("taints", [])]
    return (
        node.get("status", {}).get("capacity", {}).get("cmk.intel.com/exclusive-cores"),
        node["metadata"].get("labels", {}).get("cmk.intel.com/cmk-node"),
        ",".join(taints),
    )


def test_the_map_that_is_nearest_to_the_node_counts(
    cluster: LabCluster, agent: PodAgent, node_relay: PolicyRelay, web: PolicyPod, db: PolicyPod
) -> None:
    """That of the node before that of its group, before the one for all; without any the relay has its own settings."""
    own, group = f"{MAP}.node.n1", f"{MAP}.group.batch"
    agent.stop()
    agent.start("--missing-grace", "3s")
    cluster.create(static("0"))
    db.wait_cpus("1")
    cluster.wait_event("ConfigApplied")
    cluster.create({"policy": "Active: none\n"}, group)
    cluster.kubectl("label", "node", "n1", f"{GROUP_LABEL}=batch")
    db.wait_cpus("0-1")
    cluster.wait_event("ConfigApplied", 2)
    cluster.create(static("1"), own)
    db.wait_cpus("0")
    web.wait_cpus("1")
    cluster.wait_event("ConfigApplied", 3)
    cluster.kubectl("delete", "configmap", "-n", NAMESPACE, own)
    db.wait_cpus("0-1")
    cluster.kubectl("label", "node", "n1", f"{GROUP_LABEL}-")
    db.wait_cpus("1")
    assert [source(event["message"]) for event in cluster.events("ConfigApplied")[:3]] == [MAP, group, own]
    # Deleted and created again at once: nobody is moved. Deleted for good: withdrawn.
    cluster.kubectl("delete", "configmap", "-n", NAMESPACE, MAP)
    cluster.create(static("0"))
    cluster.kubectl("delete", "configmap", "-n", NAMESPACE, MAP, group)
    db.wait_cpus("0-1")
    cluster.wait_event("ConfigWithdrawn")
    assert node_relay.configured() == 6
    assert node_relay.policy()["policy"] == "none"


def source(message: str) -> str:
    """The name of the map in a message."""
    return message.split()[1].partition("/")[2]
