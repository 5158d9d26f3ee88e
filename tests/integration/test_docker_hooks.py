"""Hook servers of a relay in front of Docker: every hook point, what answers change, who is not asked, who refuses."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from interpose._pb import hook_pb2 as hook
from interpose.hooks.api.hookpoint import HookPoint
from interpose.testing.eventually import eventually
from interpose.testing.hookserver import LIFE, FakeHookServer, echo, serve_hooks, set_shares
from interpose.testing.hookstack import points_of
from tests.support.docker.fake.server import FakeDocker
from tests.support.docker.stack import DockerPod, DockerStack, docker_stack

POD = DockerPod(labels={"app": "web"}, annotations={"team": "blue"})


@pytest.fixture
async def node(scratch: Path) -> AsyncIterator[DockerStack]:
    """A relay in front of a fake Docker."""
    async with FakeDocker(scratch / "docker.sock") as docker, docker_stack(scratch, docker) as stack:
        yield stack


@pytest.fixture
async def hooked(node: DockerStack, plugin: FakeHookServer) -> DockerStack:
    """The plugin is registered for everything, under Ignore."""
    await node.register("plugin", node.folder / "plugin.sock")
    return node


async def whole_life(node: DockerStack) -> tuple[str, str]:
    """A pod with a container, from the first call to the last."""
    sandbox = await node.run(POD)
    container = await node.create(POD, sandbox, env={"A": "1"})
    await node.ok("POST", f"/containers/{container}/start")
    await node.ok("POST", f"/containers/{container}/update", {"CpuShares": 300})
    await node.ok("POST", f"/containers/{container}/stop?t=10")
    await node.ok("DELETE", f"/containers/{container}?v=1")
    await node.ok("POST", f"/containers/{sandbox}/stop")
    await node.ok("DELETE", f"/containers/{sandbox}")
    return sandbox, container


async def test_all_hook_points_with_complete_information(hooked: DockerStack, plugin: FakeHookServer) -> None:
    """In the order of a pod's life; calls that carry only an id tell as much as the others."""
    _, container = await whole_life(hooked)
    assert points_of(plugin) == LIFE
    for asked in plugin.calls:
        request = asked.request
        assert request.pod_meta == hook.PodSandboxMetadata(name="web", namespace="shop", uid="u-1")
        if asked.point.about_pod:
            assert request.labels["app"] == "web"
            assert request.annotations["team"] == "blue"
            assert request.cgroup_parent == POD.parent
            assert request.runtime_handler == "docker"
        else:
            assert request.container_meta.name == "app"
            assert request.container_meta.id == ("" if asked.point is HookPoint.PRE_CREATE_CONTAINER else container)
            assert request.pod_labels["app"] == "web"
            assert request.pod_annotations["team"] == "blue"
            assert request.pod_cgroup_parent == POD.parent
            assert request.container_envs["A"] == "1"
            assert request.container_resources.oom_score_adj == 999
            assert request.container_annotations["io.kubernetes.container.hash"] == "5a2b"
    shares = [one.request.container_resources.cpu_shares for one in plugin.calls if not one.point.about_pod]
    assert shares == [102, 102, 102, 300, 300]


async def test_counters_and_store_after_a_whole_life(hooked: DockerStack) -> None:
    """CRI methods are counted as such, and records go with the last call."""
    await whole_life(hooked)
    counted = {one.method: one.codes[0] for one in hooked.relay.routes.stats() if one.started}
    assert counted == {
        "RunPodSandbox": 1,
        "CreateContainer": 1,
        "StartContainer": 1,
        "UpdateContainerResources": 1,
        "StopContainer": 1,
        "RemoveContainer": 1,
        "StopPodSandbox": 1,
        "RemovePodSandbox": 1,
    }
    assert not hooked.built.store.pods
    assert not hooked.built.store.containers
    assert hooked.relay.in_flight == 0


async def test_answers_reach_docker(hooked: DockerStack, plugin: FakeHookServer) -> None:
    """Every kind of field that Docker has a place for; the rest of the body is as it came."""
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
            cpu_shares=2, cpu_quota=-1, cpuset_cpus="0-1", memory_limit_in_bytes=64 << 20
        ),
    )
    sandbox = await hooked.run(POD)
    made = hooked.made(sandbox)
    assert (made.labels["added"], made.labels["annotation.team"]) == ("1", "red")
    assert (made.host["CgroupParent"], made.host["CpuShares"]) == ("/batch", 2048)
    container = hooked.made(await hooked.create(POD, sandbox, env={"A": "1", "Z": "26"}))
    assert container.config["Env"][:3] == ["A=2", "Z=26", "NEW=x"]
    assert container.labels["annotation.zone"] == "7"
    host = container.host
    assert (host["CpuShares"], host["CpuQuota"], host["CpusetCpus"], host["Memory"]) == (2, -1, "0-1", 64 << 20)
    # A container follows its pod to where a plugin put that.
    assert host["CgroupParent"] == "/batch"
    assert (host["OomScoreAdj"], host["NetworkMode"]) == (999, f"container:{sandbox}")


async def test_unknown_keys_and_spelling_survive(hooked: DockerStack, plugin: FakeHookServer) -> None:
    """Of a body somebody changes, everything else keeps its bytes; one that nobody changes keeps them all."""
    plugin.answers[HookPoint.PRE_UPDATE_CONTAINER_RESOURCES] = set_shares(7)
    sandbox = await hooked.run(POD)
    target, body = POD.container(sandbox)
    odd = json.dumps(body, indent=1).replace('"CpuShares": 102', '"cpushares" :102 , "Future": 1.50e3').encode()
    container = str((await hooked.ok("POST", target, odd))["Id"])
    assert hooked.made(container).body == odd
    await hooked.ok("POST", f"/containers/{container}/update", b'{\t"cpushares" :102 , "Future": 1.50e3 }\n')
    assert hooked.docker.calls("update")[-1].body == b'{\t"cpushares" :7 , "Future": 1.50e3 }\n'


async def test_systemd_parents(hooked: DockerStack, plugin: FakeHookServer) -> None:
    """Plugins see paths, Docker gets slices."""
    pod = DockerPod(parent="kubepods-besteffort-podu_1.slice")
    plugin.answers[HookPoint.PRE_RUN_POD_SANDBOX] = hook.PodSandboxHookResponse(
        cgroup_parent="/kubepods.slice/kubepods-podu_1.slice"
    )
    sandbox = await hooked.run(pod)
    path = "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podu_1.slice"
    assert plugin.calls[0].request.cgroup_parent == path
    assert hooked.made(sandbox).host["CgroupParent"] == "kubepods-podu_1.slice"


async def test_update_goes_through_the_hook(hooked: DockerStack, plugin: FakeHookServer) -> None:
    """What the plugin changes is added to the patch, what it does not name is not."""
    container = await hooked.create(POD, await hooked.run(POD))
    plugin.answers[HookPoint.PRE_UPDATE_CONTAINER_RESOURCES] = set_shares(7)
    await hooked.ok("POST", f"/containers/{container}/update", {"Memory": 64 << 20, "MemorySwap": 64 << 20})
    host = hooked.made(container).host
    assert (host["CpuShares"], host["Memory"]) == (7, 64 << 20)


async def test_repeated_updates_do_not_compound(hooked: DockerStack, plugin: FakeHookServer) -> None:
    """A plugin that halves a quota is shown what was asked for, not its own result."""

    def halve(asked: Any) -> Any:
        quota = asked.container_resources.cpu_quota // 2
        return hook.ContainerResourceHookResponse(container_resources=hook.LinuxContainerResources(cpu_quota=quota))

    plugin.answers[HookPoint.PRE_CREATE_CONTAINER] = halve
    plugin.answers[HookPoint.PRE_UPDATE_CONTAINER_RESOURCES] = halve
    container = await hooked.create(POD, await hooked.run(POD), host={"CpuQuota": 80_000, "CpuPeriod": 100_000})
    for shares in (100, 200):
        await hooked.ok("POST", f"/containers/{container}/update", {"CpuShares": shares})
        assert hooked.made(container).host["CpuQuota"] == 40_000


async def test_two_plugins_in_order(node: DockerStack, scratch: Path) -> None:
    """Each sees what the one before it made."""
    first, second = FakeHookServer(set_shares(10)), FakeHookServer(set_shares(20, echo))
    async with serve_hooks(scratch / "1.sock", first), serve_hooks(scratch / "2.sock", second):
        await node.register("z-first", scratch / "1.sock", priority=5)
        await node.register("a-second", scratch / "2.sock")
        container = await node.create(POD, await node.run(POD))
        assert [one.calls[-1].request.container_resources.cpu_shares for one in (first, second)] == [102, 10]
        assert node.made(container).host["CpuShares"] == 20


# -- names and versions


@pytest.mark.parametrize("version", ["", "/v1.24", "/v1.41"])
async def test_every_api_version(hooked: DockerStack, plugin: FakeHookServer, version: str) -> None:
    """The prefix does not matter."""
    hooked.call._version = version
    await hooked.run(POD)
    assert points_of(plugin) == ["PreRunPodSandbox"]


async def test_names_and_beginnings_of_ids(hooked: DockerStack, plugin: FakeHookServer) -> None:
    """Mean the same container."""
    container = await hooked.create(POD, await hooked.run(POD))
    await hooked.ok("POST", "/containers/k8s_app_web_shop_u-1_0/start")
    await hooked.ok("POST", f"/containers/{container[:12]}/stop")
    assert points_of(plugin)[-3:] == ["PreStartContainer", "PostStartContainer", "PostStopContainer"]
    assert {one.request.container_meta.id for one in plugin.calls[-3:]} == {container}


@pytest.mark.parametrize("act", ["kill", "kill?signal=SIGKILL", "kill?signal=9"])
async def test_a_kill_is_a_stop(hooked: DockerStack, plugin: FakeHookServer, act: str) -> None:
    """Other signals are not."""
    container = await hooked.create(POD, await hooked.run(POD))
    await hooked.ok("POST", f"/containers/{container}/start")
    await hooked.ok("POST", f"/containers/{container}/kill?signal=USR1")
    assert points_of(plugin)[-1] == "PostStartContainer"
    await hooked.ok("POST", f"/containers/{container}/{act}")
    assert points_of(plugin)[-1] == "PostStopContainer"


async def test_a_restart_is_a_start(hooked: DockerStack, plugin: FakeHookServer) -> None:
    """Both hooks of it."""
    container = await hooked.create(POD, await hooked.run(POD))
    await hooked.ok("POST", f"/containers/{container}/restart")
    assert points_of(plugin)[-2:] == ["PreStartContainer", "PostStartContainer"]


# -- who is not asked


async def test_containers_of_others_pass(node: DockerStack, scratch: Path) -> None:
    """While a plugin that must see everything is away."""
    await node.register("hard", scratch / "nowhere.sock", failure_policy="Fail", timeout="200ms")
    made = await node.ok("POST", "/containers/create?name=mine", {"Image": "localhost/busybox", "Cmd": ["true"]})
    await node.ok("POST", "/containers/mine/start")
    await node.ok("POST", f"/containers/{made['Id']}/update", {"CpuShares": 5})
    await node.ok("POST", "/containers/mine/stop")
    await node.ok("DELETE", "/containers/mine")
    assert (await node.call("POST", "/containers/mine/start")).status == 404
    assert not node.docker.engine.containers


async def test_skip_label(hooked: DockerStack, plugin: FakeHookServer) -> None:
    """Also for calls that carry only an id."""
    pod = DockerPod(labels={"runtimeproxy.koordinator.sh/skip-hookserver": "true"})
    container = await hooked.create(pod, await hooked.run(pod))
    await hooked.ok("POST", f"/containers/{container}/start")
    assert not plugin.calls


# -- who refuses


async def test_fail_and_ignore(node: DockerStack, scratch: Path) -> None:
    """Ignore goes on unchanged; Fail answers Docker's JSON, names the plugin, and Docker hears nothing."""
    await node.register("soft", scratch / "nowhere.sock", timeout="200ms")
    sandbox = await node.run(POD)
    container = await node.create(POD, sandbox)
    await node.register("hard", scratch / "nowhere.sock", failure_policy="Fail", timeout="200ms")
    before = dict(node.docker.engine.containers)
    refused = [
        await node.call("POST", *DockerPod(uid="u-2").sandbox()),
        await node.call("POST", *POD.container(sandbox, "second")),
        await node.call("POST", f"/containers/{container}/start"),
        await node.call("POST", f"/containers/{container}/update", {"CpuShares": 3}),
    ]
    points = ("PreRunPodSandbox", "PreCreateContainer", "PreStartContainer", "PreUpdateContainerResources")
    for answer, point in zip(refused, points, strict=True):
        assert answer.status == 403
        assert answer.document["message"].startswith(f"hook server hard (failure policy Fail) at {point}: ")
    assert node.docker.engine.containers == before
    assert node.made(container).status == "created"
    assert node.made(container).host["CpuShares"] == 102
    # Nothing can be refused after the fact.
    await node.ok("POST", f"/containers/{container}/stop")


async def test_fail_is_not_passed_by_with_odd_bodies(node: DockerStack, scratch: Path) -> None:
    """Docker would take the last of two keys; a pod in such a body is refused, and a container of one of two images."""
    await node.register("hard", scratch / "nowhere.sock", failure_policy="Fail", timeout="200ms")
    target, body = POD.sandbox()
    twice = json.dumps(body)[:-1] + ', "labels": {}}'
    answer = await node.call("POST", target, twice.encode())
    assert answer.status == 403
    answer = await node.call("POST", "/containers/create", b'{"Image": "localhost/busybox", "image": "forged"}')
    assert answer.status == 403
    assert not node.docker.engine.containers
    await node.ok("POST", "/containers/create", b'{"Image": "localhost/busybox", "Cmd": ["a"], "cmd": ["b"]}')


async def test_fail_with_a_docker_that_does_not_say_whose(node: DockerStack, scratch: Path) -> None:
    """It may be anybody's, so a start is refused; without such a plugin Docker decides."""
    await node.register("soft", scratch / "nowhere.sock", timeout="200ms")
    await node.ok("POST", "/containers/create?name=mine", {"Image": "localhost/busybox"})
    node.docker.faults.fail("inspect", 500, "no idea", times=None)
    await node.ok("POST", "/containers/mine/start")
    await node.register("hard", scratch / "nowhere.sock", failure_policy="Fail", timeout="200ms")
    answer = await node.call("POST", "/containers/mine/restart")
    assert answer.status == 403
    assert "dockerd does not say whose container it is" in answer.document["message"]


async def test_conflict_of_names(hooked: DockerStack, plugin: FakeHookServer) -> None:
    """Docker's own answer, and no record."""
    await hooked.run(POD)
    answer = await hooked.call("POST", *POD.sandbox())
    assert answer.status == 409
    assert "is already in use by container" in answer.document["message"]
    assert len(hooked.built.store.pods) == 1


async def test_caller_leaves_while_a_plugin_thinks(hooked: DockerStack, plugin: FakeHookServer) -> None:
    """The hook is cancelled and Docker hears nothing."""
    plugin.stall(HookPoint.PRE_RUN_POD_SANDBOX)
    task = asyncio.get_running_loop().create_task(hooked.call("POST", *POD.sandbox()))
    await eventually(lambda: bool(plugin.calls), "the plugin to be asked")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually(lambda: plugin.cancelled == [HookPoint.PRE_RUN_POD_SANDBOX], "the hook to be cancelled")
    await eventually(lambda: hooked.relay.in_flight == 0, "the call to be over")
    assert not hooked.docker.engine.containers
