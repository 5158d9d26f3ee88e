"""Calls that change the node."""

import pytest
from google.protobuf.message import Message

from interpose._pb import cri_pb2 as cri
from interpose.net.grpc.status import Code, RpcError
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.pods import container_config, create_request, linux_resources, pod_config, run_request


async def run_pod(runtime: FakeRuntime, *names: str) -> tuple[str, list[str]]:
    """A pod with these containers running, made by calls; answers the ids."""
    pod = pod_config("web")
    sandbox_id = (await runtime.call("RunPodSandbox", run_request(pod))).pod_sandbox_id
    ids = []
    for name in names:
        created = await runtime.call("CreateContainer", create_request(sandbox_id, pod, container_config(pod, name)))
        await runtime.call("StartContainer", cri.StartContainerRequest(container_id=created.container_id))
        ids.append(created.container_id)
    return sandbox_id, ids


async def test_a_pod_runs(runtime: FakeRuntime) -> None:
    """Run, create, start: the objects exist, with ids, and the container runs in its sandbox."""
    sandbox_id, (container_id,) = await run_pod(runtime, "app")
    assert runtime.sandboxes[sandbox_id].ready
    container = runtime.containers[container_id]
    assert (container.sandbox_id, container.state) == (sandbox_id, cri.CONTAINER_RUNNING)


@pytest.mark.parametrize(
    ("method", "request_message"),
    [
        ("CreateContainer", cri.CreateContainerRequest(pod_sandbox_id="x")),
        ("StartContainer", cri.StartContainerRequest(container_id="x")),
        ("UpdateContainerResources", cri.UpdateContainerResourcesRequest(container_id="x")),
        ("UpdatePodSandboxResources", cri.UpdatePodSandboxResourcesRequest(pod_sandbox_id="x")),
        ("ReopenContainerLog", cri.ReopenContainerLogRequest(container_id="x")),
        ("CheckpointContainer", cri.CheckpointContainerRequest(container_id="x", location="/c")),
        ("CheckpointPod", cri.CheckpointPodRequest(pod_sandbox_id="x", output_path="/c")),
        ("RestorePod", cri.RestorePodRequest(checkpoint_path="/nosuch", config=pod_config("web"))),
    ],
)
async def test_something_absent_is_not_found(runtime: FakeRuntime, method: str, request_message: Message) -> None:
    """NOT_FOUND, naming what was asked for."""
    with pytest.raises(RpcError, match=r'"(x|/nosuch)"') as caught:
        await runtime.call(method, request_message)
    assert caught.value.code is Code.NOT_FOUND


@pytest.mark.parametrize(
    ("method", "request_message"),
    [
        ("StopPodSandbox", cri.StopPodSandboxRequest(pod_sandbox_id="x")),
        ("RemovePodSandbox", cri.RemovePodSandboxRequest(pod_sandbox_id="x")),
        ("StopContainer", cri.StopContainerRequest(container_id="x")),
        ("RemoveContainer", cri.RemoveContainerRequest(container_id="x")),
    ],
)
async def test_stop_and_remove_of_something_absent_succeed(
    runtime: FakeRuntime, method: str, request_message: Message
) -> None:
    """CRI asks for it: the kubelet repeats these calls until they succeed. Other pods are left alone."""
    await run_pod(runtime, "app")
    await runtime.call(method, request_message)
    assert len(runtime.containers) == 1


async def test_stop_and_remove_can_be_repeated(runtime: FakeRuntime) -> None:
    """The second call of each kind finds its work done and succeeds."""
    sandbox_id, (container_id,) = await run_pod(runtime, "app")
    for _ in range(2):
        await runtime.call("StopContainer", cri.StopContainerRequest(container_id=container_id, timeout=2))
    assert runtime.containers[container_id].exit_code == 143
    for _ in range(2):
        await runtime.call("RemoveContainer", cri.RemoveContainerRequest(container_id=container_id))
        await runtime.call("StopPodSandbox", cri.StopPodSandboxRequest(pod_sandbox_id=sandbox_id))
    assert not runtime.sandboxes[sandbox_id].ready
    for _ in range(2):
        await runtime.call("RemovePodSandbox", cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox_id))
    assert (dict(runtime.sandboxes), dict(runtime.containers)) == ({}, {})


async def test_a_stop_without_grace_kills(runtime: FakeRuntime) -> None:
    """Timeout 0 is SIGKILL at once, visible in the exit code."""
    _, (container_id,) = await run_pod(runtime, "app")
    await runtime.call("StopContainer", cri.StopContainerRequest(container_id=container_id))
    assert runtime.containers[container_id].exit_code == 137


async def test_removing_takes_running_things_down(runtime: FakeRuntime) -> None:
    """Neither a running container nor a ready sandbox resists."""
    sandbox_id, (first, _) = await run_pod(runtime, "one", "two")
    await runtime.call("RemoveContainer", cri.RemoveContainerRequest(container_id=first))
    assert first not in runtime.containers
    await runtime.call("RemovePodSandbox", cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox_id))
    assert not runtime.containers


async def test_a_container_needs_its_image(runtime: FakeRuntime) -> None:
    """An image that was not pulled is NOT_FOUND, and nothing is created."""
    pod = pod_config("web")
    sandbox_id, _ = await run_pod(runtime)
    with pytest.raises(RpcError, match='image "nosuch"') as caught:
        await runtime.call("CreateContainer", create_request(sandbox_id, pod, container_config(pod, image="nosuch")))
    assert caught.value.code is Code.NOT_FOUND
    assert not runtime.containers


async def test_an_unknown_runtime_handler_is_refused(runtime: FakeRuntime) -> None:
    """The message names it."""
    with pytest.raises(RpcError, match='"kata"'):
        await runtime.call("RunPodSandbox", run_request(pod_config("web"), "kata"))
    await runtime.call("RunPodSandbox", run_request(pod_config("web"), "runc"))


async def test_without_a_network_only_host_network_pods_run(runtime: FakeRuntime) -> None:
    """As a node without CNI behaves."""
    runtime.health.network_ready = False
    with pytest.raises(RpcError, match="cni plugin not initialized"):
        await runtime.call("RunPodSandbox", run_request(pod_config("web")))
    await runtime.call("RunPodSandbox", run_request(pod_config("host", host_network=True)))


async def test_an_update_shows_in_the_status(runtime: FakeRuntime) -> None:
    """Only what was sent changes; the rest stays as created."""
    _, (container_id,) = await run_pod(runtime, "app")
    update = cri.UpdateContainerResourcesRequest(
        container_id=container_id, linux=cri.LinuxContainerResources(cpuset_cpus="1-2")
    )
    await runtime.call("UpdateContainerResources", update)
    status = await runtime.call("ContainerStatus", cri.ContainerStatusRequest(container_id=container_id))
    expected = linux_resources()
    expected.cpuset_cpus = "1-2"
    assert status.status.resources.linux == expected


async def test_pod_resources_are_patched(runtime: FakeRuntime) -> None:
    """Resources and overhead change apart; the create-time configuration stays."""
    sandbox_id, _ = await run_pod(runtime)
    update = cri.UpdatePodSandboxResourcesRequest(
        pod_sandbox_id=sandbox_id,
        resources=cri.LinuxContainerResources(cpu_shares=512),
        overhead=cri.LinuxContainerResources(memory_limit_in_bytes=7),
    )
    await runtime.call("UpdatePodSandboxResources", update)
    sandbox = runtime.sandboxes[sandbox_id]
    assert (sandbox.resources.cpu_shares, sandbox.overhead.memory_limit_in_bytes) == (512, 7)
    assert sandbox.config == pod_config("web")


async def test_logs_are_reopened_of_running_containers(runtime: FakeRuntime) -> None:
    """It is counted; an ended container is refused."""
    _, (container_id,) = await run_pod(runtime, "app")
    request = cri.ReopenContainerLogRequest(container_id=container_id)
    await runtime.call("ReopenContainerLog", request)
    assert runtime.containers[container_id].log_reopened == 1
    runtime.exit_container(container_id)
    with pytest.raises(RpcError, match="CONTAINER_EXITED"):
        await runtime.call("ReopenContainerLog", request)


async def test_a_checkpointed_pod_comes_back(runtime: FakeRuntime) -> None:
    """A new sandbox with running containers of the same configurations, and their names with new ids."""
    sandbox_id, (first, second) = await run_pod(runtime, "one", "two")
    await runtime.call("CheckpointPod", cri.CheckpointPodRequest(pod_sandbox_id=sandbox_id, output_path="/c"))
    await runtime.call("RemovePodSandbox", cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox_id))
    answer = await runtime.call("RestorePod", cri.RestorePodRequest(checkpoint_path="/c", config=pod_config("web")))
    assert answer.pod_sandbox_id in runtime.sandboxes
    restored = {one.name: runtime.containers[one.container_id] for one in answer.restored_containers}
    assert sorted(restored) == ["one", "two"]
    for container in restored.values():
        assert container.state == cri.CONTAINER_RUNNING
        assert container.sandbox_id == answer.pod_sandbox_id
        assert container.id not in (first, second)


async def test_a_restore_takes_the_new_configurations(runtime: FakeRuntime) -> None:
    """What the caller configures wins over the checkpoint, and limits what comes back."""
    sandbox_id, (first, _) = await run_pod(runtime, "one", "two")
    checkpoint = cri.CheckpointPodRequest(pod_sandbox_id=sandbox_id, output_path="/c", container_ids=[first])
    await runtime.call("CheckpointPod", checkpoint)
    pod = pod_config("copy")
    request = cri.RestorePodRequest(
        checkpoint_path="/c", config=pod, container_configs=[container_config(pod, "one", envs={"NEW": "1"})]
    )
    (restored,) = (await runtime.call("RestorePod", request)).restored_containers
    assert [env.key for env in runtime.containers[restored.container_id].config.envs] == ["NEW"]
    request.container_configs.add().CopyFrom(container_config(pod, "two"))
    request.config.metadata.attempt = 1
    with pytest.raises(RpcError, match='"two" is not in checkpoint') as caught:
        await runtime.call("RestorePod", request)
    assert caught.value.code is Code.INVALID_ARGUMENT


async def test_a_failed_restore_leaves_nothing(runtime: FakeRuntime) -> None:
    """If one container cannot be made, the sandbox goes again."""
    sandbox_id, _ = await run_pod(runtime, "one")
    await runtime.call("CheckpointPod", cri.CheckpointPodRequest(pod_sandbox_id=sandbox_id, output_path="/c"))
    pod = pod_config("copy")
    request = cri.RestorePodRequest(
        checkpoint_path="/c", config=pod, container_configs=[container_config(pod, "one", image="nosuch")]
    )
    with pytest.raises(RpcError, match="nosuch"):
        await runtime.call("RestorePod", request)
    assert list(runtime.sandboxes) == [sandbox_id]


async def test_one_container_can_be_checkpointed(runtime: FakeRuntime) -> None:
    """A running one, to a location; otherwise the error says what is missing."""
    _, (container_id,) = await run_pod(runtime, "app")
    request = cri.CheckpointContainerRequest(container_id=container_id)
    with pytest.raises(RpcError, match="location"):
        await runtime.call("CheckpointContainer", request)
    request.location = "/c"
    await runtime.call("CheckpointContainer", request)
    restore = cri.RestorePodRequest(checkpoint_path="/c", config=pod_config("copy"))
    (restored,) = (await runtime.call("RestorePod", restore)).restored_containers
    assert restored.name == "app"
    runtime.exit_container(container_id)
    with pytest.raises(RpcError, match="CONTAINER_EXITED"):
        await runtime.call("CheckpointContainer", request)


async def test_a_pod_checkpoint_takes_only_its_own_containers(runtime: FakeRuntime) -> None:
    """A container of another pod is refused by name."""
    sandbox_id, _ = await run_pod(runtime, "app")
    other = runtime.populate(1)[0].containers[0]
    request = cri.CheckpointPodRequest(pod_sandbox_id=sandbox_id, output_path="/c", container_ids=[other])
    with pytest.raises(RpcError, match=other) as caught:
        await runtime.call("CheckpointPod", request)
    assert caught.value.code is Code.INVALID_ARGUMENT
