"""The relay's config socket, seen from the agent."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from interpose._pb.resmgr_config_pb2 import SetConfigReply, SetConfigRequest
from interpose.core.model.kubernetes_names import SET_CONFIG
from interpose.host.unix_sockets import bind_unix
from interpose.kube.agent.relay_client import RelayClient
from interpose.net.grpc.handlers import ServerContext, Unary
from interpose.net.grpc.server import LocalServer
from interpose.net.grpc.status import Code, RpcError
from interpose.net.grpc.transport import Hub
from interpose.testing.eventually import WAIT_LIMIT, eventually


class Relay:
    """A relay that answers as it is told to."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.answer = SetConfigReply().SerializeToString()
        self.got: list[SetConfigRequest] = []
        self.go = asyncio.Event()
        self.go.set()

    async def start(self) -> None:
        """It serves."""
        self._bound = bind_unix(self.path, mode=0o600)
        self._server = LocalServer({SET_CONFIG: Unary(self._set_config)}, limit=1 << 20)
        await self._server.start(self._bound.sock)

    async def stop(self) -> None:
        """It is gone."""
        await self._server.close()
        self._bound.close()

    async def _set_config(self, data: bytes, _context: ServerContext) -> bytes:
        await self.go.wait()
        self.got.append(SetConfigRequest.FromString(data))
        return self.answer


@pytest.fixture
def path() -> Iterator[Path]:
    """Short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="ip-") as folder:
        yield Path(folder) / "c.sock"


@pytest.fixture
async def relay(path: Path) -> AsyncIterator[Relay]:
    """It serves."""
    made = Relay(path)
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def client(path: Path) -> AsyncIterator[RelayClient]:
    """It dials."""
    made = RelayClient(str(path), hub=Hub(), timeout=WAIT_LIMIT)
    made.start()
    yield made
    await made.close()


async def test_configuration_is_handed_over(relay: Relay, client: RelayClient) -> None:
    """And it is in force."""
    await eventually(lambda: client.up, "a connection")
    assert await client.send("n", {"policy": "x"}) == []
    assert (relay.got[0].node_name, dict(relay.got[0].config)) == ("n", {"policy": "x"})
    assert (client.sessions, client.last_error) == (1, "")


async def test_refusal_has_its_reasons(relay: Relay, client: RelayClient) -> None:
    """One a line."""
    relay.answer = SetConfigReply(error="a\nb").SerializeToString()
    assert await client.send("n", {}) == ["a", "b"]


async def test_answer_that_cannot_be_read(relay: Relay, client: RelayClient) -> None:
    """Nobody knows what became of it."""
    relay.answer = b"\xff\xff"
    with pytest.raises(RpcError) as caught:
        await client.send("n", {})
    assert caught.value.code is Code.INTERNAL


async def test_configuration_that_cannot_be_sent(client: RelayClient) -> None:
    """It is not the relay's fault."""
    with pytest.raises(RpcError) as caught:
        await client.send("n", {"policy": "\ud800"})
    assert caught.value.code is Code.INVALID_ARGUMENT


async def test_relay_that_does_not_answer(relay: Relay, path: Path) -> None:
    """There is an end to it."""
    relay.go.clear()
    client = RelayClient(str(path), hub=Hub(), timeout=0.05)
    with pytest.raises(RpcError) as caught:
        await client.send("n", {})
    assert caught.value.code is Code.DEADLINE_EXCEEDED
    await client.close()


async def test_relay_that_comes_and_goes(relay: Relay, client: RelayClient, caplog: pytest.LogCaptureFixture) -> None:
    """Each time is told, and counted."""
    changes: list[bool] = []
    client.on_change = lambda: changes.append(client.up)
    await eventually(lambda: changes[-1:] == [True], "a connection")
    await relay.stop()
    await eventually(lambda: changes[-1:] == [False], "its end")
    await eventually(lambda: client.last_error == "No such file or directory", "the reason")
    await relay.start()
    await eventually(lambda: changes[-1:] == [True], "another connection")
    client.tick()
    assert client.sessions == 2
    assert "Relay is not reachable" in caplog.text


async def test_socket_of_somebody_else(relay: Relay, path: Path) -> None:
    """Nothing is sent to it."""
    client = RelayClient(str(path), hub=Hub(), uids={12345})
    client.start()
    await eventually(lambda: "must belong to uid 12345" in client.last_error, "the reason")
    assert not client.up
    await client.close()
