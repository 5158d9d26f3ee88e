"""The policies topology-aware and balloons in front of a real containerd, by objects as NRI plugins have them.

The two CPUs are shown to the relay as two NUMA nodes. Memory is not pinned: the kernel has one node of it. Values are
those of the kernel.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from interpose.core.topology.synthetic import parse_text
from tests.support.lab.cri import CriClient
from tests.support.lab.policy_pods import BURSTABLE, GUARANTEED, CriResmgr, PolicyPod, PolicyRelay
from tests.support.lab.processes import wait_for
from tests.support.policy.sysfs_tree import write_sysfs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.lab.containerd import Containerd
    from tests.support.lab.qos_pods import Kubepods

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("two_cpus")]

MACHINE = "1 socket x 2 numa x 1 core x 1 thread"
SYSTEM = "kube-system"


def policy_object(kind: str, reserved: str, **spec: Any) -> str:
    """An object, with these CPUs for the system. YAML is JSON too."""
    return json.dumps(
        {
            "apiVersion": "config.nri/v1alpha1",
            "kind": kind,
            "metadata": {"name": "default", "namespace": SYSTEM},
            "spec": {"reservedResources": {"cpu": f"cpuset:{reserved}"}, "pinMemory": False, **spec},
        }
    )


class Node:
    """A relay on a machine of two NUMA nodes that follows one object, and pods by way of it."""

    def __init__(self, relay: PolicyRelay, client: CriClient, kubepods: Kubepods, document: Path) -> None:
        self.relay = relay
        self._client = client
        self._kubepods = kubepods
        self._document = document

    def apply(self, text: str) -> None:
        """Edit the object."""
        self._document.write_text(text)

    def pod(self, name: str, milli: int, qos: str = GUARANTEED, namespace: str = "lab") -> PolicyPod:
        """One that can be run."""
        made = PolicyPod(self._client, self._kubepods, name, milli, qos)
        made.sandbox_config.metadata.namespace = namespace
        return made


@pytest.fixture
def document(scratch: Path) -> Path:
    """The file with the object."""
    return scratch / "policy.yaml"


@pytest.fixture
def node(
    request: pytest.FixtureRequest, containerd: Containerd, scratch: Path, kubepods: Kubepods, document: Path
) -> Iterator[Node]:
    """The node, with the object that a test names."""
    document.write_text(request.param)
    write_sysfs(parse_text(MACHINE), scratch / "host")
    options = ("--policy-config", str(document), "--host-root", str(scratch / "host"))
    with PolicyRelay(scratch, containerd.socket, *options) as relay, CriClient(relay.socket) as client:
        yield Node(relay, client, kubepods, document)


@pytest.mark.parametrize("node", [policy_object("TopologyAwarePolicy", "0")], indirect=True)
def test_pools_along_the_topology(node: Node) -> None:
    """A CPU of its own has no quota; a part of one has, after a resize; another reservation moves everybody."""
    assert node.relay.policy()["topology"]["nodes"] == 2
    with node.pod("dns", 100, BURSTABLE, SYSTEM) as dns, node.pod("db", 1000) as db:
        assert (dns.cpus, db.cpus, db.quota) == ("0", "1", -1)
        assert (db.born, node.relay.exclusive()) == ("1", {"db": "1"})
        db.resize(500)
        wait_for(lambda: db.quota == 50_000, what="the quota to be back")
        assert (db.cpus, node.relay.exclusive()) == ("1", {})
        with node.pod("web", 100, BURSTABLE) as web:
            assert web.cpus == "1"
            node.apply(policy_object("TopologyAwarePolicy", "1"))
            for pod, cpus in ((dns, "1"), (db, "0"), (web, "0")):
                pod.wait_cpus(cpus)
        db.resize(1000)
        wait_for(lambda: db.quota == -1, what="the quota to be lifted again")
        assert (db.cpus, db.runs_on) == ("0", "0")


BALLOONS = policy_object(
    "BalloonsPolicy",
    "0",
    balloonTypes=[
        {"name": "reserved", "shareIdleCPUsInSame": "system"},
        {"name": "fast", "namespaces": ["lab"], "maxCPUs": 1, "preferSpreadingPods": True},
    ],
)


@pytest.mark.parametrize("node", [BALLOONS], indirect=True)
def test_balloons_that_grow_and_shrink(node: Node) -> None:
    """The system has what is idle; a balloon takes it, and gives it back. Who is alone has no quota, until a resize."""
    with node.pod("dns", 100, BURSTABLE, SYSTEM) as dns:
        dns.wait_cpus("0-1")
        with node.pod("db", 1000) as db:
            dns.wait_cpus("0")
            assert (db.cpus, db.born, db.quota) == ("1", "1", -1)
            db.resize(500)
            with node.pod("web", 100, BURSTABLE) as web:
                wait_for(lambda: db.quota == 50_000, what="the quota to be back")
                assert (db.cpus, web.cpus) == ("1", "1")
            db.resize(1000)
            wait_for(lambda: db.quota == -1, what="the quota to be lifted again")
        dns.wait_cpus("0-1")


@pytest.mark.parametrize(
    ("flags", "has"), [((), ("1", -1)), (("-topology-aware-pin-cpu=false",), ("0-1", 100_000))], ids=["pinned", "free"]
)
def test_flags_of_cri_resmgr_take_effect(
    containerd: Containerd, scratch: Path, kubepods: Kubepods, flags: tuple[str, ...], has: tuple[str, int]
) -> None:
    """Without a document: the policy, its CPUs, and what it may write."""
    host = scratch / "host"
    write_sysfs(parse_text(MACHINE), host)
    given = ("-policy=topology-aware", "-reserved-resources=cpu=cpuset:0", "-topology-aware-pin-memory=false")
    with (
        CriResmgr(scratch, containerd.socket, *given, f"--host-root={host}", *flags) as relay,
        CriClient(relay.socket) as client,
        PolicyPod(client, kubepods, "db", 1000) as db,
    ):
        assert (db.cpus, db.quota) == has
