"""A fake node as a process: its socket and its files belong together."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from interpose.core.model.cgroup import Parameter
from interpose.core.model.resources import LinuxResources
from interpose.cri.api_version import RuntimeCalls
from interpose.cri.store import convert
from interpose.host.cgroup.files import KernelFiles
from interpose.host.cgroup.paths import find_child, pod_directory
from interpose.host.cgroup.tree import CgroupTree, detect_version
from interpose.net.grpc.client import Client
from interpose.net.grpc.transport import Hub
from interpose.net.grpc.upstream import Upstream
from interpose.net.h2.limits import Limits
from tests.support.lab.processes import Child


@pytest.mark.parametrize("version", ["v1", "v2"])
async def test_pods_and_cgroups_of_a_process(
    scratch: Path, runtime_path: Path, spawn: Callable[..., Child], version: str
) -> None:
    """Everything is there when the socket is; an update through the socket is in the files."""
    child = spawn(
        *(sys.executable, "-m", "interpose.testing.fakenode", "--socket", runtime_path, "--pods", 20, "--systemd"),
        *("--cgroups", scratch / "cgroup", "--proc", scratch / "proc", "--version", version),
    )
    child.wait_listening(runtime_path)
    files = KernelFiles()
    tree = CgroupTree(files, str(scratch / "cgroup"), version=detect_version(files, str(scratch / "cgroup")))
    assert f"v{tree.version}" == version
    hub = Hub()
    upstream = Upstream(str(runtime_path), hub=hub, limits=Limits(), wait=5.0)
    try:
        call = RuntimeCalls(Client(upstream, hub))
        pods = convert.listed_pods(await call("ListPodSandbox", convert.list_pods()))
        assert len(pods) == 20
        container = convert.listed_containers(await call("ListContainers", convert.list_containers()))[0]
        pod = convert.pod_of_status(await call("PodSandboxStatus", convert.pod_status(container.pod_id)))
        directory = pod_directory(pod.cgroup_parent)
        name = find_child(tree.children(directory), container.id)
        (pid,) = tree.processes(f"{directory}/{name}")
        assert (scratch / "proc" / str(pid) / "oom_score_adj").exists()
        await call("UpdateContainerResources", convert.update_resources(container.id, LinuxResources(cpu_quota=5000)))
        assert tree.read(f"{directory}/{name}", Parameter.CPU_QUOTA) == 5000
    finally:
        await upstream.close()
