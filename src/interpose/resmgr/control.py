"""Carrying decisions out in running containers: each container has one writer, and only that one writes.

A writer knows what the runtime was last told and what is wanted now; it sends the difference, one call at a time, and
the newest wish wins. What others send about the same container (the kubelet's own updates) goes through the writer's
lock. Shrinking comes before growing: `shrink` takes CPUs away from everybody, and `reach` gives what is wanted. An
update that is on its way counts as well: its container may have what it says.

An update waits for the start of its container, which it must not overtake (`cri.store.starts`). One whose outcome is
not known, or that had no effect, is sent again. One that fails is tried again after a while, at most a minute, and so
is a value that somebody else replaces again and again; a container the runtime does not know ends its writer.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from interpose.core.model.cpuset import CpuSet
from interpose.core.model.resources import LinuxResources
from interpose.core.policy.decision import Assignment
from interpose.core.policy.request import Key
from interpose.cri.store import convert
from interpose.cri.store.starts import Starts
from interpose.log import RateLimited
from interpose.net.grpc.status import DOUBTFUL, Code, RpcError
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)

_PARALLEL: Final = 8
_AT_ONCE: Final = 50  # containers that are looked at without a pause
_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 60.0
_TOLERATED: Final = 2  # times in a row that somebody else may replace a value before it is held back
_CALM: Final = 150.0  # seconds after which a value that stayed counts as nobody else's

Send = Callable[[str, bytes], Awaitable[bytes]]  # CRI method, message -> reply message, or RpcError


@dataclass(slots=True)
class Replacement:
    """How often somebody else has replaced what the policy wrote in a container, and what was found the last time."""

    times: int = 0
    at: float = 0.0
    text: str = ""


class Writer:
    """What one container was told."""

    __slots__ = (
        "attempts",
        "cut",
        "error",
        "id",
        "key",
        "lock",
        "lost",
        "permanent",
        "replaced",
        "retry",
        "sending",
        "sent",
        "task",
        "written",
    )

    def __init__(self, key: Key, container_id: str, written: Assignment | None) -> None:
        self.key = key
        self.id = container_id
        self.written = written  # None: nobody knows
        self.lost = False  # whether that may not be in force, although the runtime took it
        self.replaced = Replacement()
        self.sent = 0  # updates that were begun
        self.sending: Assignment | None = None  # what an update says that is on its way
        self.lock = asyncio.Lock()  # held by whoever tells the runtime something about this container
        self.error = ""  # why the last update failed
        self.permanent = False  # whether the runtime itself said no
        self.attempts = 0  # that failed in a row
        self.retry: asyncio.TimerHandle | None = None
        self.task: asyncio.Task[None] | None = None
        self.cut: asyncio.Task[None] | None = None

    @property
    def has(self) -> Assignment | None:
        """What the container has; None if nobody knows."""
        return None if self.lost else self.written

    @property
    def state(self) -> str:
        """In one word."""
        if self.error:
            return "failing"
        return "writing" if self.task is not None and not self.task.done() else "idle"

    def may_have(self, cpus: CpuSet) -> bool:
        """Whether the container may have one of these CPUs, as far as anybody knows."""
        has = self.has
        if has is None or has.cpus is None:
            return True
        coming = self.sending.cpus if self.sending is not None else None
        return bool(has.cpus & cpus) or bool(coming is not None and coming & cpus)


class Writers:
    """All writers.

    `wanted` tells what a container should have now; `telling` is told what is about to be written, `told` what the
    runtime took; `missing` is told of a container that the runtime denies. `clock` is the loop's.
    """

    def __init__(
        self,
        send: Send,
        wanted: Callable[[Key], Assignment | None],
        *,
        starts: Starts,
        clock: Callable[[], float],
        telling: Callable[[Key, Assignment], None],
        told: Callable[[Key, Assignment], None],
        missing: Callable[[Key, str, RpcError], None],
    ) -> None:
        self.all: dict[Key, Writer] = {}
        self.results: Counter[str] = Counter()
        self.repairs: Counter[str] = Counter()  # by where something else was found than was written
        self._send = send
        self._wanted = wanted
        self._starts = starts
        self._clock = clock
        self._telling = telling
        self._told = told
        self._missing = missing
        self._gate = asyncio.Semaphore(_PARALLEL)
        self._tasks = TaskBag()
        self._remarks = RateLimited(_log)
        self._retired = False

    def add(self, key: Key, container_id: str, written: Assignment | None) -> None:
        """A container is there, and has this."""
        self.drop(key)
        self.all[key] = Writer(key, container_id, written)

    def drop(self, key: Key) -> None:
        """A container is gone."""
        writer = self.all.pop(key, None)
        if writer is not None and writer.retry is not None:
            writer.retry.cancel()

    def found(self, key: Key, actual: Assignment) -> bool:
        """A container turns out to have this by the runtime. True if it is to be brought to what is wanted now.

        Whoever tells it something at this moment knows better.
        """
        writer = self.all.get(key)
        if writer is None or writer.lock.locked() or writer.written == actual:
            return False
        told, writer.written = writer.written, actual
        differing = patch_of(_kept(self._wanted(key), told), actual)
        return differing is None or self._repair(writer, "runtime", described(actual))

    def lost(self, key: Key) -> None:
        """An update may have had no effect, although the runtime took it: it is sent again."""
        if (writer := self.all.get(key)) is not None:
            writer.lost = True
            self.repairs["start"] += 1
            self.want((key,))

    def differs(self, key: Key, text: str) -> None:
        """The cgroup of a container has something else than the runtime was told: `text` says what."""
        if (writer := self.all.get(key)) is not None:
            writer.lost = True
            if self._repair(writer, "cgroup", text):
                self.want((key,))

    def _repair(self, writer: Writer, where: str, text: str) -> bool:
        """Count and tell of something that is not as it was written. False: it is put right after a pause."""
        self.repairs[where] += 1
        replaced, now = writer.replaced, self._clock()
        if now - replaced.at > _CALM:
            replaced.times = 0
        replaced.times += 1
        replaced.at, replaced.text = now, text
        kv = {"container": writer.id, "found": text, "found_in": where}
        if replaced.times == 1:
            self._remarks.log(logging.WARNING, "Container did not have what was written, it is written again", **kv)
        if replaced.times <= _TOLERATED:
            return True
        if replaced.times == _TOLERATED + 1:
            _log.warning("Somebody else replaces values of the policy, they are held back", extra={"kv": kv})
        writer.error = f"somebody else set {text} ({replaced.times} times), found in the {where}"
        self._later(writer, min(_FIRST_PAUSE * 2**replaced.times, _LONGEST_PAUSE))
        return False

    def contested(self) -> list[Writer]:
        """Containers in which somebody else replaces what is written. What stays as written for a while is not one."""
        now = self._clock()
        held = [one for one in self.all.values() if one.replaced.times > _TOLERATED]
        return [one for one in held if now - one.replaced.at <= _CALM]

    # -- wishes

    def want(self, keys: Iterable[Key]) -> list["asyncio.Task[None]"]:
        """Bring containers to what is wanted of them, in the background."""
        tasks: list[asyncio.Task[None]] = []
        for key in () if self._retired else keys:
            writer = self.all.get(key)
            if writer is None:
                continue
            # What an update says that is on its way may be an older wish: somebody has to look when it has arrived.
            if patch_of(self._wanted(key), writer.has) is None and writer.sending is None:
                _forgive(writer)
                continue
            if writer.task is None or writer.task.done():
                writer.task = self._tasks.spawn(self._bring(writer), name=f"update container {writer.id}")
            tasks.append(writer.task)
        return tasks

    async def reach(self, keys: Iterable[Key], timeout: float) -> bool:
        """The same, and wait for it; False if it takes longer. It goes on all the same."""
        clock = asyncio.get_running_loop().time
        end = clock() + timeout
        tasks: list[asyncio.Task[None]] = []
        async for some in _slices(keys):
            tasks += self.want(some)
        return await _within(tasks, end - clock())

    async def shrink(self, keys: Iterable[Key], timeout: float) -> bool:
        """Take away what containers have and should not; what they have yet to get comes with `reach`.

        One that keeps nothing of what it has cannot be shrunk: it moves as a whole, once the others have made room.
        """
        clock = asyncio.get_running_loop().time
        end = clock() + timeout
        keys = tuple(keys)
        cuts: list[asyncio.Task[None]] = []
        async for some in _slices(keys):
            cuts += self._cuts(some)
        in_time = await _within(cuts, end - clock())
        moves: list[asyncio.Task[None]] = []
        async for some in _slices(keys):
            moves += self.want(key for key in some if self._displaced(key))
        return await _within(moves, end - clock()) and in_time

    def _cuts(self, keys: Sequence[Key]) -> list["asyncio.Task[None]"]:
        tasks: list[asyncio.Task[None]] = []
        for writer in () if self._retired else tuple(self.all[key] for key in keys if key in self.all):
            if has_too_much(self._wanted(writer.key), writer):
                if writer.cut is None or writer.cut.done():
                    writer.cut = self._tasks.spawn(self._cut(writer), name=f"shrink container {writer.id}")
                tasks.append(writer.cut)
        return tasks

    def exceeds(self, key: Key) -> bool:
        """Whether a container has CPUs that it should not have, or may get them by an update that is on its way."""
        writer = self.all.get(key)
        if writer is None:
            return False
        wanted = self._wanted(key)
        return has_too_much(wanted, writer) or displaced(wanted, writer.has)

    def resting(self) -> list[Key]:
        """Containers of which no update has failed: the others are tried again after their pause."""
        return [key for key, writer in self.all.items() if writer.retry is None]

    def _displaced(self, key: Key) -> bool:
        writer = self.all.get(key)
        return writer is not None and displaced(self._wanted(key), writer.has)

    def retire(self) -> None:
        """Begin nothing any more: somebody else writes."""
        self._retired = True

    async def close(self) -> None:
        """Leave nothing behind."""
        for key in tuple(self.all):
            self.drop(key)
        await self._tasks.cancel()

    # -- work

    async def _bring(self, writer: Writer) -> None:
        await self._work(writer, self._wanted)

    async def _cut(self, writer: Writer) -> None:
        await self._work(writer, lambda key: reduced(self._wanted(key), writer.has))

    async def _work(self, writer: Writer, target_of: Callable[[Key], Assignment | None]) -> None:
        """Send updates until the container has the target."""
        busy = True
        while busy:
            # Before the rest: who waits for a start must not keep others from working, or the kubelet from writing.
            await self._starts.over(writer.id)
            async with writer.lock, self._gate:
                busy = await self._step(writer, target_of)

    async def _step(self, writer: Writer, target_of: Callable[[Key], Assignment | None]) -> bool:
        """Send one update. False: there is none to be sent, or it failed."""
        if self.all.get(writer.key) is not writer or self._retired:
            return False
        if self._starts.in_flight(writer.id):
            return True  # it has begun meanwhile
        target = target_of(writer.key)
        patch = patch_of(target, writer.has)
        return target is not None and patch is not None and await self._tell(writer, target, patch)

    async def _tell(self, writer: Writer, target: Assignment, patch: LinuxResources) -> bool:
        # Whoever finds out that this update had no effect says so while it is on its way.
        lost, writer.lost = writer.lost, False
        writer.sent += 1
        writer.sending = target
        self._telling(writer.key, _said(target, patch))
        try:
            await self._send("UpdateContainerResources", convert.update_resources(writer.id, patch))
        except RpcError as error:
            writer.lost |= lost
            self._failed(writer, error)
            return False
        except asyncio.CancelledError:
            writer.written = None
            raise
        finally:
            writer.sending = None
        self.results["ok"] += 1
        writer.written = target
        self._told(writer.key, target)
        self.recovered(writer)
        return True

    def recovered(self, writer: Writer) -> None:
        """The runtime took an update for this container."""
        if writer.error:
            _log.info("Container updates succeed again", extra={"kv": {"container": writer.id}})
        _forgive(writer)

    def _failed(self, writer: Writer, error: RpcError) -> None:
        if error.code is Code.NOT_FOUND:
            self.results["missing"] += 1
            self._missing(writer.key, writer.id, error)
            return
        self.results["doubtful" if error.code in DOUBTFUL else "failed"] += 1
        if error.code in DOUBTFUL:
            writer.written = None
        writer.error, writer.permanent = str(error), error.code not in DOUBTFUL
        self._later(writer, min(_FIRST_PAUSE * 2**writer.attempts, _LONGEST_PAUSE))
        writer.attempts += 1
        text = "Container could not be updated, it is tried again"
        self._remarks.log(logging.WARNING, text, key=writer.id, container=writer.id, err=writer.error)
        if writer.permanent:
            self._missing(writer.key, writer.id, error)

    def _later(self, writer: Writer, pause: float) -> None:
        if writer.retry is not None:
            writer.retry.cancel()
        writer.retry = asyncio.get_running_loop().call_later(pause, self._again, writer)

    def _again(self, writer: Writer) -> None:
        writer.retry = None
        if self.all.get(writer.key) is writer:
            self.want((writer.key,))

    def retry_now(self) -> None:
        """The runtime is back: whatever failed is due."""
        for writer in self.all.values():
            if writer.error:
                writer.attempts = 0
        self.want(tuple(self.all))


def _forgive(writer: Writer) -> None:
    """It has what it should have, so what failed before does not matter."""
    writer.error, writer.attempts, writer.permanent = "", 0, False


def reduced(wanted: Assignment | None, written: Assignment | None) -> Assignment | None:
    """What a container should have before others get what it loses; None if it loses nothing, or would lose all."""
    if wanted is None or wanted.cpus is None:
        return None
    if written is None or written.cpus is None:
        return wanted
    rest = wanted.cpus & written.cpus
    return None if not rest or rest == written.cpus else replace(written, cpus=rest)


def has_too_much(wanted: Assignment | None, writer: Writer) -> bool:
    """Whether a container has to lose CPUs, or will have to when an update that is on its way has arrived."""
    if reduced(wanted, writer.has) is not None:
        return True
    coming = writer.sending.cpus if writer.sending is not None else None
    return wanted is not None and wanted.cpus is not None and coming is not None and not coming <= wanted.cpus


def displaced(wanted: Assignment | None, written: Assignment | None) -> bool:
    """Whether a container has to leave all the CPUs it has."""
    if wanted is None or wanted.cpus is None or written is None or written.cpus is None:
        return False
    return not wanted.cpus & written.cpus


def patch_of(target: Assignment | None, written: Assignment | None) -> LinuxResources | None:
    """What an update has to say; None if there is nothing to say."""
    if target is None:
        return None
    told = written if written is not None else Assignment()
    cpus = _news(target.cpus, told.cpus)
    mems = _news(target.mems, told.mems)
    shares = target.shares if target.shares is not None and target.shares != told.shares else 0
    if not cpus and not mems and not shares:
        return None
    return LinuxResources(cpuset_cpus=cpus, cpuset_mems=mems, cpu_shares=shares)


def _said(target: Assignment, patch: LinuxResources) -> Assignment:
    """What of a target is in an update: the rest of it is what the container has by others."""
    return Assignment(
        cpus=target.cpus if patch.cpuset_cpus else None,
        mems=target.mems if patch.cpuset_mems else None,
        shares=target.shares if patch.cpu_shares else None,
    )


def _kept(wanted: Assignment | None, told: Assignment | None) -> Assignment | None:
    """What is wanted of that which a container was told."""
    if wanted is None or told is None:
        return None
    return Assignment(
        cpus=wanted.cpus if wanted.cpus == told.cpus else None,
        mems=wanted.mems if wanted.mems == told.mems else None,
        shares=wanted.shares if wanted.shares == told.shares else None,
    )


def described(has: Assignment) -> str:
    """What a container has, in words."""
    words = (("CPUs", has.cpus), ("memory nodes", has.mems), ("CPU shares", has.shares))
    return ", ".join(f"{name} {value}" for name, value in words if value is not None) or "no CPU set"


def _news(target: CpuSet | None, told: CpuSet | None) -> str:
    return str(target) if target is not None and target != told else ""


async def _slices(keys: Iterable[Key]) -> AsyncIterator[tuple[Key, ...]]:
    """Some at a time, and others have a turn in between: a node has hundreds of containers."""
    every = tuple(keys)
    for start in range(0, len(every), _AT_ONCE):
        if start:
            await asyncio.sleep(0)
        yield every[start : start + _AT_ONCE]


async def _within(tasks: list["asyncio.Task[None]"], timeout: float) -> bool:
    if not tasks:
        return True
    _, late = await asyncio.wait(tasks, timeout=max(timeout, 0.0))
    return not late
