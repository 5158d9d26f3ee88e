"""Records of a relay in front of Docker: what calls, events and lists make of them, and what survives a restart."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from interpose._pb import hook_pb2 as hook
from interpose.core.model.pod import ContainerState
from interpose.hooks.api.hookpoint import HookPoint
from interpose.testing.eventually import eventually
from interpose.testing.failpoints import When
from interpose.testing.hookserver import FakeHookServer, set_shares
from tests.support.docker.fake.server import FakeDocker
from tests.support.docker.stack import DockerCaller, DockerPod, DockerStack, docker_stack

POD = DockerPod(labels={"app": "web"}, annotations={"team": "blue"})


@pytest.fixture
async def docker(scratch: Path) -> AsyncIterator[FakeDocker]:
    """A fake Docker."""
    async with FakeDocker(scratch / "docker.sock") as running:
        yield running


@pytest.fixture
async def node(scratch: Path, docker: FakeDocker, plugin: FakeHookServer) -> AsyncIterator[DockerStack]:
    """A relay in front of it with a plugin that changes nothing."""
    async with docker_stack(scratch, docker) as stack:
        await stack.register("plugin", scratch / "plugin.sock")
        await in_step(stack)
        yield stack


async def in_step(stack: DockerStack) -> None:
    """Wait until the records are what Docker has."""
    await eventually(lambda: stack.built.sync.in_step, "the store to be in step")


async def state_is(stack: DockerStack, container: str, state: ContainerState) -> None:
    """Wait until a record says so."""
    store = stack.built.store
    await eventually(lambda: store.containers[container].state is state, f"the container to be {state}")


# -- calls


async def test_records_follow_the_calls(node: DockerStack) -> None:
    """From the create to the last one."""
    store = node.built.store
    sandbox = await node.run(POD)
    pod = store.pods[sandbox]
    assert (pod.name, pod.namespace, pod.uid, pod.runtime_handler, pod.ready) == ("web", "shop", "u-1", "docker", True)
    assert (pod.labels["app"], pod.annotations["team"], pod.cgroup_parent) == ("web", "blue", POD.parent)
    container = await node.create(POD, sandbox, env={"A": "1"}, attempt=2)
    made = store.containers[container]
    assert (made.name, made.attempt, made.pod_id, made.envs) == ("app", 2, sandbox, (("A", b"1"),))
    assert (made.resources.cpu_shares, made.resources.oom_score_adj) == (102, 999)
    for target, document, state in (
        ("start", None, ContainerState.RUNNING),
        ("update", {"CpuShares": 300}, ContainerState.RUNNING),
        ("stop", None, ContainerState.EXITED),
        ("restart", None, ContainerState.RUNNING),
        ("kill", None, ContainerState.EXITED),
    ):
        await node.ok("POST", f"/containers/{container}/{target}", document)
        assert store.containers[container].state is state
    assert store.containers[container].resources.cpu_shares == 300
    await node.ok("DELETE", f"/containers/{container}")
    assert container not in store.containers
    await node.ok("POST", f"/containers/{sandbox}/stop")
    assert not store.pods[sandbox].ready
    await node.ok("DELETE", f"/containers/{sandbox}")
    assert not store.pods


async def test_a_start_that_fails_changes_nothing(node: DockerStack, docker: FakeDocker) -> None:
    """Docker's answer is the caller's."""
    container = await node.create(POD, await node.run(POD))
    docker.faults.fail("start", 500, "OCI runtime create failed")
    answer = await node.call("POST", f"/containers/{container}/start")
    assert (answer.status, answer.document) == (500, {"message": "OCI runtime create failed"})
    assert node.built.store.containers[container].state is ContainerState.CREATED


async def test_neighbours_of_a_stopped_sandbox_live_on(node: DockerStack) -> None:
    """In Docker only the one container was stopped; the records find that out."""
    sandbox = await node.run(POD)
    container = await node.create(POD, sandbox)
    await node.ok("POST", f"/containers/{container}/start")
    await node.ok("POST", f"/containers/{sandbox}/kill")
    await state_is(node, container, ContainerState.RUNNING)
    assert not node.built.store.pods[sandbox].ready


async def test_what_docker_does_not_know_any_more(node: DockerStack, docker: FakeDocker) -> None:
    """A 404 says that the record is old."""
    container = await node.create(POD, await node.run(POD))
    docker.engine.containers.pop(container)
    assert (await node.call("POST", f"/containers/{container}/stop")).status == 404
    assert container not in node.built.store.containers


# -- what happens without a call


async def test_exits_are_learned_from_events(node: DockerStack, docker: FakeDocker) -> None:
    """Soon, without a tick."""
    container = await node.create(POD, await node.run(POD))
    await node.ok("POST", f"/containers/{container}/start")
    docker.engine.exited(container, 1)
    await state_is(node, container, ContainerState.EXITED)


async def test_what_others_do_at_docker_itself(node: DockerStack, docker: FakeDocker) -> None:
    """Pods and containers that come and go past us."""
    direct = DockerCaller(docker.path)
    sandbox = (await direct("POST", *POD.sandbox())).document["Id"]
    container = (await direct("POST", *POD.container(sandbox))).document["Id"]
    store = node.built.store
    await eventually(lambda: container in store.containers, "the container to be known")
    assert store.pods[sandbox].name == "web"
    await direct("DELETE", f"/containers/{container}")
    await direct("DELETE", f"/containers/{sandbox}")
    await eventually(lambda: not store.containers and not store.pods, "the records to go")


async def test_docker_restarts(node: DockerStack, docker: FakeDocker) -> None:
    """And everything that ran has ended."""
    container = await node.create(POD, await node.run(POD))
    await node.ok("POST", f"/containers/{container}/start")
    await docker.restart(containers_die=True)
    await state_is(node, container, ContainerState.EXITED)
    await node.ok("POST", f"/containers/{container}/start")


# -- doubt


async def test_create_in_doubt_is_settled(node: DockerStack, docker: FakeDocker) -> None:
    """The caller left while Docker was at it, and Docker did it."""
    sandbox = await node.run(POD)
    stall = docker.faults.stall("create", When.AFTER)
    target, body = POD.container(sandbox, env={"A": "1"})
    task = asyncio.get_running_loop().create_task(node.call("POST", target, body))
    await stall.entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    store = node.built.store
    await eventually(lambda: len(store.containers) == 1 and not store.pending, "the create to be settled")
    made = next(iter(store.containers.values()))
    assert (made.name, made.pod_id) == ("app", sandbox)
    assert made.id == docker.container("k8s_app_web_shop_u-1_0").id


async def test_create_in_doubt_that_did_not_happen(node: DockerStack, docker: FakeDocker) -> None:
    """Docker broke off before it did anything: 502, and no record in the end."""
    sandbox = await node.run(POD)
    docker.faults.drop("create", When.BEFORE)
    answer = await node.call("POST", *POD.container(sandbox))
    assert answer.status == 502
    assert answer.document["message"]
    store = node.built.store
    await eventually(lambda: not store.pending, "the create to be settled")
    assert not store.containers


async def test_lost_after_it_was_done(node: DockerStack, docker: FakeDocker) -> None:
    """502 for the caller, whose next try meets the name; the record is there."""
    sandbox = await node.run(POD)
    docker.faults.drop("create", When.AFTER)
    assert (await node.call("POST", *POD.container(sandbox))).status == 502
    store = node.built.store
    await eventually(lambda: len(store.containers) == 1 and not store.pending, "the create to be settled")
    assert (await node.call("POST", *POD.container(sandbox))).status == 409


async def test_docker_is_away(node: DockerStack, docker: FakeDocker) -> None:
    """503 that names the socket; when it is back, all is well."""
    await docker.stop()
    answer = await node.call("POST", *POD.sandbox())
    assert answer.status == 503
    assert str(docker.path) in answer.document["message"]
    await docker.start()
    await node.run(POD)


# -- restarts of ours


async def test_a_successor_has_equal_records(scratch: Path, docker: FakeDocker, plugin: FakeHookServer) -> None:
    """From lists and inspections alone: labels, annotations, parents, resources, what was asked for, variables.

    Docker adds the image's variables and labels to those of the container; they are taken away again.
    """
    plugin.answers[HookPoint.PRE_RUN_POD_SANDBOX] = hook.PodSandboxHookResponse(cgroup_parent="/batch")
    plugin.answers[HookPoint.PRE_CREATE_CONTAINER] = set_shares(7)
    async with docker_stack(scratch, docker) as first:
        await first.register("plugin", scratch / "plugin.sock")
        await in_step(first)
        sandbox = await first.run(POD)
        limits = {"Memory": 64 << 20, "MemorySwap": 64 << 20, "CpuQuota": 50_000, "CpuPeriod": 100_000}
        running = await first.create(POD, sandbox, env={"A": "1", "B": "x=y"}, host=limits)
        await first.create(POD, sandbox, "second", attempt=3)
        await first.ok("POST", f"/containers/{running}/start")
        await first.ok("POST", f"/containers/{running}/update", {"CpuQuota": 70_000})
        store = first.built.store
        pods, containers = dict(store.pods), dict(store.containers)
    async with docker_stack(scratch, docker) as second:
        await in_step(second)
        assert dict(second.built.store.pods) == pods
        found = dict(second.built.store.containers)
        assert found == containers
        assert found[running].requested.cpu_shares == 102
        assert found[running].resources.cpu_shares == 7
        assert pods[sandbox].requested_cgroup_parent == POD.parent
        # And what a hook server is asked about it is complete.
        plugin.calls.clear()
        await second.ok("POST", f"/containers/{running}/update", {"CpuShares": 500})
        asked = plugin.calls[0].request
        assert (asked.pod_labels["app"], asked.pod_annotations["team"]) == ("web", "blue")
        assert (asked.pod_cgroup_parent, asked.container_envs["B"]) == ("/batch", "x=y")
        assert (asked.container_resources.cpu_shares, asked.container_resources.cpu_quota) == (500, 70_000)


# -- pods without a sandbox


def _not_ready(node: DockerStack, sandbox: str) -> bool:
    return not node.built.store.pods[sandbox].ready


async def test_a_pod_is_there_as_long_as_its_containers(node: DockerStack) -> None:
    """Removed, and removed by somebody else; everything that is known of it stays known."""
    store = node.built.store
    direct = DockerCaller(node.docker.path)
    for remove in (node.call, direct):
        sandbox = await node.run(POD)
        container = await node.create(POD, sandbox)
        await node.ok("POST", f"/containers/{container}/start")
        assert (await remove("DELETE", f"/containers/{sandbox}?force=1")).status == 204
        await eventually(partial(_not_ready, node, sandbox), "the pod not to be ready")
        assert await node.built.sync.resync()
        assert store.pods[sandbox].annotations["team"] == "blue"
        assert store.containers[container].state is ContainerState.RUNNING
        await node.ok("DELETE", f"/containers/{container}?force=1")
        await node.built.sync.resync()
        assert not store.pods


async def test_a_sandbox_gone_before_the_start(scratch: Path, docker: FakeDocker, plugin: FakeHookServer) -> None:
    """Of its pod is known what its container says."""
    direct = DockerCaller(docker.path)
    sandbox = (await direct("POST", *POD.sandbox())).document["Id"]
    container = (await direct("POST", *POD.container(sandbox))).document["Id"]
    await direct("DELETE", f"/containers/{sandbox}?force=1")
    async with docker_stack(scratch, docker) as stack:
        await stack.register("plugin", scratch / "plugin.sock")
        await in_step(stack)
        pod = stack.built.store.pods[sandbox]
        assert (pod.name, pod.namespace, pod.uid, pod.ready) == ("web", "shop", "u-1", False)
        assert pod.cgroup_parent == POD.parent
        assert stack.built.store.containers[container].pod_id == sandbox
