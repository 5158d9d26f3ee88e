"""A policy over Docker: exclusive CPUs from birth, others moved by updates, and what survives a restart."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.testing.eventually import eventually
from tests.support.docker.fake.server import FakeDocker
from tests.support.docker.stack import MEMORY, DockerPod, DockerStack, docker_stack
from tests.support.policy.machines import machine

STATIC: dict[str, Any] = {"name": "static", "reserved": "cpu=cpuset:0"}
# Packages 0-7 and 8-15, nodes of 4 CPUs, cores of two neighbours.
MACHINE = "n4c16"


@pytest.fixture
async def docker(scratch: Path) -> AsyncIterator[FakeDocker]:
    """A fake Docker."""
    async with FakeDocker(scratch / "docker.sock") as running:
        yield running


@pytest.fixture
async def node(scratch: Path, docker: FakeDocker) -> AsyncIterator[DockerStack]:
    """A relay with the static policy in front of it."""
    async with docker_stack(scratch, docker, topology=machine(MACHINE), policy=STATIC) as stack:
        yield stack


def host_config(milli: int, *, guaranteed: bool) -> dict[str, Any]:
    """Resources by the kubelet's arithmetic."""
    shares = {"CpuShares": milli * 1024 // 1000, "CpuPeriod": 100_000, "OomScoreAdj": -997 if guaranteed else 900}
    limits = {"CpuQuota": milli * 100, "Memory": MEMORY, "MemorySwap": MEMORY} if guaranteed else {}
    return shares | limits


async def run(node: DockerStack, name: str, milli: int, *, guaranteed: bool = True) -> str:
    """A pod with one running container: the container's id."""
    parent = f"/kubepods/podu-{name}" if guaranteed else f"/kubepods/burstable/podu-{name}"
    pod = DockerPod(name=name, uid=f"u-{name}", parent=parent)
    host = host_config(milli, guaranteed=guaranteed)
    container = await node.create(pod, await node.run(pod), host=host)
    await node.ok("POST", f"/containers/{container}/start")
    return container


def cpus(node: DockerStack, container: str) -> CpuSet:
    """What Docker has for it."""
    return CpuSet.parse(node.made(container).host["CpusetCpus"])


async def test_exclusive_cpus_and_what_others_keep(node: DockerStack) -> None:
    """A Guaranteed container has its CPUs from the create on, everybody else was moved away by an update before."""
    shared = await run(node, "web", 300, guaranteed=False)
    everything = cpus(node, shared)
    own = await run(node, "db", 2000)
    assert len(cpus(node, own)) == 2
    assert not cpus(node, own) & cpus(node, shared)
    created = next(one for one in node.docker.calls("create") if b"k8s_app_db" in one.target.encode())
    assert f'"CpusetCpus":"{cpus(node, own)}"' in created.body.decode().replace('": "', '":"')
    calls = [one.kind for one in node.docker.calls("create", "update")]
    assert calls[-2:] == ["update", "create"]
    await node.ok("POST", f"/containers/{own}/stop")
    assert cpus(node, shared) == everything


async def test_an_exit_frees_cpus(node: DockerStack, docker: FakeDocker) -> None:
    """Docker tells of it."""
    shared = await run(node, "web", 300, guaranteed=False)
    everything = cpus(node, shared)
    own = await run(node, "db", 4000)
    docker.engine.exited(own, 1)
    await eventually(lambda: cpus(node, shared) == everything, "the CPUs to be shared again")


async def test_more_than_there_is(node: DockerStack) -> None:
    """Is refused in Docker's words."""
    pod = DockerPod(parent="/kubepods/podu-1")
    target, body = pod.container(await node.run(pod), host=host_config(16_000, guaranteed=True))
    answer = await node.call("POST", target, body)
    assert answer.status == 503
    assert answer.document["message"].startswith("policy static: ")
    assert len(node.docker.containers) == 1


async def test_a_refused_create_leaves_nothing_behind(node: DockerStack, docker: FakeDocker) -> None:
    """Docker says no: the CPUs are free again."""
    shared = await run(node, "web", 300, guaranteed=False)
    everything = cpus(node, shared)
    pod = DockerPod(parent="/kubepods/podu-1")
    target, body = pod.container(await node.run(pod), host=host_config(2000, guaranteed=True))
    docker.faults.fail("create", 500, "no space left on device")
    assert (await node.call("POST", target, body)).status == 500
    await eventually(lambda: cpus(node, shared) == everything, "the CPUs to be shared again")


async def test_a_killed_sandbox_costs_nobody_his_cpus(node: DockerStack) -> None:
    """Its containers run on, and what they have is theirs."""
    own = await run(node, "db", 2000)
    sandbox = node.built.store.containers[own].pod_id
    await node.ok("POST", f"/containers/{sandbox}/kill")
    held = node.parts.policy
    assert held is not None
    tracker = held.interceptor.tracker
    await eventually(lambda: own in tracker.allocations.by_id, "the container to be in the books again")
    other = await run(node, "db2", 2000)
    assert not cpus(node, own) & cpus(node, other)


async def test_a_restart_moves_nobody(scratch: Path, docker: FakeDocker) -> None:
    """With the state file and without it: annotation and Docker know the same."""
    async with docker_stack(scratch, docker, topology=machine(MACHINE), policy=STATIC) as stack:
        names = [await run(stack, f"db{n}", 1000 * (n + 1)) for n in range(3)]
        names.append(await run(stack, "web", 100, guaranteed=False))
        before = {one: cpus(stack, one) for one in names}
    updates = len(docker.calls("update"))
    for forget in (False, True):
        if forget:
            (scratch / "state/policy-state.json").unlink()
        async with docker_stack(scratch, docker, policy=STATIC) as stack:
            assert {one: cpus(stack, one) for one in names} == before
    assert len(docker.calls("update")) == updates


# -- what CRI does not know: containers without a sandbox, twins, bodies that only Docker reads


@pytest.mark.parametrize("how", ["stop", "remove"])
async def test_a_create_right_after_a_sandbox_ends_takes_nothing_from_its_containers(
    node: DockerStack, docker: FakeDocker, how: str
) -> None:
    """They run on, whether Docker is quick to list them or not."""
    own = await run(node, "db", 2000)
    sandbox, before = node.built.store.containers[own].pod_id, cpus(node, own)
    pod = DockerPod(name="db2", uid="u-db2", parent="/kubepods/podu-db2")
    target, body = pod.container(await node.run(pod), host=host_config(2000, guaranteed=True))
    stall = docker.faults.stall("list")
    if how == "stop":
        await node.ok("POST", f"/containers/{sandbox}/stop")
    else:
        await node.ok("DELETE", f"/containers/{sandbox}?force=1")
    other = (await node.ok("POST", target, body))["Id"]
    stall.release()
    docker.faults.clear()
    await node.built.sync.resync()
    assert cpus(node, own) == before
    assert not before & cpus(node, other)
    assert {own, other} <= node.built.store.containers.keys()


async def test_who_lost_his_sandbox_keeps_his_cpus_over_a_restart(scratch: Path, docker: FakeDocker) -> None:
    """His pod is there as long as he is."""
    async with docker_stack(scratch, docker, topology=machine(MACHINE), policy=STATIC) as stack:
        own = await run(stack, "db", 2000)
        sandbox = stack.built.store.containers[own].pod_id
        await stack.ok("DELETE", f"/containers/{sandbox}?force=1")
    (scratch / "state/policy-state.json").unlink()
    async with docker_stack(scratch, docker, policy=STATIC) as stack:
        assert stack.built.sync.in_step
        assert not stack.built.store.pods[sandbox].ready
        other = await run(stack, "db2", 2000)
        assert not cpus(stack, own) & cpus(stack, other)
        await stack.ok("DELETE", f"/containers/{own}?force=1")
        await stack.built.sync.resync()
        assert sandbox not in stack.built.store.pods


async def twins(node: DockerStack) -> tuple[str, str]:
    """Two running containers that differ in nothing but what dockershim adds to a name after a conflict."""
    pod = DockerPod(name="db", uid="u-db", parent="/kubepods/podu-db")
    target, body = pod.container(await node.run(pod), host=host_config(2000, guaranteed=True))
    made = [str((await node.ok("POST", target + more, body))["Id"]) for more in ("", "_af390101")]
    for one in made:
        await node.ok("POST", f"/containers/{one}/start")
    return made[0], made[1]


@pytest.mark.parametrize("leaves", [0, 1])
async def test_twins_share_nothing(node: DockerStack, leaves: int) -> None:
    """Neither with each other, nor, when one of them is gone, with anybody else."""
    made = await twins(node)
    assert not cpus(node, made[0]) & cpus(node, made[1])
    await node.ok("DELETE", f"/containers/{made[leaves]}?force=1")
    other = await run(node, "other", 2000)
    assert not cpus(node, made[1 - leaves]) & cpus(node, other)


async def test_twins_keep_what_they_have_over_a_restart(scratch: Path, docker: FakeDocker) -> None:
    """With the state file and without it."""
    async with docker_stack(scratch, docker, topology=machine(MACHINE), policy=STATIC) as stack:
        made = await twins(stack)
        before = [cpus(stack, one) for one in made]
    for forget in (False, True):
        if forget:
            (scratch / "state/policy-state.json").unlink()
        async with docker_stack(scratch, docker, policy=STATIC) as stack:
            assert [cpus(stack, one) for one in made] == before
            policy = stack.parts.policy
            assert policy is not None
            assert set(made) <= policy.interceptor.tracker.allocations.by_id.keys()


async def test_a_body_that_only_docker_reads_is_refused(node: DockerStack) -> None:
    """It could bring CPUs of others along; a create and an update."""
    own = await run(node, "db", 2000)
    pod = DockerPod(name="evil", uid="u-evil", parent="/kubepods/podu-evil")
    target, body = pod.container(await node.run(pod), host={"CpusetCpus": str(cpus(node, own))})
    twice = json.dumps(body)[:-1] + ',"labels":' + json.dumps(body["Labels"]) + "}"
    answers = [
        await node.call("POST", target, twice.encode()),
        await node.call("POST", f"/containers/{own}/update", b'{"CpusetCpus":"0","cpusetcpus":"0"}'),
    ]
    for answer in answers:
        assert answer.status == 400
        assert answer.document["message"].startswith("policy static: the request cannot be read: ")
    assert not node.docker.calls("update")
    assert len(node.docker.containers) == 3


@pytest.mark.parametrize("sandbox", ["", "made-up"])
async def test_a_container_of_no_pod_takes_nothing_from_others(node: DockerStack, sandbox: str) -> None:
    """Whatever it asks for; it is in the books as soon as it is known, and the store is in step."""
    own = await run(node, "db", 2000)
    pod = DockerPod(name="lost", uid="u-lost", parent="/kubepods/podu-lost")
    host = host_config(2000, guaranteed=True) | {"CpusetCpus": str(cpus(node, own)), "NetworkMode": "host"}
    target, body = pod.container(sandbox, host=host)
    if not sandbox:
        del body["Labels"]["io.kubernetes.sandbox.id"]
    lost = (await node.ok("POST", target, body))["Id"]
    assert not cpus(node, own) & cpus(node, lost)
    await node.ok("POST", f"/containers/{lost}/start")
    policy = node.parts.policy
    assert policy is not None
    tracker = policy.interceptor.tracker
    await eventually(lambda: lost in tracker.allocations.by_id, "it to be in the books")
    await eventually(lambda: len(cpus(node, lost)) == 2, "it to have what it asked for")
    assert not cpus(node, own) & cpus(node, lost)
    assert await node.built.sync.resync()
