"""Keeps the Node object as the policy wants it, through the agent, in the background.

Nothing in the relay waits for it and nothing fails with it: an agent that is away, hangs or refuses is a warning, and
tried again. The newest desired marks count. The Node is read again and again, as others may change it: a
kubelet that restarts forgets extended resources, and a Node that is created again has nothing of ours. Where nothing is
desired and nothing of ours is left, the Node is not read until the agent comes back.
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
from interpose.resmgr.publish.node_state import NodeMarks, NodePatchPlan, plan

_log = logging.getLogger(__name__)

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
# Seconds, at most, after which a node that showed everything is looked at again. The agent has it in memory.
REPAIR: Final = 30.0
_TRIES: Final = 3  # in one go, with a node that others change at the same time
_TRY_AGAIN: Final = 0.2
_CONFLICTS: Final = frozenset({Code.FAILED_PRECONDITION, Code.ABORTED})


class PublishResult(StrEnum):
    """How one attempt to publish ended."""

    PUBLISHED = "published"
    UNCHANGED = "unchanged"  # the node shows everything already
    CONFLICT = "conflict"  # others changed the node at the same time
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    FAILED = "failed"  # a mistake of ours


class Agent(Protocol):
    """The methods of the agent that are used; RpcError if one fails."""

    async def get_node(self) -> dict[str, Any]: ...

    async def patch_node(self, operations: Iterable[tuple[str, str, str]]) -> None: ...

    async def update_node_capacity(self, capacities: Mapping[str, str]) -> None: ...


class Publisher:
    """Publishes the desired marks in one loop. Counters and `problem` are plain values."""

    def __init__(
        self,
        agent: Agent,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`sleep` and `chance` are there for tests."""
        self.results: Counter[PublishResult] = Counter()
        self.published = False  # whether the node shows what is wanted, as far as we know
        self.problem = ""  # of the last attempt
        self._agent = agent
        self._sleep = sleep
        self._chance = chance
        self._desired: NodeMarks | None = None
        self._awake = asyncio.Event()
        self._backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE, random=chance)
        self._limited = RateLimited(_log)

    @property
    def desired(self) -> NodeMarks | None:
        """The marks that the node shall show; None: unknown, and the node is left alone."""
        return self._desired

    def set_desired(self, marks: NodeMarks | None) -> None:
        """Set the marks that the node shall show."""
        if marks != self._desired:
            self._desired = marks
            self.published = False
            self.wake()

    def wake(self) -> None:
        """Read the Node at once: other marks are desired, or the agent came back."""
        self._backoff.reset()
        self._awake.set()

    async def run(self) -> None:
        """Publish until the task is cancelled."""
        while True:
            self._awake.clear()
            pause = None
            if self._desired is not None:
                desired = self._desired
                result = await self._publish_once(desired)
                self.results[result] += 1
                pause = self._pause(result, desired)
            await self._wait(pause)

    def _pause(self, result: PublishResult, desired: NodeMarks) -> float | None:
        if result not in (PublishResult.PUBLISHED, PublishResult.UNCHANGED):
            return self._backoff.next()
        self._backoff.reset()
        return REPAIR * (0.5 + self._chance() / 2) if desired else None  # not all nodes of a cluster at once

    async def _wait(self, seconds: float | None) -> None:
        """Wait for so many seconds (None: for ever), or until `wake`."""
        if self._awake.is_set():
            return
        try:
            async with asyncio.timeout(seconds):
                await self._awake.wait()
        except TimeoutError:
            pass

    async def _publish_once(self, desired: NodeMarks) -> PublishResult:
        before = self.published
        try:
            result = await self._publish(desired)
        except RpcError as error:
            return self._on_failure(desired, _result_of(error.code), error.message or error.code.name)
        except Exception as error:
            _log.exception("Failed to publish to the Node")
            return self._on_failure(desired, PublishResult.FAILED, f"{type(error).__name__}: {error}")
        if result is PublishResult.PUBLISHED and before:
            text = "Node did not show any more what the policy wants, it does again"
            self._limited.log(logging.WARNING, text, marks=str(desired))
        elif result is PublishResult.PUBLISHED or self.problem:
            _log.info("Node labels and capacity published", extra={"kv": {"marks": str(desired) or "none"}})
        self.problem = ""
        self.published = desired == self._desired
        return result

    async def _publish(self, desired: NodeMarks) -> PublishResult:
        for left in reversed(range(_TRIES)):
            node = await self._agent.get_node()
            try:
                todo = plan(node, desired)
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
                return PublishResult.PUBLISHED
        return PublishResult.UNCHANGED

    async def _carry_out(self, todo: NodePatchPlan) -> None:
        if todo.withdrawn:
            await self._agent.update_node_capacity(todo.withdrawn)
        if todo.operations:
            await self._agent.patch_node(todo.operations)
        if todo.published:
            await self._agent.update_node_capacity(todo.published)

    def _on_failure(self, desired: NodeMarks, result: PublishResult, error: str) -> PublishResult:
        self.published = False
        self.problem = error
        # Without anything to show, an agent is not missed.
        level = logging.WARNING if desired else logging.DEBUG
        kv = {"marks": str(desired) or "none", "err": error}
        self._limited.log(level, "Failed to publish to the Node, it is tried again", key=f"{level} {error}", **kv)
        return result


def _result_of(code: Code) -> PublishResult:
    if code in OUTCOME_UNKNOWN:
        return PublishResult.UNREACHABLE
    return PublishResult.CONFLICT if code in _CONFLICTS else PublishResult.REFUSED
