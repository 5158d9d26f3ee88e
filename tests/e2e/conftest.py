"""Real programs for the end-to-end tests: containerd with images, and the relay as a process of its own.

A machine that can not run them skips visibly, with the reason. Scratch folders are short: a unix socket path may have
107 characters only.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from interpose.host.sysfs import read_topology
from tests.support.docker.dockershim import DockerClient
from tests.support.lab.cluster import Kubectl, LabCluster, PodAgent, lab_cluster
from tests.support.lab.containerd import Containerd
from tests.support.lab.cri import CriClient
from tests.support.lab.docker.dockerd import Dockerd
from tests.support.lab.hook_plugin import HookPlugin
from tests.support.lab.policy_pods import PolicyRelay
from tests.support.lab.qos_pods import Kubepods
from tests.support.lab.relay import DOCKER, Relay, hook_options

if TYPE_CHECKING:
    from collections.abc import Iterator

# Points are tried outside of tests, and their assertions are to say what they saw.
pytest.register_assert_rewrite("conformance")


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A short-named folder of this test alone."""
    folder = Path(tempfile.mkdtemp(prefix="interpose-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def containerd() -> Iterator[Containerd]:
    """One containerd with images for all tests that leave it running."""
    if reason := Containerd.missing():
        pytest.skip(f"no containerd: {reason}")
    folder = Path(tempfile.mkdtemp(prefix="interpose-"))
    with Containerd(folder) as running:
        running.add_images()
        yield running
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def own_containerd(scratch: Path) -> Iterator[Containerd]:
    """A containerd that the test may stop, kill and pause."""
    if reason := Containerd.missing():
        pytest.skip(f"no containerd: {reason}")
    with Containerd(scratch / "c") as running:
        yield running


@pytest.fixture(scope="session")
def relay(containerd: Containerd) -> Iterator[Relay]:
    """One relay in front of the shared containerd."""
    folder = Path(tempfile.mkdtemp(prefix="interpose-"))
    with Relay(folder, containerd.socket) as running:
        yield running
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def hooked_relay(containerd: Containerd) -> Iterator[Relay]:
    """One relay that asks hook servers, in front of the shared containerd. Each test registers its own."""
    folder = Path(tempfile.mkdtemp(prefix="interpose-"))
    with Relay(folder, containerd.socket, hook_options(folder)) as running:
        yield running
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def dockerd() -> Iterator[Dockerd]:
    """One dockerd with images for all tests that leave it running."""
    if reason := Dockerd.missing():
        pytest.skip(f"no dockerd: {reason}")
    folder = Path(tempfile.mkdtemp(prefix="interpose-"))
    with Dockerd(folder) as running:
        running.add_images()
        yield running
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def docker_relay(dockerd: Dockerd) -> Iterator[Relay]:
    """One relay in front of the shared dockerd that asks hook servers. Each test registers its own."""
    folder = Path(tempfile.mkdtemp(prefix="interpose-"))
    with Relay(folder, dockerd.socket, (*DOCKER, *hook_options(folder))) as running:
        yield running
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def shim(docker_relay: Relay) -> Iterator[DockerClient]:
    """A dockershim whose Docker is the relay."""
    with DockerClient(docker_relay.socket) as connected:
        yield connected


@pytest.fixture
def own_relay(scratch: Path, own_containerd: Containerd) -> Iterator[Relay]:
    """A relay of this test, in front of a containerd of this test."""
    with Relay(scratch, own_containerd.socket) as running:
        yield running


@pytest.fixture(params=["v1", "v1alpha2"])
def version(request: pytest.FixtureRequest, containerd: Containerd) -> str:
    """Each version of the API that this containerd speaks: from 2.0 on that is v1 alone."""
    version: str = request.param
    with CriClient(containerd.socket, version) as connected:
        if connected.outcome("Version").code == "UNIMPLEMENTED":
            pytest.skip(f"this containerd does not speak {version}")
    return version


@pytest.fixture
def client(version: str, relay: Relay) -> Iterator[CriClient]:
    """A client of each API version, through the relay."""
    with CriClient(relay.socket, version) as connected:
        yield connected


@pytest.fixture
def direct(client: CriClient, containerd: Containerd) -> Iterator[CriClient]:
    """A client of the same API version, straight to containerd."""
    with CriClient(containerd.socket, client.version) as connected:
        yield connected


@pytest.fixture
def kubelet(hooked_relay: Relay) -> Iterator[CriClient]:
    """A client through the relay that asks hook servers."""
    with CriClient(hooked_relay.socket) as connected:
        yield connected


@pytest.fixture
def runtime(containerd: Containerd) -> Iterator[CriClient]:
    """A client straight to containerd: what it says is so."""
    with CriClient(containerd.socket) as connected:
        yield connected


@pytest.fixture
def plugin(scratch: Path) -> Iterator[HookPlugin]:
    """A hook server that changes nothing."""
    with HookPlugin(scratch / "plugin.sock") as running:
        yield running


@pytest.fixture
def kubepods() -> Iterator[Kubepods]:
    """The cgroups above the pods of this test."""
    if reason := Kubepods.missing():
        pytest.skip(f"no cgroups for pods: {reason}")
    with Kubepods() as made:
        yield made


@pytest.fixture
def cluster(scratch: Path) -> Iterator[LabCluster]:
    """A cluster with one node, n1."""
    if reason := Kubectl.missing():
        pytest.skip(f"no cluster: {reason}")
    with lab_cluster(scratch) as running:
        yield running


@pytest.fixture
def agent(scratch: Path, cluster: LabCluster) -> Iterator[PodAgent]:
    """The agent of the node, which finds its cluster as a pod does. Edits of tests follow each other without delay."""
    with PodAgent(scratch, cluster, options=("--push-interval", "0")) as running:
        yield running


@pytest.fixture
def node_relay(scratch: Path, containerd: Containerd, agent: PodAgent) -> Iterator[PolicyRelay]:
    """The relay of the node without any settings about policies: it has what the agent sends, and asks the agent."""
    sockets = ("--config-socket", str(agent.relay), "--agent-socket", str(agent.socket))
    with PolicyRelay(scratch, containerd.socket, *sockets) as running:
        yield running


@pytest.fixture(scope="session")
def two_cpus() -> None:
    """Tests of policies count on CPUs 0 and 1 and no other: each value they expect is exact."""
    if (online := str(read_topology().online)) != "0-1":
        pytest.skip(f"needs a machine with CPUs 0-1, this one has {online}")
