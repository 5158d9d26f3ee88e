"""What a relay with static-pools publishes arrives in the cluster, through any agent that speaks the protocol."""

import asyncio
import json
import logging
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from interpose._pb import resmgr_agent_pb2 as agent
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.static.options import StaticOptions
from interpose.host.unix_sockets import bind_unix
from interpose.kube.agent.node_service import AgentSocket, NodeService
from interpose.kube.client.api import NODES, Api
from interpose.kube.client.client import KubeClient
from interpose.kube.client.kubeconfig import find_access
from interpose.net.grpc.status import Code, RpcError
from interpose.net.grpc.transport import Hub
from interpose.resmgr.config.configuration import Configuration
from interpose.resmgr.publish.agent_client import AgentClient
from interpose.resmgr.publish.node_state import ANNOTATION, CORES, TAINT
from interpose.testing.eventually import WAIT_LIMIT, eventually
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.grpcpeer import grpc_server, unary
from tests.support.apiserver.patch.json_patch import apply_json_patch
from tests.support.apiserver.server import ApiServer
from tests.support.kube.node_api import NodeApi, plain_node
from tests.support.lab.relay import Relay
from tests.support.policy.machines import machine
from tests.support.policy.stack import PolicyStack, policy_stack

MACHINE = "n4c16"
POOLS = Path(__file__).parents[2] / "samples/static-pools.yaml"
LABEL = "cmk.intel.com/cmk-node"
ALL: dict[str, Any] = {"pools_label_node": True, "pools_taint_node": True}
STATIC = Configuration(policy="static", reserved=CpuSet.parse("0"), options=StaticOptions(), origin="test")


class ForeignAgent:
    """An agent of somebody else, on grpcio: it patches its node with what it is sent, unchecked."""

    def __init__(self) -> None:
        self.node: dict[str, Any] = plain_node()
        self.calls: list[str] = []
        self.hangs = False
        self.refuses: list[tuple[grpc.StatusCode, str]] = []
        self.answer: str | None = None

    async def _begin(self, method: str, context: Any) -> None:
        self.calls.append(method)
        if self.hangs:
            await asyncio.Event().wait()
        if self.refuses and method != "GetNode":
            await context.abort(*self.refuses.pop(0))

    async def get_node(self, data: bytes, context: Any) -> bytes:
        """Its node."""
        assert agent.GetNodeRequest.FromString(data) == agent.GetNodeRequest()
        await self._begin("GetNode", context)
        text = json.dumps(self.node) if self.answer is None else self.answer
        return agent.GetNodeReply(node=text).SerializeToString()

    async def patch_node(self, data: bytes, context: Any) -> bytes:
        """Values have to be JSON."""
        await self._begin("PatchNode", context)
        patch = [
            {"op": one.op, "path": one.path, **({"value": json.loads(one.value)} if one.value else {})}
            for one in agent.PatchNodeRequest.FromString(data).patches
        ]
        self.node = apply_json_patch(self.node, patch)
        return agent.PatchNodeReply().SerializeToString()

    async def update(self, data: bytes, context: Any) -> bytes:
        """Of the status."""
        await self._begin("UpdateNodeCapacity", context)
        request = agent.UpdateNodeCapacityRequest.FromString(data)
        self.node["status"]["capacity"].update(request.capacities)
        return agent.UpdateNodeCapacityReply().SerializeToString()

    def handlers(self) -> dict[str, Any]:
        """For a server."""
        return {
            "/v1.Agent/GetNode": unary(self.get_node),
            "/v1.Agent/PatchNode": unary(self.patch_node),
            "/v1.Agent/UpdateNodeCapacity": unary(self.update),
        }


@asynccontextmanager
async def own_agent(path: Path, api: Api) -> AsyncIterator[NodeService]:
    """Our own agent's service."""
    service = NodeService(api, "n1", lambda _: "")
    served = AgentSocket(bind_unix(str(path), mode=0o600), service)
    await served.start()
    try:
        yield service
    finally:
        await served.close()


@asynccontextmanager
async def relay(folder: Path, agent_path: Path | str, **more: Any) -> AsyncIterator[PolicyStack]:
    """A relay with the pools of the sample, four exclusive lists."""
    chosen = {"name": "static-pools", "pools_file": str(POOLS), "agent_socket": str(agent_path), **more}
    async with policy_stack(folder, machine(MACHINE), **chosen) as stack:
        yield stack


def shows_all(node: dict[str, Any]) -> bool:
    """Whether the cluster sees everything."""
    return (
        node["status"]["capacity"].get(CORES) == "4"
        and node["metadata"]["labels"].get(LABEL) == "true"
        and TAINT._asdict() in node["spec"].get("taints", [])
    )


def problems(stack: PolicyStack) -> list[str]:
    """What an operator reads."""
    return stack.policy.problems()


@pytest.fixture
def path(scratch: Path) -> Path:
    """Of the agent's socket."""
    return scratch / "agent.sock"


@pytest.fixture
async def api() -> NodeApi:
    """With a node as a kubelet registers it."""
    return NodeApi()


@pytest.fixture
async def client(path: Path) -> AsyncIterator[AgentClient]:
    """Of the agent at that path."""
    client = AgentClient(str(path), hub=Hub(), timeout=WAIT_LIMIT, dial_wait=2.0)
    yield client
    await client.close()


# -- the client


async def test_the_client_makes_the_calls_of_the_protocol(path: Path, client: AgentClient) -> None:
    """An independent peer understands them."""
    foreign = ForeignAgent()
    async with grpc_server(path, foreign.handlers()):
        assert await client.get_node() == plain_node()
        await client.patch_node([("add", "/metadata/labels/a.b~1c", '"true"')])
        await client.update_node_capacity({CORES: "4"})
        assert foreign.node["metadata"]["labels"]["a.b/c"] == "true"
        assert foreign.node["status"]["capacity"][CORES] == "4"
        assert client.up


async def test_an_agent_that_is_away_is_named(path: Path, client: AgentClient) -> None:
    """With its socket, and what is wrong with it."""
    with pytest.raises(RpcError, match=f"the agent at {path} is not reachable: No such file") as error:
        await client.get_node()
    assert error.value.code is Code.UNAVAILABLE
    assert not client.up


async def test_a_socket_of_somebody_else_gets_nothing(path: Path) -> None:
    """Not even a greeting; the text says whose it is."""
    got: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, updater: asyncio.StreamWriter) -> None:
        got.append(await reader.read())
        updater.close()

    client = AgentClient(str(path), hub=Hub(), dial_wait=0.2, uids={12345})
    async with await asyncio.start_unix_server(serve, path):
        with pytest.raises(RpcError, match=f"it belongs to uid {os.getuid()}, it must belong to uid 12345") as error:
            await client.get_node()
        assert error.value.code is Code.UNAVAILABLE
        await eventually(lambda: got, "the end of a connection")
        await client.close()
    assert set(got) == {b""}


async def test_an_agent_that_hangs_costs_one_time_out(path: Path) -> None:
    """Not more."""
    client = AgentClient(str(path), hub=Hub(), timeout=0.2)
    foreign = ForeignAgent()
    foreign.hangs = True
    async with grpc_server(path, foreign.handlers()):
        with pytest.raises(RpcError) as error:
            await client.get_node()
        assert error.value.code is Code.DEADLINE_EXCEEDED
        await client.close()


@pytest.mark.parametrize("text", ["", "{", "[]"])
async def test_an_answer_that_cannot_be_read(path: Path, client: AgentClient, text: str) -> None:
    """Is the agent's mistake."""
    foreign = ForeignAgent()
    foreign.answer = text
    async with grpc_server(path, foreign.handlers()):
        with pytest.raises(RpcError, match="answered what cannot be read") as error:
            await client.get_node()
        assert error.value.code is Code.INTERNAL


async def test_refusals_are_passed_on(path: Path, client: AgentClient, api: NodeApi) -> None:
    """With code and words of the agent."""
    async with own_agent(path, api):
        with pytest.raises(RpcError, match="is a resource of Kubernetes") as error:
            await client.update_node_capacity({"cpu": "99"})
        assert error.value.code is Code.INVALID_ARGUMENT


# -- a relay


async def test_marks_arrive_through_our_agent(scratch: Path, path: Path, api: NodeApi) -> None:
    """Capacity, label and taint, and what is ours is noted. Nothing is sent a second time."""
    async with own_agent(path, api) as service:
        async with relay(scratch, path, **ALL) as stack:
            await eventually(lambda: shows_all(api.node), "the marks")
            await eventually(lambda: service.calls["UpdateNodeCapacity", "OK"], "the end of it")
            note = json.loads(api.node["metadata"]["annotations"][ANNOTATION])
            assert set(note) == {"capacities", "labels", "taints"}
            assert problems(stack) == []
            sent = len(api.patches)
            stack.tick()
        # The end of a relay takes nothing back, and another one finds it done.
        assert shows_all(api.node)
        asked = service.calls["GetNode", "OK"]
        async with relay(scratch, path, **ALL):
            await eventually(lambda: service.calls["GetNode", "OK"] > asked, "a look")
            assert len(api.patches) == sent


async def test_marks_arrive_through_an_agent_of_somebody_else(scratch: Path, path: Path) -> None:
    """Values are proper JSON."""
    foreign = ForeignAgent()
    async with grpc_server(path, foreign.handlers()), relay(scratch, path, **ALL):
        await eventually(lambda: shows_all(foreign.node), "the marks")


RIGHTS = [
    {"apiGroups": [""], "resources": ["nodes"], "resourceNames": ["n1"], "verbs": ["get", "patch"]},
    {"apiGroups": [""], "resources": ["nodes/status"], "resourceNames": ["n1"], "verbs": ["patch"]},
]


async def test_marks_arrive_at_an_api_server(scratch: Path, path: Path) -> None:
    """With the rights that an agent has, over HTTP; and they go again."""
    async with ApiServer(tokens={"secret": "agent"}, nodes=("n2",)) as server:
        server.access.restrict("agent", RIGHTS)
        server.put(NODES, plain_node())
        other = server.get(NODES, "n2")
        client = KubeClient(find_access(str(server.kubeconfig(scratch / "kubeconfig")), {}))

        def node() -> dict[str, Any]:
            return dict(server.get(NODES, "n1"))

        async with own_agent(path, client) as service, relay(scratch, path, **ALL) as stack:
            await eventually(lambda: shows_all(node()), "the marks")
            await stack.reconfigurer.apply(STATIC)
            stack.tick()
            await eventually(lambda: ANNOTATION not in node()["metadata"].get("annotations", {}), "taking it back")
            assert node()["status"]["capacity"][CORES] == "0"
            assert LABEL not in node()["metadata"].get("labels", {})
            assert {code for _, code in service.calls} == {"OK"}
        await client.close()
        assert server.get(NODES, "n2") == other


async def test_an_agent_without_rights(scratch: Path, path: Path) -> None:
    """The reason is the API server's."""
    async with ApiServer(tokens={"secret": "agent"}, nodes=("n1",)) as server:
        server.access.restrict("agent", RIGHTS[:1])
        client = KubeClient(find_access(str(server.kubeconfig(scratch / "kubeconfig")), {}))
        async with own_agent(path, client), relay(scratch, path) as stack:
            (problem,) = await eventually(lambda: problems(stack), "the problem")
            assert "UpdateNodeCapacity: " in problem
            assert 'nodes "n1" is forbidden' in problem
        await client.close()


async def test_marks_follow_the_policy(scratch: Path, path: Path, api: NodeApi) -> None:
    """Another policy publishes nothing: what is ours goes."""
    async with own_agent(path, api), relay(scratch, path, **ALL) as stack:
        await eventually(lambda: shows_all(api.node), "the marks")
        await stack.reconfigurer.apply(STATIC)
        stack.tick()
        await eventually(lambda: ANNOTATION not in api.node["metadata"]["annotations"], "taking it back")
        assert api.node["status"]["capacity"][CORES] == "0"
        assert LABEL not in api.node["metadata"]["labels"]
        assert api.node["spec"]["taints"] == []


async def test_what_was_taken_back_elsewhere_is_not_ours(scratch: Path, path: Path, api: NodeApi) -> None:
    """A label that CMK itself has set stays when the policy goes."""
    api.node["metadata"]["labels"][LABEL] = "true"
    async with own_agent(path, api), relay(scratch, path, **ALL) as stack:
        await eventually(lambda: shows_all(api.node), "the marks")
        await stack.reconfigurer.apply(STATIC)
        stack.tick()
        await eventually(lambda: ANNOTATION not in api.node["metadata"]["annotations"], "taking it back")
        assert api.node["metadata"]["labels"][LABEL] == "true"


async def test_an_absent_agent_holds_up_nothing(
    scratch: Path, path: Path, api: NodeApi, caplog: pytest.LogCaptureFixture
) -> None:
    """Containers come and go; it is told; and when the agent comes the marks do."""
    async with AsyncExitStack() as later:
        stack = await later.enter_async_context(relay(scratch, path, **ALL))
        web = await stack.run("web", 100, "burstable")
        assert stack.cpus(web) == "6-7"
        await eventually(lambda: problems(stack), "the problem")
        assert f"could not be published: the agent at {path} is not reachable" in problems(stack)[0]
        assert [one.levelno for one in caplog.records if "Failed to publish to the Node" in one.message] == [
            logging.WARNING
        ]
        await later.enter_async_context(own_agent(path, api))
        await eventually(lambda: shows_all(api.node), "the marks")
        await eventually(lambda: problems(stack) == [], "the end of the problem")


async def test_an_agent_that_hangs_holds_up_nothing(scratch: Path, path: Path) -> None:
    """Neither containers nor the end of the relay."""
    foreign = ForeignAgent()
    foreign.hangs = True
    async with grpc_server(path, foreign.handlers()), relay(scratch, path, **ALL) as stack:
        await eventually(lambda: foreign.calls, "a call that hangs")
        web = await stack.run("web", 100, "burstable")
        assert stack.cpus(web) == "6-7"
        assert foreign.calls == ["GetNode"]


async def test_an_agent_that_was_restarted_is_asked_again(scratch: Path, path: Path, api: NodeApi) -> None:
    """Something may have happened to the node meanwhile."""
    async with relay(scratch, path, **ALL):
        async with own_agent(path, api):
            await eventually(lambda: shows_all(api.node), "the marks")
        api.change(lambda node: node["status"]["capacity"].update({CORES: "0"}))
        async with own_agent(path, api):
            await eventually(lambda: shows_all(api.node), "repair")


async def test_taints_of_others_that_come_at_the_same_time(scratch: Path, path: Path, api: NodeApi) -> None:
    """Both are there in the end."""
    theirs = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}

    def interfere() -> None:
        api.before_patch = lambda: None
        api.change(lambda node: node["spec"].update(taints=[theirs]))

    api.before_patch = interfere
    async with own_agent(path, api), relay(scratch, path, **ALL):
        await eventually(lambda: shows_all(api.node), "the marks")
        assert theirs in api.node["spec"]["taints"]


async def test_a_refusal_is_a_problem_that_can_be_read(scratch: Path, path: Path) -> None:
    """The agent's rights are the operator's business."""
    foreign = ForeignAgent()
    foreign.refuses = [(grpc.StatusCode.PERMISSION_DENIED, 'nodes "n1" is forbidden')] * 9
    async with grpc_server(path, foreign.handlers()), relay(scratch, path) as stack:
        (problem,) = await eventually(lambda: problems(stack), "the problem")
        assert problem == f'{CORES}: 4 could not be published: nodes "n1" is forbidden'
        await stack.run("web", 100, "burstable")


async def test_during_a_take_over_only_the_successor_publishes(scratch: Path, path: Path, api: NodeApi) -> None:
    """The old one does not undo what the new one does."""
    runtime = FakeRuntime()
    first, second = scratch / "a", scratch / "b"
    first.mkdir()
    second.mkdir()
    async with own_agent(path, api), relay(first, path, runtime=runtime) as old:
        await eventually(lambda: api.node["status"]["capacity"].get(CORES) == "4", "the first one's")
        memory = json.loads(json.dumps(old.parts.memory()))
        async with relay(second, path, runtime=runtime, memory=memory, **ALL) as successor:
            old.parts.retire()
            await eventually(lambda: not old.policy._publishing._tasks, "the old one to stop")
            await eventually(lambda: shows_all(api.node), "the second one's")
            await old.reconfigurer.apply(STATIC)
            old.tick()
            successor.tick()
            await eventually(lambda: problems(successor) == [], "nothing to do")
            assert shows_all(api.node)


async def test_without_an_agent_the_relay_says_what_is_not_published(
    scratch: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning, and a note for whoever looks."""
    async with relay(scratch, "none") as stack:
        stack.tick()
        assert problems(stack) == [f"note: {CORES}: 4 is not published: policy.agent_socket is none"]
    assert sum("No agent socket configured" in one.message for one in caplog.records) == 1


async def test_a_relay_without_any_policy_takes_back_what_an_earlier_one_left(
    scratch: Path, path: Path, api: NodeApi, start_relay: Callable[..., Relay]
) -> None:
    """As a process: no policy, no config socket and no state file, only the agent."""
    first = scratch / "first"
    first.mkdir()
    async with own_agent(path, api) as service:
        async with relay(first, path, **ALL):
            await eventually(lambda: shows_all(api.node), "the marks")
        calls = Counter(service.calls)
        process = start_relay("--agent-socket", str(path))
        await eventually(lambda: ANNOTATION not in api.node["metadata"]["annotations"], "taking it back")
        assert api.node["status"]["capacity"][CORES] == "0"
        assert (LABEL in api.node["metadata"]["labels"], api.node["spec"]["taints"]) == (False, [])
        assert process.child.stop() == 0
        assert (service.calls - calls)["GetNode", "OK"] == 1
