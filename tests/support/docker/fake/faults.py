"""Making the fake Docker fail, wait, stand still or break off, by the kind of call; see `api.KINDS` for the kinds.

`before` is before the call has any effect, `after` is when it was done and the answer is owed.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from interpose.testing.failpoints import Stall, When
from tests.support.docker.fake.errors import DockerError

HALF: Final = "half"


@dataclass(slots=True, kw_only=True)
class _Planned:
    """What happens to calls of one kind, at one side of the work."""

    stalls: list[Stall] = field(default_factory=list)
    delay: float = 0.0
    failures: list[DockerError] = field(default_factory=list)
    always: DockerError | None = None


class DropError(Exception):
    """The connection shall break now."""


class Faults:
    """The plans of one server."""

    def __init__(self, kinds: Collection[str]) -> None:
        self.refusing = False  # connections are accepted and closed at once
        self._kinds = frozenset(kinds)
        self._plans: dict[tuple[str, When], _Planned] = {}
        self._drops: list[tuple[str, str]] = []
        self._raw: list[tuple[str, bytes]] = []

    def fail(self, kind: str, status: int = 500, message: str = "a test wants it", *, times: int | None = 1) -> None:
        """Answer the next `times` calls (all, if None) with this error, without doing anything."""
        failure = DockerError(status, message)
        plan = self._plan(kind, When.BEFORE)
        if times is None:
            plan.always = failure
        else:
            plan.failures += [failure] * times

    def delay(self, kind: str, seconds: float, when: When = When.BEFORE) -> None:
        """Every call takes this much longer; 0 removes the delay."""
        self._plan(kind, when).delay = seconds

    def stall(self, kind: str, when: When = When.BEFORE) -> Stall:
        """Hold calls until the returned stall is released."""
        stall = Stall()
        self._plan(kind, when).stalls.append(stall)
        return stall

    def drop(self, kind: str, when: str = When.BEFORE, *, times: int = 1) -> None:
        """Break the connections of the next calls: before the work, after it without an answer, or `half` an answer."""
        self._check(kind)
        self._drops += [(kind, str(when))] * times

    def answer_raw(self, kind: str, data: bytes) -> None:
        """Answer the next call with these bytes and close, without doing anything."""
        self._check(kind)
        self._raw.append((kind, data))

    def clear(self) -> None:
        """All is well again; held calls go on."""
        for plan in self._plans.values():
            for stall in plan.stalls:
                stall.release()
        self._plans.clear()
        self._drops.clear()
        self._raw.clear()
        self.refusing = False

    # -- for the server

    async def enter(self, kind: str, when: When) -> None:
        """Pass what is planned for this side of the work."""
        if plan := self._plans.get((kind, when)):
            for stall in list(plan.stalls):
                await stall.hold()
            if plan.delay:
                await asyncio.sleep(plan.delay)
            if plan.failures:
                raise plan.failures.pop(0)
            if plan.always is not None:
                raise plan.always
        if self._take(kind, str(when)):
            raise DropError

    def breaks_off(self, kind: str) -> bool:
        """Whether this answer ends in the middle."""
        return self._take(kind, HALF)

    def raw(self, kind: str) -> bytes | None:
        """The bytes to answer with, if a test has some."""
        for number, (wanted, data) in enumerate(self._raw):
            if wanted == kind:
                del self._raw[number]
                return data
        return None

    def _take(self, kind: str, when: str) -> bool:
        if (kind, when) not in self._drops:
            return False
        self._drops.remove((kind, when))
        return True

    def _plan(self, kind: str, when: When) -> _Planned:
        self._check(kind)
        return self._plans.setdefault((kind, When(when)), _Planned())

    def _check(self, kind: str) -> None:
        if kind not in self._kinds:
            raise ValueError(f"no call of kind {kind!r}; there are {', '.join(sorted(self._kinds))}")
