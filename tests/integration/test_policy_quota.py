"""CFS quotas of containers and pods under a policy, from the call of a kubelet to the files of a cgroup tree."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.core.model.cgroup import UNLIMITED, Parameter, Value
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.static.options import StaticOptions
from interpose.net.grpc.status import Code
from interpose.resmgr.config.configuration import Configuration
from interpose.testing.eventually import eventually
from interpose.testing.fakenode import FakeNode, PlainCgroups
from interpose.testing.pods import container_config, create_request, linux_resources, pod_config, run_request
from tests.support.policy.machines import machine
from tests.support.policy.stack import MEMORY, PolicyStack, policy_stack

MACHINE = "n4c16"
STATIC: dict[str, Any] = {"name": "static", "reserved": "cpu=cpuset:0"}
UPDATE = "UpdateContainerResources"
PERIOD = 100_000
OFF = Configuration(policy="none", origin="test")


def kept_quota() -> Configuration:
    """Static with the option off."""
    return Configuration(
        policy="static", reserved=CpuSet.of((0,)), options=StaticOptions(lift_quota=False), origin="test"
    )


class QuotaStack:
    """A relay, and a pod as a kubelet makes it: two containers in a cgroup with the sum of their quotas."""

    def __init__(self, stack: PolicyStack, node: FakeNode) -> None:
        self.stack, self.node = stack, node

    async def run(self, name: str, milli: int = 2000, sidecar: int = 500) -> tuple[str, str, str]:
        """The ids of both containers, and the cgroup of the pod."""
        config = pod_config(name, qos="guaranteed")
        total = milli + sidecar
        config.linux.resources.CopyFrom(linux_resources(cpu_request=total, cpu_limit=total, memory_limit=2 * MEMORY))
        directory = self.node.make_pod(config)
        assert self.read(directory) == total * PERIOD // 1000
        pod = (await self.stack.call(run_request(config))).pod_sandbox_id
        ids = []
        for container, amount in (("app", milli), ("sidecar", sidecar)):
            resources = linux_resources(cpu_request=amount, cpu_limit=amount, memory_limit=MEMORY)
            request = create_request(pod, config, container_config(config, container, resources=resources))
            ids.append((await self.stack.call(request)).container_id)
            await self.stack.call(cri.StartContainerRequest(container_id=ids[-1]))
        return ids[0], ids[1], directory

    async def resize(self, container_id: str, milli: int) -> None:
        """The call of a kubelet; the cgroup of the pod is another matter."""
        linux = cri.LinuxContainerResources(
            cpu_period=PERIOD, cpu_quota=milli * PERIOD // 1000, cpu_shares=milli * 1024 // 1000
        )
        await self.stack.call(cri.UpdateContainerResourcesRequest(container_id=container_id, linux=linux))

    def read(self, directory: str) -> Value:
        """A quota in force."""
        return self.node.tree.read(directory, Parameter.CPU_QUOTA)

    def write(self, directory: str, quota: int) -> None:
        """A kubelet writes the quota of a pod."""
        self.node.tree.write(directory, Parameter.CPU_QUOTA, quota)

    def quotas(self, ids: tuple[str, str, str]) -> tuple[Value, Value, Value]:
        """Of container, sidecar and pod."""
        app, sidecar, directory = ids
        return (
            self.read(self.node.directory(app)),
            self.read(self.node.directory(sidecar)),
            self.read(directory),
        )

    async def eventually(self, ids: tuple[str, str, str], *quotas: Value) -> None:
        """Wait for these quotas; seconds pass meanwhile."""

        def reached() -> bool:
            self.stack.tick()
            with suppress(ValueError):  # a plain file is empty while it is being written
                return self.quotas(ids) == quotas
            return False

        await eventually(reached, f"quotas {quotas}")

    async def reported(self, container_id: str) -> int:
        """What a kubelet sees."""
        status = (await self.stack.call(cri.ContainerStatusRequest(container_id=container_id))).status
        quota: int = status.resources.linux.cpu_quota
        return quota


@asynccontextmanager
async def running(
    folder: Path, node: FakeNode, memory: dict[str, object] | None = None, **settings: Any
) -> AsyncIterator[QuotaStack]:
    """A relay on this node, with the state of the one before."""
    topology = machine(MACHINE)
    async with policy_stack(folder, topology, runtime=node.runtime, memory=memory, **(settings or STATIC)) as stack:
        yield QuotaStack(stack, node)


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> FakeNode:
    """A runtime whose cgroups are files below the root of the host."""
    return FakeNode(PlainCgroups(tmp_path / "host/sys/fs/cgroup", request.param, "0-15"))


LIFTED = (UNLIMITED, 50_000, UNLIMITED)
ASKED = (200_000, 50_000, 250_000)


async def test_lifted_at_birth_and_back_with_a_resize(tmp_path: Path, node: FakeNode) -> None:
    """The create request says so, the sidecar keeps its own, and the kubelet sees what it asked for all the time."""
    async with running(tmp_path, node) as it:
        db = await it.run("db")
        assert it.quotas(db) == LIFTED
        assert await it.reported(db[0]) == 200_000
        await it.resize(db[0], 1500)
        assert it.quotas(db) == (150_000, 50_000, 250_000)
        assert await it.reported(db[0]) == 150_000
        it.write(db[2], 350_000)
        await it.resize(db[0], 3000)
        assert it.quotas(db) == LIFTED
        assert await it.reported(db[0]) == 300_000
        await it.stack.stop(db[0])
        it.stack.tick()
        await eventually(lambda: it.stack.tracker.pod_quotas.originals == {}, "the quota of the pod to be back")
        assert it.read(db[2]) == 350_000


async def test_lifted_in_a_balloon_of_ones_own_and_back_with_company(tmp_path: Path, node: FakeNode) -> None:
    """Two containers of a pod share a balloon and are limited; when the sidecar ends, the other one is not."""
    async with running(tmp_path, node, name="balloons", reserved="cpu=cpuset:0") as it:
        db = await it.run("db")
        assert it.quotas(db) == ASKED

        def has(quota: Value, of_pod: Value) -> bool:
            it.stack.tick()
            with suppress(ValueError):  # a plain file is empty while it is being written
                return (it.read(node.directory(db[0])), it.read(db[2])) == (quota, of_pod)
            return False

        await it.stack.stop(db[1])
        await eventually(lambda: has(UNLIMITED, UNLIMITED), "no quota in a balloon of its own")
        assert await it.reported(db[0]) == 200_000
        web = await it.run("web")
        await eventually(lambda: has(200_000, 250_000), "the quotas to be back")
        assert it.quotas(web) == ASKED


async def test_a_pod_without_exclusive_cpus_keeps_its_quota(tmp_path: Path, node: FakeNode) -> None:
    """Also beside one that has some."""
    async with running(tmp_path, node) as it:
        await it.run("db")
        web = await it.run("web", 1500)
        it.stack.tick()
        assert it.quotas(web) == (150_000, 50_000, 200_000)


@pytest.mark.parametrize("other", [OFF, kept_quota()], ids=["none", "option"])
async def test_back_when_the_policy_or_the_option_goes(tmp_path: Path, node: FakeNode, other: Configuration) -> None:
    """And lifted again with the option: running containers need not be made anew."""
    async with running(tmp_path, node) as it:
        db = await it.run("db")
        before = it.stack.tracker.configuration
        await it.stack.reconfigurer.apply(other)
        await it.eventually(db, *ASKED)
        await it.stack.reconfigurer.apply(before)
        await it.eventually(db, *LIFTED)


@pytest.mark.parametrize("resized", [False, True])
async def test_a_relay_that_ends_leaves_it_and_another_one_knows(
    tmp_path: Path, node: FakeNode, *, resized: bool
) -> None:
    """With the state file; the kubelet sees the same, and all is put back without the policy."""
    async with running(tmp_path, node) as it:
        db = await it.run("db")
        asked = list(ASKED)
        if resized:
            it.write(db[2], 350_000)
            await it.resize(db[0], 3000)
            asked = [300_000, 50_000, 350_000]
    async with running(tmp_path, node) as it:
        assert it.quotas(db) == LIFTED
        assert await it.reported(db[0]) == asked[0]
    async with running(tmp_path, node, name="none") as it:
        await it.eventually(db, *asked)
        assert await it.reported(db[0]) == asked[0]
    assert (
        not (tmp_path / "state/policy-state.json").exists()
        or b"pod_quotas" not in (tmp_path / "state/policy-state.json").read_bytes()
    )


@pytest.mark.parametrize("resized", [False, True])
async def test_without_its_state_file_a_relay_asks_the_runtime(
    tmp_path: Path, node: FakeNode, *, resized: bool
) -> None:
    """Annotation and shares tell the quota of a container, the sandbox that of a Guaranteed pod."""
    async with running(tmp_path, node) as it:
        db = await it.run("db")
        if resized:
            await it.resize(db[0], 3000)
    (tmp_path / "state/policy-state.json").unlink()
    async with running(tmp_path, node) as it:
        await it.eventually(db, *LIFTED)
        quota = 300_000 if resized else 200_000
        assert await it.reported(db[0]) == quota
        await it.stack.reconfigurer.apply(OFF)
        await it.eventually(db, quota, 50_000, 250_000)


async def test_a_successor_knows_what_was_lifted(tmp_path: Path, node: FakeNode) -> None:
    """By what it is handed over; the one before touches nothing any more."""
    (tmp_path / "b").mkdir()
    (tmp_path / "b/host").symlink_to(tmp_path / "host")
    async with running(tmp_path, node) as old:
        db = await old.run("db")
        it_memory = dict(old.stack.parts.memory())
        async with running(tmp_path / "b", node, it_memory, **STATIC) as it:
            old.stack.parts.retire()
            it.write(db[2], 400_000)
            old.stack.tracker.pod_quotas.tick()
            await it.eventually(db, *LIFTED)
            await it.stack.reconfigurer.apply(OFF)
            await it.eventually(db, 200_000, 50_000, 400_000)


async def test_what_the_kubelet_writes_is_lifted_again(tmp_path: Path, node: FakeNode) -> None:
    """It tells the runtime afterwards; older ones only resize a container."""
    async with running(tmp_path, node) as it:
        db = await it.run("db")
        pod = node.runtime.containers[db[0]].sandbox_id
        it.write(db[2], 260_000)
        await it.stack.call(cri.UpdatePodSandboxResourcesRequest(pod_sandbox_id=pod))
        await it.eventually(db, *LIFTED)
        await it.resize(db[0], 2000)
        it.write(db[2], 270_000)
        await it.eventually(db, *LIFTED)
        await it.stack.reconfigurer.apply(OFF)
        await it.eventually(db, 200_000, 50_000, 270_000)


async def test_a_create_that_the_runtime_refuses_leaves_the_pod_alone(tmp_path: Path, node: FakeNode) -> None:
    """Its quota is lifted when there is a container."""
    async with running(tmp_path, node) as it:
        node.runtime.fail("CreateContainer", Code.INTERNAL)
        with pytest.raises(Exception, match="INTERNAL"):
            await it.run("db")
        it.stack.tick()
        assert it.read("kubepods/pod" + pod_config("db").metadata.uid) == 250_000


async def test_an_update_that_the_runtime_refuses_is_tried_again(tmp_path: Path, node: FakeNode) -> None:
    """Then the container is not in step, and everything goes back to how it was."""
    async with running(tmp_path, node) as it:
        db = await it.run("db")
        node.runtime.fail(UPDATE, Code.INTERNAL, times=1)
        with pytest.raises(Exception, match="could not be updated"):
            await it.stack.reconfigurer.apply(kept_quota())
        await it.eventually(db, *LIFTED)
        await it.stack.reconfigurer.apply(kept_quota())
        await it.eventually(db, *ASKED)


async def test_a_pod_that_cannot_be_written_is_shown(tmp_path: Path, node: FakeNode) -> None:
    """Nobody can write the state: nothing is lifted that could not be put back."""
    async with running(tmp_path, node) as it:

        def full(_path: str, _data: bytes) -> None:
            raise OSError(28, "No space left on device")

        it.stack.policy.checkpoint._put = full
        db = await it.run("db")
        assert it.quotas(db) == (UNLIMITED, 50_000, 250_000)
        assert it.stack.tracker.pod_quotas.problems == {db[2]: "the state file cannot be written"}
