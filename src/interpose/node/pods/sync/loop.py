"""Keeps pods as they are wanted, on one runtime: workers for pods, and what wakes them.

`beat` is called again and again (`run` does it): it asks the runtime what it has, wakes the workers of pods that look
different than before or whose time has come, and has probes asked, leftovers collected and logs rotated. Ending a
keeper leaves its pods alone; another one finds them.

A runtime that is away is waited for. Nothing is concluded from its silence.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Final

from interpose.core.model.pod import ContainerState
from interpose.cri.messages import cri
from interpose.net.grpc.status import Code, RpcError
from interpose.node.pods.clock import Clocks
from interpose.node.pods.logs.rotation import LogLimits, LogRotation
from interpose.node.pods.prober.prober import ProbeManager, Prober
from interpose.node.pods.spec import PodSpec
from interpose.node.pods.status.origin import read_origin
from interpose.node.pods.status.pod_state import PodState
from interpose.node.pods.status.runtime_pod import RuntimePod
from interpose.node.pods.status.types import PodStatus
from interpose.node.pods.sync.manager import RuntimeManager
from interpose.node.pods.sync.pod_worker import PodWorker, WorkerParts
from interpose.node.pods.sync.result import SILENT, ProgressListener
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)

_CLOCKS: Final = Clocks()
_SHORTEST: Final = 0.02
_NEVER: Final = float("inf")
_PATIENCE: Final = 60.0  # seconds beyond the grace of pods that are being ended
_EDITED: Final = "its manifest was edited, another pod has its name now"
_UNWANTED: Final = "its manifest is gone, or does not name it any more"


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncPeriods:
    """Seconds from one to the next."""

    relist: float = 1.0
    garbage: float = 60.0
    rotation: float = 10.0
    events: float = 5.0  # until a broken stream of events is asked for again


_PERIODS: Final = SyncPeriods()


def _nobody(_state: PodState) -> None:
    """Nobody wants to know."""


def _nothing(_source: str) -> bool:
    return False


class PodSyncLoop:
    """Keeps the pods it is told to (`want`). `owns` says whether pods of a manifest file are its own: those that it
    finds and that are not wanted are removed; all others are left alone."""

    def __init__(
        self,
        manager: RuntimeManager,
        *,
        clocks: Clocks = _CLOCKS,
        periods: SyncPeriods = _PERIODS,
        logs: LogLimits | None = None,
        progress: ProgressListener = SILENT,
        observe: Callable[[PodState], None] = _nobody,
        owns: Callable[[str], bool] = _nothing,
    ) -> None:
        self._manager = manager
        self._clocks = clocks
        self._periods = periods
        self._owns = owns
        self._tasks = TaskBag()
        self._wake = asyncio.Event()
        self._workers: dict[str, PodWorker] = {}
        self._looks: dict[str, object] = {}  # how pods looked in the last list
        self._away = ""
        self._stopping = False
        self._relist_due = self._garbage_due = self._rotation_due = 0.0
        self._chores: set[str] = set()
        prober = Prober(manager.services)
        self.probes = ProbeManager(prober, manager.node, clocks, self._probed, self._wake.set, manager.events.record)
        self._rotation = LogRotation(manager.services, clocks, logs or LogLimits())
        self._parts = WorkerParts(
            manager=manager,
            probes=self.probes,
            clocks=clocks,
            progress=progress,
            observe=observe,
            wake=self._wake.set,
            retire_others=self._retire_others,
        )

    # -- what is wanted ----------------------------------------------------------------------------------------------

    def want(self, pods: Iterable[PodSpec]) -> None:
        """These, and none else. Pods that were wanted before and are not in it are ended and removed.

        Once all are being stopped nothing is wanted any more, whatever happens to manifests meanwhile."""
        if self._stopping:
            return
        wanted = {pod.uid: pod for pod in pods}
        titles = {pod.title for pod in wanted.values()}
        for uid, worker in self._workers.items():
            if uid not in wanted:
                worker.retire(_EDITED if worker.title in titles else _UNWANTED)
        for uid, pod in wanted.items():
            known = self._workers.get(uid)
            if known is None or known.gone.is_set():
                self._begin(PodWorker(uid, self._parts, pod), pod.title)
            else:
                known.want(pod)
        self._garbage_due = 0.0  # pods of ours whose manifest went while nobody looked
        self._wake.set()

    @property
    def states(self) -> Mapping[str, PodState]:
        """What is known of the wanted pods, by uid."""
        return {
            uid: worker.state
            for uid, worker in self._workers.items()
            if worker.state is not None and not worker.retired
        }

    @property
    def kept(self) -> list[PodState]:
        """All wanted pods; those that nothing is known of yet are pending."""
        return [
            worker.state or PodState(pod=worker.pod, status=PodStatus(uid=uid))
            for uid, worker in self._workers.items()
            if worker.pod is not None and not worker.retired
        ]

    @property
    def away(self) -> str:
        """Why the runtime cannot be asked; empty if it can."""
        return self._away

    def at_work(self) -> bool:
        """Whether something is being done about a pod, or is about to be. One that waits for its time is not."""
        return not all(worker.settled or worker.gone.is_set() for worker in self._workers.values())

    @property
    def settled(self) -> bool:
        """Whether nothing is being done and no reason to do anything is known."""
        return not self.at_work() and not self._chores and not self.probes.busy

    # -- running -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run the sync loop until the task is cancelled."""
        self._tasks.spawn(self._follow_events(), name="events of the runtime")
        while True:
            await self.beat()
            self._wake.clear()
            await self._rest()

    async def beat(self) -> None:
        """Begin all that is due. Nothing is waited for: a runtime that does not answer keeps nobody else waiting."""
        now = self._clocks.elapsed()
        if now >= self._relist_due:
            self._relist_due = _NEVER
            self._chore(self._list_in_turn, "list of pods")
            self._chore(self._heed_marks, "stops by hand")
        for uid in [uid for uid, worker in self._workers.items() if worker.gone.is_set()]:
            del self._workers[uid]
        self.probes.tick()
        if self._away:
            return
        for worker in self._workers.values():
            if now >= worker.due:
                worker.poke()
        if now >= self._garbage_due:
            self._garbage_due = now + self._periods.garbage
            self._chore(self._collect_garbage, "garbage collection")
        if now >= self._rotation_due:
            self._rotation_due = now + self._periods.rotation
            self._chore(self._rotate_logs, "log rotation")

    async def relist(self) -> None:
        """Ask the runtime what it has, and wake the workers of pods that look different than before."""
        try:
            pods = await self._manager.get_pods(all=True)
        except RpcError as error:
            if not self._away:
                _log.warning("Runtime does not respond, waiting", extra={"kv": {"err": str(error)}})
            self._away = str(error)
            return
        if self._away:
            _log.info("Runtime is back")
            self._away = ""
            for worker in self._workers.values():
                worker.poke()
        looks = {pod.uid: _look(pod) for pod in pods}
        for uid, worker in self._workers.items():
            seen = _look(worker.state.status) if worker.state is not None else _NOTHING
            if looks.get(uid, _NOTHING) != self._looks.get(uid, seen):
                worker.notice()
        self._looks = {uid: looks.get(uid, _NOTHING) for uid in self._workers}

    async def stop(self, grace: int | None = None, *, patience: float = _PATIENCE) -> list[str]:
        """End and remove all pods that are kept. What is left of them after their grace and so many seconds is left
        alone; says what, and why."""
        self._stopping = True
        workers = list(self._workers.values())
        for worker in workers:
            worker.retire("all pods are ended", grace)
        self._wake.set()
        given = [worker.pod.termination_grace_period for worker in workers if worker.pod is not None]
        longest = grace if grace is not None else max(given, default=0)
        with suppress(TimeoutError):
            async with asyncio.timeout(longest + patience):
                for worker in workers:
                    await worker.gone.wait()
        left = [worker for worker in workers if not worker.gone.is_set()]
        return [f"{worker.title}: {worker.trouble or self._away or 'has not ended in time'}" for worker in left]

    async def close(self) -> None:
        """Keep nothing any more. Pods go on."""
        await self._tasks.cancel()
        await self.probes.close()
        await self._manager.events.flush()

    # -- inside ------------------------------------------------------------------------------------------------------

    def _begin(self, worker: PodWorker, name: str) -> None:
        self._workers[worker.uid] = worker
        self._tasks.spawn(worker.run(), name=f"pod {name}")

    async def _rest(self) -> None:
        """Until the next thing is due, or somebody wakes us."""
        now = self._clocks.elapsed()
        # While the runtime is away nothing is done about pods until a list says that it is back.
        dues = [self._relist_due, *(worker.due for worker in self._workers.values() if not self._away)]
        wait = min(dues) - now
        if (probe := self.probes.next_due()) is not None:
            wait = min(wait, probe - now)
        if wait == _NEVER:
            await self._wake.wait()
            return
        timer = self._tasks.spawn(self._wake_after(max(wait, _SHORTEST)), name="next beat")
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    async def _list_in_turn(self) -> None:
        try:
            await self.relist()
        finally:
            self._relist_due = self._clocks.elapsed() + self._periods.relist
            self._wake.set()

    async def _heed_marks(self) -> None:
        """Who stops or removes a pod by hand waits for those who are just starting it."""
        starting = [worker for worker in self._workers.values() if worker.starting]
        for worker in starting:
            if await asyncio.to_thread(self._manager.dirs.is_stopped, worker.uid):
                worker.give_up()

    async def _wake_after(self, seconds: float) -> None:
        await self._clocks.sleep(seconds)
        self._wake.set()

    def _probed(self, uid: str) -> None:
        worker = self._workers.get(uid)
        if worker is not None:
            worker.refresh()
            worker.poke()
            self._wake.set()

    async def _retire_others(self, others: Collection[str], on_progress: Callable[[str], None]) -> None:
        workers = [self._leaving(uid, _EDITED) for uid in others]
        for worker in workers:
            with worker.inherited(on_progress):
                await worker.gone.wait()

    def _leaving(self, uid: str, why: str) -> PodWorker:
        worker = self._workers.get(uid)
        if worker is None or worker.gone.is_set():
            worker = PodWorker(uid, self._parts)
            self._begin(worker, uid)
        worker.retire(why)
        return worker

    def _chore(self, work: Callable[[], Awaitable[None]], name: str) -> None:
        if name not in self._chores:
            self._chores.add(name)
            self._tasks.spawn(self._guarded(work, name), name=name)

    async def _guarded(self, work: Callable[[], Awaitable[None]], name: str) -> None:
        try:
            await work()
        except RpcError as error:
            _log.debug("Housekeeping failed", extra={"kv": {"chore": name, "err": str(error)}})
        finally:
            self._chores.discard(name)

    async def _rotate_logs(self) -> None:
        await self._rotation.rotate(
            [worker.state.status for worker in self._workers.values() if worker.state is not None]
        )

    async def _collect_garbage(self) -> None:
        ours = await asyncio.to_thread(self._manager.dirs.uids)
        for uid in ours:
            if uid in self._workers:
                continue
            origin = await asyncio.to_thread(read_origin, self._manager.dirs.folder(uid))
            if origin is not None and self._owns(origin.source) and uid not in self._workers:
                self._leaving(uid, f"its manifest {origin.source} is gone, or does not name it any more")
        # Pods that others started with the same root are known, too: what they leave is theirs.
        kept = [uid for uid, worker in self._workers.items() if not worker.retired]
        await self._manager.collect_garbage({*ours, *kept})

    async def _follow_events(self) -> None:
        """Events only make us quicker: a runtime without them is asked every second anyway."""
        while True:
            try:
                async with aclosing(self._manager.services.container_events()) as events:
                    async for event in events:
                        worker = self._workers.get(event.pod_sandbox_status.metadata.uid)
                        if worker is not None and event.container_event_type != cri.CONTAINER_CREATED_EVENT:
                            worker.notice()
            except RpcError as error:
                if error.code is Code.UNIMPLEMENTED:
                    return
            await self._clocks.sleep(self._periods.events)


def _look(pod: RuntimePod | PodStatus) -> object:
    """What of a pod is a reason to act. A container that was only made is none: it is about to be started, or was given
    up by who made it, and then making another one at once would fill the runtime with them."""
    return (
        frozenset(
            (container.id, container.state)
            for container in pod.containers
            if container.state is not ContainerState.CREATED
        ),
        frozenset((sandbox.id, sandbox.ready) for sandbox in pod.sandboxes),
    )


_NOTHING: Final = _look(RuntimePod(uid=""))
