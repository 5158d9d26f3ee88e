"""Turns at the event loop: nobody keeps it from the others, whatever one peer sends and over how many connections.

Connections do their work in slices (`net.h2.connection`). A peer, that is a process at the other end, has one account
for all its connections. What a read takes is charged to it; once its share is used up, everything else that comes from
this peer waits for the next turn of the loop, when bytes of others have been read too. Accounts that wait are served
one slice each, one after the other, for a short time in each turn. So there is no rate to set: a peer that is alone has
the whole loop, and one of many has its part. A backend that everybody shares comes first: answers end calls.

An account also has the guard that counts frames without progress, and outlives its connections as long as that
remembers something: to hang up and dial again is no way out.
"""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, Protocol

from interpose.net.h2.limits import Guard, Limits

# Units of `net.h2.connection`, about 0.1 us each: what the connections of one peer may do in a turn as soon as bytes
# are there. Twice a slice: a client with a hundred calls in flight does not notice.
_SHARE: Final = 100_000
# So many peers may use up their share in a turn; after them a read longer than this waits, whoever it is from.
_BUSY_PEERS: Final = 4
SHORT_READ: Final = 1024
# How long those that wait are served in one turn of the loop, in seconds. It ends with a slice, which takes 1 to 2 ms.
_TURN: Final = 0.002
# A peer that was not done after so many slices in a second asks for more than its share, and for how long, in seconds,
# that is remembered. A thousand calls at once are a few slices.
_PATIENCE: Final = 4
_MEMORY: Final = 10


class Worker(Protocol):
    """A connection with work left."""

    def work(self) -> bool:
        """Do one slice. True if there is more."""


class PeerAccount:
    """What the connections of one peer have in common. `left` is negative when its share of this turn is used up."""

    __slots__ = ("_waited", "common", "connections", "guard", "left", "memory", "shared", "waiting")

    def __init__(self, limits: Limits, *, shared: bool = False) -> None:
        """`shared` if other connections may come to have it, and somebody else ticks it."""
        self.guard = Guard(limits)
        self.shared = shared
        self.common = False  # everybody waits for what comes from there: it is served before the others
        self.left = _SHARE
        self.connections = 0
        self.memory = 0  # seconds for which it counts as one that asks for more: its calls are kept apart
        self.waiting: deque[Worker] = deque()
        self._waited = 0

    def had_to_wait(self) -> None:
        """It was not done with a slice, or its share was used up."""
        self._waited += 1
        if self._waited > _PATIENCE:
            self.remember()

    def remember(self) -> None:
        """It has asked for more than its share."""
        self.memory = _MEMORY

    def tick(self) -> None:
        """A second has passed."""
        self.guard.tick()
        self._waited = 0
        if self.memory:
            self.memory -= 1

    @property
    def forgettable(self) -> bool:
        """Nothing of it is here, and nothing is held against it."""
        return not (self.connections or self.memory or self.waiting or self.guard.exceeded)


class LoopTurns:
    """Who waits for a turn of the loop. One per hub."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting: OrderedDict[PeerAccount, None] = OrderedDict()
        self._spent: list[PeerAccount] = []
        self._armed = False
        self.crowded = False  # so many have used up their share that long reads wait, whoever they are from

    def spent(self, account: PeerAccount) -> None:
        """This account has used up its share: it gets the next one in the next turn."""
        if account not in self._spent:
            self._spent.append(account)
            self.crowded = len(self._spent) >= _BUSY_PEERS
            self._arm()

    def wait(self, account: PeerAccount, worker: Worker, *, first: bool = False) -> None:
        """Let this worker go on when it is its account's turn, `first` before the others of this account. It stands
        there once."""
        if first:
            account.waiting.appendleft(worker)
        else:
            account.waiting.append(worker)
        self._queue(account)
        self._arm()

    def _queue(self, account: PeerAccount) -> None:
        self._waiting[account] = None
        if account.common:
            self._waiting.move_to_end(account, last=False)

    def _arm(self) -> None:
        if not self._armed:
            self._armed = True
            asyncio.get_running_loop().call_soon(self._serve)

    def _serve(self) -> None:
        """A new turn of the loop."""
        self._armed = False
        for account in self._spent:
            account.left = _SHARE
        self._spent.clear()
        self.crowded = False
        waiting = self._waiting
        end = self._clock() + _TURN
        while waiting:
            account, _ = waiting.popitem(last=False)
            worker = account.waiting.popleft()
            if worker.work():
                account.had_to_wait()
                account.waiting.appendleft(worker)  # what one has left is soon done, and then out of memory
            if account.waiting:
                self._queue(account)
            if self._clock() >= end:
                break
        if waiting:
            self._arm()


class PeerIdentity(Protocol):
    """Who is at the other end, as the kernel saw it."""

    @property
    def pid(self) -> int: ...

    @property
    def uid(self) -> int: ...


class PeerAccounts:
    """The accounts of those who connect to one socket, by user and process. Nobody's is that of one connection."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._accounts: dict[tuple[int, int], PeerAccount] = {}

    def of(self, peer: PeerIdentity | None) -> PeerAccount:
        """The account of this peer, which may have one from before."""
        if peer is None or not peer.pid:
            return PeerAccount(self._limits)
        key = peer.uid, peer.pid
        account = self._accounts.get(key)
        if account is None:
            account = self._accounts[key] = PeerAccount(self._limits, shared=True)
        return account

    def tick(self) -> None:
        """A second has passed."""
        for key, account in list(self._accounts.items()):
            account.tick()
            if account.forgettable:
                del self._accounts[key]
