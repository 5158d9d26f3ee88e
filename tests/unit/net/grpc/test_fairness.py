"""Turns at the loop: shares, order, and what is remembered of a peer."""

import asyncio
from collections.abc import Callable

from interpose.host.peer_credentials import PeerCredentials
from interpose.net.grpc.fairness import LoopTurns, PeerAccount, PeerAccounts
from interpose.net.h2.limits import Limits

LIMITS = Limits(idle_frames=10, resets=10)


class Job:
    """Work of so many slices; each is written down."""

    def __init__(self, name: str, slices: int, log: list[str], after: Callable[[], None] | None = None) -> None:
        self._name = name
        self._left = slices
        self._log = log
        self._after = after

    def work(self) -> bool:
        self._log.append(self._name)
        self._left -= 1
        if self._after is not None:
            self._after()
        return self._left > 0


class Clock:
    """Time that passes when somebody says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def pass_by(self) -> None:
        self.now += 0.001


async def idle(rounds: int = 20) -> None:
    """Let the loop turn."""
    for _ in range(rounds):
        await asyncio.sleep(0)


async def test_accounts_take_turns() -> None:
    """One slice for each peer, however many connections it has."""
    log: list[str] = []
    turns = LoopTurns()
    many, one = PeerAccount(LIMITS), PeerAccount(LIMITS)
    for number in range(3):
        turns.wait(many, Job(f"many{number}", 2, log))
    turns.wait(one, Job("one", 3, log))
    await idle()
    assert log == ["many0", "one", "many0", "one", "many1", "one", "many1", "many2", "many2"]
    assert not many.waiting


async def test_some_come_first() -> None:
    """What ends connections comes before what others of the same peer still want."""
    log: list[str] = []
    turns = LoopTurns()
    account = PeerAccount(LIMITS)
    turns.wait(account, Job("reading", 1, log))
    turns.wait(account, Job("gone", 2, log), first=True)
    await idle()
    assert log == ["gone", "gone", "reading"]


async def test_what_everybody_waits_for_comes_before_all() -> None:
    """Whoever waits already, a connection that all share is read to its end first."""
    log: list[str] = []
    turns = LoopTurns()
    common = PeerAccount(LIMITS)
    common.common = True
    turns.wait(PeerAccount(LIMITS), Job("client", 2, log))
    turns.wait(common, Job("backend", 3, log))
    await idle()
    assert log == ["backend", "backend", "backend", "client", "client"]


async def test_asking_for_more_is_remembered() -> None:
    """Some slices are nothing; many in a second are, for some seconds."""
    turns = LoopTurns()
    account = PeerAccount(LIMITS)
    turns.wait(account, Job("few", 4, []))
    await idle()
    account.tick()
    turns.wait(account, Job("few", 4, []))
    await idle()
    assert not account.memory
    turns.wait(account, Job("more", 4, []))
    await idle()
    remembered = account.memory
    for _ in range(remembered):
        account.tick()
    assert (remembered > 1, account.memory) == (True, 0)


async def test_others_of_the_loop_come_in_between() -> None:
    """After a short time of work the loop does what else there is; the rest follows in the next turn."""
    log: list[str] = []
    clock = Clock()
    turns = LoopTurns(clock)
    turns.wait(PeerAccount(LIMITS), Job("slice", 6, log, clock.pass_by))
    asyncio.get_running_loop().call_soon(log.append, "other")
    await idle()
    assert log == ["slice", "slice", "other", "slice", "slice", "slice", "slice"]


async def test_share_comes_back_in_the_next_turn() -> None:
    """A peer that used up its share waits for one turn, not for a time."""
    turns = LoopTurns()
    account = PeerAccount(LIMITS)
    share = account.left
    account.left = -5
    turns.spent(account)
    turns.spent(account)
    assert account.left == -5
    await asyncio.sleep(0)
    assert account.left == share


async def test_many_busy_peers_make_a_crowd() -> None:
    """When several have used up their share, long reads of anybody wait until the next turn."""
    turns = LoopTurns()
    crowded = []
    for _ in range(4):
        turns.spent(PeerAccount(LIMITS))
        crowded.append(turns.crowded)
    await asyncio.sleep(0)
    crowded.append(turns.crowded)
    assert crowded == [False, False, False, True, False]


def test_account_is_of_user_and_process() -> None:
    """All connections of a process have one; a connection nobody is known of has its own."""
    accounts = PeerAccounts(LIMITS)
    one = accounts.of(PeerCredentials(1, 0, 0))
    assert accounts.of(PeerCredentials(1, 0, 0)) is one
    assert accounts.of(PeerCredentials(1, 5, 0)) is not one
    assert accounts.of(PeerCredentials(2, 0, 0)) is not one
    assert accounts.of(None) is not accounts.of(None)
    assert accounts.of(PeerCredentials(0, 0, 0)) is not accounts.of(PeerCredentials(0, 0, 0))


def test_account_is_forgotten_when_nothing_is_left_of_it() -> None:
    """Not while it has connections, and not while something is held against it."""
    accounts = PeerAccounts(LIMITS)
    peer = PeerCredentials(1, 0, 0)
    account = accounts.of(peer)
    account.connections = 1
    accounts.tick()
    account.connections = 0
    account.memory = 2
    account.guard.idle("work", 10)
    accounts.tick()
    assert accounts.of(peer) is account
    accounts.tick()
    assert accounts.of(peer) is not account
