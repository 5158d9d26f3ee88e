"""What goes wrong, as a test says: the handle of one server. Faults stay until they are used up or cleared."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from interpose.testing.failpoints import Stall
from tests.support.apiserver.paths import Logged
from tests.support.apiserver.problems import RefusedError
from tests.support.apiserver.watches import End, Watch

When: TypeAlias = Callable[[Logged], bool]

_REASONS = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class Faulty(Protocol):
    """What faults need of a server."""

    @property
    def watches(self) -> Iterable[Watch]:
        """Those that run."""

    def break_connections(self) -> None:
        """All of them, now."""

    def forget_history(self) -> None:
        """What happened so far."""

    def replace_token(self, old: str, new: str) -> None:
        """The user stays who they are."""

    def replace_certificate(self, *, new_ca: bool) -> None:
        """For connections from now on."""

    async def stop(self) -> None:
        """Nobody listens any more."""

    async def start(self) -> None:
        """Listen where we listened before."""


@dataclass(slots=True)
class _Limited:
    when: When
    left: int

    def use(self, logged: Logged) -> bool:
        if self.left < 1 or not self.when(logged):
            return False
        self.left -= 1
        return True


def always(_logged: Logged) -> bool:
    """Every request."""
    return True


class Faults:
    """Of one server. `when` chooses among requests: it gets what is in the log of requests."""

    def __init__(self, server: Faulty) -> None:
        self._server = server
        self._answers: list[tuple[_Limited, RefusedError]] = []
        self._stalls: list[tuple[When, Stall]] = []
        self._drops: list[_Limited] = []
        self._truncations: list[_Limited] = []
        self._delay = 0.0

    # -- for tests

    def answer(self, code: int, *, times: int = 1, retry_after: int | None = None, when: When = always) -> None:
        """Answer the next requests with this code, and do nothing."""
        details = {"retryAfterSeconds": retry_after} if retry_after is not None else {}
        refusal = RefusedError(code, _REASONS.get(code, ""), f"a test wants {code}", details)
        self._answers.append((_Limited(when, times), refusal))

    def stall(self, when: When = always) -> Stall:
        """Accept requests and never answer, until the stall is released."""
        stall = Stall()
        self._stalls.append((when, stall))
        return stall

    def delay(self, seconds: float) -> None:
        """Every answer takes this much longer; 0 ends it."""
        self._delay = seconds

    def drop(self, *, times: int = 1, when: When = always) -> None:
        """Break the connection instead of doing what is asked."""
        self._drops.append(_Limited(when, times))

    def truncate(self, *, times: int = 1, when: When = always) -> None:
        """Do what is asked, break the connection in the middle of the answer."""
        self._truncations.append(_Limited(when, times))

    def cut_watches(self, *, mid_line: bool = False) -> None:
        """Break the connections of all watches, between two lines or in one."""
        for watch in list(self._server.watches):
            watch.end(End.MID_LINE if mid_line else End.CUT)

    def end_watches(self) -> None:
        """End all watches as a server does once in a while."""
        for watch in list(self._server.watches):
            watch.end(End.CLEAN)

    def bookmark(self) -> None:
        """Send a bookmark to all watches that want some."""
        for watch in self._server.watches:
            watch.bookmark()

    def garble_watches(self, line: bytes = b'{"type": "MODIFIED", "object"\n') -> None:
        """Send this to all watches, whatever it is."""
        for watch in self._server.watches:
            watch.lines.put_nowait(line)

    def expire_history(self) -> None:
        """Whoever comes with a version known so far is too late. Watches that run are not concerned."""
        self._server.forget_history()

    def drop_connections(self) -> None:
        """Break all connections; new ones are welcome."""
        self._server.break_connections()

    async def stop(self) -> None:
        """Listen no more and break all connections."""
        await self._server.stop()

    async def start(self) -> None:
        """Come back on the same port."""
        await self._server.start()

    async def restart(self, *, lose_history: bool = False) -> None:
        """Both, one after the other."""
        await self.stop()
        if lose_history:
            self.expire_history()
        await self.start()

    def rotate_token(self, old: str, new: str) -> None:
        """The old one is refused from now on."""
        self._server.replace_token(old, new)

    def swap_certificate(self, *, new_ca: bool = False) -> None:
        """Another certificate for new connections, by the same authority or by one nobody knows yet."""
        self._server.replace_certificate(new_ca=new_ca)

    def clear(self) -> None:
        """Everything works again; what was stalled goes on."""
        for _, stall in self._stalls:
            stall.release()
        for faults in (self._answers, self._stalls, self._drops, self._truncations):
            faults.clear()
        self._delay = 0.0

    # -- for the server

    async def before(self, logged: Logged) -> None:
        """Wait, or raise what is to be answered."""
        for when, stall in list(self._stalls):
            if when(logged):
                await stall.hold()
        if self._delay:
            await asyncio.sleep(self._delay)
        for limited, refusal in self._answers:
            if limited.use(logged):
                raise refusal

    def drops(self, logged: Logged) -> bool:
        """Whether this one breaks the connection."""
        return any(limited.use(logged) for limited in self._drops)

    def truncates(self, logged: Logged) -> bool:
        """Whether the answer to this one breaks off."""
        return any(limited.use(logged) for limited in self._truncations)
