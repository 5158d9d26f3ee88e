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


async def test_who_used_the_least_comes_first() -> None:
    """Slice by slice: so all get equal parts, however many connections each has, whoever came first."""
    log: list[str] = []
    clock = Clock()
    turns = LoopTurns(clock)
    many, one = PeerAccount(LIMITS), PeerAccount(LIMITS, used=15_000)
    for number in range(3):
        turns.wait(many, Job(f"many{number}", 2, log, clock.pass_by))
    turns.wait(one, Job("one", 3, log, clock.pass_by))
    await idle()
    assert log == ["many0", "many0", "one", "many1", "one", "many1", "one", "many2", "many2"]
    assert (many.used, one.used) == (60_000, 45_000)
    assert not many.waiting


async def test_many_processes_do_not_come_before_one_that_asks_for_little() -> None:
    """Whoever it is that has work for the loop in every turn: who has little has it done in the next one."""
    log: list[str] = []
    clock = Clock()
    turns = LoopTurns(clock)
    for number in range(50):
        turns.wait(PeerAccount(LIMITS, used=200_000), Job(f"busy{number}", 10, log, clock.pass_by))
    for _ in range(3):
        neighbour = PeerAccount(LIMITS, used=50_000)
        turns.wait(neighbour, Job("neighbour", 1, log, clock.pass_by))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert log[0] == "neighbour"
        assert len(log) == 2 * 2
        log.clear()
    assert 200_000 <= turns.usual < 220_000


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
    """A few slices are nothing; a lot of time in a second is, for some seconds."""
    clock = Clock()
    turns = LoopTurns(clock)
    account = PeerAccount(LIMITS)
    turns.wait(account, Job("few", 20, [], clock.pass_by))
    await idle()
    account.tick()
    assert not account.memory
    assert account.used == 100_000
    turns.wait(account, Job("more", 40, [], clock.pass_by))
    await idle(30)
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


async def test_something_is_left_again_in_the_next_turn() -> None:
    """When all that may be done at once is done, others wait for one turn, not for a time."""
    turns = LoopTurns()
    left = turns.left
    turns.left = -5
    turns.spent()
    turns.spent()
    assert turns.left == -5
    await asyncio.sleep(0)
    assert turns.left == left


async def test_newcomers_begin_as_those_who_wait() -> None:
    """To fork is no way to the front: a process nobody knows has used as much as the others there, if any wait."""
    turns = LoopTurns()
    accounts = PeerAccounts(LIMITS, turns)
    assert accounts.of(PeerCredentials(1, 0, 0)).used == 0
    common = PeerAccount(LIMITS)
    common.common = True
    turns.wait(common, Job("backend", 1, []))
    for used in (100_000, 300_000):
        turns.wait(PeerAccount(LIMITS, used=used), Job("busy", 1, []))
    assert accounts.of(PeerCredentials(2, 0, 0)).used == 200_000
    assert accounts.of(PeerCredentials(1, 0, 0)).used == 0
    await idle()
    assert accounts.of(PeerCredentials(3, 0, 0)).used == 0


def test_account_is_of_user_and_process() -> None:
    """All connections of a process have one; a connection nobody is known of has its own."""
    accounts = PeerAccounts(LIMITS, LoopTurns())
    one = accounts.of(PeerCredentials(1, 0, 0))
    assert accounts.of(PeerCredentials(1, 0, 0)) is one
    assert accounts.of(PeerCredentials(1, 5, 0)) is not one
    assert accounts.of(PeerCredentials(2, 0, 0)) is not one
    assert accounts.of(None) is not accounts.of(None)
    assert accounts.of(PeerCredentials(0, 0, 0)) is not accounts.of(PeerCredentials(0, 0, 0))


def test_account_is_forgotten_when_nothing_is_left_of_it() -> None:
    """Not while it has connections, and not while something is held against it."""
    accounts = PeerAccounts(LIMITS, LoopTurns())
    peer = PeerCredentials(1, 0, 0)
    account = accounts.of(peer)
    account.connections = 1
    accounts.tick()
    account.connections = 0
    account.memory = 2
    account.guard.idle("work", 10)
    accounts.tick()
    assert accounts.of(peer) is account
    account.memory = 0
    account.used = 4000
    accounts.tick()
    assert accounts.of(peer) is account
    accounts.tick()
    assert accounts.of(peer) is not account
