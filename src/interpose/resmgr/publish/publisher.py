"""Keeps the Node object as the policy wants it, through the agent, in the background.

Nothing in the relay waits for it and nothing fails with it: an agent that is away, hangs or refuses is a warning, and
tried again. The newest wish counts. What the node shows is looked at again and again, as others may change it: a
kubelet that starts anew forgets extended resources, and a Node that is made anew has nothing of ours. Where nothing is
wanted and nothing of ours is left, nobody is asked until the agent comes back.
"""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, Protocol

from interpose.core.backoff import Backoff
from interpose.log import RateLimited
from interpose.net.grpc.status import OUTCOME_UNKNOWN, Code, RpcError
from interpose.resmgr.publish.node_state import NodeMarks, Plan, plan

_log = logging.getLogger(__name__)

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
# Seconds, at most, after which a node that showed everything is looked at again. The agent has it in memory.
REPAIR: Final = 30.0
_TRIES: Final = 3  # in one go, with a node that others change at the same time
_TRY_AGAIN: Final = 0.2
_CONFLICTS: Final = frozenset({Code.FAILED_PRECONDITION, Code.ABORTED})


class Result(StrEnum):
    """How one go ended."""

    PUBLISHED = "published"
    UNCHANGED = "unchanged"  # the node shows everything already
    CONFLICT = "conflict"  # others changed the node at the same time
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    FAILED = "failed"  # a mistake of ours


class Agent(Protocol):
    """What is asked of the agent; RpcError if it cannot be done."""

    async def get_node(self) -> dict[str, Any]: ...

    async def patch_node(self, operations: Iterable[tuple[str, str, str]]) -> None: ...

    async def update_node_capacity(self, capacities: Mapping[str, str]) -> None: ...


class Publisher:
    """One loop. Counters and `problem` are plain values, read when somebody asks."""

    def __init__(
        self,
        agent: Agent,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`sleep` and `chance` are there for tests."""
        self.results: Counter[Result] = Counter()
        self.published = False  # whether the node shows what is wanted, as far as we know
        self.problem = ""  # of the last go
        self._agent = agent
        self._sleep = sleep
        self._chance = chance
        self._wanted: NodeMarks | None = None
        self._wake = asyncio.Event()
        self._backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE, random=chance)
        self._limited = RateLimited(_log)

    @property
    def wanted(self) -> NodeMarks | None:
        """What the node shall show; None: nobody knows, and the node is left alone."""
        return self._wanted

    def want(self, marks: NodeMarks | None) -> None:
        """From now on the node shall show this."""
        if marks != self._wanted:
            self._wanted = marks
            self.published = False
            self.poke()

    def poke(self) -> None:
        """Look at once: something is wanted, or the agent came back."""
        self._backoff.reset()
        self._wake.set()

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            self._wake.clear()
            pause = None
            if self._wanted is not None:
                wanted = self._wanted
                result = await self._go(wanted)
                self.results[result] += 1
                pause = self._pause(result, wanted)
            await self._rest(pause)

    def _pause(self, result: Result, wanted: NodeMarks) -> float | None:
        if result not in (Result.PUBLISHED, Result.UNCHANGED):
            return self._backoff.next()
        self._backoff.reset()
        return REPAIR * (0.5 + self._chance() / 2) if wanted else None  # not all nodes of a cluster at once

    async def _rest(self, seconds: float | None) -> None:
        """For a while, or until there is something to do."""
        if self._wake.is_set():
            return
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _go(self, wanted: NodeMarks) -> Result:
        before = self.published
        try:
            result = await self._publish(wanted)
        except RpcError as error:
            return self._trouble(wanted, _result_of(error.code), error.message or error.code.name)
        except Exception as error:
            _log.exception("Failed to publish to the Node")
            return self._trouble(wanted, Result.FAILED, f"{type(error).__name__}: {error}")
        if result is Result.PUBLISHED and before:
            text = "Node did not show any more what the policy wants, it does again"
            self._limited.log(logging.WARNING, text, marks=str(wanted))
        elif result is Result.PUBLISHED or self.problem:
            _log.info("Node labels and capacity published", extra={"kv": {"marks": str(wanted) or "none"}})
        self.problem = ""
        self.published = wanted == self._wanted
        return result

    async def _publish(self, wanted: NodeMarks) -> Result:
        for left in reversed(range(_TRIES)):
            node = await self._agent.get_node()
            try:
                todo = plan(node, wanted)
            except ValueError as error:
                raise RpcError(Code.INTERNAL, f"the agent's answer cannot be used: {error}") from None
            if not todo:
                break
            try:
                await self._carry_out(todo)
            except RpcError as error:
                if not left or error.code not in _CONFLICTS:
                    raise
                await self._sleep(_TRY_AGAIN)
            else:
                return Result.PUBLISHED
        return Result.UNCHANGED

    async def _carry_out(self, todo: Plan) -> None:
        if todo.withdrawn:
            await self._agent.update_node_capacity(todo.withdrawn)
        if todo.operations:
            await self._agent.patch_node(todo.operations)
        if todo.published:
            await self._agent.update_node_capacity(todo.published)

    def _trouble(self, wanted: NodeMarks, result: Result, why: str) -> Result:
        self.published = False
        self.problem = why
        # Without anything to show, an agent is not missed.
        level = logging.WARNING if wanted else logging.DEBUG
        kv = {"marks": str(wanted) or "none", "err": why}
        self._limited.log(level, "Failed to publish to the Node, it is tried again", key=f"{level} {why}", **kv)
        return result


def _result_of(code: Code) -> Result:
    if code in OUTCOME_UNKNOWN:
        return Result.UNREACHABLE
    return Result.CONFLICT if code in _CONFLICTS else Result.REFUSED
