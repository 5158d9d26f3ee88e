"""Hook servers through the whole relay: every hook point, both API versions, chains, policies, restarts."""

import asyncio
import json
from pathlib import Path
from typing import Any

import grpc
import pytest

from interpose._pb import cri_pb2 as cri
from interpose._pb import hook_pb2 as hook
from interpose.config.relay.settings import RelaySettings
from interpose.core.model.pod import ContainerState
from interpose.hooks.api.hookpoint import HookPoint
from interpose.net.grpc.status import Code, RpcError
from interpose.testing import pods
from interpose.testing.eventually import WAIT_LIMIT, eventually, meet_deadline
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.grpcpeer import grpc_channel, is_late
from interpose.testing.hookserver import LIFE, FakeHookServer, echo, register, serve_hooks, set_shares
from interpose.testing.hookstack import HookStack, hook_stack, points_of

POD = pods.pod_config("web", "shop", labels={"app": "web"}, annotations={"team": "blue"})
SECOND = pods.pod_config("db", "shop")


@pytest.fixture
async def hooked(node: HookStack, plugin: FakeHookServer) -> HookStack:
    """The plugin is registered for everything, under Ignore."""
    await node.register("plugin", node.folder / "plugin.sock")
    return node


async def run(node: HookStack, pod: cri.PodSandboxConfig = POD, version: str = "v1") -> str:
    """Run a pod."""
    return str((await node.call(pods.run_request(pod), version=version)).pod_sandbox_id)


async def create(node: HookStack, sandbox: str, pod: cri.PodSandboxConfig = POD, **more: Any) -> str:
    """Create a container."""
    version = more.pop("version", "v1")
    request = pods.create_request(sandbox, pod, pods.container_config(pod, **more))
    return str((await node.call(request, version=version)).container_id)


async def whole_life(node: HookStack, version: str = "v1") -> tuple[str, str]:
    """A pod with a container, from the first call to the last."""
    sandbox = await run(node, version=version)
    container = await create(node, sandbox, envs={"A": "1"}, version=version)
    patch = cri.LinuxContainerResources(cpu_shares=300)
    for request in (
        cri.StartContainerRequest(container_id=container),
        cri.UpdateContainerResourcesRequest(container_id=container, linux=patch),
        cri.StopContainerRequest(container_id=container),
        cri.RemoveContainerRequest(container_id=container),
        cri.StopPodSandboxRequest(pod_sandbox_id=sandbox),
        cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox),
    ):
        await node.call(request, version=version)
    return sandbox, container


@pytest.mark.parametrize("version", ["v1", "v1alpha2"])
async def test_all_hook_points_with_complete_information(
    hooked: HookStack, plugin: FakeHookServer, version: str
) -> None:
    """In the order of a pod's life; calls that carry only an id tell as much as the others."""
    _, container = await whole_life(hooked, version)
    assert points_of(plugin) == LIFE
    for asked in plugin.calls:
        request = asked.request
        assert request.pod_meta == hook.PodSandboxMetadata(name="web", namespace="shop", uid=POD.metadata.uid)
        if asked.point.about_pod:
            assert request.labels["app"] == "web"
            assert request.annotations["team"] == "blue"
            assert request.cgroup_parent == POD.linux.cgroup_parent
        else:
            assert request.container_meta.name == "app"
            assert request.container_meta.id == ("" if asked.point is HookPoint.PRE_CREATE_CONTAINER else container)
            assert request.pod_labels["app"] == "web"
            assert request.pod_annotations["team"] == "blue"
            assert request.pod_cgroup_parent == POD.linux.cgroup_parent
            assert request.container_envs["A"] == "1"
            assert request.container_resources.oom_score_adj == 999
            assert "io.kubernetes.container.hash" in request.container_annotations
    shares = [one.request.container_resources.cpu_shares for one in plugin.calls if not one.point.about_pod]
    assert shares == [102, 102, 102, 300, 300]


async def test_store_is_empty_after_the_last_call(hooked: HookStack) -> None:
    """Records go with Remove."""
    await whole_life(hooked)
    assert not hooked.built.store.pods
    assert not hooked.built.store.containers


async def test_answers_reach_the_runtime(hooked: HookStack, plugin: FakeHookServer) -> None:
    """Every kind of field of both answers."""
    plugin.answers[HookPoint.PRE_RUN_POD_SANDBOX] = hook.PodSandboxHookResponse(
        labels={"added": "1"},
        annotations={"team": "red"},
        cgroup_parent="/batch",
        resources=hook.LinuxContainerResources(cpu_shares=2048),
    )
    plugin.answers[HookPoint.PRE_CREATE_CONTAINER] = hook.ContainerResourceHookResponse(
        container_annotations={"zone": "7"},
        container_envs={"A": "2", "NEW": "x"},
        container_resources=hook.LinuxContainerResources(
            cpu_shares=2,
            cpu_quota=-1,
            cpuset_cpus="0-1",
            memory_limit_in_bytes=1 << 20,
            memory_swap_limit_in_bytes=-1,
            unified={"memory.high": "5"},
            hugepage_limits=[hook.HugepageLimit(page_size="2MB", limit=4)],
        ),
    )
    sandbox = await run(hooked)
    config = hooked.runtime.state.sandbox(sandbox).config
    assert (config.labels["added"], config.annotations["team"]) == ("1", "red")
    assert config.linux.cgroup_parent == "/batch"
    assert config.linux.resources.cpu_shares == 2048
    container = hooked.runtime.state.container(
        await create(hooked, sandbox, envs={"RAW": b"\xff", "A": "1", "Z": "26"})
    )
    assert [(env.key, env.value) for env in container.config.envs] == [
        ("RAW", b"\xff"),
        ("A", b"2"),
        ("Z", b"26"),
        ("NEW", b"x"),
    ]
    assert container.config.annotations["zone"] == "7"
    resources = container.config.linux.resources
    assert (resources.cpu_shares, resources.cpu_quota, resources.cpuset_cpus) == (2, -1, "0-1")
    assert (resources.memory_limit_in_bytes, resources.memory_swap_limit_in_bytes) == (1 << 20, -1)
    assert dict(resources.unified) == {"memory.high": "5"}
    assert [(one.page_size, one.limit) for one in resources.hugepage_limits] == [("2MB", 4)]
    assert resources.oom_score_adj == 999


async def test_cgroup_parent_of_the_pod_reaches_its_containers(hooked: HookStack, plugin: FakeHookServer) -> None:
    """Also after the relay was restarted, when only the runtime remembers it."""
    plugin.answers[HookPoint.PRE_RUN_POD_SANDBOX] = hook.PodSandboxHookResponse(cgroup_parent="/batch")
    sandbox = await run(hooked)
    await create(hooked, sandbox)
    assert plugin.calls[-1].request.pod_cgroup_parent == "/batch"
    sent = [one for name, one in hooked.runtime.requests if name == "CreateContainer"]
    assert [one.sandbox_config.linux.cgroup_parent for one in sent] == ["/batch"]  # type: ignore[attr-defined]


async def test_update_goes_through_the_hook(hooked: HookStack, plugin: FakeHookServer) -> None:
    """What the plugin changes is added to the patch, what it does not name is not."""
    container = await create(hooked, await run(hooked))
    plugin.answers[HookPoint.PRE_UPDATE_CONTAINER_RESOURCES] = set_shares(7)
    patch = cri.LinuxContainerResources(memory_limit_in_bytes=1 << 20)
    await hooked.call(cri.UpdateContainerResourcesRequest(container_id=container, linux=patch))
    sent = [one for name, one in hooked.runtime.requests if name == "UpdateContainerResources"]
    expected = cri.LinuxContainerResources(memory_limit_in_bytes=1 << 20, cpu_shares=7)
    assert [one.linux for one in sent] == [expected]  # type: ignore[attr-defined]


async def test_repeated_updates_do_not_compound(hooked: HookStack, plugin: FakeHookServer) -> None:
    """A plugin that halves a quota is shown what was asked for, not its own result, however often it is asked."""

    def halve(asked: Any) -> Any:
        quota = asked.container_resources.cpu_quota // 2
        return hook.ContainerResourceHookResponse(container_resources=hook.LinuxContainerResources(cpu_quota=quota))

    plugin.answers[HookPoint.PRE_CREATE_CONTAINER] = halve
    plugin.answers[HookPoint.PRE_UPDATE_CONTAINER_RESOURCES] = halve
    asked = cri.LinuxContainerResources(cpu_quota=80_000)
    container = await create(hooked, await run(hooked), resources=asked)
    for shares in (100, 200, 300):
        patch = cri.LinuxContainerResources(cpu_shares=shares)
        await hooked.call(cri.UpdateContainerResourcesRequest(container_id=container, linux=patch))
        assert hooked.runtime.state.container(container).resources.cpu_quota == 40_000
    patch = cri.LinuxContainerResources(cpu_quota=60_000)
    await hooked.call(cri.UpdateContainerResourcesRequest(container_id=container, linux=patch))
    assert hooked.runtime.state.container(container).resources.cpu_quota == 30_000


# -- several


async def test_chain_of_three_in_order_of_priority(node: HookStack, scratch: Path) -> None:
    """Each sees what the one before it made, echoing and partial ones mixed; both names of a conflict are counted."""
    first, second, third = FakeHookServer(set_shares(10)), FakeHookServer(set_shares(20, echo)), FakeHookServer(echo)
    async with (
        serve_hooks(scratch / "1.sock", first),
        serve_hooks(scratch / "2.sock", second),
        serve_hooks(scratch / "3.sock", third),
    ):
        register(node.directory, "c-last", scratch / "3.sock", priority=200)
        register(node.directory, "a-second", scratch / "2.sock")
        register(node.directory, "z-first", scratch / "1.sock", priority=5)
        await node.in_force("c-last", "a-second", "z-first")
        container = await create(node, await run(node))
        asked = [one.calls[-1].request.container_resources.cpu_shares for one in (first, second, third)]
        assert asked == [102, 10, 20]
        assert node.runtime.state.container(container).resources.cpu_shares == 20
        assert node.built.dispatcher.hook_calls.conflicts == {("z-first", "a-second", "PreCreateContainer"): 1}


# -- failing plugins


@pytest.mark.parametrize("how", ["absent", "refuses", "hangs", "crashes", "garbage"])
async def test_fail_and_ignore(node: HookStack, plugin: FakeHookServer, scratch: Path, how: str) -> None:
    """Ignore goes on unchanged; Fail never calls the runtime and names the plugin."""
    point = HookPoint.PRE_RUN_POD_SANDBOX
    endpoint = scratch / ("nowhere.sock" if how == "absent" else "plugin.sock")
    match how:
        case "refuses":
            plugin.answers[point] = RpcError(Code.PERMISSION_DENIED, "not today")
        case "hangs":
            plugin.stall(point)
        case "crashes":
            plugin.crash(point)
        case "garbage":
            plugin.garbage(point)
    await node.register("soft", endpoint, hooks=[point], timeout="200ms")
    await run(node)
    await node.register("hard", endpoint, hooks=[point], failure_policy="Fail", timeout="200ms")
    before = node.runtime.calls["RunPodSandbox"]
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await run(node, SECOND)
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    details = refused.value.details() or ""
    assert details.startswith("hook server hard (failure policy Fail) at PreRunPodSandbox: ")
    if how == "refuses":
        assert details.endswith("PERMISSION_DENIED: not today")
    assert node.runtime.calls["RunPodSandbox"] == before


async def test_hanging_plugin_leaves_the_runtime_its_time(node: HookStack, plugin: FakeHookServer) -> None:
    """Hooks get half of what the caller has left, so the call itself still succeeds."""
    plugin.stall(HookPoint.PRE_RUN_POD_SANDBOX)
    await node.register("plugin", node.folder / "plugin.sock")
    given = await meet_deadline(lambda timeout: _run_beside(node, plugin, timeout), is_late, 2.0)
    assert given is not None
    assert node.runtime.calls["RunPodSandbox"]


async def _run_beside(node: HookStack, plugin: FakeHookServer, timeout: float) -> float | None:
    """Run a pod; what the hook server had of that time."""
    await node.call(pods.run_request(pods.pod_config(f"web{timeout:g}")), timeout=timeout)
    given = plugin.calls[-1].timeout
    assert given is None or given <= 0.55 * timeout  # grpcio rounds up what it gives us
    return given


async def test_plugin_that_comes_back_is_asked_again(node: HookStack, scratch: Path) -> None:
    """After its breaker opened, as soon as its socket is there again."""
    await node.register("late", scratch / "late.sock", hooks=[HookPoint.PRE_RUN_POD_SANDBOX])
    for number in range(5):
        await run(node, pods.pod_config(f"early{number}"))
    server = FakeHookServer()
    async with serve_hooks(scratch / "late.sock", server):
        client = node.built.plugins.all[0].caller
        await eventually(lambda: getattr(client, "state", "") == "connected", "the hook server to be connected")
        await run(node)
        assert points_of(server) == ["PreRunPodSandbox"]


async def test_post_hooks_see_failures_and_do_not_change_them(hooked: HookStack, plugin: FakeHookServer) -> None:
    """The runtime's code and text are in the metadata, and in the reply."""
    container = await create(hooked, await run(hooked))
    hooked.runtime.fail("StartContainer", Code.UNKNOWN, "exec format error", times=1)
    plugin.answers[HookPoint.POST_START_CONTAINER] = RpcError(Code.ABORTED, "whatever")
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await hooked.call(cri.StartContainerRequest(container_id=container))
    assert (failed.value.code(), failed.value.details()) == (grpc.StatusCode.UNKNOWN, "exec format error")
    metadata = dict(plugin.calls[-1].metadata)
    assert metadata[b"interpose-runtime-code"] == b"2"
    assert metadata[b"interpose-runtime-message"] == b"exec format error"
    await hooked.call(cri.StartContainerRequest(container_id=container))
    assert dict(plugin.calls[-1].metadata)[b"interpose-runtime-code"] == b"0"


async def test_post_hook_does_not_hold_the_reply_beyond_its_budget(hooked: HookStack, plugin: FakeHookServer) -> None:
    """The caller has its answer although the plugin never gives one."""
    container = await create(hooked, await run(hooked))
    plugin.stall(HookPoint.POST_START_CONTAINER)
    await hooked.call(cri.StartContainerRequest(container_id=container), timeout=WAIT_LIMIT)
    assert hooked.runtime.state.container(container).state == cri.CONTAINER_RUNNING


# -- what comes and goes


async def test_without_registration_nothing_is_intercepted(node: HookStack) -> None:
    """The relay is a pass-through until the first file, and hooks work from then on."""
    assert node.stack.relay.call_runner is None
    sandbox = await run(node)
    server = FakeHookServer()
    async with serve_hooks(node.folder / "plugin.sock", server):
        await node.register("plugin", node.folder / "plugin.sock")
        await create(node, sandbox)
    assert points_of(server) == ["PreCreateContainer"]
    assert server.calls[0].request.pod_labels["app"] == "web"


async def test_deleted_registration_is_out_of_force(hooked: HookStack, plugin: FakeHookServer) -> None:
    """At once, and the connection is given up."""
    await run(hooked)
    (hooked.directory / "plugin.json").unlink()
    await eventually(lambda: not hooked.built.plugins.all, "the plugin to be forgotten")
    await run(hooked, SECOND)
    assert points_of(plugin) == ["PreRunPodSandbox"]


async def test_call_in_flight_outlives_its_registration(node: HookStack, plugin: FakeHookServer) -> None:
    """A plugin under Fail that is unregistered while it answers still has its answer heard."""
    stall = plugin.stall(HookPoint.PRE_RUN_POD_SANDBOX)
    plugin.answers[HookPoint.PRE_RUN_POD_SANDBOX] = hook.PodSandboxHookResponse(labels={"late": "1"})
    await node.register("plugin", node.folder / "plugin.sock", failure_policy="Fail")
    task = asyncio.get_running_loop().create_task(run(node))
    await stall.entered.wait()
    (node.directory / "plugin.json").unlink()
    await eventually(lambda: not node.built.plugins.all, "the plugin to be forgotten")
    stall.release()
    assert node.runtime.state.sandbox(await task).config.labels["late"] == "1"


async def test_restarted_relay_knows_everything(scratch: Path, plugin: FakeHookServer) -> None:
    """Containers made before, by a relay that is gone or by nobody we know, are told completely."""
    runtime = FakeRuntime()
    plugin.answers[HookPoint.PRE_CREATE_CONTAINER] = set_shares(9)
    (scratch / "hookserver.d").mkdir()
    register(scratch / "hookserver.d", "plugin", scratch / "plugin.sock")
    async with hook_stack(scratch, runtime=runtime) as first:
        sandbox = await run(first)
        container = await create(first, sandbox, envs={"A": "1"})
        await first.call(cri.StartContainerRequest(container_id=container))
        told = plugin.calls[-1].request
        known = first.built.store.containers[container]
    plugin.calls.clear()
    async with hook_stack(scratch, runtime=runtime) as second:
        await second.call(cri.StopContainerRequest(container_id=container))
        assert plugin.calls[-1].request == told
        assert points_of(plugin) == ["PostStopContainer"]
        again = second.built.store.containers[container]
        assert (again.requested, again.resources, again.envs) == (known.requested, known.resources, known.envs)
        assert again.state is ContainerState.EXITED


async def test_successor_knows_what_was_last_asked_for(scratch: Path, plugin: FakeHookServer) -> None:
    """The runtime does not remember an update's request that a plugin changed; the predecessor tells it."""
    runtime = FakeRuntime()
    plugin.answers[HookPoint.PRE_UPDATE_CONTAINER_RESOURCES] = set_shares(3)
    (scratch / "hookserver.d").mkdir()
    register(scratch / "hookserver.d", "plugin", scratch / "plugin.sock")
    async with hook_stack(scratch, runtime=runtime) as first:
        container = await create(first, await run(first))
        patch = cri.LinuxContainerResources(cpu_shares=400)
        await first.call(cri.UpdateContainerResourcesRequest(container_id=container, linux=patch))
        memory = json.loads(json.dumps(first.hooks.memory()))
    async with hook_stack(scratch, runtime=runtime, memory=memory) as second:
        await eventually(lambda: container in second.built.store.diverging, "the store to be in step")
        status = (await second.call(cri.ContainerStatusRequest(container_id=container))).status
        assert status.resources.linux.cpu_shares == 400


async def test_hook_sees_a_change_made_by_an_update_after_a_restart(scratch: Path, plugin: FakeHookServer) -> None:
    """PreUpdateContainerResources is neither blind nor powerless then."""
    runtime = FakeRuntime()
    (scratch / "hookserver.d").mkdir()
    register(scratch / "hookserver.d", "plugin", scratch / "plugin.sock")
    async with hook_stack(scratch, runtime=runtime) as first:
        container = await create(first, await run(first))
    plugin.answers[HookPoint.PRE_UPDATE_CONTAINER_RESOURCES] = set_shares(11)
    async with hook_stack(scratch, runtime=runtime) as second:
        patch = cri.LinuxContainerResources(cpuset_cpus="0")
        await second.call(cri.UpdateContainerResourcesRequest(container_id=container, linux=patch))
    asked = plugin.calls[-1].request.container_resources
    assert (asked.cpu_shares, asked.cpuset_cpus, asked.oom_score_adj) == (102, "0", 999)
    resources = runtime.state.container(container).resources
    assert (resources.cpu_shares, resources.cpuset_cpus) == (11, "0")


# -- what the kubelet sees


async def test_kubelet_sees_what_it_asked_for(hooked: HookStack, plugin: FakeHookServer) -> None:
    """In the status of the container and of the pod; another container's reply is untouched."""
    plugin.answers[HookPoint.PRE_CREATE_CONTAINER] = set_shares(2)
    sandbox = await run(hooked)
    container = await create(hooked, sandbox)
    status = (await hooked.call(cri.ContainerStatusRequest(container_id=container))).status
    assert status.resources.linux.cpu_shares == 102
    pod = await hooked.call(cri.PodSandboxStatusRequest(pod_sandbox_id=sandbox))
    assert [one.resources.linux.cpu_shares for one in pod.containers_statuses] == [102]
    patch = cri.LinuxContainerResources(cpu_shares=400)
    plugin.answers[HookPoint.PRE_UPDATE_CONTAINER_RESOURCES] = set_shares(3)
    await hooked.call(cri.UpdateContainerResourcesRequest(container_id=container, linux=patch))
    status = (await hooked.call(cri.ContainerStatusRequest(container_id=container))).status
    assert status.resources.linux.cpu_shares == 400
    assert hooked.runtime.state.container(container).resources.cpu_shares == 3


async def test_kubelet_sees_what_it_asked_for_before_the_store_is_in_step(
    scratch: Path, plugin: FakeHookServer
) -> None:
    """A relay that has just been restarted reads it from the annotation in the runtime's answer."""
    runtime = FakeRuntime()
    plugin.answers[HookPoint.PRE_CREATE_CONTAINER] = set_shares(2)
    (scratch / "hookserver.d").mkdir()
    register(scratch / "hookserver.d", "plugin", scratch / "plugin.sock")
    async with hook_stack(scratch, runtime=runtime) as first:
        container = await create(first, await run(first))
    stall = runtime.stall("ListPodSandbox")
    async with hook_stack(scratch, runtime=runtime) as second:
        status = (await second.call(cri.ContainerStatusRequest(container_id=container))).status
        assert status.resources.linux.cpu_shares == 102
        assert not second.built.store.containers
        stall.release()
        await eventually(lambda: second.built.sync.in_step, "the store to be in step")
        second.hooks.tick()
        assert second.built.settled
        status = (await second.call(cri.ContainerStatusRequest(container_id=container))).status
        assert status.resources.linux.cpu_shares == 102


async def test_event_streams_from_before_hooks_begin_anew(node: HookStack, plugin: FakeHookServer) -> None:
    """A stream that began as a pass-through cannot be corrected, so its client is asked to subscribe again."""
    plugin.answers[HookPoint.PRE_CREATE_CONTAINER] = set_shares(2)
    async with grpc_channel(node.stack.socket) as channel:
        subscribe = channel.unary_stream("/runtime.v1.RuntimeService/GetContainerEvents")
        early = subscribe(b"")
        await eventually(lambda: node.runtime.calls["GetContainerEvents"] == 1, "the subscription")
        await node.register("plugin", node.folder / "plugin.sock")
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await early.read()
        assert ended.value.code() is grpc.StatusCode.UNAVAILABLE
        late = subscribe(b"")
        await eventually(lambda: node.runtime.calls["GetContainerEvents"] == 2, "the second subscription")
        container = await create(node, await run(node))
        await node.call(cri.StartContainerRequest(container_id=container))
        seen: list[cri.ContainerEventResponse] = []
        while not any(one.container_id == container and one.container_event_type == 1 for one in seen):
            seen.append(cri.ContainerEventResponse.FromString(await late.read()))
        assert [one.resources.linux.cpu_shares for one in seen[-1].containers_statuses] == [102]


async def test_real_resources_can_be_reported(scratch: Path, plugin: FakeHookServer) -> None:
    """By a setting."""
    plugin.answers[HookPoint.PRE_CREATE_CONTAINER] = set_shares(2)
    async with hook_stack(scratch, settings=RelaySettings(report_real_resources=True)) as node:
        await node.register("plugin", scratch / "plugin.sock")
        container = await create(node, await run(node))
        status = (await node.call(cri.ContainerStatusRequest(container_id=container))).status
        assert status.resources.linux.cpu_shares == 2


# -- many at once


async def test_many_calls_at_once(hooked: HookStack, plugin: FakeHookServer) -> None:
    """Concurrent calls about the same containers neither mix nor break."""
    plugin.default = set_shares(5, echo)
    sandbox = await run(hooked)
    containers = [await create(hooked, sandbox, name=f"c{number}") for number in range(4)]
    patch = cri.LinuxContainerResources(cpu_shares=100)
    requests = [cri.UpdateContainerResourcesRequest(container_id=one, linux=patch) for one in containers * 25]
    await asyncio.gather(*(hooked.call(one) for one in requests))
    assert [hooked.runtime.state.container(one).resources.cpu_shares for one in containers] == [5] * 4
    assert hooked.built.plugins.all[0].stats.failures == 0
