"""Pushes the configuration of the cluster to the relay: the loop around the plan.

A relay that is away or rejects is normal. The loop never ends by itself, and never has two calls in flight.
"""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from interpose.kube.agent.config_choice import ConfigChoice
from interpose.kube.agent.push_state import Push, PushPlan, PushState
from interpose.log import RateLimited
from interpose.net.grpc.status import RpcError
from interpose.tasks import LEAST_PAUSE, Idle, idle

_log = logging.getLogger(__name__)

INTERVAL: Final = 2.0
GRACE: Final = 30.0
_DONE: Final[Mapping[tuple[bool, bool], str]] = {  # whether it was given back, whether it is nothing
    (False, False): "Configuration applied",
    (False, True): "Configuration was withdrawn",
    (True, False): "Last good configuration was given back to the relay",
}
_MAX_LOGGED: Final = 5  # problems in one line of the log; the state has all of them


class RelayTarget(Protocol):
    """The relay that gets the configuration."""

    sessions: int
    on_change: Callable[[], None] | None

    @property
    def up(self) -> bool:
        """Whether the relay is connected."""

    @property
    def last_error(self) -> str:
        """Why the relay is not connected; empty if it is."""

    async def send(self, node: str, data: Mapping[str, str]) -> list[str]:
        """Hand a configuration over; the reasons against it, or RpcError."""


class Pusher:
    """Pushes configurations. `on_state` is called when the state changed. Counters are read at each scrape."""

    def __init__(
        self,
        relay: RelayTarget,
        *,
        node: str,
        on_state: Callable[[PushState], None],
        interval: float = INTERVAL,
        grace: float = GRACE,
        when_missing: str = "withdraw",
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
        pause: Idle = idle,
    ) -> None:
        self.outcomes: Counter[str] = Counter()  # accepted, rejected, failed
        self.last_success: float | None = None  # wall clock
        self.state = PushState(since=wall())
        self._relay = relay
        self._node = node
        self._on_state = on_state
        self._now = now
        self._wall = wall
        self._pause = pause
        self._wake = asyncio.Event()
        self._plan = PushPlan(interval=interval, grace=grace, withdraw=when_missing == "withdraw", chance=chance)
        self._limited = RateLimited(_log, interval=600.0)
        relay.on_change = self.poke

    @property
    def went_by(self) -> str | None:
        """The map that counts (namespace/name); empty: none does. None: there was no choice yet."""
        return self._plan.went_by

    def consider(self, choice: ConfigChoice) -> None:
        """Take over the choice of a ConfigMap."""
        self._plan.consider(choice, self._now())
        self.poke()

    def poke(self) -> None:
        """Wake the loop: something may have changed."""
        self._wake.set()

    async def run(self) -> None:
        """Push configurations until cancelled."""
        while True:
            self._wake.clear()
            now = self._now()
            self._plan.connection(self._relay.sessions if self._relay.up else None, self._relay.last_error, now)
            push = self._plan.begin(now)
            self._publish_state()
            if push is not None:
                await self._send(push)
                continue
            due = self._plan.due(now)
            await self._pause(self._wake, None if due is None else max(due - now, LEAST_PAUSE))

    async def _send(self, push: Push) -> None:
        kv: dict[str, object] = {"keys": len(push.data)}
        if push.chosen is not None:
            kv |= {"source": push.chosen.title, "version": push.chosen.version}
        try:
            problems = await self._relay.send(self._node, push.data)
        except RpcError as error:
            self._failed(f"{error.code.name}: {error.message}", kv)
        except Exception as error:  # a mistake of ours must not end the loop
            _log.exception("Failed to send configuration", extra={"kv": kv})
            self._failed(f"{type(error).__name__}: {error}", kv)
        else:
            if problems:
                self._rejected(tuple(problems), kv)
            else:
                self.outcomes["accepted"] += 1
                self.last_success = self._wall()
                self._plan.accepted()
                _log.info(_DONE[push.again, push.chosen is None], extra={"kv": kv})
        self._publish_state()

    def _failed(self, problem: str, kv: dict[str, object]) -> None:
        self.outcomes["failed"] += 1
        self._plan.failed(problem, self._now())
        self._limited.log(logging.WARNING, "Relay did not accept the configuration", key=problem, **kv, err=problem)

    def _rejected(self, problems: tuple[str, ...], kv: dict[str, object]) -> None:
        self.outcomes["rejected"] += 1
        self._plan.rejected(problems, self._now())
        text = "; ".join(problems[:_MAX_LOGGED])
        if (more := len(problems) - _MAX_LOGGED) > 0:
            text += f"; and {more} more"
        self._limited.log(logging.ERROR, "Relay rejected the configuration", key=text, **kv, problems=text)

    def _publish_state(self) -> None:
        state = self._plan.state(self._now(), self._wall())
        if not state.is_same(self.state):
            self.state = state
            self._on_state(state)
