"""Settling creates in doubt against a runtime that shows them, or does not."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.cri.store import convert
from interpose.cri.store.settle import Settler
from interpose.cri.store.store import Store
from interpose.net.grpc.status import Code
from interpose.tasks import TaskBag
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.pods import container_config, create_request, pod_config, run_request

PAUSE = 0.02


class Node:
    """A fake runtime, a store with one pod, and a container whose create is in doubt."""

    def __init__(self) -> None:
        self.runtime = FakeRuntime()
        self.store = Store()
        self.tasks = TaskBag()
        self.settler = Settler(self.store, self.call, self.tasks, pause=PAUSE)
        self.asked: list[float] = []
        self.config = pod_config("web")
        self.sandbox = self.runtime.state.run_sandbox(self.config)
        request = run_request(self.config)
        self.pod = replace(convert.pod_of_request(request, request), id=self.sandbox.id)
        self.store.put_pod(self.pod)
        create = create_request(self.sandbox.id, self.config, container_config(self.config))
        self.container = convert.container_of_request(create, create, self.pod)
        self.store.pending.add(self.container, pod_uid=self.pod.uid)

    async def call(self, method: str, message: bytes) -> bytes:
        """Ask it, and note when."""
        self.asked.append(asyncio.get_running_loop().time())
        request = getattr(cri, f"{method}Request").FromString(message)
        answer: bytes = (await self.runtime.call(method, request)).SerializeToString()
        return answer

    def create(self, attempt: int = 0) -> str:
        """The runtime did it."""
        config = container_config(self.config, attempt=attempt)
        image = self.runtime.images.find(config.image.image)
        assert image is not None
        return self.runtime.state.create_container(self.sandbox, config, image).id


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    """As it is."""
    node = Node()
    yield node
    await node.tasks.cancel()


async def test_what_is_shown_is_recorded(node: Node) -> None:
    """With the id of the runtime, as it was sent, after one question."""
    container_id = node.create()
    await node.settler.settle()
    assert node.store.containers[container_id] == replace(node.container, id=container_id)
    assert (len(node.asked), len(node.store.pending)) == (1, 0)


async def test_what_is_not_shown_twice_is_dropped(node: Node) -> None:
    """With a pause between: it may still be under way. Another attempt is another container."""
    node.create(attempt=1)
    await node.settler.settle()
    assert (len(node.store.containers), len(node.store.pending)) == (0, 0)
    assert len(node.asked) >= 2  # a timer may be a little early: then one more
    assert node.asked[-1] - node.asked[0] >= PAUSE


async def test_what_comes_between_two_looks_is_recorded(node: Node) -> None:
    """The create was still running in the runtime."""
    stall = node.runtime.stall("ListContainers", "after")
    task = asyncio.create_task(node.settler.settle())
    await stall.entered.wait()
    container_id = node.create()
    stall.release()
    await task
    assert list(node.store.containers) == [container_id]


async def test_runtime_away_is_asked_again(node: Node) -> None:
    """An error is no answer: nothing is dropped because of it."""
    node.runtime.fail("ListContainers", Code.UNAVAILABLE, times=2)
    container_id = node.create()
    await node.settler.settle()
    assert list(node.store.containers) == [container_id]


async def test_errors_do_not_shorten_the_pause(node: Node) -> None:
    """Two looks that show nothing are a pause apart, whatever happens between."""
    node.store.pending.add(replace(node.pod, id="", name="other"))
    node.runtime.fail("ListPodSandbox", Code.UNAVAILABLE, times=1)
    await node.settler.settle()
    assert len(node.store.pending) == 0
    assert node.asked[-1] - node.asked[0] >= PAUSE


async def test_removal_meanwhile_means_another_look(node: Node) -> None:
    """The list may be older than the removal of what it shows."""
    container_id = node.create()
    stall = node.runtime.stall("ListContainers", "after")
    task = asyncio.create_task(node.settler.settle())
    await stall.entered.wait()
    node.runtime.state.remove_container(node.runtime.containers[container_id])
    node.store.remove_container(container_id)
    stall.release()
    await task
    assert not node.store.containers


async def test_record_that_came_by_itself_stays(node: Node) -> None:
    """Somebody else found it first and may know more."""
    container_id = node.create()
    stall = node.runtime.stall("ListContainers", "after")
    task = asyncio.create_task(node.settler.settle())
    await stall.entered.wait()
    known = replace(node.container, id=container_id, envs=(("NEW", b""),))
    node.store.put_container(known)
    stall.release()
    await task
    assert node.store.containers[container_id] == known


async def test_pod_without_the_label_of_a_kubelet(node: Node) -> None:
    """Found by a full list, and its container by the id of the pod."""
    bare = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name="n", namespace="s", uid="u"))
    sandbox = node.runtime.state.run_sandbox(bare)
    request = run_request(bare)
    node.store.pending.add(convert.pod_of_request(request, request))
    container = cri.ContainerConfig(metadata=cri.ContainerMetadata(name="c"))
    create = create_request(sandbox.id[:8], bare, container)
    node.store.pending.add(convert.container_of_request(create, create, None), pod_uid="u")
    image = node.runtime.images.find("docker.io/library/busybox:1.36")
    assert image is not None
    created = node.runtime.state.create_container(sandbox, container, image)
    node.create()
    await node.settler.settle()
    assert sandbox.id in node.store.pods
    assert node.store.containers[created.id].pod_id == sandbox.id


async def test_nothing_pending_asks_nothing(node: Node) -> None:
    """And ends at once."""
    node.store.remove_pod(node.pod.id)
    await node.settler.settle()
    assert node.asked == []


async def test_of_twins_the_one_that_nobody_knew_is_recorded(node: Node) -> None:
    """Docker makes containers of the same name and attempt."""
    known, other = node.create(), node.create(attempt=1)
    node.runtime.containers[other].config.metadata.attempt = 0
    node.store.put_container(replace(node.container, id=known))
    node.store.pending.add(node.container, pod_uid=node.pod.uid)
    await node.settler.settle()
    assert set(node.store.containers) == {known, other}
