"""Turns at the event loop: no peer keeps it from the others, whatever it sends and from how many processes.

Connections do their work in slices (`net.h2.connection`). In a turn of the loop reads are handled as they come until
some work is done; other connections then wait. Those that wait are served for a short time in each turn, a slice at a
time, and the peer that has used the least of the loop lately is served first. So there is no rate to set: a peer that
is alone has the whole loop, many that ask for all of it have equal parts, and one that asks for little comes before all
of them, however many they are. A backend that all clients share never waits: answers end calls.

A peer, that is a process at the other end, has one account for all its connections. What it has used is halved each
second. A new peer begins with the average of those that wait: to fork, or to close and dial again, does not help. An
account also has the guard that counts frames without progress, and outlives its connections as long as something is
remembered.
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
# A peer that has to wait and has used this much lately asks for more than its share, and for how long, in seconds, that
# is remembered. A thousand calls at once are less.
_HEAVY_USE: Final = 400_000
_MEMORY: Final = 10
# So little is as good as nothing.
_NEGLIGIBLE_USE: Final = 1_000


class Worker(Protocol):
    """A connection that has work left to do."""

    def work(self) -> bool:
        """Do one slice. True if there is more."""


class PeerAccount:
    """What the connections of one peer have in common. `used` is its part of the loop, lately, in units."""

    __slots__ = ("common", "connections", "guard", "memory", "shared", "used", "waiting")

    def __init__(self, limits: Limits, *, shared: bool = False, used: int = 0) -> None:
        """`shared`: other connections may get it, and `PeerAccounts` ticks it."""
        self.guard = Guard(limits)
        self.shared = shared
        self.common = False  # all clients wait for its answers: it is served before the others
        self.used = used
        self.connections = 0
        self.memory = 0  # seconds for which it counts as one that asks for more: its calls are kept apart
        self.waiting: deque[Worker] = deque()

    def remember(self) -> None:
        """Note that the peer asked for more than its share."""
        self.memory = _MEMORY

    def tick(self) -> None:
        """Called once a second."""
        self.guard.tick()
        self.used //= 2
        if self.memory:
            self.memory -= 1

    @property
    def forgettable(self) -> bool:
        """Whether it has no connection and nothing is remembered of it."""
        return not (
            self.connections or self.memory or self.waiting or self.guard.exceeded or self.used > _NEGLIGIBLE_USE
        )


class LoopTurns:
    """The peers that wait for a turn of the loop. One per hub."""

    __slots__ = ("_armed", "_clock", "_waiting", "left")

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        """`clock` is the time the loop was at work: no peer is charged for what else the machine does."""
        self._clock = clock
        self._waiting: dict[PeerAccount, None] = {}
        self._armed = False
        self.left = _AT_ONCE  # what may still be done before the next turn; below zero, reads wait

    def spent(self) -> None:
        """Schedule the next turn: nothing is left of this one."""
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
        """The average use of the peers that wait."""
        used = [account.used for account in self._waiting if not account.common]
        return sum(used) // len(used) if used else 0

    def _serve(self) -> None:
        """Serve those that wait, in a new turn of the loop."""
        self._armed = False
        self.left = _AT_ONCE
        waiting = self._waiting
        now = self._clock()
        end = now + _TURN
        while waiting and now < end:
            account = min(waiting, key=_priority)
            worker = account.waiting.popleft()
            if worker.work():
                account.waiting.appendleft(worker)  # what one has left is soon done, and then out of memory
            if not account.waiting:
                del waiting[account]
            began, now = now, self._clock()
            account.used += int((now - began) * _UNITS_IN_A_SECOND)
            if account.used > _HEAVY_USE:
                account.remember()
        if waiting:
            self.spent()


def _priority(account: PeerAccount) -> tuple[bool, int]:
    return not account.common, account.used


class PeerIdentity(Protocol):
    """The process at the other end, as the kernel saw it."""

    @property
    def pid(self) -> int: ...

    @property
    def uid(self) -> int: ...


class PeerAccounts:
    """The accounts of the peers of one socket, by user and process. A connection of an unknown peer has its own."""

    def __init__(self, limits: Limits, turns: LoopTurns) -> None:
        self._limits = limits
        self._turns = turns
        self._accounts: dict[tuple[int, int], PeerAccount] = {}

    def of(self, peer: PeerIdentity | None) -> PeerAccount:
        """The account of a peer, which may be one from before."""
        if peer is None or not peer.pid:
            return PeerAccount(self._limits)
        key = peer.uid, peer.pid
        account = self._accounts.get(key)
        if account is None:
            account = self._accounts[key] = PeerAccount(self._limits, shared=True, used=self._turns.usual)
        return account

    def tick(self) -> None:
        """Called once a second."""
        for key, account in list(self._accounts.items()):
            account.tick()
            if account.forgettable:
                del self._accounts[key]
