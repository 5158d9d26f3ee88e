"""The policy static in front of a real dockerd on CPUs 0 and 1: what containers have, from birth to removal.

CPU 0 is reserved, so one container can have CPU 1 alone. Values are those of the kernel.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.docker.dockershim import DockerClient, DockerError
from tests.support.lab.docker.pods import DockerPod, policy_pod
from tests.support.lab.images import TEST_IMAGE
from tests.support.lab.policy_pods import PolicyRelay
from tests.support.lab.relay import DOCKER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.lab.docker.dockerd import Dockerd
    from tests.support.lab.qos_pods import Kubepods

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("two_cpus")]

STATIC = (*DOCKER, "--policy", "static", "--reserved-resources", "cpu=1")


@pytest.fixture(scope="module")
def static_relay(dockerd: Dockerd) -> Iterator[PolicyRelay]:
    """One relay for the tests that leave it running."""
    folder = Path(tempfile.mkdtemp(prefix="interpose-"))
    with PolicyRelay(folder, dockerd.socket, *STATIC) as running:
        yield running
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def shim(static_relay: PolicyRelay) -> Iterator[DockerClient]:
    """A dockershim."""
    with DockerClient(static_relay.socket) as connected:
        yield connected


@pytest.fixture
def web(shim: DockerClient, kubepods: Kubepods) -> Iterator[DockerPod]:
    """A Burstable pod, which has all CPUs as long as nobody has one alone."""
    with policy_pod(shim, kubepods, "web", 100, "burstable") as pod:
        assert pod.cpus == "0-1"
        yield pod


@pytest.fixture
def db(shim: DockerClient, kubepods: Kubepods, web: DockerPod) -> Iterator[DockerPod]:
    """A Guaranteed pod, which has CPU 1 alone."""
    with policy_pod(shim, kubepods, "db") as pod:
        assert (pod.cpus, web.cpus) == ("1", "0")
        yield pod


def test_a_cpu_of_its_own_until_it_stops(web: DockerPod, db: DockerPod, static_relay: PolicyRelay) -> None:
    """The other one leaves it and has it back."""
    assert static_relay.exclusive() == {"db": "1"}
    assert (db.has("cpu", "cpu.shares"), db.has("cpu", "cpu.cfs_quota_us")) == ("1024", "-1")
    assert (db.inspect()["HostConfig"]["CpusetCpus"], web.inspect()["HostConfig"]["CpusetCpus"]) == ("1", "0")
    db.stop()
    web.wait_cpus("0-1")


def test_a_refusal_says_why_and_leaves_nothing(shim: DockerClient, kubepods: Kubepods, db: DockerPod) -> None:
    """A kubelet reads how many CPUs there are, in Docker's words; nothing is made."""
    second = policy_pod(shim, kubepods, "second")
    try:
        second.run()
        with pytest.raises(DockerError) as refused:
            second.create()
        assert refused.value.status == 503
        assert refused.value.message == "policy static: CPUs of its own: 1 wanted, 0 free"
        names = [row["Names"][0] for row in shim.call("GET", "/containers/json", {"all": "1"}).document]
        assert f"/{second.docker_name('main')}" not in names
        db.stop()
        second.create()
        second.start()
        assert second.cpus == "1"
    finally:
        second.remove()


def test_a_resize_is_honoured(web: DockerPod, db: DockerPod) -> None:
    """A part of a CPU is shared; a whole one is its own again."""
    db.update(CpuPeriod=100_000, CpuQuota=50_000, CpuShares=512)
    assert (db.cpus, db.has("cpu", "cpu.cfs_quota_us")) == ("0-1", "50000")
    web.wait_cpus("0-1")
    db.update(CpuPeriod=100_000, CpuQuota=100_000, CpuShares=1024)
    assert (db.cpus, web.cpus) == ("1", "0")


def test_an_exit_frees_cpus(web: DockerPod, db: DockerPod) -> None:
    """dockerd tells of a process that ended by itself; nobody has to ask."""
    os.kill(db.inspect()["State"]["Pid"], signal.SIGKILL)
    web.wait_cpus("0-1")


def test_a_container_made_by_hand_is_nobodys_business(
    dockerd: Dockerd, static_relay: PolicyRelay, db: DockerPod
) -> None:
    """It is not in the books, and its CPU set is what it asked for."""
    made = dockerd.docker("run", "-d", "--rm", "--network", "host", "--cpuset-cpus", "0-1", TEST_IMAGE).strip()
    try:
        rows = static_relay.policy()["assignments"]
        assert {row["container"].split("/")[1] for row in rows} == {"web", "db"}
        assert dockerd.docker("inspect", "-f", "{{.HostConfig.CpusetCpus}}", made).strip() == "0-1"
    finally:
        dockerd.docker("rm", "-f", made)


def test_a_new_relay_keeps_what_was_given(dockerd: Dockerd, scratch: Path, kubepods: Kubepods) -> None:
    """After kill -9 the CPU still is its owner's, and pods made meanwhile past it are put where there is room."""
    with (
        PolicyRelay(scratch, dockerd.socket, *STATIC) as relay,
        DockerClient(dockerd.socket) as direct,
        DockerClient(relay.socket) as client,
        policy_pod(client, kubepods, "db") as db,
    ):
        try:
            relay.kill()  # first: dockerd would tell it of a pod that it did not see
            with policy_pod(direct, kubepods, "past", 100, "burstable") as past:
                assert (db.cpus, past.cpus) == ("1", "0-1")
                relay.start()
                past.wait_cpus("0")
                assert (relay.exclusive(), db.cpus) == ({"db": "1"}, "1")
        finally:
            db.client = direct
