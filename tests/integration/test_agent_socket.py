"""The agent's service on its socket, with grpcio as the relay."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from interpose._pb import resmgr_agent_pb2 as agent
from interpose.host.unix_sockets import bind_unix
from interpose.kube.agent.node_service import AgentSocket, NodeService
from interpose.tasks import TaskBag
from interpose.testing.eventually import WAIT_LIMIT, eventually, pass_deadline
from interpose.testing.grpcpeer import grpc_channel
from tests.support.kube.node_api import NodeApi, plain_node
from tests.support.net.echo_service import failed

CMK = {"key": "cmk", "value": "true", "effect": "NoSchedule"}


class Caller:
    """A relay of somebody else."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel

    async def __call__(self, request: Any, *, timeout: float = 5.0) -> Any:
        """One call, named by its request."""
        method = request.DESCRIPTOR.name.removesuffix("Request")
        reply = getattr(agent, f"{method}Reply")
        stub = self._channel.unary_unary(
            f"/v1.Agent/{method}",
            request_serializer=lambda one: one.SerializeToString(),
            response_deserializer=reply.FromString,
        )
        return await stub(request, timeout=timeout)

    async def raw(self, method: str, data: bytes) -> bytes:
        """Any bytes to any method."""
        reply: bytes = await self._channel.unary_unary(f"/v1.Agent/{method}")(data, timeout=WAIT_LIMIT)
        return reply


@asynccontextmanager
async def serving(path: Path, api: NodeApi, **more: Any) -> AsyncIterator[AgentSocket]:
    """The service of node n1."""
    service = NodeService(api, "n1", lambda query: "nothing sent yet" if query else "")
    served = AgentSocket(bind_unix(str(path), mode=0o600), service, **more)
    await served.start()
    try:
        yield served
    finally:
        await served.close()


@pytest.fixture
def path(scratch: Path) -> Path:
    """Of the socket."""
    return scratch / "agent.sock"


@pytest.fixture
async def api() -> NodeApi:
    """With a node as a kubelet registers it."""
    return NodeApi()


@pytest.fixture
async def served(path: Path, api: NodeApi) -> AsyncIterator[AgentSocket]:
    """The service at work."""
    async with serving(path, api) as served:
        yield served


@pytest.fixture
async def call(served: AgentSocket, path: Path) -> AsyncIterator[Caller]:
    """A relay at its socket."""
    async with grpc_channel(path) as channel:
        yield Caller(channel)


async def test_all_methods(call: Caller, api: NodeApi) -> None:
    """Each does what it says."""
    assert json.loads((await call(agent.GetNodeRequest())).node) == plain_node()
    patches = [
        agent.JsonPatch(op="add", path="/metadata/labels/cmk.intel.com~1cmk-node", value="true"),
        agent.JsonPatch(op="add", path="/spec/taints", value=json.dumps([CMK])),
    ]
    await call(agent.PatchNodeRequest(patches=patches))
    await call(agent.UpdateNodeCapacityRequest(capacities={"cmk.intel.com/exclusive-cores": "4"}))
    node = json.loads((await call(agent.GetNodeRequest())).node)
    assert node == api.node
    assert node["metadata"]["labels"]["cmk.intel.com/cmk-node"] == "true"
    assert node["spec"]["taints"] == [CMK]
    assert node["status"]["capacity"]["cmk.intel.com/exclusive-cores"] == "4"
    assert (await call(agent.HealthCheckRequest())).error == ""
    assert (await call(agent.HealthCheckRequest(query="config-status"))).error == "nothing sent yet"


async def test_a_method_of_an_older_agent_is_not_there(call: Caller) -> None:
    """Configuration is sent to the relay, not fetched by it."""
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call.raw("GetConfig", b"")
    assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_refusals_carry_their_reason(call: Caller, api: NodeApi) -> None:
    """As codes and words that a relay can show."""
    patch = agent.JsonPatch(op="add", path="/spec/unschedulable", value="true")
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call(agent.PatchNodeRequest(patches=[patch]))
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "operation 0 (add '/spec/unschedulable')" in error.value.details()
    assert api.calls == []


async def test_a_message_that_is_too_large(call: Caller, api: NodeApi) -> None:
    """It is not even read."""
    patch = agent.JsonPatch(op="add", path="/metadata/annotations/a", value="x" * (1 << 20))
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call(agent.PatchNodeRequest(patches=[patch]))
    assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert api.calls == []


async def test_the_deadline_of_the_caller_ends_the_call(call: Caller, api: NodeApi) -> None:
    """At the API server too."""
    api.gate.clear()
    error = await pass_deadline(
        lambda timeout: failed(call(agent.GetNodeRequest(), timeout=timeout)), lambda: api.standing or api.calls
    )
    assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    await eventually(lambda: not api.standing, "the request to be given up")


async def test_others_are_not_let_in(path: Path, api: NodeApi) -> None:
    """Whatever the mode of the socket."""
    async with serving(path, api, uids=[os.getuid() + 1]) as served, grpc_channel(path) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await Caller(channel)(agent.HealthCheckRequest(), timeout=0.5)
        assert error.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
        assert served.refused
        served.tick()


async def test_closing_ends_calls_and_removes_the_socket(path: Path, api: NodeApi) -> None:
    """At once."""
    api.gate.clear()
    async with serving(path, api) as served, grpc_channel(path) as channel:

        async def fails() -> None:
            with pytest.raises(grpc.aio.AioRpcError):
                await Caller(channel)(agent.GetNodeRequest())

        calling = TaskBag().spawn(fails(), name="a call")
        await eventually(lambda: api.standing, "a call")
        await served.close()
        await calling
    assert not path.exists()  # noqa: ASYNC240 - a look
