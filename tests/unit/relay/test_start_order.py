"""The order of starts and updates of a container on their way to the runtime."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.cri.methods import METHODS
from interpose.cri.parser import CriParser
from interpose.cri.store.starts import StartTracker
from interpose.cri.store.store import Store
from interpose.cri.store.sync import Synchronizer
from interpose.net.grpc.status import Code, RpcError
from interpose.relay.api import Body, Call, Reply
from interpose.relay.start_order import StartOrder
from interpose.testing.eventually import eventually
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.pods import BUSYBOX, container_config, pod_config

START, UPDATE = "StartContainer", "UpdateContainerResources"


class Node:
    """A fake runtime with a container that waits to be started, and the interceptor in front of it."""

    def __init__(self) -> None:
        self.runtime = FakeRuntime()
        self.store = Store()
        self.sync = Synchronizer(self.store, self.ask)
        self.starts = StartTracker()
        self.lost: list[str] = []
        self.starts.on_lost = self.lost.append
        self.pauses: list[float] = []
        self.short_pauses = 1000
        self.last_pause_over = asyncio.Event()
        clock = asyncio.get_running_loop().time
        self.order = StartOrder(self.starts, self.store, self.sync, clock, (0.5, 1.0, 1.0), self.pause)
        config = pod_config("web")
        sandbox = self.runtime.state.run_sandbox(config, "runc")
        image = self.runtime.images.pull(BUSYBOX, cri.AuthConfig())
        self.id = self.runtime.state.create_container(sandbox, container_config(config), image).id

    async def pause(self, seconds: float) -> None:
        """Note it; others have a turn. The last one takes until somebody ends it."""
        self.pauses.append(seconds)
        await (self.last_pause_over.wait() if len(self.pauses) > self.short_pauses else asyncio.sleep(0))

    async def ask(self, method: str, message: bytes) -> bytes:
        """The runtime's answer."""
        request = getattr(cri, f"{method}Request").FromString(message)
        answer: bytes = (await self.runtime.call(method, request)).SerializeToString()
        return answer

    async def call(self, name: str, container_id: str = "", deadline: float | None = None, raw: bytes = b"") -> Reply:
        """A call through the interceptor."""
        request = getattr(cri, f"{name}Request")(container_id=container_id or self.id)
        body = Body(raw or request.SerializeToString(), CriParser(f"{name}Request"))

        async def proceed() -> Reply:
            try:
                return Reply(code=0, body=Body(await self.ask(name, body.data()), CriParser(f"{name}Response")))
            except RpcError as error:
                return Reply(code=error.code, message=error.message)

        return await self.order.intercept(Call(method=METHODS[name], path=b"/", body=body, deadline=deadline), proceed)

    def soon(self, name: str, **more: float) -> "asyncio.Task[Reply]":
        """The same, on its way."""
        return asyncio.create_task(self.call(name, deadline=more.get("deadline")))


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    """The store knows the container."""
    node = Node()
    await node.sync.resync()
    yield node
    await node.order.tasks.cancel()
    await node.sync.close()


async def some_turns() -> None:
    """What can happen happens."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_an_update_waits_for_a_start(node: Node) -> None:
    """Also one that names its container by the beginning of its id."""
    stall = node.runtime.stall(START, "during")
    start = node.soon(START)
    await stall.entered.wait()
    update = asyncio.create_task(node.call(UPDATE, node.id[:12]))
    await some_turns()
    assert node.runtime.calls[UPDATE] == 0
    stall.release()
    assert [(await start).code, (await update).code] == [0, 0]
    assert node.lost == []


async def test_a_start_waits_for_an_update(node: Node) -> None:
    """And updates that come later wait for the start."""
    stall = node.runtime.stall(UPDATE)
    first = node.soon(UPDATE)
    await stall.entered.wait()
    start, second = node.soon(START), node.soon(UPDATE)
    await some_turns()
    assert (node.runtime.calls[START], node.runtime.calls[UPDATE]) == (0, 1)
    stall.release()
    await asyncio.gather(first, start, second)
    assert [name for name, _ in node.runtime.requests if name in (START, UPDATE)] == [UPDATE, START, UPDATE]
    assert node.lost == []


@pytest.mark.parametrize("waiting", [START, UPDATE])
async def test_nobody_waits_for_longer_than_half_of_what_is_left(node: Node, waiting: str) -> None:
    """Whoever goes on all the same is told of."""
    other = UPDATE if waiting == START else START
    stall = node.runtime.stall(other, "before" if other == UPDATE else "during")
    first = node.soon(other)
    await stall.entered.wait()
    assert (await node.call(waiting, deadline=asyncio.get_running_loop().time() + 0.05)).code == 0
    assert node.lost == []
    stall.release()
    await first
    assert node.lost == [node.id]


async def test_what_cannot_be_read_passes(node: Node) -> None:
    """The runtime will say what is wrong."""

    async def proceed() -> Reply:
        return Reply(code=3)

    call = Call(method=METHODS[UPDATE], path=b"/", body=Body(b"\xff", CriParser(f"{UPDATE}Request")))
    assert (await node.order.intercept(call, proceed)).code == 3


async def test_a_start_that_failed_is_over(node: Node) -> None:
    """The runtime says so."""
    node.runtime.fail(START, Code.UNKNOWN, "no such file", times=1)
    assert (await node.call(START)).code == Code.UNKNOWN
    assert not node.starts.in_flight(node.id)


async def test_a_lost_reply_of_a_start_that_happened(node: Node) -> None:
    """The runtime is asked; from then on updates go on, and those before may have had no effect."""
    node.runtime.fail(START, Code.UNAVAILABLE, "gone", times=1, when="after")
    await node.call(START)
    assert node.starts.in_flight(node.id)
    await node.call(UPDATE)
    assert (node.lost, node.starts.in_flight(node.id)) == ([node.id], False)


async def test_a_lost_reply_of_a_start_that_did_not_happen(node: Node) -> None:
    """It waits to be started, at every look."""
    node.runtime.fail(START, Code.UNAVAILABLE, "gone", times=1)
    await node.call(START)
    await eventually(lambda: not node.starts.in_flight(node.id), "the doubt to end")
    assert node.runtime.calls["ContainerStatus"] == 1 + 3
    assert node.lost == []


async def test_as_long_as_the_runtime_does_not_say_it_is_in_flight(node: Node) -> None:
    """The caller has left."""
    node.short_pauses = 5
    stall = node.runtime.stall(START, "during")
    start = node.soon(START)
    await stall.entered.wait()
    node.runtime.fail("ContainerStatus", Code.UNAVAILABLE, "away")
    start.cancel()
    await asyncio.gather(start, return_exceptions=True)
    await eventually(lambda: len(node.pauses) == 6, "some looks")
    assert node.starts.in_flight(node.id)
    assert node.pauses == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]  # a runtime that is away is not asked all the time
    stall.release()
    node.runtime.clear("ContainerStatus")
    node.last_pause_over.set()
    await eventually(lambda: not node.starts.in_flight(node.id), "the doubt to end")
    assert node.lost == [node.id]


async def test_another_start_that_ends_settles_it(node: Node) -> None:
    """Its reply tells."""
    node.runtime.fail("ContainerStatus", Code.UNAVAILABLE, "away")
    node.starts.doubt(node.id)
    await node.call(START)
    assert not node.starts.in_flight(node.id)
    await eventually(lambda: not len(node.order.tasks), "nobody to look any more")


@pytest.mark.parametrize("known", [True, False])
async def test_a_container_that_is_gone_is_not_being_started(node: Node, known: bool) -> None:
    """Whether the store has heard of it or not."""
    container_id = node.id if known else "f" * 64
    node.runtime.state.remove_container(node.runtime.containers[node.id])
    node.starts.doubt(container_id)
    await eventually(lambda: not node.starts.in_flight(container_id), "the doubt to end")
    assert node.lost == []


async def test_a_container_whose_pod_is_not_there_is_not_being_started(node: Node) -> None:
    """The runtime still lists the container, which the store cannot take without a pod."""
    node.store.remove_container(node.id)
    node.store.remove_pod(next(iter(node.store.pods)))
    node.runtime.fail("PodSandboxStatus", Code.NOT_FOUND, "no such sandbox")
    node.starts.doubt(node.id)
    await eventually(lambda: not node.starts.in_flight(node.id), "the doubt to end")
    assert (node.lost, node.pauses) == ([], [0.5])


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("code", [Code.UNAVAILABLE, Code.INTERNAL])
async def test_a_runtime_that_never_tells_is_not_asked_for_ever(node: Node, known: bool, code: Code) -> None:
    """After ten minutes it is not at that start any more."""
    if not known:
        node.store.remove_container(node.id)
    node.runtime.fail("ContainerStatus", code, "away")
    node.starts.doubt(node.id)
    await eventually(lambda: not node.starts.in_flight(node.id), "the doubt to end")
    assert 500 < sum(node.pauses) < 700
    assert node.lost == []
