"""Enforcing decisions in running containers: each container has one updater, and only that one updates it.

An updater knows what was last sent to the runtime and what the container should have now; it sends the difference, one
call at a time, and the newest decision wins. What others send about the same container (the kubelet's own updates)
takes the updater's lock. Shrinking comes before growing: `shrink` takes CPUs away from all containers, and `apply`
gives them what they should have. An update that is on its way counts as well: its container may have what it says.

An update waits for the start of its container, which it must not overtake (`cri.store.starts`). One whose outcome is
unknown, or that had no effect, is sent again. One that fails is tried again after a while, at most a minute, and so is
a value that another program replaces again and again; a container the runtime does not know ends its updater.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from interpose.core.backoff import Backoff
from interpose.core.model.cpuset import CpuSet
from interpose.core.model.resources import LinuxResources
from interpose.core.policy.decision import NO_QUOTA, Assignment
from interpose.core.policy.request import Key
from interpose.cri.store import convert
from interpose.cri.store.starts import StartTracker
from interpose.log import RateLimited
from interpose.net.grpc.status import OUTCOME_UNKNOWN, Code, RpcError
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)

_MAX_PARALLEL: Final = 8
_AT_ONCE: Final = 50  # containers that are handled without a pause
_BACKOFF: Final = Backoff(0.25, 60.0)
_TOLERATED: Final = 2  # times in a row that another program may replace a value before it is held back
_CONTEST_WINDOW: Final = 150.0  # seconds after which a value that stayed is not contested any more

Send = Callable[[str, bytes], Awaitable[bytes]]  # CRI method, message -> reply message, or RpcError


@dataclass(slots=True)
class Replacement:
    """How often another program has replaced what the policy wrote in a container, and what was found the last time."""

    times: int = 0
    at: float = 0.0
    text: str = ""


class ContainerUpdater:
    """What one container was sent, and what is being sent."""

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
        self.written = written  # None: unknown
        self.lost = False  # whether that may not be in force, although the runtime took it
        self.replaced = Replacement()
        self.sent = 0  # updates that were begun
        self.sending: Assignment | None = None  # what an update on its way says
        self.lock = asyncio.Lock()  # held while the runtime is sent an update of this container
        self.error = ""  # why the last update failed
        self.permanent = False  # whether the runtime itself refused
        self.attempts = 0  # updates that failed in a row
        self.retry: asyncio.TimerHandle | None = None
        self.task: asyncio.Task[None] | None = None
        self.cut: asyncio.Task[None] | None = None

    @property
    def has(self) -> Assignment | None:
        """What the container has; None if that is unknown."""
        return None if self.lost else self.written

    @property
    def state(self) -> str:
        """`failing`, `writing` or `idle`, as the admin socket shows it."""
        if self.error:
            return "failing"
        return "writing" if self.task is not None and not self.task.done() else "idle"

    def may_have(self, cpus: CpuSet) -> bool:
        """Whether the container may have one of these CPUs, as far as is known."""
        has = self.has
        if has is None or has.cpus is None:
            return True
        coming = self.sending.cpus if self.sending is not None else None
        return bool(has.cpus & cpus) or bool(coming is not None and coming & cpus)


class ContainerUpdaters:
    """The updaters of all containers.

    `desired` returns what a container should have now, None if nothing is known of it. `before_move` is awaited with
    the id of a container that is about to lose memory nodes. `on_send` is called with what is about to be sent,
    `on_sent` with what the runtime took, `on_missing` when the runtime refuses to update a container. `clock` is the
    loop's.
    """

    def __init__(
        self,
        send: Send,
        desired: Callable[[Key], Assignment | None],
        *,
        starts: StartTracker,
        clock: Callable[[], float],
        on_send: Callable[[Key, Assignment], None],
        on_sent: Callable[[Key, Assignment], None],
        on_missing: Callable[[Key, str, RpcError], None],
        before_move: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self.by_key: dict[Key, ContainerUpdater] = {}
        self.results: Counter[str] = Counter()
        self.repairs: Counter[str] = Counter()  # by where something else was found than was written
        self._send = send
        self.desired = desired
        self._starts = starts
        self._clock = clock
        self._on_send = on_send
        self._on_sent = on_sent
        self._on_missing = on_missing
        self._before_move = before_move
        self._gate = asyncio.Semaphore(_MAX_PARALLEL)
        self._tasks = TaskBag()
        self._rate_limited = RateLimited(_log)
        self._retired = False

    def add(self, key: Key, container_id: str, written: Assignment | None) -> None:
        """Begin to update a container, which has this; None: unknown."""
        self.drop(key)
        self.by_key[key] = ContainerUpdater(key, container_id, written)

    def drop(self, key: Key) -> None:
        """Forget a container that is gone."""
        updater = self.by_key.pop(key, None)
        if updater is not None and updater.retry is not None:
            updater.retry.cancel()

    def observe(self, key: Key, actual: Assignment) -> bool:
        """The runtime reports that a container has this. True if it should be updated now.

        Ignored while an update of the container is on its way, which knows better.
        """
        updater = self.by_key.get(key)
        if updater is None or updater.lock.locked() or updater.written == actual:
            return False
        before, updater.written = updater.written, actual
        differing = patch_of(_unchanged_part(self.desired(key), before), actual)
        return differing is None or self._repair(updater, "runtime", describe(actual))

    def mark_lost(self, key: Key) -> None:
        """An update may have had no effect, although the runtime took it: it is sent again."""
        if (updater := self.by_key.get(key)) is not None:
            updater.lost = True
            self.repairs["start"] += 1
            self.schedule((key,))

    def mark_differing(self, key: Key, text: str) -> None:
        """The cgroup of a container has something else than the runtime was sent: `text` says what."""
        if (updater := self.by_key.get(key)) is not None:
            updater.lost = True
            if self._repair(updater, "cgroup", text):
                self.schedule((key,))

    def _repair(self, updater: ContainerUpdater, where: str, text: str) -> bool:
        """Count and log something that is not as it was written. False: it is corrected after a pause."""
        self.repairs[where] += 1
        replaced, now = updater.replaced, self._clock()
        if now - replaced.at > _CONTEST_WINDOW:
            replaced.times = 0
        replaced.times += 1
        replaced.at, replaced.text = now, text
        kv = {"container": updater.id, "found": text, "found_in": where}
        if replaced.times == 1:
            self._rate_limited.log(
                logging.WARNING, "Container did not have what was written, it is written again", **kv
            )
        if replaced.times <= _TOLERATED:
            return True
        if replaced.times == _TOLERATED + 1:
            _log.warning("Somebody else replaces values of the policy, they are held back", extra={"kv": kv})
        updater.error = f"somebody else set {text} ({replaced.times} times), found in the {where}"
        self._retry_later(updater, _BACKOFF.delay(replaced.times + 1))
        return False

    def list_contested(self) -> list[ContainerUpdater]:
        """Updaters whose values another program replaces; not those whose values stayed for a while."""
        now = self._clock()
        replaced = [updater for updater in self.by_key.values() if updater.replaced.times > _TOLERATED]
        return [updater for updater in replaced if now - updater.replaced.at <= _CONTEST_WINDOW]

    # -- beginning updates

    def schedule(self, keys: Iterable[Key]) -> list["asyncio.Task[None]"]:
        """Begin to update containers that do not have what they should; returns a task for each."""
        tasks: list[asyncio.Task[None]] = []
        for key in () if self._retired else keys:
            updater = self.by_key.get(key)
            if updater is None:
                continue
            # What an update on its way says may be outdated: it is compared again when it has arrived.
            if patch_of(self.desired(key), updater.has) is None and updater.sending is None:
                _clear_error(updater)
                continue
            if updater.task is None or updater.task.done():
                updater.task = self._tasks.spawn(self._update(updater), name=f"update container {updater.id}")
            tasks.append(updater.task)
        return tasks

    async def apply(self, keys: Iterable[Key], timeout: float) -> bool:
        """Like `schedule`, and wait; False if it takes longer than `timeout` seconds. It goes on all the same."""
        clock = asyncio.get_running_loop().time
        end = clock() + timeout
        tasks: list[asyncio.Task[None]] = []
        async for some in _slices(keys):
            tasks += self.schedule(some)
        return await _wait_all(tasks, end - clock())

    async def shrink(self, keys: Iterable[Key], timeout: float) -> bool:
        """Take away what containers have and should not; what they have yet to get comes with `apply`.

        A container that keeps nothing of what it has cannot be shrunk: it moves as a whole, once the others have made
        room.
        """
        clock = asyncio.get_running_loop().time
        end = clock() + timeout
        keys = tuple(keys)
        cuts: list[asyncio.Task[None]] = []
        async for some in _slices(keys):
            cuts += self._schedule_cuts(some)
        in_time = await _wait_all(cuts, end - clock())
        moves: list[asyncio.Task[None]] = []
        async for some in _slices(keys):
            moves += self.schedule(key for key in some if self._displaced(key))
        return await _wait_all(moves, end - clock()) and in_time

    def _schedule_cuts(self, keys: Sequence[Key]) -> list["asyncio.Task[None]"]:
        tasks: list[asyncio.Task[None]] = []
        for updater in () if self._retired else tuple(self.by_key[key] for key in keys if key in self.by_key):
            if has_excess(self.desired(updater.key), updater):
                if updater.cut is None or updater.cut.done():
                    updater.cut = self._tasks.spawn(self._cut(updater), name=f"shrink container {updater.id}")
                tasks.append(updater.cut)
        return tasks

    def exceeds(self, key: Key) -> bool:
        """Whether a container has CPUs that it should not have, or may get them by an update that is on its way."""
        updater = self.by_key.get(key)
        if updater is None:
            return False
        desired = self.desired(key)
        return has_excess(desired, updater) or is_displaced(desired, updater.has)

    def without_retry(self) -> list[Key]:
        """Containers of which no update has failed: the others are tried again after their pause."""
        return [key for key, updater in self.by_key.items() if updater.retry is None]

    def _displaced(self, key: Key) -> bool:
        updater = self.by_key.get(key)
        return updater is not None and is_displaced(self.desired(key), updater.has)

    def retire(self) -> None:
        """Begin no more updates: a successor sends them."""
        self._retired = True

    async def close(self) -> None:
        """Cancel all updates and retries."""
        for key in tuple(self.by_key):
            self.drop(key)
        await self._tasks.cancel()

    # -- sending

    async def _update(self, updater: ContainerUpdater) -> None:
        await self._work(updater, self.desired)

    async def _cut(self, updater: ContainerUpdater) -> None:
        await self._work(updater, lambda key: shrink_target(self.desired(key), updater.has))

    async def _work(self, updater: ContainerUpdater, target_of: Callable[[Key], Assignment | None]) -> None:
        """Send updates until the container has the target."""
        busy = True
        while busy:
            # Before the lock and the gate: waiting for a start must not block other updates, or the kubelet's.
            await self._starts.wait_for_start(updater.id)
            async with updater.lock, self._gate:
                busy = await self._step(updater, target_of)

    async def _step(self, updater: ContainerUpdater, target_of: Callable[[Key], Assignment | None]) -> bool:
        """Send one update. False: there is none to be sent, or it failed."""
        if self.by_key.get(updater.key) is not updater or self._retired:
            return False
        if self._starts.in_flight(updater.id):
            return True  # it has begun meanwhile
        target = target_of(updater.key)
        patch = patch_of(target, updater.has)
        return target is not None and patch is not None and await self._send_update(updater, target, patch)

    async def _send_update(self, updater: ContainerUpdater, target: Assignment, patch: LinuxResources) -> bool:
        # `lost` may be set again while this update is on its way.
        lost, updater.lost = updater.lost, False
        updater.sent += 1
        updater.sending = target
        self._on_send(updater.key, _sent_part(target, patch))
        try:
            await self.prepare(updater, target)
            await self._send("UpdateContainerResources", convert.update_resources(updater.id, patch))
        except RpcError as error:
            updater.lost |= lost
            self._on_failure(updater, error)
            return False
        except asyncio.CancelledError:
            updater.written = None
            raise
        finally:
            updater.sending = None
        self.results["ok"] += 1
        updater.written = target
        self._on_sent(updater.key, target)
        self.mark_recovered(updater)
        return True

    async def prepare(self, updater: ContainerUpdater, target: Assignment) -> None:
        """To be awaited by whoever sends an update, under the lock of its updater."""
        if self._before_move is not None and _loses_memory(target, updater.written):
            await self._before_move(updater.id)

    def mark_recovered(self, updater: ContainerUpdater) -> None:
        """The runtime took an update for this container."""
        if updater.error:
            _log.info("Container updates succeed again", extra={"kv": {"container": updater.id}})
        _clear_error(updater)

    def _on_failure(self, updater: ContainerUpdater, error: RpcError) -> None:
        if error.code is Code.NOT_FOUND:
            self.results["missing"] += 1
            self._on_missing(updater.key, updater.id, error)
            return
        self.results["doubtful" if error.code in OUTCOME_UNKNOWN else "failed"] += 1
        if error.code in OUTCOME_UNKNOWN:
            updater.written = None
        updater.error, updater.permanent = str(error), error.code not in OUTCOME_UNKNOWN
        updater.attempts += 1
        self._retry_later(updater, _BACKOFF.delay(updater.attempts))
        text = "Container could not be updated, it is tried again"
        self._rate_limited.log(logging.WARNING, text, key=updater.id, container=updater.id, err=updater.error)
        if updater.permanent:
            self._on_missing(updater.key, updater.id, error)

    def _retry_later(self, updater: ContainerUpdater, pause: float) -> None:
        if updater.retry is not None:
            updater.retry.cancel()
        updater.retry = asyncio.get_running_loop().call_later(pause, self._retry, updater)

    def _retry(self, updater: ContainerUpdater) -> None:
        updater.retry = None
        if self.by_key.get(updater.key) is updater:
            self.schedule((updater.key,))

    def retry_now(self) -> None:
        """Send all failed updates again at once: the runtime is back."""
        for updater in self.by_key.values():
            if updater.error:
                updater.attempts = 0
        self.schedule(tuple(self.by_key))


def _clear_error(updater: ContainerUpdater) -> None:
    """The container has what it should have, so what failed before does not matter."""
    updater.error, updater.attempts, updater.permanent = "", 0, False


def shrink_target(desired: Assignment | None, written: Assignment | None) -> Assignment | None:
    """What a container should have before others get what it loses; None if it loses nothing, or would lose all."""
    if desired is None or desired.cpus is None:
        return None
    if written is None or written.cpus is None:
        return desired
    rest = desired.cpus & written.cpus
    return None if not rest or rest == written.cpus else replace(written, cpus=rest)


def has_excess(desired: Assignment | None, updater: ContainerUpdater) -> bool:
    """Whether a container has to lose CPUs, or will have to when an update that is on its way has arrived."""
    if shrink_target(desired, updater.has) is not None:
        return True
    coming = updater.sending.cpus if updater.sending is not None else None
    return desired is not None and desired.cpus is not None and coming is not None and not coming <= desired.cpus


def is_displaced(desired: Assignment | None, written: Assignment | None) -> bool:
    """Whether a container has to leave all the CPUs it has."""
    if desired is None or desired.cpus is None or written is None or written.cpus is None:
        return False
    return not desired.cpus & written.cpus


def _loses_memory(target: Assignment, written: Assignment | None) -> bool:
    """Whether pages of the container may be on nodes that it will not have."""
    if target.mems is None:
        return False
    return written is None or written.mems is None or not written.mems <= target.mems


def patch_of(target: Assignment | None, written: Assignment | None) -> LinuxResources | None:
    """The fields that an update has to set; None if there are none."""
    if target is None:
        return None
    has = written if written is not None else Assignment()
    cpus = _changed_text(target.cpus, has.cpus)
    mems = _changed_text(target.mems, has.mems)
    shares = _changed_number(target.shares, has.shares)
    quota = _changed_number(target.quota, has.quota)
    if not cpus and not mems and not shares and not quota:
        return None
    return LinuxResources(cpuset_cpus=cpus, cpuset_mems=mems, cpu_shares=shares, cpu_quota=quota)


def _sent_part(target: Assignment, patch: LinuxResources) -> Assignment:
    """What of a target is in an update: the rest of it is what the container has by others."""
    return Assignment(
        cpus=target.cpus if patch.cpuset_cpus else None,
        mems=target.mems if patch.cpuset_mems else None,
        shares=target.shares if patch.cpu_shares else None,
        quota=target.quota if patch.cpu_quota else None,
    )


def _unchanged_part(desired: Assignment | None, sent: Assignment | None) -> Assignment | None:
    """Those values of what a container should have that it was sent before."""
    if desired is None or sent is None:
        return None
    return Assignment(
        cpus=desired.cpus if desired.cpus == sent.cpus else None,
        mems=desired.mems if desired.mems == sent.mems else None,
        shares=desired.shares if desired.shares == sent.shares else None,
        quota=desired.quota if desired.quota == sent.quota else None,
    )


def describe(has: Assignment) -> str:
    """What a container has, as text for people."""
    quota = "unlimited" if has.quota == NO_QUOTA else has.quota
    words = (("CPUs", has.cpus), ("memory nodes", has.mems), ("CPU shares", has.shares), ("CFS quota", quota))
    return ", ".join(f"{name} {value}" for name, value in words if value is not None) or "no CPU set"


def _changed_text(target: CpuSet | None, sent: CpuSet | None) -> str:
    return str(target) if target is not None and target != sent else ""


def _changed_number(target: int | None, sent: int | None) -> int:
    return target if target is not None and target != sent else 0


async def _slices(keys: Iterable[Key]) -> AsyncIterator[tuple[Key, ...]]:
    """Some keys at a time, with a yield to the loop in between: a node has hundreds of containers."""
    every = tuple(keys)
    for start in range(0, len(every), _AT_ONCE):
        if start:
            await asyncio.sleep(0)
        yield every[start : start + _AT_ONCE]


async def _wait_all(tasks: list["asyncio.Task[None]"], timeout: float) -> bool:
    if not tasks:
        return True
    _, late = await asyncio.wait(tasks, timeout=max(timeout, 0.0))
    return not late
