"""What a client sees of containers whose resources were changed, and streams whose replies are edited."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from interpose._pb import cri_pb2 as cri
from interpose.config.relay.settings import LimitSettings
from interpose.core.model.pod import Container
from interpose.core.model.resources import LinuxResources
from interpose.cri.methods import Method
from interpose.net.grpc.status import Code, RpcError
from interpose.relay.status_rewriter import EventRewriter, StatusRewriter
from interpose.relay.taps import UNREADABLE
from interpose.testing.eventually import WAIT_LIMIT, eventually
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.grpcpeer import grpc_channel, grpc_server, server_stream, unary
from interpose.testing.pods import pod_config, run_request
from interpose.testing.serve import serve_runtime
from interpose.testing.stack import Stack, relay_stack
from tests.support.net.byte_seams import Notes

V1 = "/runtime.v1.RuntimeService"
EVENTS = f"{V1}/GetContainerEvents"
STATUS = f"{V1}/ContainerStatus"
POD = f"{V1}/PodSandboxStatus"
VERSION = f"{V1}/Version"
LATER = b"\xba\x3e\x05later"  # a field nobody knows
MIB = 1024 * 1024
# The client's own buffer must not hide a stall.
SMALL = [("grpc.http2.lookahead_bytes", 65536), ("grpc.http2.bdp_probe", 0)]


@dataclass(slots=True)
class Node:
    """A runtime with a pod of two containers, of which the first one may be made to diverge."""

    runtime: FakeRuntime
    stack: Stack
    channel: Any
    containers: dict[str, Container]
    notes: Notes
    direct: Any

    @property
    def ids(self) -> list[str]:
        """The two containers."""
        return list(self.runtime.containers)

    def diverge(self) -> Container:
        """The first container has other resources than its caller asked for."""
        container = self.runtime.state.container(self.ids[0])
        requested = LinuxResources(cpu_period=container.resources.cpu_period, cpu_shares=container.resources.cpu_shares)
        container.resources.cpu_shares = 2
        container.resources.cpuset_cpus = "0-1"
        record = Container(
            id=container.id,
            pod_id=container.sandbox_id,
            resources=replace(requested, cpu_shares=2, cpuset_cpus="0-1"),
            requested=requested,
        )
        self.containers[record.id] = record
        self.stack.relay.refresh()
        return record

    async def ask(self, path: str, message: Any, *, direct: bool = False) -> bytes:
        """A call through the relay, or past it."""
        reply: bytes = await (self.direct if direct else self.channel).unary_unary(path)(message.SerializeToString())
        return reply

    async def subscribe(self, *, direct: bool = False) -> Any:
        """A subscription to events, through the relay or past it, that the runtime knows of."""
        before = self.runtime.events.subscribers
        stream = (self.direct if direct else self.channel).unary_stream(EVENTS)(b"")
        await asyncio.wait_for(self.runtime.events.wait_for_subscribers(before + 1), WAIT_LIMIT)
        return stream


@pytest.fixture
async def node(relay_path: Path, runtime_path: Path) -> AsyncIterator[Node]:
    """Everything running; the tap sees what the client gets."""
    runtime = FakeRuntime()
    runtime.populate(1, 2)
    containers: dict[str, Container] = {}
    notes = Notes(("GetContainerEvents", "ContainerStatus"))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(serve_runtime(runtime_path, runtime))
        relay = await stack.enter_async_context(
            relay_stack(
                relay_path,
                runtime_path,
                interceptors=[StatusRewriter(lambda: containers)],
                editors=[EventRewriter(lambda: containers)],
                taps=[notes],
            )
        )
        channel = await stack.enter_async_context(grpc_channel(relay_path))
        direct = await stack.enter_async_context(grpc_channel(runtime_path))
        yield Node(runtime, relay, channel, containers, notes, direct)


def resources(status: cri.ContainerStatus) -> tuple[int, str]:
    """The two values that were changed."""
    return status.resources.linux.cpu_shares, status.resources.linux.cpuset_cpus


def shown(event: bytes, container_id: str) -> cri.ContainerStatus:
    """The status of a container in an event."""
    statuses = cri.ContainerEventResponse.FromString(event).containers_statuses
    return next(status for status in statuses if status.id == container_id)


# -- statuses


async def test_status_shows_what_was_requested(node: Node) -> None:
    """By id or prefix, and in the status of the pod; nothing else differs from what the runtime says."""
    record = node.diverge()
    for wanted in (record.id, record.id[:10]):
        request = cri.ContainerStatusRequest(container_id=wanted, verbose=True)
        seen = cri.ContainerStatusResponse.FromString(await node.ask(STATUS, request))
        assert resources(seen.status) == (record.requested.cpu_shares, "")
        truth = cri.ContainerStatusResponse.FromString(await node.ask(STATUS, request, direct=True))
        assert resources(truth.status) == (2, "0-1")
        truth.status.resources.CopyFrom(seen.status.resources)
        assert seen == truth
    pod = cri.PodSandboxStatusRequest(pod_sandbox_id=record.pod_id)
    statuses = cri.PodSandboxStatusResponse.FromString(await node.ask(POD, pod)).containers_statuses
    assert {status.id: resources(status) for status in statuses} == {
        record.id: (record.requested.cpu_shares, ""),
        node.ids[1]: (node.runtime.containers[node.ids[1]].resources.cpu_shares, ""),
    }


async def test_status_of_others_is_the_bytes_that_came(node: Node) -> None:
    """With another container diverging beside it."""
    node.diverge()
    request = cri.ContainerStatusRequest(container_id=node.ids[1], verbose=True)
    assert await node.ask(STATUS, request) == await node.ask(STATUS, request, direct=True)


async def test_unknown_container_is_not_found(node: Node) -> None:
    """The runtime's own error."""
    node.diverge()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await node.ask(STATUS, cri.ContainerStatusRequest(container_id="nobody"))
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def test_call_of_our_own_sees_the_truth(node: Node) -> None:
    """It enters the chain at the top and passes."""
    record = node.diverge()
    request = cri.ContainerStatusRequest(container_id=record.id).SerializeToString()
    reply = await node.stack.relay.call(STATUS.encode(), request, origin="store")
    assert resources(reply.response.status) == (2, "0-1")


async def test_status_leaves_the_frame_loop_only_while_something_diverges(node: Node) -> None:
    """The refresh says so."""
    route = node.stack.relay.routes.known[POD.encode()]
    assert not route.slow_path
    node.diverge()
    assert (route.slow_path, route.intercepted) == (True, True)
    node.containers.clear()
    node.stack.relay.refresh()
    assert not route.slow_path


# -- events


async def test_events_follow_what_diverges(node: Node) -> None:
    """A subscription from before the first change shows requests after it, and the truth before and after."""
    stream = await node.subscribe()
    truth = await node.subscribe(direct=True)
    node.runtime.exit_container(node.ids[1])
    first = await stream.read()
    assert first == await truth.read()
    record = node.diverge()
    node.runtime.exit_container(record.id)
    seen, real = await stream.read(), await truth.read()
    assert resources(shown(seen, record.id)) == (record.requested.cpu_shares, "")
    assert resources(shown(real, record.id)) == (2, "0-1")
    assert shown(seen, node.ids[1]) == shown(real, node.ids[1])
    await node.runtime.call("RunPodSandbox", run_request(pod_config("other")))
    for _ in range(2):
        assert await stream.read() == await truth.read()
    replies = [message for _, _, direction, message in node.notes.seen if direction == "reply"]
    assert replies[:2] == [first, seen]


async def test_subscription_ends_as_the_runtime_says(node: Node) -> None:
    """Status and text are the runtime's own; cleanly too."""
    stream = await node.subscribe()
    node.runtime.events.end(RpcError(Code.RESOURCE_EXHAUSTED, "events not read"))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stream.read()
    assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "events not read")
    stream = await node.subscribe()
    node.runtime.events.end()
    assert await stream.read() is grpc.aio.EOF
    assert [code for _, code in node.notes.ends] == [Code.RESOURCE_EXHAUSTED, Code.OK]


async def test_cancelled_subscription_ends_at_the_runtime(node: Node) -> None:
    """At once, and only this one."""
    streams = [await node.subscribe(), await node.subscribe()]
    streams[0].cancel()
    await asyncio.wait_for(node.runtime.events.wait_for_subscribers(1), WAIT_LIMIT)
    await eventually(lambda: node.notes.ends, "the end to be told")
    assert [code for _, code in node.notes.ends] == [Code.CANCELLED]
    node.runtime.exit_container(node.ids[0])
    assert await streams[1].read()
    assert node.stack.stats(EVENTS).in_flight == 1


async def test_lost_backend_ends_the_subscription(node: Node) -> None:
    """UNAVAILABLE; the client's connection stays and takes the next subscription."""
    stream = await node.subscribe()
    for link in list(node.stack.runtime._links.values()):
        link.abort()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stream.read()
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    await asyncio.wait_for(node.runtime.events.wait_for_subscribers(0), WAIT_LIMIT)
    record = node.diverge()
    stream = await node.subscribe()
    node.runtime.exit_container(record.id)
    assert resources(shown(await stream.read(), record.id)) == (record.requested.cpu_shares, "")


async def test_both_api_versions_are_edited(node: Node) -> None:
    """They share their messages."""
    record = node.diverge()
    stream = node.channel.unary_stream(EVENTS.replace("v1", "v1alpha2"))(b"")
    await asyncio.wait_for(node.runtime.events.wait_for_subscribers(1), WAIT_LIMIT)
    node.runtime.exit_container(record.id)
    assert resources(shown(await stream.read(), record.id)) == (record.requested.cpu_shares, "")


# -- any editor, with grpcio on both sides


class Editor:
    """An editor made of one function."""

    name = "editor"

    def __init__(self, edit: Callable[[bytes], bytes], methods: Collection[str] = ("GetContainerEvents",)) -> None:
        self.methods = methods
        self._edit = edit

    def edit(self, method: Method, message: bytes) -> bytes:
        """Do as told."""
        return self._edit(message)


def appended(message: bytes) -> bytes:
    """A changed message."""
    return message + b"!"


async def collected(stream: Any) -> list[bytes]:
    """All messages of a stream."""
    return [message async for message in stream]


def replying(*messages: bytes) -> dict[str, Any]:
    """Handlers of a server that answers with these and some metadata."""

    async def events(request: bytes, context: Any) -> AsyncIterator[bytes]:
        await context.send_initial_metadata((("begin", "b"),))
        context.set_trailing_metadata((("end-bin", b"\x00\xff"),))
        for message in messages:
            yield message

    async def version(request: bytes, context: Any) -> bytes:
        return request

    return {EVENTS: server_stream(events), VERSION: unary(version)}


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
async def test_messages_headers_and_trailers(relay_path: Path, runtime_path: Path, compression: Any) -> None:
    """Each message is edited, many at once and large ones too; metadata passes on both ends."""
    messages = [b"", b"one", bytes(100_000), b"x" * 3_000_000, *(b"%d" % number for number in range(500))]
    async with (
        grpc_server(runtime_path, replying(*messages), compression=compression),
        relay_stack(relay_path, runtime_path, editors=[Editor(appended)]) as stack,
        grpc_channel(relay_path) as channel,
    ):
        call = channel.unary_stream(EVENTS)(b"", wait_for_ready=True)
        assert await asyncio.wait_for(collected(call), WAIT_LIMIT) == [message + b"!" for message in messages]
        assert ("begin", "b") in list(await call.initial_metadata())
        assert ("end-bin", b"\x00\xff") in list(await call.trailing_metadata())
        assert (await call.code()) is grpc.StatusCode.OK
        await eventually(lambda: stack.stats(EVENTS).codes[0] == 1, "the call to be counted")
        assert stack.relay.editors.errors == {}


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
async def test_message_over_the_limit_passes_unedited(relay_path: Path, runtime_path: Path, compression: Any) -> None:
    """Those around it are edited; it is counted."""
    messages = [b"small", bytes(300_000), b"small", bytes(3_000_000), b"small"]
    async with (
        grpc_server(runtime_path, replying(*messages), compression=compression),
        relay_stack(relay_path, runtime_path, editors=[Editor(appended)], message_limit=100_000) as stack,
        grpc_channel(relay_path) as channel,
    ):
        stream = channel.unary_stream(EVENTS)(b"", wait_for_ready=True)
        received = await asyncio.wait_for(collected(stream), WAIT_LIMIT)
        assert received == [b"small!", messages[1], b"small!", messages[3], b"small!"]
        assert stack.relay.editors.errors == {(UNREADABLE, "GetContainerEvents"): 2}


async def test_editor_that_raises(relay_path: Path, runtime_path: Path) -> None:
    """The message passes as it came, unknown fields and all; it is counted, the next one is edited."""
    event = cri.ContainerEventResponse(container_id="c").SerializeToString() + LATER

    def moody(message: bytes) -> bytes:
        if message == event:
            raise ZeroDivisionError
        return message + b"!"

    async with (
        grpc_server(runtime_path, replying(event, b"next", event)),
        relay_stack(relay_path, runtime_path, editors=[Editor(moody)]) as stack,
        grpc_channel(relay_path) as channel,
    ):
        stream = channel.unary_stream(EVENTS)(b"", wait_for_ready=True)
        assert await collected(stream) == [event, b"next!", event]
        assert stack.relay.editors.errors == {("editor", "GetContainerEvents"): 2}


async def test_slow_reader_stalls_only_itself(relay_path: Path, runtime_path: Path) -> None:
    """Its sender waits, memory stays bounded, a neighbour on the same channel goes on; later everything arrives."""
    size, count = MIB // 4, 200
    sent = 0

    async def flood(request: bytes, context: Any) -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(count):
            yield bytes(size)
            sent += size

    handlers = replying() | {EVENTS: server_stream(flood)}
    async with (
        grpc_server(runtime_path, handlers, options=[("grpc.http2.bdp_probe", 0)]),
        relay_stack(relay_path, runtime_path, editors=[Editor(appended)]) as stack,
        grpc_channel(relay_path, options=SMALL) as channel,
    ):
        stream = channel.unary_stream(EVENTS)(b"", wait_for_ready=True)
        await stream.read()
        await eventually(lambda: stack.queued > 0, "the relay to hold something back")
        large = bytes(2 * MIB)
        steady = 0
        while steady < 3:  # a neighbour's call takes time enough for the next message to come, if it could
            before = sent
            assert await channel.unary_unary(VERSION)(large) == large
            steady = steady + 1 if sent == before else 0
        assert sent < 8 * MIB
        assert stack.queued <= 2 * MIB
        total = size + 1
        while part := await stream.read():
            total += len(part)
        assert total == count * (size + 1)
        assert stack.queued == 0


async def test_backend_that_comes_late(relay_path: Path, runtime_path: Path) -> None:
    """The call waits for it and is edited all the same; without one it ends, and taps hear of it."""
    notes = Notes(("GetContainerEvents",))
    limits = LimitSettings(backend_wait=0.05)
    async with (
        relay_stack(relay_path, runtime_path, editors=[Editor(appended)], taps=[notes], limits=limits) as stack,
        grpc_channel(relay_path) as channel,
    ):
        with pytest.raises(grpc.aio.AioRpcError):
            await collected(channel.unary_stream(EVENTS)(b""))
        assert [code for _, code in notes.ends] == [Code.UNAVAILABLE]
        async with grpc_server(runtime_path, replying(b"one")):
            await eventually(lambda: stack.runtime.up, "the relay to find the runtime")
            assert await collected(channel.unary_stream(EVENTS)(b"")) == [b"one!"]
    assert [message for _, _, direction, message in notes.seen if direction == "reply"] == [b"one!"]


# -- subscriptions


@pytest.mark.parametrize("method", ["Version", "Unheard"])
async def test_only_streams_can_be_edited(relay_path: Path, runtime_path: Path, method: str) -> None:
    """Said at the start, by name."""
    with pytest.raises(ValueError, match=method):
        async with relay_stack(relay_path, runtime_path, editors=[Editor(appended, (method,))]):
            pass


async def test_refresh_asks_editors_again(relay_path: Path, runtime_path: Path) -> None:
    """New streams follow; a method nobody edits is back in the frame loop."""
    editor = Editor(appended, ())
    async with (
        grpc_server(runtime_path, replying(b"one")),
        relay_stack(relay_path, runtime_path, editors=[editor]) as stack,
        grpc_channel(relay_path) as channel,
    ):
        route = stack.relay.routes.known[EVENTS.encode()]
        for methods, expected in (((), b"one"), (("GetContainerEvents",), b"one!"), ((), b"one")):
            editor.methods = methods
            stack.relay.refresh()
            assert route.slow_path is bool(methods)
            assert await collected(channel.unary_stream(EVENTS)(b"", wait_for_ready=True)) == [expected]
