"""The loop that sees to it that the relay has what is wanted."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping

import pytest

from interpose.kube.agent.config_choice import ChoiceResult, ConfigChoice, SelectedConfig
from interpose.kube.agent.push_state import PushPhase, PushState
from interpose.kube.agent.pusher import Pusher
from interpose.net.grpc.status import Code, RpcError
from interpose.tasks import TaskBag
from interpose.testing.eventually import eventually


def choice(text: str) -> ConfigChoice:
    """What the cluster wants."""
    return ConfigChoice(
        verdict=ChoiceResult.CHOSEN, chosen=SelectedConfig(source="ns/a", version="1", data={"policy": text})
    )


MISSING = ConfigChoice(verdict=ChoiceResult.MISSING)


class Relay:
    """A relay. The text "bad" is rejected; it can be made to fail, and to stand."""

    def __init__(self) -> None:
        self.sessions = 1
        self.on_change: Callable[[], None] | None = None
        self.up = True
        self.last_error = "refused"
        self.got: list[tuple[str, dict[str, str]]] = []
        self.fails: Exception | None = None
        self.at_once = 0
        self.go = asyncio.Event()
        self.go.set()
        self._running = 0

    async def send(self, node: str, data: Mapping[str, str]) -> list[str]:
        """As a relay would take it."""
        self._running += 1
        self.at_once = max(self.at_once, self._running)
        try:
            await self.go.wait()
            self.got.append((node, dict(data)))
            if self.fails is not None:
                raise self.fails
            return [f"problem {number}" for number in range(7)] if data.get("policy") == "bad" else []
        finally:
            self._running -= 1

    def change(self, up: bool) -> None:
        """It comes or goes."""
        self.sessions += up
        self.up = up
        assert self.on_change is not None
        self.on_change()


class Stage:
    """A pusher that runs, and a clock that jumps to the next moment whenever there is nothing to do before it."""

    def __init__(self, when_missing: str = "withdraw") -> None:
        self.relay = Relay()
        self.states: list[PushState] = []
        self.time = 0.0
        self.jumps = True
        self.pusher = Pusher(
            self.relay,
            node="n",
            on_state=self.states.append,
            when_missing=when_missing,
            now=lambda: self.time,
            wall=lambda: 1000.0 + self.time,
            chance=lambda: 0.0,
            pause=self._pause,
        )
        self.tasks = TaskBag()

    async def _pause(self, wake: asyncio.Event, seconds: float | None) -> None:
        if seconds is None or not self.jumps:
            await wake.wait()
        else:
            await asyncio.sleep(0)
            self.time += seconds

    def texts(self) -> list[str]:
        """What the relay was sent."""
        return [data.get("policy", "") for _, data in self.relay.got]

    def phases(self) -> list[PushPhase]:
        """What was told."""
        return [state.phase for state in self.states]


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """It runs."""
    made = Stage()
    made.tasks.spawn(made.pusher.run(), name="pusher")
    yield made
    await made.tasks.cancel()


async def test_what_is_wanted_is_sent_and_told(stage: Stage) -> None:
    """With the name of the node."""
    stage.pusher.consider(choice("one"))
    await eventually(lambda: stage.pusher.state.phase is PushPhase.APPLIED, "the answer")
    assert stage.relay.got == [("n", {"policy": "one"})]
    assert stage.pusher.outcomes == {"accepted": 1}
    assert stage.pusher.last_success == 1000.0
    assert stage.pusher.state.last_good == choice("one").chosen
    assert stage.pusher.went_by == "ns/a"


async def test_newest_wish_wins(stage: Stage) -> None:
    """What was wanted in between is never sent, and never are there two calls at a time."""
    stage.relay.go.clear()
    stage.pusher.consider(choice("one"))
    await eventually(lambda: stage.relay.at_once, "the first call")
    stage.pusher.consider(choice("two"))
    stage.pusher.consider(choice("three"))
    stage.relay.go.set()
    await eventually(lambda: stage.texts() == ["one", "three"], "the newest")
    assert stage.relay.at_once == 1


async def test_rejected_is_told_with_every_problem(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """And the log has the first ones."""
    stage.jumps = False
    stage.pusher.consider(choice("bad"))
    await eventually(lambda: stage.pusher.state.phase is PushPhase.REJECTED, "the answer")
    assert len(stage.pusher.state.problems) == 7
    line = next(record for record in caplog.records if record.levelno == logging.ERROR)
    assert line.kv["problems"].endswith("problem 4; and 2 more")  # type: ignore[attr-defined]


async def test_rejected_is_sent_again_and_told_once(stage: Stage) -> None:
    """Its problems are the same."""
    stage.pusher.consider(choice("bad"))
    await eventually(lambda: stage.pusher.outcomes["rejected"] >= 3, "some tries")
    assert stage.phases() == [PushPhase.WAITING, PushPhase.REJECTED]


@pytest.mark.parametrize("error", [RpcError(Code.UNAVAILABLE, "busy"), RuntimeError("a mistake of ours")])
async def test_failure_is_sent_again(stage: Stage, error: Exception) -> None:
    """Nothing ends the loop."""
    stage.relay.fails = error
    stage.pusher.consider(choice("one"))
    await eventually(lambda: stage.pusher.state.phase is PushPhase.UNREACHABLE, "patience to end")
    stage.relay.fails = None
    await eventually(lambda: stage.pusher.state.phase is PushPhase.APPLIED, "an answer")
    assert stage.pusher.outcomes["failed"] >= 2


async def test_relay_that_comes_back_is_sent_it_again(stage: Stage) -> None:
    """Nobody has to ask."""
    stage.pusher.consider(choice("one"))
    await eventually(lambda: stage.texts() == ["one"], "the first push")
    stage.relay.change(up=False)
    await eventually(lambda: stage.pusher.state.phase is PushPhase.UNREACHABLE, "patience to end")
    assert stage.pusher.state.problems == ("refused",)
    stage.relay.change(up=True)
    await eventually(lambda: stage.texts() == ["one", "one"], "the second push")
    await eventually(lambda: stage.pusher.state.phase is PushPhase.APPLIED, "the answer")


async def test_missing_is_withdrawn(stage: Stage) -> None:
    """With an empty configuration."""
    stage.pusher.consider(choice("one"))
    await eventually(lambda: stage.texts() == ["one"], "the first push")
    stage.pusher.consider(MISSING)
    await eventually(lambda: stage.pusher.state.phase is PushPhase.WITHDRAWN, "the end of the grace")
    assert stage.relay.got[1:] == [("n", {})]
    assert stage.time >= 30.0


async def test_missing_is_kept() -> None:
    """If that is what is wanted."""
    stage = Stage(when_missing="keep")
    stage.tasks.spawn(stage.pusher.run(), name="pusher")
    stage.pusher.consider(choice("one"))
    await eventually(lambda: stage.pusher.state.phase is PushPhase.APPLIED, "the first push")
    stage.pusher.consider(MISSING)
    stage.relay.change(up=True)
    await eventually(lambda: len(stage.texts()) == 2, "the second push")
    assert stage.texts() == ["one", "one"]
    await stage.tasks.cancel()
