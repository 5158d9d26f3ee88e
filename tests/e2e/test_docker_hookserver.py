"""Our own hook server behind the relay in front of a real dockerd: co-located pods get what their annotations say.

It wants a CRI socket to learn which pods there are; dockershim's is not here, so a fake runtime with other pods stands
in for it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from interpose.core.model.qos import QOS_LABEL, QosClass
from interpose.hooks.server.pods.pod_annotations import EXTENDED_RESOURCES
from tests.support.docker.dockershim import DockerClient
from tests.support.lab.docker.pods import DockerPod
from tests.support.lab.hookserver import HookServer, node_state
from tests.support.lab.pods import MEBIBYTE
from tests.support.lab.processes import Child
from tests.support.lab.qos_pods import BE, RATIO, SCALED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.lab.qos_pods import Kubepods
    from tests.support.lab.relay import Relay

pytestmark = pytest.mark.e2e


@pytest.fixture
def served(scratch: Path, docker_relay: Relay, kubepods: Kubepods) -> Iterator[HookServer]:
    """The hook server, which the relay asks."""
    shim_socket = scratch / "dockershim.sock"
    argv = [sys.executable, "-m", "tests.support.runtime_process", str(shim_socket)]
    with Child(argv, log=scratch / "dockershim.log") as stand_in:
        stand_in.wait_listening(shim_socket)
        server = HookServer(
            scratch,
            shim_socket,
            kubepods=kubepods.name,
            registrations=docker_relay.hooks_dir,
            options=("--mode", "proxy", "--cpu-normalization"),
        )
        server.tell(node_state(ratio=RATIO))
        try:
            with server:
                docker_relay.wait_hooks(qos="connected")
                yield server
        finally:
            docker_relay.wait_hooks(qos=None)


def batch_pod(shim: DockerClient, kubepods: Kubepods) -> DockerPod:
    """A best-effort pod for Kubernetes, with batch resources for Koordinator."""
    amounts = {
        kind: {"kubernetes.io/batch-cpu": cpu, "kubernetes.io/batch-memory": str(64 * MEBIBYTE)}
        for kind, cpu in (("requests", "500"), ("limits", "1000"))
    }
    pod = DockerPod(
        shim,
        "batch",
        labels={QOS_LABEL: str(QosClass.BE)},
        annotations={EXTENDED_RESOURCES: json.dumps({"containers": {"main": amounts}})},
    )
    pod.cgroup_parent = f"/{kubepods.name}/besteffort/pod{pod.uid}"
    kubepods.make(pod.cgroup_parent.strip("/"))
    pod.main.resources = {"CpuShares": 2, "CpuPeriod": 100_000}
    pod.main.oom_score_adj = 1000
    return pod


def values(pod: DockerPod) -> tuple[int, ...]:
    """Shares, quota and memory limit of the container."""
    files = (("cpu", "cpu.shares"), ("cpu", "cpu.cfs_quota_us"), ("memory", "memory.limit_in_bytes"))
    return tuple(int(pod.has(controller, name)) for controller, name in files)


@pytest.mark.usefixtures("served")
def test_batch_resources_are_there_from_the_start(shim: DockerClient, kubepods: Kubepods) -> None:
    """Shares, quota on faster CPUs, and memory; dockerd knows what it runs."""
    with batch_pod(shim, kubepods) as pod:
        assert values(pod) == BE
        host = pod.inspect()["HostConfig"]
        assert (host["CpuShares"], host["CpuQuota"], host["Memory"]) == BE


@pytest.mark.usefixtures("served")
def test_updates_keep_them(shim: DockerClient, kubepods: Kubepods) -> None:
    """However often a kubelet updates, nothing is scaled twice."""
    with batch_pod(shim, kubepods) as pod:
        for shares in (2, 3, 2):
            pod.update(CpuShares=shares)
            assert values(pod) == BE
        assert pod.inspect()["HostConfig"]["CpuQuota"] == SCALED
