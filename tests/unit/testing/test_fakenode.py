"""A runtime with cgroups: what comes with a pod, what changes, what goes with it."""

from pathlib import Path
from typing import Any

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.core.model.cgroup import CLEAR, UNLIMITED, Parameter, Value
from interpose.host.cgroup.tree import detect_layout, detect_version
from interpose.net.grpc.status import Code, RpcError
from interpose.testing.fakenode import FakeNode, PlainCgroups
from interpose.testing.kernel.cgroup import FakeKernel
from interpose.testing.pods import container_config, create_request, linux_resources, pod_config, run_request
from interpose.testing.runtime.state import FakeSandbox

GIB = 1 << 30
SHARES, QUOTA, LIMIT = Parameter.CPU_SHARES, Parameter.CPU_QUOTA, Parameter.MEMORY_LIMIT


@pytest.fixture(params=["v1 memory", "v2 memory", "v1 plain", "v2 plain", "v2 memory systemd"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> FakeNode:
    """An empty node of every kind."""
    version = 1 if "v1" in request.param else 2
    if "plain" in request.param:
        return FakeNode(PlainCgroups(tmp_path / "cgroup", version, proc=tmp_path / "proc"))
    return FakeNode(FakeKernel(version), systemd="systemd" in request.param)


def web(node: FakeNode) -> cri.PodSandboxConfig:
    """A pod that may have half a CPU."""
    config = pod_config("web", systemd=node.systemd)
    config.linux.resources.CopyFrom(linux_resources(cpu_request=250, cpu_limit=500, memory_limit=GIB))
    return config


def add_web(node: FakeNode) -> tuple[FakeSandbox, str]:
    """The pod with a container; answers the container's id."""
    config = web(node)
    resources = linux_resources(cpu_request=250, cpu_limit=500, memory_limit=GIB, oom_score_adj=900)
    sandbox = node.add(config, [container_config(config, resources=resources)])
    return sandbox, sandbox.containers[0]


def values(node: FakeNode, directory: str, *parameters: Parameter) -> list[Value]:
    """What is in force."""
    return [node.tree.read(directory, one) for one in parameters]


def test_nothing_but_qos_classes_at_first(node: FakeNode) -> None:
    """As on a node whose kubelet has just come up; whoever looks finds version and driver."""
    assert detect_version(node.cgroups, node.cgroups.root) == node.cgroups.version
    assert detect_layout(node.tree) == node.layout
    assert sorted(node.tree.children("kubepods.slice" if node.systemd else "kubepods")) == (
        ["kubepods-besteffort.slice", "kubepods-burstable.slice"] if node.systemd else ["besteffort", "burstable"]
    )


def test_pod_and_container_have_what_was_asked_for(node: FakeNode) -> None:
    """In directories that are named as the driver names them, with a process in each."""
    sandbox, container = add_web(node)
    pod = node.pod_directory(sandbox)
    for directory in (pod, node.directory(container)):
        shares, quota, limit = values(node, directory, SHARES, QUOTA, LIMIT)
        assert node.tree.same(SHARES, shares, 256)
        assert (quota, limit) == (50_000, GIB)
    scope = f"cri-containerd-{container}.scope" if node.systemd else container
    assert node.directory(container) == f"{pod}/{scope}"
    assert sorted(node.tree.children(pod)) == sorted(
        node.directory(one).removeprefix(f"{pod}/") for one in (sandbox.id, container)
    )
    assert node.tree.processes(node.directory(container)) == [node.pid(container)]
    assert node.tree.threads(node.directory(container)) == [node.pid(container)]
    assert node.tree.processes(node.directory(sandbox.id)) == [node.pid(sandbox.id)]
    assert node.tree.processes(pod) == []


def test_oom_score_of_the_process(tmp_path: Path) -> None:
    """Where it was asked for; it goes with the process."""
    kernel = FakeKernel()
    in_memory, plain = FakeNode(kernel), FakeNode(PlainCgroups(tmp_path / "cgroup", proc=tmp_path / "proc"))
    _, one = add_web(in_memory)
    assert kernel.read(f"/proc/{in_memory.pid(one)}/oom_score_adj") == "900\n"
    sandbox, other = add_web(plain)
    file = tmp_path / "proc" / str(plain.pid(other)) / "oom_score_adj"
    assert file.read_text() == "900\n"
    plain.runtime.state.stop_sandbox(sandbox)
    assert not file.exists()


def test_plain_files_name_no_process_of_this_machine(tmp_path: Path) -> None:
    """Whoever acts on what they list must not hit anybody."""
    node = FakeNode(PlainCgroups(tmp_path))
    _, container = add_web(node)
    assert node.pid(container) > 1 << 22


async def test_kubelet_makes_the_cgroup_before_the_sandbox(node: FakeNode) -> None:
    """Values somebody sets in between stay; several attempts share it."""
    config = web(node)
    directory = node.make_pod(config)
    node.tree.write(directory, QUOTA, UNLIMITED)
    first = (await node.runtime.call("RunPodSandbox", run_request(config))).pod_sandbox_id
    assert values(node, directory, QUOTA) == [UNLIMITED]
    config.metadata.attempt = 1
    second = (await node.runtime.call("RunPodSandbox", run_request(config))).pod_sandbox_id
    await node.runtime.call("RemovePodSandbox", cri.RemovePodSandboxRequest(pod_sandbox_id=first))
    assert len(node.tree.children(directory)) == 1
    await node.runtime.call("RemovePodSandbox", cri.RemovePodSandboxRequest(pod_sandbox_id=second))
    assert not node.tree.exists(directory)


async def test_container_has_a_cgroup_while_it_runs(node: FakeNode) -> None:
    """Not before, not after."""
    config = web(node)
    sandbox = node.add(config)
    create = create_request(sandbox.id, config, container_config(config))
    container = (await node.runtime.call("CreateContainer", create)).container_id
    with pytest.raises(KeyError):
        node.directory(container)
    await node.runtime.call("StartContainer", cri.StartContainerRequest(container_id=container))
    directory = node.directory(container)
    assert node.tree.exists(directory)
    await node.runtime.call("StopContainer", cri.StopContainerRequest(container_id=container))
    assert not node.tree.exists(directory)
    await node.runtime.call("RemoveContainer", cri.RemoveContainerRequest(container_id=container))
    await node.runtime.call("StopPodSandbox", cri.StopPodSandboxRequest(pod_sandbox_id=sandbox.id))
    assert node.tree.children(node.pod_directory(sandbox)) == []
    await node.runtime.call("RemovePodSandbox", cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox.id))
    assert not node.tree.exists(node.pod_directory(sandbox))


def update(container: str, **resources: Any) -> cri.UpdateContainerResourcesRequest:
    """An update of these fields."""
    return cri.UpdateContainerResourcesRequest(container_id=container, linux=cri.LinuxContainerResources(**resources))


async def test_update_is_written(node: FakeNode) -> None:
    """What it does not set stays; a period goes with its quota."""
    _, container = add_web(node)
    await node.runtime.call(
        "UpdateContainerResources", update(container, cpu_quota=20_000, cpu_period=50_000, cpuset_cpus="2-3")
    )
    directory = node.directory(container)
    period = Parameter.CPU_PERIOD
    assert values(node, directory, QUOTA, period, Parameter.CPUSET_CPUS) == [20_000, 50_000, "2-3"]
    assert values(node, directory, LIMIT) == [GIB]
    await node.runtime.call("UpdateContainerResources", update(container, cpu_quota=-1, memory_limit_in_bytes=-1))
    assert values(node, directory, QUOTA, LIMIT) == [UNLIMITED, UNLIMITED]


async def test_update_of_a_container_that_does_not_run(node: FakeNode) -> None:
    """It counts when it starts."""
    config = web(node)
    sandbox = node.add(config)
    create = create_request(sandbox.id, config, container_config(config))
    container = (await node.runtime.call("CreateContainer", create)).container_id
    await node.runtime.call("UpdateContainerResources", update(container, memory_limit_in_bytes=GIB))
    await node.runtime.call("StartContainer", cri.StartContainerRequest(container_id=container))
    assert values(node, node.directory(container), LIMIT) == [GIB]


async def test_what_the_kernel_refuses_is_the_answer() -> None:
    """An update that failed changed nothing that the runtime would show."""
    node = FakeNode(FakeKernel(1))
    _, container = add_web(node)
    with pytest.raises(RpcError, match=r"failed to update resources .* Invalid argument") as caught:
        await node.runtime.call("UpdateContainerResources", update(container, cpu_quota=100_000))
    assert caught.value.code is Code.UNKNOWN
    assert node.runtime.containers[container].resources.cpu_quota == 50_000


def test_container_that_does_not_fit_does_not_start() -> None:
    """On v1 a container cannot have more than its pod; nothing of it is left."""
    node = FakeNode(FakeKernel(1))
    config = web(node)
    resources = linux_resources(cpu_request=250, cpu_limit=2000)
    with pytest.raises(RpcError, match="OCI runtime create failed"):
        node.add(config, [container_config(config, resources=resources)])
    (container,) = node.runtime.containers.values()
    assert (container.state, container.reason, container.exit_code) == (cri.CONTAINER_EXITED, "StartError", 128)
    (sandbox,) = node.runtime.sandboxes.values()
    assert node.tree.children(node.pod_directory(sandbox)) == [sandbox.id]


def test_pod_without_a_cgroup_parent() -> None:
    """Such as crictl makes: the runtime's own business."""
    node = FakeNode()
    config = pod_config("bare")
    config.linux.cgroup_parent = ""
    sandbox = node.add(config, [container_config(config)])
    node.runtime.state.remove_sandbox(sandbox)
    assert sorted(node.tree.children("kubepods")) == ["besteffort", "burstable"]


def test_cpuset_of_v2_is_the_parents_until_it_is_set() -> None:
    """And that of a node in memory is what it was made with."""
    node = FakeNode(FakeKernel(2, cpus="0-3"))
    _, container = add_web(node)
    assert values(node, node.directory(container), Parameter.CPUSET_CPUS) == [CLEAR]
    assert node.tree.allowed_cpus(node.directory(container)) == "0-3"
