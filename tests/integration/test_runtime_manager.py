"""The manager and a runtime behind a socket: versions, sockets that come and go, a pod from its start to its end."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from interpose.cri.client import RuntimeClient
from interpose.cri.messages import cri
from interpose.cri.remote import RemoteCaller
from interpose.cri.wrappers import InstrumentedCaller, LocalCaller
from interpose.errors import ConfigError
from interpose.net.grpc.handlers import ServerContext, Unary
from interpose.net.grpc.server import serve
from interpose.net.grpc.status import Code, RpcError
from interpose.testing.eventually import eventually
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.pods import pod_config
from interpose.testing.runtime.queries import FakeIdentity
from tests.support.node.managed_node import ManagedNode, container, pod


@asynccontextmanager
async def runtime_at(
    path: Path, runtime: FakeRuntime, versions: Collection[str] = ("v1", "v1alpha2"), without: Collection[str] = ()
) -> AsyncIterator[None]:
    """A runtime that answers at `path` inside the block."""
    server = await serve(path, runtime.handlers(versions, without))
    try:
        yield
    finally:
        await server.close()
        await asyncio.to_thread(path.unlink, missing_ok=True)


@asynccontextmanager
async def caller_of(path: Path, images: Path | None = None, **more: Any) -> AsyncIterator[RemoteCaller]:
    """A caller that has said hello."""
    caller = RemoteCaller(f"unix://{path}", None if images is None else f"unix://{images}", **more)
    try:
        await caller.start()
        yield caller
    finally:
        await caller.close()


@pytest.mark.parametrize(("versions", "spoken"), [(("v1", "v1alpha2"), "v1"), (("v1alpha2",), "v1alpha2")])
async def test_the_newest_version_both_know_is_spoken(scratch: Path, versions: list[str], spoken: str) -> None:
    """For runtime and images."""
    path = scratch / "r.sock"
    async with runtime_at(path, FakeRuntime(), versions), caller_of(path) as caller:
        assert caller.version == spoken
        assert caller.up
        services = RuntimeClient(caller)
        assert (await services.version()).runtime_name == "containerd"
        assert await services.list_images()


async def test_another_failure_of_the_first_call_is_not_a_question_of_versions(scratch: Path) -> None:
    """It is the answer."""
    runtime = FakeRuntime()
    runtime.fail("Version", Code.PERMISSION_DENIED, "not you")
    path = scratch / "r.sock"
    async with runtime_at(path, runtime):
        with pytest.raises(RpcError, match="not you"):
            async with caller_of(path):
                pass
    assert runtime.calls["Version"] == 1


async def test_nobody_listens(scratch: Path) -> None:
    """The socket is named, and what is wrong with it."""
    path = scratch / "nobody.sock"
    with pytest.raises(RpcError) as caught:
        async with caller_of(path, patience=0.05):
            pass
    assert caught.value.code is Code.UNAVAILABLE
    assert str(path) in caught.value.message
    assert "No such file" in caught.value.message


@pytest.mark.parametrize("endpoint", ["", "run/x.sock", "unix://run/x.sock", "tcp://127.0.0.1:1", "@abstract"])
def test_endpoints_that_are_none(endpoint: str) -> None:
    """Refused with the name of the flag."""
    with pytest.raises(ConfigError, match="--runtime-endpoint"):
        RemoteCaller(endpoint)


async def test_images_may_live_elsewhere(scratch: Path) -> None:
    """Each call goes to its own socket, each with its own version."""
    one, two = FakeRuntime(), FakeRuntime()
    first, second = scratch / "r.sock", scratch / "i.sock"
    async with (
        runtime_at(first, one),
        runtime_at(second, two, ("v1alpha2",)),
        caller_of(first, second) as caller,
    ):
        services = RuntimeClient(caller)
        await services.pull_image(cri.ImageSpec(image="nginx"), None, None)
        await services.run_pod_sandbox(pod_config("web"))
    assert (one.calls["PullImage"], two.calls["PullImage"]) == (0, 1)
    assert (one.calls["RunPodSandbox"], two.calls["RunPodSandbox"]) == (1, 0)


async def test_a_runtime_that_was_replaced_is_asked_anew(scratch: Path) -> None:
    """It may speak another version."""
    path = scratch / "r.sock"
    old, new = FakeRuntime(identity=FakeIdentity(name="old")), FakeRuntime(identity=FakeIdentity(name="new"))
    async with runtime_at(path, old, ("v1alpha2",)):
        caller = RemoteCaller(str(path))
        await caller.start()
        assert caller.version == "v1alpha2"
    await eventually(lambda: not caller.up, "the connection to end")
    async with runtime_at(path, new, ("v1",)):
        assert (await RuntimeClient(caller).version()).runtime_name == "new"
        assert caller.version == "v1"
        await caller.close()


async def test_a_lost_connection_is_unavailable(scratch: Path) -> None:
    """And nothing is sent twice."""
    path = scratch / "r.sock"
    runtime = FakeRuntime()
    stall = runtime.stall("RunPodSandbox")
    async with caller_pair(path, runtime) as (server, caller):
        call = asyncio.gather(RuntimeClient(caller).run_pod_sandbox(pod_config("web")), return_exceptions=True)
        await stall.entered.wait()
        await server.close()
        [error] = await call
    assert isinstance(error, RpcError)
    assert error.code is Code.UNAVAILABLE
    assert runtime.calls["RunPodSandbox"] == 1
    stall.release()


@asynccontextmanager
async def caller_pair(path: Path, runtime: FakeRuntime) -> AsyncIterator[tuple[Any, RemoteCaller]]:
    server = await serve(path, runtime.handlers())
    caller = RemoteCaller(str(path))
    try:
        await caller.start()
        yield server, caller
    finally:
        await caller.close()
        await server.close()


async def test_methods_that_are_none_and_deadlines(scratch: Path) -> None:
    """As a gRPC client would see them."""
    path = scratch / "r.sock"
    runtime = FakeRuntime()
    runtime.stall("Status")
    async with runtime_at(path, runtime, without=["RuntimeConfig"]), caller_of(path) as caller:
        for method in ("Nothing", "GetContainerEvents", "RuntimeConfig"):
            with pytest.raises(RpcError) as caught:
                await caller.call(method, cri.RuntimeConfigRequest())
            assert caught.value.code is Code.UNIMPLEMENTED
        with pytest.raises(RpcError) as caught:
            await caller.call("Status", cri.StatusRequest(), timeout=0.05)
        assert caught.value.code is Code.DEADLINE_EXCEEDED
        with pytest.raises(RpcError) as caught:
            await anext(caller.stream("Status", cri.StatusRequest()))
        assert caught.value.code is Code.UNIMPLEMENTED


async def test_finding_out_the_version_is_part_of_the_calls_time(scratch: Path) -> None:
    """Who wants an answer soon does not wait for a runtime that says nothing."""
    path = scratch / "r.sock"
    runtime = FakeRuntime()
    stall = runtime.stall("Version")
    caller = RemoteCaller(str(path))
    async with runtime_at(path, runtime):
        with pytest.raises(RpcError) as caught:
            await caller.call("Status", cri.StatusRequest(), timeout=0.05)
        assert caught.value.code is Code.DEADLINE_EXCEEDED
        stall.release()
        assert (await RuntimeClient(caller).status()).status.conditions
        await caller.close()


async def test_streams_come_over_the_socket(scratch: Path) -> None:
    """All of one, and the beginning of one without an end."""
    path = scratch / "r.sock"
    runtime = FakeRuntime(stream_batch=2)
    runtime.populate(5)
    async with runtime_at(path, runtime), caller_of(path) as caller:
        parts = [one async for one in caller.stream("StreamContainers", cri.StreamContainersRequest(), timeout=30)]
        assert [len(one.containers) for one in parts] == [2, 2, 1]

        async def happen() -> None:
            await eventually(lambda: runtime.events.subscribers, "a subscriber")
            runtime.populate(1)

        async with aclosing(RuntimeClient(caller).container_events()) as events:
            event, _ = await asyncio.gather(anext(events), happen())
        assert event.container_id
        await eventually(lambda: not runtime.events.subscribers, "the subscriber to leave")


async def test_an_answer_that_is_none(scratch: Path) -> None:
    """Bytes that are no message."""
    path = scratch / "r.sock"

    async def garbage(_body: bytes, _context: ServerContext) -> bytes:
        return b"\xff\xff"

    handlers = {**FakeRuntime().handlers(), b"/runtime.v1.RuntimeService/Status": Unary(garbage)}
    server = await serve(path, handlers)
    async with caller_of(path) as caller:
        with pytest.raises(RpcError, match="answer to Status cannot be read"):
            await caller.call("Status", cri.StatusRequest())
    await server.close()


@pytest.mark.parametrize("way", ["local", "remote"])
async def test_a_pod_lives_and_goes(scratch: Path, way: str) -> None:
    """The same in the same process and over a socket, and counted."""
    runtime = FakeRuntime()
    path = scratch / "r.sock"
    async with runtime_at(path, runtime), caller_of(path) as remote:
        caller = InstrumentedCaller(remote if way == "remote" else LocalCaller(runtime))
        node = ManagedNode(scratch, runtime=runtime, caller=caller)
        web = pod(container("a"), container("b", image="docker.io/library/nginx:1"))
        assert (await node.sync(web)).ok
        assert set(node.running()) == {"a", "b"}
        assert (await node.sync(web)).steps == ()
        assert (await node.manager.collect_garbage([web.uid])).ok
        assert (await node.manager.remove_pod(await node.found(web), web)).ok
        assert not runtime.sandboxes
        assert caller.calls["StartContainer"] == 2
        assert caller.calls["StopContainer"] == 2
