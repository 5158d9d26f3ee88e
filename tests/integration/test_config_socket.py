"""The config socket as an agent sees it: grpcio calls SetConfig, and files on the node have their say."""

import asyncio
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from interpose._pb.resmgr_config_pb2 import SetAdjustmentReply, SetAdjustmentRequest, SetConfigReply, SetConfigRequest
from interpose.config.relay.settings import PolicySettings
from interpose.errors import ConfigError, SocketInUseError
from interpose.resmgr.config.apply import ConfigApplier
from interpose.resmgr.config.configuration import AgentConfig, Configuration
from interpose.resmgr.config.files import ConfigFiles
from interpose.resmgr.config.server import MAX_MESSAGE, ConfigOutcome, ConfigServer, ConfigSocket, bind_config_socket
from interpose.resmgr.config.sources import Sources
from interpose.testing.eventually import eventually, pass_deadline
from interpose.testing.grpcpeer import grpc_channel

ONE = {"policy": "Active: static\nReservedResources: {CPU: 1}"}
TWO = {"policy": "Active: static\nReservedResources: {CPU: 2}"}
TOO_MANY = {"policy": "Active: static\nReservedResources: {CPU: 99}"}
BROKEN = {"policy": "Active: x\nReservedResources: {CPU: y}", "policy.static": "Relaxed: true"}


class Node:
    """A node as far as its configuration goes: it has 98 CPUs."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.path = folder / "config.sock"
        self.reserved: list[object] = []  # of what was put in force
        self.remembered: list[AgentConfig] = []
        self.at_once = 0
        self.go = asyncio.Event()
        self.go.set()
        self._running = 0
        origins = {f"policy.{key}": f"flag --{key}" for key in settings}
        sources = Sources(PolicySettings(**settings), origins)
        in_force = sources.load_initial()
        self.files = ConfigFiles(lambda: self.changing.reload_files(), settle=0.0)
        self.changing = ConfigApplier(
            sources, in_force, self._apply, remember=self.remembered.append, watch=self.files.watch
        )
        self.server = ConfigServer(self.changing.apply_agent_config, forced=sources.forced)
        self.files.watch(sources.watched)

    async def _apply(self, configuration: Configuration) -> None:
        self._running += 1
        self.at_once = max(self.at_once, self._running)
        await self.go.wait()
        self._running -= 1
        if configuration.reserved == 99_000:
            raise ConfigError("reserved CPUs: 99 of 98")
        self.reserved.append(configuration.reserved)

    @property
    def busy(self) -> bool:
        """Whether one is being applied."""
        return self._running > 0


class Agent:
    """What an agent does, over grpcio."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel

    async def set_config(self, data: dict[str, str], *, timeout: float = 10.0) -> str:
        """The error of the reply."""
        request = SetConfigRequest(node_name="n", config=data).SerializeToString()
        return SetConfigReply.FromString(await self.raw("SetConfig", request, timeout)).error

    async def raw(self, method: str, data: bytes, timeout: float = 10.0) -> bytes:
        """Any bytes to any method."""
        call = self._channel.unary_unary(f"/v1.Config/{method}")
        reply: bytes = await call(data, timeout=timeout)
        return reply


@asynccontextmanager
async def serving(node: Node, **more: Any) -> AsyncIterator[Agent]:
    """The node's socket, and an agent."""
    socket = ConfigSocket(bind_config_socket(str(node.path)), node.server, **more)
    await socket.start()
    try:
        async with grpc_channel(node.path) as channel:
            yield Agent(channel)
    finally:
        await socket.close()
        await node.files.close()


@pytest.fixture
async def node(scratch: Path) -> Node:
    """Without a policy."""
    return Node(scratch)


@pytest.fixture
async def agent(node: Node) -> AsyncIterator[Agent]:
    """Of that node."""
    async with serving(node) as found:
        yield found


def write(path: Path, text: str) -> None:
    """Put a file there."""
    path.write_text(text)


async def refused(call: Callable[[], Any]) -> grpc.aio.AioRpcError:
    """How a call failed."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call()
    return caught.value


async def test_a_configuration_is_put_in_force(node: Node, agent: Agent) -> None:
    """The same again is answered without doing anything; another one replaces it."""
    assert await agent.set_config(ONE) == ""
    assert await agent.set_config(ONE) == ""
    assert await agent.set_config(TWO) == ""
    assert node.reserved == [1000, 2000]
    assert [one.data for one in node.remembered] == [ONE, TWO]
    assert node.server.outcomes == {ConfigOutcome.ACCEPTED: 2, ConfigOutcome.UNCHANGED: 1}


async def test_a_broken_one_is_refused_as_a_whole(node: Node, agent: Agent) -> None:
    """With every reason, one per line; what was in force stays."""
    await agent.set_config(ONE)
    error = await agent.set_config(BROKEN)
    lines = error.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("ConfigMap key policy") for line in lines)
    assert (node.reserved, node.changing.in_force.reserved) == ([1000], 1000)
    assert await agent.set_config(ONE) == ""
    assert node.reserved == [1000]


async def test_one_that_cannot_be_applied_is_refused(node: Node, agent: Agent) -> None:
    """With the reason of whoever applies it."""
    assert await agent.set_config(TOO_MANY) == "reserved CPUs: 99 of 98"
    assert node.remembered == []


async def test_a_forced_file_counts_alone(scratch: Path) -> None:
    """It is named, and its changes take effect."""
    file = scratch / "policy.yaml"
    write(file, "policy: {Active: static, ReservedResources: {CPU: 3}}")
    node = Node(scratch, config=str(file))
    async with serving(node) as agent:
        assert await agent.set_config(ONE) == f"configuration is forced by {file}"
        write(file, "policy: {Active: static, ReservedResources: {CPU: 4}}")
        await eventually(lambda: node.reserved == [4000], "the file to be in force")
        write(file, "policy: {Active: x}")
        await eventually(lambda: node.changing.problems, "the problem to be shown")
    assert node.changing.in_force.reserved == 4000


async def test_the_fallback_counts_until_the_agent_comes(scratch: Path) -> None:
    """And again when it takes back what it sent."""
    file = scratch / "policy.yaml"
    write(file, "policy: {Active: static, ReservedResources: {CPU: 3}}")
    node = Node(scratch, fallback=str(file))
    async with serving(node) as agent:
        assert node.changing.in_force.reserved == 3000
        await agent.set_config(ONE)
        await agent.set_config({})
    assert node.reserved == [1000, 3000]


async def test_a_message_over_the_limit_is_refused(node: Node, agent: Agent) -> None:
    """One below it is read."""
    error = await refused(lambda: agent.set_config({"policy": "x" * MAX_MESSAGE}))
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert node.server.outcomes == {}
    assert await agent.set_config({**ONE, "other": "x" * (MAX_MESSAGE - 1000)}) == ""


@pytest.mark.parametrize("method", ["SetConfig", "SetAdjustment"])
async def test_garbage_is_refused(agent: Agent, method: str) -> None:
    """And the next call is served."""
    error = await refused(lambda: agent.raw(method, b"\xff\xff\xff"))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert f"not a {method}Request" in (error.details() or "")
    assert await agent.set_config(ONE) == ""


async def test_an_unknown_method_is_unimplemented(agent: Agent) -> None:
    """As gRPC has it."""
    error = await refused(lambda: agent.raw("GetConfig", b""))
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_adjustments_are_refused_by_name(agent: Agent) -> None:
    """So that each learns of it; that there are none is fine."""
    some = SetAdjustmentRequest(node_name="n", adjustment='{"a": {}}').SerializeToString()
    none = SetAdjustmentRequest(node_name="n", adjustment="{}").SerializeToString()
    reply = SetAdjustmentReply.FromString(await agent.raw("SetAdjustment", some))
    assert dict(reply.errors) == {"a": "adjustments are not supported"}
    assert await agent.raw("SetAdjustment", none) == b""


async def test_two_at_once_are_applied_one_after_the_other(node: Node, agent: Agent) -> None:
    """The last one that came is in force."""
    node.go.clear()
    async with asyncio.TaskGroup() as group:
        first = group.create_task(agent.set_config(ONE))
        await eventually(lambda: node.busy, "the first to be applied")
        second = group.create_task(agent.set_config(TWO))
        await eventually(lambda: node.server._waiting, "the second to wait")
        node.go.set()
    assert (first.result(), second.result()) == ("", "")
    assert node.reserved == [1000, 2000]
    assert node.at_once == 1


async def test_an_agent_that_gives_up_leaves_nothing_half_done(node: Node, agent: Agent) -> None:
    """What was begun is carried through; what it sends again is in force already."""
    node.go.clear()
    outcome = await pass_deadline(
        lambda timeout: refused(lambda: agent.set_config(ONE, timeout=timeout)), lambda: node.busy
    )
    assert outcome.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert node.busy
    node.go.set()
    assert await agent.set_config(ONE) == ""
    assert node.reserved == [1000]


async def test_only_root_and_we_may_connect(node: Node) -> None:
    """Whatever the mode of the socket; others are cut off before they can say anything."""
    async with serving(node, uids={4_000_000}) as agent:
        error = await refused(lambda: agent.set_config(ONE))
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert node.server.outcomes == {}


async def test_the_socket_is_ours_alone(node: Node, agent: Agent) -> None:
    """By its mode, and nobody can take it while we live."""
    assert stat.S_IMODE(await asyncio.to_thread(lambda: node.path.stat().st_mode)) == 0o600
    with pytest.raises(SocketInUseError):
        bind_config_socket(str(node.path))
    assert await agent.set_config(ONE) == ""


async def test_the_socket_is_gone_with_us(node: Node) -> None:
    """A second tick changes nothing, and after the end the path is free."""
    socket = ConfigSocket(bind_config_socket(str(node.path)), node.server)
    await socket.start()
    socket.tick()
    assert socket.refused == 0
    await socket.close()
    await node.files.close()
    assert not await asyncio.to_thread(node.path.exists)
