"""The agent's pusher and the relay's real config server, with a socket between them."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interpose.config.documents.policy import read_config_map
from interpose.kube.agent.config_choice import ConfigChoice, ObservedObject, choose
from interpose.kube.agent.push_state import PushPhase, PushState
from interpose.kube.agent.pusher import Pusher
from interpose.kube.agent.relay_client import RelayClient
from interpose.net.grpc.transport import Hub
from interpose.resmgr.config.server import ConfigOutcome, ConfigServer, ConfigSocket, bind_config_socket
from interpose.tasks import TaskBag
from interpose.testing.eventually import eventually

NODE = "worker-1"


class Relay:
    """As far as the config socket goes: it reads what it is sent, and keeps what it can use."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.applied: list[dict[str, str]] = []
        self.server = ConfigServer(self._apply)

    async def _apply(self, data: Mapping[str, str], node_name: str) -> None:
        read_config_map(data, node_name)
        self.applied.append(dict(data))

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Until it ends. What it has it remembers, unless it is made anew."""
        socket = ConfigSocket(bind_config_socket(str(self.path)), self.server)
        await socket.start()
        try:
            yield
        finally:
            await socket.close()


class Agent:
    """Its half that pushes."""

    def __init__(self, path: Path, *, interval: float = 0.01, grace: float = 0.05) -> None:
        self.states: list[PushState] = []
        self.client = RelayClient(str(path), hub=Hub())
        self.pusher = Pusher(self.client, node=NODE, on_state=self.states.append, interval=interval, grace=grace)
        self._tasks = TaskBag()

    async def __aenter__(self) -> "Agent":
        """It runs."""
        self.client.start()
        self._tasks.spawn(self.pusher.run(), name="pusher")
        return self

    async def __aexit__(self, *_: object) -> None:
        """It ends."""
        await self._tasks.cancel()
        await self.client.close()

    def edit(self, version: int = 1, **data: str) -> None:
        """Somebody edits the ConfigMap; underscores are dots."""
        named = {key.replace("__", "-").replace("_", "."): text for key, text in data.items()}
        found = {"metadata": {"resourceVersion": str(version)}, "data": named}
        self.pusher.consider(choose([ObservedObject("c", True, found)], node=NODE, namespace="ns"))

    async def reaches(self, phase: PushPhase) -> PushState:
        """Wait for it."""
        await eventually(lambda: self.pusher.state.phase is phase, phase.value)
        return self.pusher.state


@pytest.fixture
def relay(scratch: Path) -> Relay:
    """It does not serve yet."""
    return Relay(scratch / "config.sock")


async def test_edit_is_put_in_force(relay: Relay) -> None:
    """Once."""
    async with relay.serving(), Agent(relay.path) as agent:
        agent.edit(policy="Active: static")
        await agent.reaches(PushPhase.APPLIED)
        assert relay.applied == [{"policy": "Active: static"}]
        assert relay.server.accepted is not None
        assert relay.server.accepted.node_name == NODE


async def test_edit_for_another_node_is_not_even_sent(relay: Relay) -> None:
    """Only the first one was."""
    async with relay.serving(), Agent(relay.path) as agent:
        agent.edit(policy_static="RelaxedIsolation: true")
        await agent.reaches(PushPhase.APPLIED)
        agent.edit(version=2, policy_static="RelaxedIsolation: true", policy_static_worker__2="RelaxedIsolation: false")
        agent.edit(version=3, policy_static="RelaxedIsolation: false")
        await eventually(lambda: len(relay.applied) == 2, "the second one for us")
        assert relay.server.outcomes == {ConfigOutcome.ACCEPTED: 2}


async def test_bad_edit_is_refused_and_the_old_one_stays(relay: Relay) -> None:
    """With the relay's own words for it."""
    async with relay.serving(), Agent(relay.path) as agent:
        agent.edit(policy_static="RelaxedIsolation: true")
        await agent.reaches(PushPhase.APPLIED)
        agent.edit(version=2, policy_static="Relaxed: maybe", policy_statik="x")
        state = await agent.reaches(PushPhase.REJECTED)
        assert len(state.problems) == 2
        assert "did you mean policy.static?" in " ".join(state.problems)
        assert relay.applied == [{"policy.static": "RelaxedIsolation: true"}]
        agent.edit(version=3, policy_static="RelaxedIsolation: false")
        await agent.reaches(PushPhase.APPLIED)


async def test_relay_starts_after_the_agent(relay: Relay) -> None:
    """Nobody has to do anything."""
    async with Agent(relay.path) as agent:
        agent.edit(policy="Active: static")
        await eventually(lambda: agent.client.last_error == "No such file or directory", "a dial")
        async with relay.serving():
            await agent.reaches(PushPhase.APPLIED)


async def test_relay_that_remembers_does_not_apply_it_twice(relay: Relay) -> None:
    """It is sent again, and known already."""
    async with Agent(relay.path) as agent:
        agent.edit(policy="Active: static")
        async with relay.serving():
            await agent.reaches(PushPhase.APPLIED)
        async with relay.serving():
            await eventually(lambda: relay.server.outcomes[ConfigOutcome.UNCHANGED] == 1, "the second push")
    assert len(relay.applied) == 1


async def test_relay_that_lost_everything_has_it_again(relay: Relay) -> None:
    """Another one under the same name."""
    async with Agent(relay.path) as agent:
        agent.edit(policy="Active: static")
        async with relay.serving():
            await agent.reaches(PushPhase.APPLIED)
        other = Relay(relay.path)
        async with other.serving():
            await eventually(lambda: other.applied == [{"policy": "Active: static"}], "the second push")


async def test_agent_that_starts_again(relay: Relay) -> None:
    """The relay has it already."""
    async with relay.serving():
        for _ in range(2):
            async with Agent(relay.path) as agent:
                agent.edit(policy="Active: static")
                await agent.reaches(PushPhase.APPLIED)
    assert relay.server.outcomes == {ConfigOutcome.ACCEPTED: 1, ConfigOutcome.UNCHANGED: 1}


async def test_map_that_is_deleted_is_withdrawn(relay: Relay) -> None:
    """And none at all is not the same as one out of sight."""
    async with relay.serving(), Agent(relay.path) as agent:
        agent.edit(policy="Active: static")
        await agent.reaches(PushPhase.APPLIED)
        agent.pusher.consider(choose([ObservedObject("c", True, None)], node=NODE, namespace="ns"))
        await agent.reaches(PushPhase.WITHDRAWN)
        assert relay.applied[-1] == {}


async def test_relay_that_goes_away_in_the_middle(relay: Relay) -> None:
    """The configuration arrives in the end."""
    entered = asyncio.Event()
    stuck = ConfigServer(lambda _data, _node: _forever(entered))
    socket = ConfigSocket(bind_config_socket(str(relay.path)), stuck)
    await socket.start()
    async with Agent(relay.path) as agent:
        agent.edit(policy="Active: static")
        await entered.wait()
        await socket.close()
        async with relay.serving():
            await agent.reaches(PushPhase.APPLIED)
    assert agent.pusher.outcomes["failed"] >= 1


async def _forever(entered: asyncio.Event) -> None:
    entered.set()
    await asyncio.Event().wait()


async def test_unusable_map_never_reaches_the_relay(relay: Relay) -> None:
    """The agent has its own words for that."""
    async with relay.serving(), Agent(relay.path) as agent:
        found = {"metadata": {}, "binaryData": {"policy.static": "AAAA"}}
        choice: ConfigChoice = choose([ObservedObject("c", True, found)], node=NODE, namespace="ns")
        agent.pusher.consider(choice)
        state = await agent.reaches(PushPhase.REJECTED)
        assert "is binary" in state.problems[0]
    assert relay.server.outcomes == {}
