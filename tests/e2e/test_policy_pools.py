"""Pools of pods and namespaces, and balloons, on CPUs 0 and 1 of a real containerd. Values are those of the kernel."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.support.lab.cri import CriClient
from tests.support.lab.policy_pods import BURSTABLE, PolicyPod, PolicyRelay

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.lab.containerd import Containerd
    from tests.support.lab.qos_pods import Kubepods

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("two_cpus")]

PODPOOLS = """\
policy:
  Active: podpools
  ReservedResources: {CPU: "cpuset:0"}
  podpools:
    Pools: [{Name: pair, CPU: 1, MaxPods: 2, Instances: 1, FillOrder: Packed}]
"""
DYNAMIC = """\
policy:
  Active: dynamic-pools
  ReservedResources: {CPU: "cpuset:0"}
  dynamic-pools:
    ReservedPoolNamespaces: [monitoring-*]
    DynamicPoolTypes: [{Name: batch, Namespaces: [batch]}]
"""
BALLOONS = """\
policy:
  Active: balloons
  ReservedResources: {CPU: "cpuset:0"}
  balloons:
    reservedPoolNamespaces: ["*"]
    balloonTypes:
    - {name: own, preferNewBalloons: true}
"""
PAIR = {"pool.podpools.resource-policy.nri.io/pod": "pair"}
OWN = {"balloon.balloons.resource-policy.nri.io": "own"}


@pytest.fixture
def document(scratch: Path) -> Path:
    """The policy document that the relay follows."""
    return scratch / "policy.yaml"


@pytest.fixture
def relay(containerd: Containerd, scratch: Path, document: Path) -> Iterator[PolicyRelay]:
    """A relay that a test starts and kills; it decides what the document says."""
    document.write_text(PODPOOLS)
    with PolicyRelay(scratch, containerd.socket, "--policy-config", str(document)) as running:
        yield running


@pytest.fixture
def pods(containerd: Containerd, relay: PolicyRelay, kubepods: Kubepods) -> Iterator[dict[str, PolicyPod]]:
    """Burstable pods that run: two that name the pool, a third for which it has no room, one that names none."""
    with CriClient(containerd.socket) as runtime, CriClient(relay.socket) as client:
        made = {name: PolicyPod(runtime, kubepods, name, 100, BURSTABLE) for name in ("a", "b", "c", "web")}
        try:
            for name, pod in made.items():
                pod.sandbox_config.annotations.update({} if name == "web" else PAIR)
                pod.sandbox_config.annotations.update(OWN if name == "a" else {})
                pod.client = client
                pod.run()
                pod.create()
                pod.start()
                pod.client = runtime  # which is there whatever becomes of the relay
            yield made
        finally:
            for pod in made.values():
                pod.client = runtime
                pod.remove()


def cpus(pods: dict[str, PolicyPod]) -> dict[str, str]:
    """What each has."""
    return {name: pod.cpus for name, pod in pods.items()}


def test_pods_have_the_cpus_of_their_instance_from_birth(pods: dict[str, PolicyPod]) -> None:
    """Also after the relay was killed; who found no room has what no pool has."""
    assert cpus(pods) == {"a": "1", "b": "1", "c": "0", "web": "0"}
    assert {pod.born for pod in pods.values()} == {"0", "1"}
    assert (pods["a"].born, pods["a"].runs_on) == ("1", "1")


def test_a_killed_relay_finds_them_in_their_pools(relay: PolicyRelay, pods: dict[str, PolicyPod]) -> None:
    """With its state file, and without one: nobody moves, and who ended has left room."""
    before = cpus(pods)
    relay.kill()
    relay.start()
    assert cpus(pods) == before
    relay.kill()
    shutil.rmtree(relay.state_file.parent)
    pods["a"].exit(pods["a"].client)
    relay.start()
    assert [pods[name].cpus for name in ("b", "c", "web")] == ["1", "0", "0"]


def test_another_policy_by_a_document(relay: PolicyRelay, document: Path, pods: dict[str, PolicyPod]) -> None:
    """Pools that grow and shrink instead, then no policy: nobody is drained."""
    document.write_text(DYNAMIC)
    for pod in pods.values():
        pod.wait_cpus("1")
    assert relay.policy()["policy"] == "dynamic-pools"
    document.write_text("policy: {Active: none}")
    for pod in pods.values():
        pod.wait_cpus("0-1")
    document.write_text(PODPOOLS)
    pods["c"].wait_cpus("0")
    pods["a"].wait_cpus("1")


def test_balloons_by_a_document(relay: PolicyRelay, document: Path, pods: dict[str, PolicyPod]) -> None:
    """One pod names its type, the others are the system's; the same after the relay was killed, and after a resize."""
    document.write_text(BALLOONS)
    wanted = {"a": "1", "b": "0", "c": "0", "web": "0"}
    for name, pod in pods.items():
        pod.wait_cpus(wanted[name])
    assert relay.policy()["policy"] == "balloons"
    relay.kill()
    relay.start()
    assert cpus(pods) == wanted
    with CriClient(relay.socket) as client:
        pods["a"].client = client
        pods["a"].resize(900)
    assert cpus(pods) == wanted
