"""When reconcile passes happen: periodically, soon after an event, and while new cgroups are not yet identified.

Events that come together share a pass (`ReconcileLoop`). A cgroup is made before the runtime lists its pod or
container, and an update that reaches the runtime while a container is being started may change nothing. So an
unidentified cgroup leads to another pass soon, and so does a pass that changed something. Pauses grow, and a cgroup
that stays unidentified is ignored after a while (`NewCgroups`).

Invariant: the kernel reports what is made in a directory that was watched before it was listed; so each directory is
watched first and listed then.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from interpose.core.backoff import Backoff
from interpose.core.model.cgroup import KubeQos
from interpose.hooks.server.reconcile.desired_state import PodTarget
from interpose.host.cgroup.paths import CgroupLayout
from interpose.host.cgroup.tree import CgroupTree
from interpose.tasks import TaskBag

SHORTEST: Final = 0.05
LONGEST: Final = 2.0
_AFTER_CHANGES: Final = Backoff(SHORTEST, LONGEST)
# For this long the runtime may take to tell what a cgroup is for. Others are left over, or somebody else's.
IDENTIFY_TIMEOUT: Final = 10.0


class DirectoryWatch(Protocol):
    """A watch over directories."""

    def follow(self, directories: Iterable[str]) -> None:
        """Watch these directories and no others."""


class PassPauses:
    """Pauses between reconcile passes. Pure but for the clock."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._known: frozenset[str] = frozenset()
        self._since: dict[str, float] = {}
        self._changes = 0  # rounds in a row

    def next_pause(self, present: Collection[str], known: Collection[str], *, changed: bool) -> float | None:
        """The pause after a pass; None if no pass is needed. A cgroup that was identified once is never new again."""
        now = self._now()
        self._known = (self._known | frozenset(known)) & frozenset(present)
        self._since = {
            directory: self._since.get(directory, now) for directory in present if directory not in self._known
        }
        self._changes = self._changes + 1 if changed else 0
        pauses = [max(now - since, SHORTEST) for since in self._since.values() if now - since < IDENTIFY_TIMEOUT]
        if changed:
            pauses.append(_AFTER_CHANGES.delay(self._changes))
        return min(min(pauses), LONGEST) if pauses else None


class NewCgroups:
    """Watches for cgroups that are not yet identified. Belongs to one loop."""

    def __init__(self, tree: CgroupTree, watch: DirectoryWatch, *, now: Callable[[], float]) -> None:
        self._tree = tree
        self._watch = watch
        self._pauses = PassPauses(now)
        self._followed: Sequence[str] = ()

    async def next_pause(
        self, subjects: Sequence[PodTarget], layout: CgroupLayout | None, *, changed: bool
    ) -> float | None:
        """Watch the directories of pods and containers; the pause until the next pass, None if none is needed."""
        pods = [subject.target.directory for subject in subjects if subject.target is not None]
        above = {"" if layout is None else layout.qos_directory(qos) for qos in KubeQos}
        above |= {directory.rpartition("/")[0] for directory in pods}
        self._follow([*above, *self._followed])
        # Right below the root is all the node has: who comes there is told, but not waited for.
        pod_directories = {*pods, *await asyncio.to_thread(self._children_below, above - {""})}
        self._follow([*above, *pod_directories])
        present = pod_directories | await asyncio.to_thread(self._children_below, pod_directories)
        known = {target.directory for subject in subjects for target in subject.targets}
        return self._pauses.next_pause(present, known, changed=changed)

    def _follow(self, directories: Collection[str]) -> None:
        self._followed = sorted(set(directories))
        self._watch.follow(self._followed)

    def _children_below(self, directories: Collection[str]) -> set[str]:
        """The children of these directories, without the directories themselves."""
        found: set[str] = set()
        for directory in directories:
            with suppress(OSError):
                found |= {f"{directory}/{name}" for name in self._tree.children(directory)}
        return found - set(directories)


_log = logging.getLogger(__name__)
# Causes come in bursts: a pod is several directories, a document several events.
_BURST_PAUSE: Final = 0.02
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0
TICK: Final = "tick"


class ReconcileLoop:
    """Calls `work(reason)` every `interval` seconds and soon after `trigger`; one call at a time."""

    def __init__(self, work: Callable[[str], Awaitable[None]], interval: float) -> None:
        self._work = work
        self._interval = interval
        self._reasons: dict[str, None] = {}
        self._wake = asyncio.Event()
        self._tasks = TaskBag()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self.failed = 0

    def start(self) -> None:
        """Start the loop with a pass at once."""
        self.trigger("start")
        self._tasks.spawn(self._run(), name="rounds")

    def trigger(self, reason: str) -> None:
        """Start a reconcile pass soon, for this reason."""
        self._reasons[reason] = None
        self._wake.set()

    def trigger_later(self, reason: str, pause: float) -> None:
        """Start a pass after `pause` seconds; a second call with the same reason replaces the first."""
        if (timer := self._timers.pop(reason, None)) is not None:
            timer.cancel()
        self._timers[reason] = asyncio.get_running_loop().call_later(pause, self.trigger, reason)

    async def close(self) -> None:
        """Stop the loop; a pass that is under way is cancelled."""
        for timer in self._timers.values():
            timer.cancel()
        await self._tasks.cancel()

    async def _run(self) -> None:
        backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        while True:
            try:
                async with asyncio.timeout(self._interval):
                    await self._wake.wait()
                await asyncio.sleep(_BURST_PAUSE)
            except TimeoutError:
                self.trigger(TICK)
            self._wake.clear()
            reasons, self._reasons = self._reasons, {}
            try:
                await self._work(", ".join(reasons))
                backoff.reset()
            except Exception:
                self.failed += 1
                _log.exception("Reconciliation failed")
                # What it was about is not done, so it is tried again, though not too often.
                self._reasons = {**reasons, **self._reasons}
                self._wake.set()
                await asyncio.sleep(backoff.next())
