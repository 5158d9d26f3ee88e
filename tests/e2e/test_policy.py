"""The policy static in front of a real containerd on CPUs 0 and 1: what containers have, from birth to removal.

CPU 0 is reserved, so one container can have CPU 1 alone. Values are those of the kernel.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from interpose._pb import cri_pb2 as cri
from interpose.hooks.api.hookpoint import HookPoint
from interpose.testing.hookserver import response_to
from tests.support.lab.cri import CriClient
from tests.support.lab.policy_pods import BEST_EFFORT, BURSTABLE, PolicyPod, PolicyRelay

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.lab.containerd import Containerd
    from tests.support.lab.hook_plugin import HookPlugin
    from tests.support.lab.qos_pods import Kubepods

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("two_cpus")]


@pytest.fixture(scope="module")
def static_relay(containerd: Containerd) -> Iterator[PolicyRelay]:
    """One relay for the tests that leave it running."""
    folder = Path(tempfile.mkdtemp(prefix="interpose-"))
    with PolicyRelay(folder, containerd.socket, "--policy", "static", "--reserved-resources", "cpu=1") as running:
        yield running
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def client(static_relay: PolicyRelay) -> Iterator[CriClient]:
    """A kubelet."""
    with CriClient(static_relay.socket) as connected:
        yield connected


@pytest.fixture
def web(client: CriClient, kubepods: Kubepods) -> Iterator[PolicyPod]:
    """A Burstable pod, which has all CPUs as long as nobody has one alone."""
    with PolicyPod(client, kubepods, "web", 100, BURSTABLE) as pod:
        assert pod.cpus == "0-1"
        yield pod


@pytest.fixture
def db(client: CriClient, kubepods: Kubepods, web: PolicyPod) -> Iterator[PolicyPod]:
    """A Guaranteed pod, which has CPU 1 alone."""
    with PolicyPod(client, kubepods, "db") as pod:
        assert (pod.cpus, web.cpus) == ("1", "0")
        yield pod


def test_a_cpu_of_its_own_from_birth_to_removal(client: CriClient, kubepods: Kubepods, web: PolicyPod) -> None:
    """Its first process finds no other CPU, the others leave it before and have it back when the pod is gone."""
    assert web.born == "0-1"
    with (
        PolicyPod(client, kubepods, "db") as db,
        PolicyPod(client, kubepods, "job", 0, BEST_EFFORT) as job,
        PolicyPod(client, kubepods, "half", 500) as half,
    ):
        assert (db.cpus, db.born, db.runs_on) == ("1", "1", "1")
        assert (db.shares, db.quota) == (1024, -1)
        for other in (job, half):
            assert (other.cpus, other.born) == ("0", "0")
        assert (web.cpus, web.runs_on) == ("0", "0")
        db.stop()
        for pod in (web, job, half):
            pod.wait_cpus("0-1")
    assert web.runs_on == "0-1"


def test_a_refusal_says_why_and_leaves_nothing(
    client: CriClient, runtime: CriClient, kubepods: Kubepods, web: PolicyPod, db: PolicyPod, static_relay: PolicyRelay
) -> None:
    """A kubelet reads how many CPUs there are; nothing is made, and the next try works once there is room."""
    second = PolicyPod(client, kubepods, "second")
    try:
        second.run()
        with pytest.raises(grpc.RpcError) as refused:
            second.create()
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert refused.value.details() == "policy static: CPUs of its own: 1 wanted, 0 free"
        mine = cri.ContainerFilter(pod_sandbox_id=second.sandbox_id)
        assert not runtime.call("ListContainers", cri.ListContainersRequest(filter=mine)).containers
        assert (db.cpus, web.cpus) == ("1", "0")
        assert static_relay.policy()["refused"][0]["container"] == "lab/second/main"
        db.remove()
        web.wait_cpus("0-1")
        second.create()
        second.start()
        assert (second.cpus, second.born, web.cpus) == ("1", "1", "0")
    finally:
        second.remove()


def test_a_resize_is_honoured_or_refused(web: PolicyPod, db: PolicyPod) -> None:
    """More than there is changes nothing; a part of a CPU is shared; a whole one is its own again."""
    with pytest.raises(grpc.RpcError) as refused:
        db.resize(2000)
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert refused.value.details() == "policy static: CPUs of its own: 2 wanted, 1 free"
    assert (db.cpus, db.quota, db.shares, web.cpus) == ("1", -1, 1024, "0")
    db.resize(500)
    assert (db.cpus, db.quota, db.shares) == ("0-1", 50_000, 512)
    web.wait_cpus("0-1")
    db.resize(1000)
    assert (db.cpus, db.quota, db.shares, web.cpus) == ("1", -1, 1024, "0")
    web.resize(200)
    assert (web.cpus, web.shares, db.cpus) == ("0", 204, "1")


def test_an_update_of_the_cpu_set_is_constrained(web: PolicyPod, db: PolicyPod, static_relay: PolicyRelay) -> None:
    """Whatever a kubelet writes there: nobody gets a CPU of somebody else, and nobody loses their own."""
    web.update(cpuset_cpus="0-1")
    db.update(cpuset_cpus="0")
    assert (web.cpus, db.cpus) == ("0", "1")
    assert 'interpose_policy_overrides_total{field="cpuset_cpus",wanted_by="the caller"}' in static_relay.metrics()


def test_an_exit_frees_cpus(
    client: CriClient, runtime: CriClient, kubepods: Kubepods, web: PolicyPod, db: PolicyPod
) -> None:
    """The kubelet's next list tells of a process that ended by itself."""
    db.exit(runtime)
    client.call("ListPodSandbox")
    client.call("ListContainers")
    web.wait_cpus("0-1")
    # Nobody lists now: whoever needs the CPU finds out.
    with PolicyPod(client, kubepods, "second") as second:
        assert (second.cpus, web.cpus) == ("1", "0")
        second.exit(runtime)
        with PolicyPod(client, kubepods, "third") as third:
            assert (third.cpus, third.born, web.cpus) == ("1", "1", "0")


def test_removing_a_running_pod_frees_cpus(client: CriClient, web: PolicyPod, db: PolicyPod) -> None:
    """RemovePodSandbox alone, without a stop before it."""
    client.call("RemovePodSandbox", cri.RemovePodSandboxRequest(pod_sandbox_id=db.sandbox_id))
    web.wait_cpus("0-1")


def test_a_hook_server_does_not_get_past_the_policy(
    client: CriClient, kubepods: Kubepods, web: PolicyPod, static_relay: PolicyRelay, plugin: HookPlugin
) -> None:
    """Its CPU set is replaced, and metrics name it; its other values count."""

    def everywhere(request: Any) -> Any:
        answer = response_to(request)
        answer.container_resources.cpuset_cpus = "0-1"
        answer.container_resources.cpu_shares = 300
        return answer

    plugin.answers[HookPoint.PRE_CREATE_CONTAINER] = everywhere
    plugin.answers[HookPoint.PRE_UPDATE_CONTAINER_RESOURCES] = everywhere
    with (
        static_relay.registered("greedy", plugin.socket),
        PolicyPod(client, kubepods, "db") as db,
    ):
        assert (db.cpus, db.born, db.shares, web.cpus) == ("1", "1", 300, "0")
        web.update(memory_limit_in_bytes=64 << 20)
        assert (web.cpus, web.shares) == ("0", 300)
        lines = static_relay.metrics().splitlines()
        assert 'interpose_policy_overrides_total{field="cpuset_cpus",wanted_by="greedy"} 2.0' in lines
