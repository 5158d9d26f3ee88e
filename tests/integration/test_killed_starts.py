"""A relay that is killed in the middle of calls: what was being started starts, everything else is cancelled."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import grpc
import pytest

from interpose._pb import cri_pb2 as cri
from interpose.testing.eventually import WAIT_LIMIT, eventually
from interpose.testing.failpoints import Stall
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.grpcpeer import grpc_channel
from interpose.testing.serve import serve_runtime
from tests.support.lab.relay import Relay

V1 = "/runtime.v1.RuntimeService"
Start = Callable[..., Relay]


@pytest.fixture
async def runtime(runtime_path: Path) -> AsyncIterator[FakeRuntime]:
    """A backend in this process, which a test can stall and release."""
    runtime = FakeRuntime()
    runtime.populate(1)
    async with serve_runtime(runtime_path, runtime):
        yield runtime


def created(runtime: FakeRuntime) -> str:
    """A container that waits to be started."""
    container = next(iter(runtime.containers.values()))
    container.state = cri.CONTAINER_CREATED
    return container.id


def children(pid: int) -> set[int]:
    """Processes that this one has started."""
    return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


async def killed_in(method: str, relay: Relay, runtime: FakeRuntime, container_id: str) -> Stall:
    """The relay is killed while the runtime is at it, and the caller was told; where the runtime stands."""
    await eventually(lambda: children(relay.child.pid), "the shell")
    stall = runtime.stall(method)
    request = cri.StartContainerRequest(container_id=container_id).SerializeToString()
    async with grpc_channel(relay.socket) as channel:
        call = channel.unary_unary(f"{V1}/{method}")(request)
        await asyncio.wait_for(stall.entered.wait(), WAIT_LIMIT)
        await asyncio.to_thread(relay.kill)
        with pytest.raises(grpc.RpcError) as raised:
            await call
    assert raised.value.code() == grpc.StatusCode.UNAVAILABLE
    return stall


async def test_a_start_in_flight_comes_to_its_end(start_relay: Start, runtime: FakeRuntime) -> None:
    """The caller does not hear of it, and finds the container running; the next relay is as good as the first."""
    relay = start_relay()
    container_id = created(runtime)
    stall = await killed_in("StartContainer", relay, runtime, container_id)
    await asyncio.to_thread(relay.start)
    stall.release()
    await eventually(lambda: runtime.containers[container_id].state == cri.CONTAINER_RUNNING, "it to run")
    async with grpc_channel(relay.socket) as channel:
        stop = cri.StopContainerRequest(container_id=container_id).SerializeToString()
        await channel.unary_unary(f"{V1}/StopContainer")(stop, timeout=WAIT_LIMIT)
    assert runtime.calls["StartContainer"] == 1


async def test_other_calls_are_cancelled_as_ever(start_relay: Start, runtime: FakeRuntime) -> None:
    """The runtime learns that nobody waits any more."""
    relay = start_relay()
    container_id = created(runtime)
    stall = await killed_in("RemoveContainer", relay, runtime, container_id)
    await eventually(lambda: not stall.waiting, "the call to be cancelled")
    assert container_id in runtime.containers


async def test_a_relay_that_ends_by_itself_leaves_no_process(start_relay: Start, runtime: FakeRuntime) -> None:
    """While it runs there is one that holds its connection for starts."""
    relay = start_relay()
    (shell,) = await eventually(lambda: children(relay.child.pid), "the shell")
    assert await asyncio.to_thread(relay.child.stop) == 0
    with pytest.raises(ProcessLookupError):
        os.kill(shell, 0)
