"""Turns at the event loop: nobody keeps it from the others, whatever peers send and from how many processes.

Connections do their work in slices (`net.h2.connection`). In a turn of the loop reads are handled as they come until
some work is done; whatever else is there then waits. Those that wait are served for a short time in each turn, a slice
at a time, and whoever has used the least of the loop lately is served first. So there is no rate to set: a peer that is
alone has the whole loop, many that ask for all of it have equal parts, and one that asks for little comes before all
of them, however many they are. A backend that everybody shares waits for nobody: answers end calls.

A peer, that is a process at the other end, has one account for all its connections. What it has used is halved each
second. A newcomer begins with what those have used who wait: to fork, or to hang up and dial again, is no way to the
front. An account also has the guard that counts frames without progress, and outlives its connections as long as
something is remembered.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from interpose.net.h2.limits import Guard, Limits

# Units of `net.h2.connection`, nominally 0.1 us: what is done in a turn as soon as bytes are there. A client with
# a hundred calls in flight does not notice.
_AT_ONCE: Final = 50_000
# How long those that wait are served in one turn of the loop, in seconds of CPU time. It ends with a slice, which takes
# 1 to 2 ms.
_TURN: Final = 0.002
_UNITS_IN_A_SECOND: Final = 10_000_000
# Who has to wait and has used this much lately asks for more than its share, and for how long, in seconds, that is
# remembered. A thousand calls at once are less.
_MUCH: Final = 400_000
_MEMORY: Final = 10
# So little is as good as nothing.
_LITTLE: Final = 1_000


class Worker(Protocol):
    """A connection with work left."""

    def work(self) -> bool:
        """Do one slice. True if there is more."""


class PeerAccount:
    """What the connections of one peer have in common. `used` is its part of the loop, lately, in units."""

    __slots__ = ("common", "connections", "guard", "memory", "shared", "used", "waiting")

    def __init__(self, limits: Limits, *, shared: bool = False, used: int = 0) -> None:
        """`shared` if other connections may come to have it, and somebody else ticks it."""
        self.guard = Guard(limits)
        self.shared = shared
        self.common = False  # everybody waits for what comes from there: it is served before the others
        self.used = used
        self.connections = 0
        self.memory = 0  # seconds for which it counts as one that asks for more: its calls are kept apart
        self.waiting: deque[Worker] = deque()

    def remember(self) -> None:
        """It has asked for more than its share."""
        self.memory = _MEMORY

    def tick(self) -> None:
        """A second has passed."""
        self.guard.tick()
        self.used //= 2
        if self.memory:
            self.memory -= 1

    @property
    def forgettable(self) -> bool:
        """Nothing of it is here, and nothing is held against it."""
        return not (self.connections or self.memory or self.waiting or self.guard.exceeded or self.used > _LITTLE)


class LoopTurns:
    """Who waits for a turn of the loop. One per hub."""

    __slots__ = ("_armed", "_clock", "_waiting", "left")

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        """`clock` is the time the loop was at work: nobody is charged for what else the machine does."""
        self._clock = clock
        self._waiting: dict[PeerAccount, None] = {}
        self._armed = False
        self.left = _AT_ONCE  # what may still be done before the next turn; below zero, reads wait

    def spent(self) -> None:
        """Nothing is left of this turn."""
        if not self._armed:
            self._armed = True
            asyncio.get_running_loop().call_soon(self._serve)

    def wait(self, account: PeerAccount, worker: Worker, *, first: bool = False) -> None:
        """Let this worker go on when it is its account's turn, `first` before the others of this account. It stands
        there once."""
        if first:
            account.waiting.appendleft(worker)
        else:
            account.waiting.append(worker)
        self._waiting[account] = None
        self.spent()

    @property
    def usual(self) -> int:
        """What a peer that waits has used, on average."""
        used = [account.used for account in self._waiting if not account.common]
        return sum(used) // len(used) if used else 0

    def _serve(self) -> None:
        """A new turn of the loop."""
        self._armed = False
        self.left = _AT_ONCE
        waiting = self._waiting
        now = self._clock()
        end = now + _TURN
        while waiting and now < end:
            account = min(waiting, key=_precedence)
            worker = account.waiting.popleft()
            if worker.work():
                account.waiting.appendleft(worker)  # what one has left is soon done, and then out of memory
            if not account.waiting:
                del waiting[account]
            began, now = now, self._clock()
            account.used += int((now - began) * _UNITS_IN_A_SECOND)
            if account.used > _MUCH:
                account.remember()
        if waiting:
            self.spent()


def _precedence(account: PeerAccount) -> tuple[bool, int]:
    """Lowest first."""
    return not account.common, account.used


class PeerIdentity(Protocol):
    """Who is at the other end, as the kernel saw it."""

    @property
    def pid(self) -> int: ...

    @property
    def uid(self) -> int: ...


class PeerAccounts:
    """The accounts of those who connect to one socket, by user and process. Nobody's is that of one connection."""

    def __init__(self, limits: Limits, turns: LoopTurns) -> None:
        self._limits = limits
        self._turns = turns
        self._accounts: dict[tuple[int, int], PeerAccount] = {}

    def of(self, peer: PeerIdentity | None) -> PeerAccount:
        """The account of this peer, which may have one from before."""
        if peer is None or not peer.pid:
            return PeerAccount(self._limits)
        key = peer.uid, peer.pid
        account = self._accounts.get(key)
        if account is None:
            account = self._accounts[key] = PeerAccount(self._limits, shared=True, used=self._turns.usual)
        return account

    def tick(self) -> None:
        """A second has passed."""
        for key, account in list(self._accounts.items()):
            account.tick()
            if account.forgettable:
                del self._accounts[key]
