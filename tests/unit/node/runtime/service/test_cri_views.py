"""Lists and filters."""

from typing import Any

from interpose.cri.messages import cri
from interpose.net.grpc.status import Code
from tests.support.node.local_client import LocalClient, code_of


async def test_lists_and_filters(client: LocalClient) -> None:
    """By id, state, pod and labels; all parts must match."""
    first, second = await client.run("a"), await client.run("b")
    running, created = await client.start(first, pod="a"), await client.create(second, pod="b")
    await client.call("StopPodSandbox", pod_sandbox_id=second)

    async def pods(**wanted: Any) -> list[str]:
        answer = await client.call("ListPodSandbox", filter=cri.PodSandboxFilter(**wanted))
        return [one.id for one in answer.items]

    async def containers(**wanted: Any) -> list[str]:
        answer = await client.call("ListContainers", filter=cri.ContainerFilter(**wanted))
        return [one.id for one in answer.containers]

    assert await pods() == [first, second]
    assert await pods(id=second) == [second]
    assert await pods(state=cri.PodSandboxStateValue(state=cri.SANDBOX_READY)) == [first]
    assert await pods(label_selector={"io.kubernetes.pod.name": "b"}) == [second]
    assert await containers() == [running, created]
    assert await containers(pod_sandbox_id=first) == [running]
    assert await containers(state=cri.ContainerStateValue(state=cri.CONTAINER_CREATED)) == [created]
    assert await containers(id=running, pod_sandbox_id=second) == []
    streamed = [one async for one in client.runtime.stream("StreamContainers", cri.StreamContainersRequest())]
    assert [one.id for answer in streamed for one in answer.containers] == [running, created]
    streamed = [one async for one in client.runtime.stream("StreamPodSandboxes", cri.StreamPodSandboxesRequest())]
    assert [one.id for answer in streamed for one in answer.pod_sandboxes] == [first, second]


async def test_ids_by_their_start(client: LocalClient) -> None:
    """A unique start is enough; one that several have is not."""
    sandbox = await client.run()
    container = await client.start(sandbox)
    assert (await client.status(container[:64])).id == container
    short = container.rstrip("0")
    assert (await client.call("ContainerStatus", container_id=short)).status.id == container
    await client.create(sandbox, "other")
    assert await code_of(client.call("ContainerStatus", container_id="0")) is Code.INVALID_ARGUMENT


async def test_lists_follow_every_change(client: LocalClient) -> None:
    """What is kept for the next list is made anew when something has changed, and nobody else can change it."""
    sandbox = await client.run("a")
    container = await client.create(sandbox, pod="a")

    async def states() -> tuple[int, int]:
        pods = (await client.call("ListPodSandbox")).items
        containers = (await client.call("ListContainers")).containers
        pods[0].labels.clear()
        containers[0].labels.clear()
        return pods[0].state, containers[0].state

    assert await states() == (cri.SANDBOX_READY, cri.CONTAINER_CREATED)
    await client.call("StartContainer", container_id=container)
    assert await states() == (cri.SANDBOX_READY, cri.CONTAINER_RUNNING)
    await client.call("StopContainer", container_id=container, timeout=0)
    await client.call("StopPodSandbox", pod_sandbox_id=sandbox)
    assert await states() == (cri.SANDBOX_NOTREADY, cri.CONTAINER_EXITED)
    assert (await client.call("ListPodSandbox")).items[0].labels["io.kubernetes.pod.name"] == "a"
