"""The fake runtime as a whole: its method table, recording, failpoints, and the wire."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from interpose._pb import cri_pb2 as cri
from interpose.net.grpc.handlers import Handlers, ServerStreaming, Unary
from interpose.net.grpc.status import Code, RpcError
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.pods import container_config, create_request, pod_config, run_request


class _Context:
    """A call as a server would describe it."""

    path = b""
    metadata = ()
    deadline = None


class _Bridge(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Our handlers behind a grpcio server: the independent side of the wire."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers

    def service(self, details: Any) -> Any:
        handler = self._handlers.get(details.method.encode())
        if isinstance(handler, Unary):
            unary = handler.handle

            async def answer_unary(body: bytes, context: Any) -> bytes:
                try:
                    return await unary(body, _Context())
                except RpcError as error:
                    await context.abort(_grpc_code(error), error.message)
                    raise

            return grpc.unary_unary_rpc_method_handler(answer_unary)
        if isinstance(handler, ServerStreaming):
            stream = handler.handle

            async def answer_stream(body: bytes, context: Any) -> AsyncIterator[bytes]:
                try:
                    async for part in stream(body, _Context()):
                        yield part
                except RpcError as error:
                    await context.abort(_grpc_code(error), error.message)

            return grpc.unary_stream_rpc_method_handler(answer_stream)
        return None


def _grpc_code(error: RpcError) -> Any:
    return next(code for code in grpc.StatusCode if code.value[0] == error.code)


@asynccontextmanager
async def served(handlers: Handlers, folder: Path) -> AsyncIterator[Any]:
    """A grpcio channel to these handlers."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_Bridge(handlers),))
    server.add_insecure_port(f"unix:{folder}/cri.sock")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"unix:{folder}/cri.sock") as channel:
            yield channel
    finally:
        await server.stop(None)


def test_every_method_of_the_protocol_is_answered(runtime: FakeRuntime) -> None:
    """Each method of both services, in both versions of the API, with the right kind."""
    file = cri.DESCRIPTOR
    handlers = runtime.handlers()
    expected = {
        f"/runtime.{version}.{service.name}/{method.name}".encode(): method.server_streaming
        for version in ("v1", "v1alpha2")
        for service in file.services_by_name.values()
        for method in service.methods
    }
    assert len(expected) == 86
    assert {path: isinstance(handler, ServerStreaming) for path, handler in handlers.items()} == expected


def test_an_older_runtime_lacks_methods(runtime: FakeRuntime) -> None:
    """Methods left out are not registered, which a server answers with UNIMPLEMENTED; a typing error is refused."""
    handlers = runtime.handlers(versions=["v1"], without=["RuntimeConfig"])
    assert b"/runtime.v1.RuntimeService/RuntimeConfig" not in handlers
    assert b"/runtime.v1.RuntimeService/Version" in handlers
    assert b"/runtime.v1alpha2.RuntimeService/Version" not in handlers
    with pytest.raises(ValueError, match="RuntimeConfg"):
        runtime.handlers(without=["RuntimeConfg"])


async def test_calls_and_requests_are_recorded(runtime: FakeRuntime) -> None:
    """Failed calls too, in order, as copies."""
    request = cri.ContainerStatusRequest(container_id="x")
    with pytest.raises(RpcError):
        await runtime.call("ContainerStatus", request)
    request.container_id = "changed"
    await runtime.call("Version", cri.VersionRequest())
    assert runtime.calls == {"ContainerStatus": 1, "Version": 1}
    assert [method for method, _ in runtime.requests] == ["ContainerStatus", "Version"]
    assert runtime.requests_of("ContainerStatus") == [cri.ContainerStatusRequest(container_id="x")]


async def test_recording_is_bounded() -> None:
    """The oldest requests go; the count stays right."""
    runtime = FakeRuntime(record_limit=2)
    for version in ("1", "2", "3"):
        await runtime.call("Version", cri.VersionRequest(version=version))
    assert [request.version for request in runtime.requests_of("Version")] == ["2", "3"]
    assert runtime.calls["Version"] == 3


async def test_arrivals_can_be_awaited(runtime: FakeRuntime) -> None:
    """A test waits for the call, not for time."""
    stall = runtime.stall("Version")
    call = asyncio.create_task(runtime.call("Version", cri.VersionRequest()))
    await runtime.wait_for_calls("Version")
    assert not call.done()
    stall.release()
    await call
    with pytest.raises(ValueError, match="Versoin"):
        await runtime.wait_for_calls("Versoin")


async def test_a_failure_before_the_work_leaves_no_trace(runtime: FakeRuntime) -> None:
    """The call is refused with code and message, once; the next one works."""
    runtime.fail("RunPodSandbox", Code.RESOURCE_EXHAUSTED, "full", times=1)
    request = run_request(pod_config("web"))
    with pytest.raises(RpcError, match="full"):
        await runtime.call("RunPodSandbox", request)
    assert not runtime.sandboxes
    await runtime.call("RunPodSandbox", request)
    assert len(runtime.sandboxes) == 1


async def test_a_cancelled_call_may_have_done_its_work(runtime: FakeRuntime) -> None:
    """Stalled after the work and cancelled: the sandbox exists though nobody got its id."""
    stall = runtime.stall("RunPodSandbox", when="after")
    call = asyncio.create_task(runtime.call("RunPodSandbox", run_request(pod_config("web"))))
    await stall.entered.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert len(runtime.sandboxes) == 1
    runtime.clear()


async def test_a_delay_is_taken(runtime: FakeRuntime) -> None:
    """The call answers, later than its delay by the clock of the loop."""
    loop = asyncio.get_running_loop()
    runtime.delay("Version", 0.02)
    before = loop.time()
    await runtime.call("Version", cri.VersionRequest())
    assert loop.time() - before > 0.019  # clock: at least so long


async def test_streams_have_failpoints(runtime: FakeRuntime) -> None:
    """A stream can fail before its first message or after its last."""
    runtime.populate(1)
    runtime.fail("StreamContainers", Code.UNAVAILABLE, when="after", times=1)
    stream = runtime.stream("StreamContainers", cri.StreamContainersRequest())
    assert len((await anext(stream)).containers) == 1
    with pytest.raises(RpcError):
        await anext(stream)
    runtime.fail("StreamContainers", Code.UNAVAILABLE)
    with pytest.raises(RpcError):
        await anext(runtime.stream("StreamContainers", cri.StreamContainersRequest()))


async def test_leaving_a_stream_ends_its_subscription(runtime: FakeRuntime) -> None:
    """At once when closed, not when memory is collected."""
    stream = runtime.stream("GetContainerEvents", cri.GetEventsRequest())
    first = asyncio.create_task(anext(stream))
    await runtime.events.wait_for_subscribers(1)
    runtime.populate(1)
    await first
    await stream.aclose()
    assert runtime.events.subscribers == 0


async def test_an_unknown_method_is_unimplemented(runtime: FakeRuntime) -> None:
    """In the same process too; a streaming method is no unary one."""
    for method in ("Nosuch", "GetContainerEvents"):
        with pytest.raises(RpcError) as caught:
            await runtime.call(method, cri.VersionRequest())
        assert caught.value.code is Code.UNIMPLEMENTED
    with pytest.raises(RpcError):
        await anext(runtime.stream("Version", cri.VersionRequest()))
    assert not runtime.calls


async def test_a_large_node_has_realistic_lists(runtime: FakeRuntime) -> None:
    """A thousand containers of about a kilobyte each, all different, more on a second call."""
    runtime.populate(pods=500, containers_per_pod=2)
    answer = await runtime.call("ListContainers", cri.ListContainersRequest())
    assert len({container.id for container in answer.containers}) == 1000
    assert 900 < answer.ByteSize() / 1000 < 1200
    assert all(container.state == cri.CONTAINER_RUNNING for container in answer.containers)
    assert not runtime.requests_of("CreateContainer")
    runtime.populate(pods=1)
    assert len(runtime.sandboxes) == 501


async def test_runs_can_be_repeated_exactly() -> None:
    """One seed gives the same ids; another seed gives others."""
    nodes = [FakeRuntime(seed=seed) for seed in (1, 1, 2)]
    for node in nodes:
        node.populate(3, 2)
    first, second, third = [list(node.containers) for node in nodes]
    assert first == second
    assert not set(first) & set(third)


async def test_a_pod_over_the_wire(runtime: FakeRuntime, tmp_path: Path) -> None:
    """A grpcio client runs a pod, on both versions of the API, and reads it back."""
    pod = pod_config("web")
    async with served(runtime.handlers(), tmp_path) as channel:

        async def call(path: str, request: Any, answer: Any) -> Any:
            body = await channel.unary_unary(path)(request.SerializeToString())
            return answer.FromString(body)

        v1, v1alpha2 = "/runtime.v1.RuntimeService", "/runtime.v1alpha2.RuntimeService"
        sandbox = await call(f"{v1}/RunPodSandbox", run_request(pod), cri.RunPodSandboxResponse)
        create = create_request(sandbox.pod_sandbox_id, pod, container_config(pod, envs={"A": b"\xff"}))
        created = await call(f"{v1alpha2}/CreateContainer", create, cri.CreateContainerResponse)
        status = await call(
            f"{v1}/ContainerStatus",
            cri.ContainerStatusRequest(container_id=created.container_id, verbose=True),
            cri.ContainerStatusResponse,
        )
        assert status.status.state == cri.CONTAINER_CREATED
        assert json.loads(status.info["info"])["sandboxID"] == sandbox.pod_sandbox_id
        images = await call("/runtime.v1.ImageService/ListImages", cri.ListImagesRequest(), cri.ListImagesResponse)
        assert len(images.images) == 2
    assert runtime.calls["CreateContainer"] == 1


async def test_errors_over_the_wire(runtime: FakeRuntime, tmp_path: Path) -> None:
    """Codes and messages arrive as raised; bytes that are no message are INTERNAL; an absent method UNIMPLEMENTED."""
    prefix = "/runtime.v1.RuntimeService"
    async with served(runtime.handlers(without=["Exec"]), tmp_path) as channel:
        for method, body, code in [
            ("ContainerStatus", cri.ContainerStatusRequest(container_id="x").SerializeToString(), "NOT_FOUND"),
            ("Version", b"\xff\xff\xff", "INTERNAL"),
            ("Exec", b"", "UNIMPLEMENTED"),
        ]:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await channel.unary_unary(f"{prefix}/{method}")(body)
            assert caught.value.code().name == code


async def test_events_over_the_wire(runtime: FakeRuntime, tmp_path: Path) -> None:
    """The stream stays open, brings each event, ends with the error it was broken with; leaving it is noticed."""
    path = "/runtime.v1.RuntimeService/GetContainerEvents"
    async with served(runtime.handlers(), tmp_path) as channel:
        first, second = (channel.unary_stream(path)(b"") for _ in range(2))
        await runtime.events.wait_for_subscribers(2)
        runtime.populate(1)
        for stream in (first, second):
            event = cri.ContainerEventResponse.FromString(await anext(aiter(stream)))
            assert event.pod_sandbox_status.metadata.namespace == "production"
        second.cancel()
        await runtime.events.wait_for_subscribers(1)
        runtime.events.end(RpcError(Code.UNAVAILABLE, "runtime restarts"))
        with pytest.raises(grpc.aio.AioRpcError, match="runtime restarts"):
            async for _ in first:
                pass
