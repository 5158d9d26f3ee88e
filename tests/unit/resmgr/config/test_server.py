"""SetConfig is answered as it should be, one at a time, and nothing that was begun is left half done."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

import pytest

from interpose._pb.resmgr_config_pb2 import SetAdjustmentReply, SetAdjustmentRequest, SetConfigReply, SetConfigRequest
from interpose.core.model.kubernetes_names import SET_CONFIG
from interpose.errors import ConfigError, NotReadyError
from interpose.net.grpc.handlers import Unary
from interpose.net.grpc.status import Code, RpcError
from interpose.resmgr.config.configuration import AgentConfig
from interpose.resmgr.config.server import MAX_WAITING, ConfigOutcome, ConfigServer
from interpose.resmgr.messages import SET_ADJUSTMENT
from interpose.testing.eventually import eventually


@dataclass
class Context:
    """A call without limits."""

    path: bytes = SET_CONFIG
    metadata: tuple[tuple[bytes, bytes], ...] = ()
    deadline: float | None = None


@dataclass
class Manager:
    """What puts configurations in force. The text "bad" is rejected, "bug" is a mistake; it can be made to stand."""

    applied: list[tuple[dict[str, str], str]] = field(default_factory=list)
    begun: int = 0
    at_once: int = 0  # the most that were begun and not ended
    go: asyncio.Event = field(default_factory=asyncio.Event)
    _running: int = 0

    def __post_init__(self) -> None:
        """Nothing stands at first."""
        self.go.set()

    async def apply(self, data: Mapping[str, str], node_name: str) -> None:
        """Put in force or refuse."""
        self.begun += 1
        self._running += 1
        self.at_once = max(self.at_once, self._running)
        try:
            await self.go.wait()
            if "bad" in data.values():
                raise ConfigError(["one is wrong", "two is wrong"])
            if "bug" in data.values():
                raise RuntimeError("oh")
            self.applied.append((dict(data), node_name))
        finally:
            self._running -= 1


class Client:
    """Calls the handlers as a server would."""

    def __init__(self, server: ConfigServer) -> None:
        self.server = server

    async def set_config(self, text: str, node: str = "n") -> str:
        """The error of the reply."""
        request = SetConfigRequest(node_name=node, config={"policy.static": text})
        return SetConfigReply.FromString(await self.raw(SET_CONFIG, request.SerializeToString())).error

    async def raw(self, path: bytes, data: bytes) -> bytes:
        """The bytes of the reply."""
        handler = self.server.handlers()[path]
        assert isinstance(handler, Unary)
        return await handler.handle(data, Context(path))


@pytest.fixture
def interceptor() -> Manager:
    """Puts in force at once."""
    return Manager()


@pytest.fixture
async def client(interceptor: Manager) -> AsyncIterator[Client]:
    """Of a server whose clock stands at 7."""
    server = ConfigServer(interceptor.apply, now=lambda: 7.0)
    yield Client(server)
    await server.close()


async def test_a_configuration_is_put_in_force(client: Client, interceptor: Manager) -> None:
    """The reply is empty, and the counters know."""
    assert await client.set_config("a") == ""
    assert interceptor.applied == [({"policy.static": "a"}, "n")]
    server = client.server
    assert server.outcomes == {ConfigOutcome.ACCEPTED: 1}
    assert server.accepted == AgentConfig(node_name="n", data={"policy.static": "a"})
    assert (server.accepted_at, server.last_at, server.last_error) == (7.0, 7.0, "")


async def test_a_rejected_one_is_answered_with_every_reason(
    client: Client, interceptor: Manager, caplog: pytest.LogCaptureFixture
) -> None:
    """One per line; the log has them once, however often the agent tries."""
    await client.set_config("a")
    for _ in range(3):
        assert await client.set_config("bad") == "one is wrong\ntwo is wrong"
    server = client.server
    assert server.outcomes == {ConfigOutcome.ACCEPTED: 1, ConfigOutcome.REJECTED: 3}
    assert server.last_error == "one is wrong; two is wrong"
    assert server.accepted == AgentConfig(node_name="n", data={"policy.static": "a"})
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.__dict__["kv"]["problems"] for record in errors] == ["one is wrong; two is wrong"]


async def test_what_cannot_be_now_is_to_be_sent_again() -> None:
    """No rejection, which an agent would tell everybody about, but a call that failed for the moment."""

    async def apply(data: Mapping[str, str], node_name: str) -> None:
        raise NotReadyError("nobody knows what runs")

    client = Client(ConfigServer(apply))
    with pytest.raises(RpcError, match="nobody knows what runs") as caught:
        await client.set_config("a")
    assert caught.value.code == Code.UNAVAILABLE
    assert client.server.outcomes == {ConfigOutcome.NOT_READY: 1}
    assert client.server.accepted is None


async def test_a_log_line_does_not_have_all_reasons(caplog: pytest.LogCaptureFixture) -> None:
    """The reply to the agent has all of them."""

    async def apply(data: Mapping[str, str], node_name: str) -> None:
        raise ConfigError([f"p{number}" for number in range(7)])

    client = Client(ConfigServer(apply))
    assert len((await client.set_config("a")).splitlines()) == 7
    (record,) = caplog.records
    assert record.__dict__["kv"]["problems"] == "p0; p1; p2; p3; p4; and 2 more"


async def test_a_rejection_without_reasons_is_no_success() -> None:
    """An empty reply would be one."""

    async def apply(data: Mapping[str, str], node_name: str) -> None:
        raise ConfigError([])

    assert await Client(ConfigServer(apply)).set_config("a") == "it was rejected"


async def test_the_same_again_is_not_applied_again(client: Client, interceptor: Manager) -> None:
    """Also after another one was rejected, since that changed nothing."""
    await client.set_config("a")
    await client.set_config("bad")
    assert await client.set_config("a") == ""
    assert len(interceptor.applied) == 1
    assert client.server.outcomes[ConfigOutcome.UNCHANGED] == 1
    assert client.server.last_error == ""


async def test_the_same_for_another_node_is_another(client: Client, interceptor: Manager) -> None:
    """Keys may be about one node alone."""
    await client.set_config("a", node="n")
    await client.set_config("a", node="m")
    assert [node for _, node in interceptor.applied] == ["n", "m"]


async def test_what_an_earlier_run_accepted_is_known(interceptor: Manager) -> None:
    """An agent sends it anew after every restart of the relay."""
    server = ConfigServer(interceptor.apply, accepted=AgentConfig(node_name="n", data={"policy.static": "a"}))
    assert await Client(server).set_config("a") == ""
    assert interceptor.begun == 0


async def test_a_forced_file_counts_alone(interceptor: Manager, caplog: pytest.LogCaptureFixture) -> None:
    """The agent is told which file it is; the log says it once."""
    server = ConfigServer(interceptor.apply, forced="/etc/x.yaml")
    for _ in range(2):
        assert await Client(server).set_config("a") == "configuration is forced by /etc/x.yaml"
    assert interceptor.begun == 0
    assert server.outcomes == {ConfigOutcome.FORCED: 2}
    assert len(caplog.records) == 1


async def test_garbage_is_an_invalid_argument(client: Client, interceptor: Manager) -> None:
    """Such a request changes nothing."""
    with pytest.raises(RpcError) as caught:
        await client.raw(SET_CONFIG, b"\xff")
    assert caught.value.code is Code.INVALID_ARGUMENT
    assert client.server.outcomes == {ConfigOutcome.UNREADABLE: 1}
    assert client.server.last_error.startswith("not a SetConfigRequest")
    assert interceptor.begun == 0


async def test_a_mistake_of_ours_fails_the_call(
    client: Client, interceptor: Manager, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged once, and the next configuration is served."""
    with pytest.raises(RpcError) as caught:
        await client.set_config("bug")
    assert caught.value.code is Code.INTERNAL
    assert client.server.last_error == "RuntimeError: oh"
    assert len(caplog.records) == 1
    assert await client.set_config("a") == ""


async def test_one_is_applied_at_a_time(client: Client, interceptor: Manager) -> None:
    """In the order in which they came."""
    interceptor.go.clear()
    async with asyncio.TaskGroup() as group:
        first = group.create_task(client.set_config("a"))
        await eventually(lambda: interceptor.begun, "the first to begin")
        second = group.create_task(client.set_config("bad"))
        third = group.create_task(client.set_config("c"))
        await asyncio.sleep(0)
        interceptor.go.set()
    assert (first.result(), second.result(), third.result()) == ("", "one is wrong\ntwo is wrong", "")
    assert [data["policy.static"] for data, _ in interceptor.applied] == ["a", "c"]
    assert interceptor.at_once == 1


async def test_not_too_many_wait(client: Client, interceptor: Manager) -> None:
    """The next is told to come again, those that wait are served."""
    interceptor.go.clear()
    async with asyncio.TaskGroup() as group:
        group.create_task(client.set_config("0"))
        await eventually(lambda: interceptor.begun, "the first to begin")
        for number in range(MAX_WAITING):
            group.create_task(client.set_config(str(number + 1)))
        await asyncio.sleep(0)
        with pytest.raises(RpcError) as caught:
            await client.set_config("x")
        assert caught.value.code is Code.UNAVAILABLE
        interceptor.go.set()
    assert client.server.outcomes == {ConfigOutcome.BUSY: 1, ConfigOutcome.ACCEPTED: MAX_WAITING + 1}


async def test_nobody_waits_for_ever(interceptor: Manager) -> None:
    """Whoever waited in vain is told to come again, and the one that is stuck is not disturbed."""
    interceptor.go.clear()
    server = ConfigServer(interceptor.apply, wait=0.01)
    client = Client(server)
    async with asyncio.TaskGroup() as group:
        stuck = group.create_task(client.set_config("a"))
        await eventually(lambda: interceptor.begun, "the first to begin")
        with pytest.raises(RpcError) as caught:
            await client.set_config("b")
        assert caught.value.code is Code.UNAVAILABLE
        interceptor.go.set()
    assert stuck.result() == ""


async def test_what_was_begun_is_carried_through(client: Client, interceptor: Manager) -> None:
    """Also if the agent does not wait for it; what it sends again is in force then."""
    interceptor.go.clear()
    call = asyncio.get_running_loop().create_task(client.set_config("a"))
    await eventually(lambda: interceptor.begun, "it to begin")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    again = asyncio.get_running_loop().create_task(client.set_config("a"))
    interceptor.go.set()
    assert await again == ""
    assert len(interceptor.applied) == 1
    assert client.server.outcomes == {ConfigOutcome.ACCEPTED: 1, ConfigOutcome.UNCHANGED: 1}


async def test_who_left_while_waiting_is_forgotten(client: Client, interceptor: Manager) -> None:
    """Its configuration is not applied."""
    interceptor.go.clear()
    async with asyncio.TaskGroup() as group:
        group.create_task(client.set_config("a"))
        await eventually(lambda: interceptor.begun, "the first to begin")
        gone = asyncio.get_running_loop().create_task(client.set_config("b"))
        await asyncio.sleep(0)
        gone.cancel()
        interceptor.go.set()
    assert await client.set_config("c") == ""
    assert [data["policy.static"] for data, _ in interceptor.applied] == ["a", "c"]


async def test_closing_ends_what_is_being_applied(client: Client, interceptor: Manager) -> None:
    """Nothing is applied after it."""
    interceptor.go.clear()
    call = asyncio.get_running_loop().create_task(client.set_config("a"))
    await eventually(lambda: interceptor.begun, "it to begin")
    await client.server.close()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert interceptor.applied == []


async def test_adjustments_are_refused_by_name(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    """That there are none is a success."""
    for text, errors in (
        ('{"a": {}, "b": {}}', dict.fromkeys("ab", "adjustments are not supported")),
        ("{}", {}),
    ):
        request = SetAdjustmentRequest(node_name="n", adjustment=text).SerializeToString()
        reply = await client.raw(SET_ADJUSTMENT, request)
        assert dict(SetAdjustmentReply.FromString(reply).errors) == errors
    assert len(caplog.records) == 1


async def test_adjustments_that_are_garbage_are_an_invalid_argument(client: Client) -> None:
    """The reason is in the status."""
    request = SetAdjustmentRequest(adjustment="{").SerializeToString()
    with pytest.raises(RpcError, match=r"INVALID_ARGUMENT: SetAdjustment: adjustment: is not valid JSON"):
        await client.raw(SET_ADJUSTMENT, request)
