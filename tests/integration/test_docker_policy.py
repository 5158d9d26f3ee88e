"""A policy over Docker: exclusive CPUs from birth, others moved by updates, and what survives a restart."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from interpose.model.cpuset import CpuSet
from interpose.testing.dockerstack import MEMORY, DockerPod, DockerStack, docker_stack
from interpose.testing.eventually import eventually
from interpose.testing.fakedocker.server import FakeDocker
from interpose.testing.machines import machine

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
    books = held.manager.books
    await eventually(lambda: own in books.ledger.by_id, "the container to be in the books again")
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
