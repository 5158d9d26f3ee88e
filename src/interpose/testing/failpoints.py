"""Failpoints: make a method of a fake fail, wait or stand still.

A point acts `before` the method does its work (the runtime refused) or `after` it (the work is done, the answer is
late or lost: the outcome the caller must treat as unknown), of a method that works in two steps also `during` it.
Points of one method act in the order stall, delay, fail.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from enum import StrEnum

from interpose.net.grpc.status import Code, RpcError


class When(StrEnum):
    """Where a failpoint stands."""

    BEFORE = "before"
    DURING = "during"
    AFTER = "after"


class Stall:
    """Holds every call of one method until released. Awaits of `entered` return once the first call stands here."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.waiting = 0
        self._released = asyncio.Event()

    @property
    def released(self) -> bool:
        """Whether calls pass again."""
        return self._released.is_set()

    def release(self) -> None:
        """Let all held calls go on; later calls pass without stopping."""
        self._released.set()

    async def hold(self) -> None:
        """Stand here until released; a cancelled call leaves."""
        if self.released:
            return
        self.waiting += 1
        self.entered.set()
        try:
            await self._released.wait()
        finally:
            self.waiting -= 1


@dataclass(slots=True)
class _Failure:
    code: Code
    message: str
    left: int | None


@dataclass(slots=True)
class _Point:
    stalls: list[Stall] = field(default_factory=list)
    delay: float = 0.0
    failure: _Failure | None = None


class Failpoints:
    """The failpoint table of one fake. `methods` are the names that may be used: a typing error is refused."""

    def __init__(self, methods: Collection[str], sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._methods = frozenset(methods)
        self._sleep = sleep
        self._points: dict[tuple[str, When], _Point] = {}

    def _point(self, method: str, when: When | str) -> _Point:
        if method not in self._methods:
            raise ValueError(f"failpoint: unknown method {method!r}")
        return self._points.setdefault((method, When(when)), _Point())

    def fail(
        self,
        method: str,
        code: Code,
        message: str = "",
        times: int | None = None,
        when: When | str = When.BEFORE,
    ) -> None:
        """Answer the next `times` calls (all, if None) with this status."""
        if times is not None and times < 1:
            raise ValueError(f"failpoint {method}: times must be at least 1, not {times}")
        if code is Code.OK:
            raise ValueError(f"failpoint {method}: OK is not a failure")
        self._point(method, when).failure = _Failure(code, message, times)

    def delay(self, method: str, seconds: float, when: When | str = When.BEFORE) -> None:
        """Make every call take this much longer; 0 removes the delay."""
        if seconds < 0:
            raise ValueError(f"failpoint {method}: delay must not be negative: {seconds}")
        self._point(method, when).delay = seconds

    def stall(self, method: str, when: When | str = When.BEFORE) -> Stall:
        """Hold all calls from now on until the returned stall is released."""
        stall = Stall()
        self._point(method, when).stalls.append(stall)
        return stall

    def clear(self, method: str | None = None) -> None:
        """Remove the points of one method, or all. Held calls are let go."""
        for name, when in list(self._points):
            if method in (None, name):
                for stall in self._points.pop((name, when)).stalls:
                    stall.release()

    async def enter(self, method: str, when: When) -> None:
        """Pass the points of a method: waits, then raises RpcError if a failure is set."""
        point = self._points.get((method, when))
        if point is None:
            return
        for stall in list(point.stalls):
            await stall.hold()
        point.stalls = [stall for stall in point.stalls if not stall.released]
        if point.delay:
            await self._sleep(point.delay)
        # Looked up only now: a failure that was cleared while the call stood still must not hit it.
        failure = point.failure if self._points.get((method, when)) is point else None
        if failure is None:
            return
        if failure.left is not None:
            failure.left -= 1
            if failure.left == 0:
                point.failure = None
        raise RpcError(failure.code, failure.message)
