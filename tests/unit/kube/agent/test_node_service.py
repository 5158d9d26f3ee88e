"""What the relay asks of the agent is checked, done, and answered with a status that says what became of it."""

import asyncio
import json
import logging
from dataclasses import dataclass
from typing import Any

import pytest

from interpose._pb.resmgr_agent_pb2 import (
    GetNodeReply,
    GetNodeRequest,
    HealthCheckReply,
    HealthCheckRequest,
    JsonPatch,
    PatchNodeRequest,
    UpdateNodeCapacityRequest,
)
from interpose.core.model.kubernetes_names import GET_NODE, PATCH_NODE, UPDATE_NODE_CAPACITY
from interpose.kube.agent.messages import HEALTH_CHECK
from interpose.kube.agent.node_keys import Writable
from interpose.kube.agent.node_service import MAX_RUNNING, MAX_WAITING, NodeService
from interpose.kube.client.api import ApiError
from interpose.net.grpc.handlers import Unary
from interpose.net.grpc.status import Code, RpcError
from interpose.net.http.errors import UnreachableError
from interpose.tasks import TaskBag
from interpose.testing.eventually import eventually
from tests.support.kube.node_api import NodeApi, plain_node

CORES = "cmk.intel.com/exclusive-cores"
LABEL = "/metadata/labels/cmk.intel.com~1cmk-node"
CMK = {"key": "cmk", "value": "true", "effect": "NoSchedule"}


@dataclass
class Context:
    """A call without limits."""

    path: bytes = GET_NODE
    metadata: tuple[tuple[bytes, bytes], ...] = ()
    deadline: float | None = None


class Caller:
    """A relay, without a socket in between."""

    def __init__(self, service: NodeService) -> None:
        self._handlers = service.handlers()

    async def __call__(self, path: bytes, message: Any) -> bytes:
        handler = self._handlers[path]
        assert isinstance(handler, Unary)
        data = message if isinstance(message, bytes) else message.SerializeToString()
        return await handler.handle(data, Context())

    async def node(self) -> Any:
        """The Node object."""
        return json.loads(GetNodeReply.FromString(await self(GET_NODE, GetNodeRequest())).node)

    async def patch(self, *operations: tuple[str, ...]) -> None:
        """Change it."""
        patches = [JsonPatch(**dict(zip(("op", "path", "value"), one, strict=False))) for one in operations]
        assert await self(PATCH_NODE, PatchNodeRequest(patches=patches)) == b""

    async def capacity(self, **named: str) -> None:
        """Publish."""
        assert await self(UPDATE_NODE_CAPACITY, UpdateNodeCapacityRequest(capacities=named)) == b""

    async def health(self, query: str) -> str:
        """How it is."""
        error: str = HealthCheckReply.FromString(await self(HEALTH_CHECK, HealthCheckRequest(query=query))).error
        return error


@pytest.fixture
async def api() -> NodeApi:
    """With a node as a kubelet registers it."""
    return NodeApi()


@pytest.fixture
def service(api: NodeApi) -> NodeService:
    """Of that node."""
    return NodeService(api, "n1", lambda query: f"ill: {query}")


@pytest.fixture
def call(service: NodeService) -> Caller:
    """Of that service."""
    return Caller(service)


async def test_the_node_is_asked_for(api: NodeApi, service: NodeService, call: Caller) -> None:
    """As the API server has it."""
    assert await call.node() == plain_node()
    assert api.calls == ["get"]
    assert service.calls == {("GetNode", "OK"): 1}


async def test_a_node_that_is_followed_is_not_asked_for(api: NodeApi) -> None:
    """Unless we have changed it and the watch has not told so yet."""
    seen = plain_node()
    call = Caller(NodeService(api, "n1", str, followed=lambda: seen))
    assert await call.node() == seen
    assert api.calls == []
    await call.patch(("add", LABEL, '"true"'))
    assert (await call.node())["metadata"]["labels"]["cmk.intel.com/cmk-node"] == "true"
    assert api.calls == ["patch", "get"]
    seen = dict(api.node)
    assert (await call.node()) == seen
    assert api.calls == ["patch", "get"]


async def test_versions_that_are_no_numbers_are_never_fresh(api: NodeApi) -> None:
    """Nobody can tell which is newer."""
    call = Caller(NodeService(api, "n1", str, followed=lambda: plain_node(resourceVersion="x")))
    await call.node()
    assert api.calls == ["get"]


async def test_a_patch_is_sent(api: NodeApi, call: Caller, caplog: pytest.LogCaptureFixture) -> None:
    """And told, without values."""
    caplog.set_level(logging.INFO)
    await call.patch(("add", LABEL, "secret"), ("add", "/metadata/annotations/a.b~1c", '"x y"'))
    assert api.node["metadata"]["labels"]["cmk.intel.com/cmk-node"] == "secret"
    assert api.node["metadata"]["annotations"]["a.b/c"] == "x y"
    assert "Node patched" in caplog.text
    assert "secret" not in json.dumps([getattr(one, "kv", {}) for one in caplog.records])


async def test_a_patch_that_changes_nothing_is_not_sent(api: NodeApi, call: Caller) -> None:
    """A map that is there already need not be made."""
    await call.patch(("add", "/metadata/labels", "{}"))
    assert api.calls == ["get"]


async def test_a_test_alone_is_sent_and_not_told(api: NodeApi, call: Caller, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing has changed."""
    caplog.set_level(logging.INFO)
    await call.patch(("test", "/metadata/labels/kubernetes.io~1hostname", '"n1"'))
    assert api.calls == ["patch"]
    assert caplog.text == ""


async def test_taints_survive_a_heartbeat(api: NodeApi, call: Caller) -> None:
    """The node changed after it was read: the patch is made anew."""
    moves = iter((lambda: api.change(lambda node: node["status"].update(x=1)), lambda: None))
    api.before_patch = lambda: next(moves)()
    await call.patch(("add", "/spec/taints/-", json.dumps(CMK)))
    assert api.node["spec"]["taints"] == [CMK]
    assert api.calls == ["get", "patch", "get", "patch"]


async def test_a_node_that_never_holds_still(api: NodeApi, call: Caller) -> None:
    """After a few tries it is the caller's business."""
    api.before_patch = lambda: api.change(lambda _: None)
    with pytest.raises(RpcError, match="PatchNode: the server rejected our request") as error:
        await call.patch(("add", "/spec/taints/-", json.dumps(CMK)))
    assert error.value.code is Code.FAILED_PRECONDITION
    assert api.calls == ["get", "patch"] * 3


async def test_a_list_that_is_not_as_tested(api: NodeApi, service: NodeService, call: Caller) -> None:
    """Nothing is sent."""
    with pytest.raises(RpcError, match="is not as tested") as error:
        await call.patch(("test", "/spec/taints", json.dumps([CMK])), ("add", "/spec/taints", "[]"))
    assert error.value.code is Code.FAILED_PRECONDITION
    assert api.calls == ["get"]
    assert service.calls == {("PatchNode", "FAILED_PRECONDITION"): 1}


@pytest.mark.parametrize(
    ("operation", "why"),
    [
        (("add", "/spec/unschedulable", "true"), "may not be changed"),
        (("add", "/metadata/labels/kubernetes.io~1os", '"x"'), "domain of Kubernetes"),
    ],
)
async def test_what_is_not_allowed_is_not_sent(
    api: NodeApi, call: Caller, operation: tuple[str, ...], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever rights the agent has."""
    with pytest.raises(RpcError, match=why) as error:
        await call.patch(operation)
    assert error.value.code is Code.INVALID_ARGUMENT
    assert api.calls == []
    assert "Call of the node service was refused" in caplog.text


async def test_patterns_hold_for_all_calls(api: NodeApi) -> None:
    """They are the operator's."""
    call = Caller(NodeService(api, "n1", str, names=Writable(patterns=["cmk"])))
    with pytest.raises(RpcError, match="is not among what may be changed: cmk"):
        await call.patch(("add", LABEL, "true"))
    with pytest.raises(RpcError, match="is not among what may be changed: cmk"):
        await call.capacity(**{CORES: "4"})
    await call.patch(("add", "/spec/taints/-", json.dumps(CMK)))
    assert api.node["spec"]["taints"] == [CMK]


async def test_capacity_goes_to_the_status(api: NodeApi, call: Caller) -> None:
    """Where the kubelet finds it."""
    await call.capacity(**{CORES: "4"})
    assert api.node["status"]["capacity"][CORES] == "4"
    assert api.calls == ["patch status"]
    with pytest.raises(RpcError, match="is a resource of Kubernetes") as error:
        await call.capacity(cpu="4")
    assert error.value.code is Code.INVALID_ARGUMENT


async def test_capacity_of_a_node_that_has_none_yet(api: NodeApi, call: Caller) -> None:
    """Its kubelet has not reported: an API server refuses a JSON patch below what is not there."""
    api.change(lambda node: node.update(status={}))
    await call.capacity(**{CORES: "4"})
    assert api.node["status"]["capacity"] == {CORES: "4"}


@pytest.mark.parametrize("path", [PATCH_NODE, UPDATE_NODE_CAPACITY, HEALTH_CHECK])
async def test_bytes_that_are_no_message(call: Caller, path: bytes) -> None:
    """The caller's mistake."""
    with pytest.raises(RpcError, match=r"not a .*Request") as error:
        await call(path, b"\xff")
    assert error.value.code is Code.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ApiError(400, "BadRequest", "no"), Code.INVALID_ARGUMENT),
        (ApiError(401, "Unauthorized", "no"), Code.UNAUTHENTICATED),
        (ApiError(403, "Forbidden", "no"), Code.PERMISSION_DENIED),
        (ApiError(404, "NotFound", "no"), Code.NOT_FOUND),
        (ApiError(409, "Conflict", "no"), Code.FAILED_PRECONDITION),
        (ApiError(422, "Invalid", "no"), Code.FAILED_PRECONDITION),
        (ApiError(429, "TooManyRequests", "no"), Code.UNAVAILABLE),
        (ApiError(503, "", "no"), Code.UNAVAILABLE),
        (ApiError(418, "", "no"), Code.UNKNOWN),
        (UnreachableError("connection refused"), Code.UNAVAILABLE),
    ],
)
async def test_what_the_api_server_says_is_passed_on(
    api: NodeApi, service: NodeService, call: Caller, error: Exception, code: Code
) -> None:
    """In the codes of gRPC, with its message."""
    api.errors.append(error)
    with pytest.raises(RpcError, match="GetNode: ") as found:
        await call.node()
    assert found.value.code is code
    assert str(error) in found.value.message
    assert service.calls == {("GetNode", code.name): 1}


async def test_a_mistake_of_ours_is_logged(api: NodeApi, call: Caller, caplog: pytest.LogCaptureFixture) -> None:
    """The caller learns where to look."""
    api.errors.append(RuntimeError("oh"))
    with pytest.raises(RpcError, match="internal error, see the log of the agent") as error:
        await call.node()
    assert error.value.code is Code.INTERNAL
    assert "Traceback" in caplog.text


async def test_health(call: Caller) -> None:
    """What is known is passed on, other questions are a mistake that can be read."""
    assert await call.health("") == "ill: "
    assert await call.health("config-status") == "ill: config-status"
    assert await call.health("x") == "unknown query 'x': expected one of '', 'config-status'"


async def test_calls_are_bounded(api: NodeApi, service: NodeService, call: Caller) -> None:
    """Few at a time, a few more in line, the rest is told to come back; health is answered anyway."""
    api.gate.clear()
    tasks = TaskBag()
    calls = [tasks.spawn(call.node(), name="call") for _ in range(MAX_RUNNING + MAX_WAITING)]
    await eventually(lambda: api.standing == MAX_RUNNING, "calls")
    with pytest.raises(RpcError, match="too many calls are waiting") as error:
        await call.node()
    assert error.value.code is Code.UNAVAILABLE
    assert api.standing == MAX_RUNNING
    assert await call.health("") == "ill: "
    api.gate.set()
    await asyncio.gather(*calls)
    assert service.calls["GetNode", "OK"] == MAX_RUNNING + MAX_WAITING


async def test_an_api_server_that_hangs(api: NodeApi) -> None:
    """Nobody waits for ever, and the place is free again."""
    call = Caller(NodeService(api, "n1", str, timeout=0.01))
    api.gate.clear()
    for _ in range(MAX_RUNNING):
        with pytest.raises(RpcError, match="did not answer in time") as error:
            await call.node()
        assert error.value.code is Code.DEADLINE_EXCEEDED
    api.gate.set()
    assert await call.node() == plain_node()


async def test_a_caller_that_goes_away(api: NodeApi, service: NodeService, call: Caller) -> None:
    """Its place is free again, and it is counted."""
    api.gate.clear()
    tasks = TaskBag()
    for _ in range(MAX_RUNNING):
        tasks.spawn(call.node(), name="call")
    await eventually(lambda: api.standing == MAX_RUNNING, "calls")
    await tasks.cancel()
    assert service.calls == {("GetNode", "CANCELLED"): MAX_RUNNING}
    api.gate.set()
    assert await call.node() == plain_node()
