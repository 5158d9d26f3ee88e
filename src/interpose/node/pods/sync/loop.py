"""Keeps pods as their manifests say, on one runtime: workers for pods, and what wakes them.

`start_due_work` is called again and again (`run` does it): it asks the runtime for its pods, wakes the workers of pods
whose status has changed or whose time has come, and starts probes, garbage collection and log rotation. Ending a sync
loop leaves its pods alone; the next sync loop finds them.

A runtime that does not answer is waited for. Nothing is concluded from its silence.
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
_STOP_MARGIN: Final = 60.0  # seconds beyond the grace of pods that are being stopped
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


def _ignore_state(_state: PodState) -> None:
    pass


def _owns_nothing(_source: str) -> bool:
    return False


class PodSyncLoop:
    """Keeps the desired pods (`set_pods`) running. `owns` says whether pods of a manifest file belong to this loop: of
    those, pods that are not desired are removed; all other pods are left alone."""

    def __init__(
        self,
        manager: RuntimeManager,
        *,
        clocks: Clocks = _CLOCKS,
        periods: SyncPeriods = _PERIODS,
        logs: LogLimits | None = None,
        progress: ProgressListener = SILENT,
        on_state: Callable[[PodState], None] = _ignore_state,
        owns: Callable[[str], bool] = _owns_nothing,
    ) -> None:
        self._manager = manager
        self._clocks = clocks
        self._periods = periods
        self._owns = owns
        self._tasks = TaskBag()
        self._wake = asyncio.Event()
        self._workers: dict[str, PodWorker] = {}
        self._fingerprints: dict[str, object] = {}  # of the pods in the last list
        self._runtime_error = ""
        self._stopping = False
        self._relist_due = self._garbage_due = self._rotation_due = 0.0
        self._chores: set[str] = set()
        prober = Prober(manager.services)
        self.probes = ProbeManager(
            prober, manager.node, clocks, self._on_probe_result, self._wake.set, manager.events.record
        )
        self._rotation = LogRotation(manager.services, clocks, logs or LogLimits())
        self._parts = WorkerParts(
            manager=manager,
            probes=self.probes,
            clocks=clocks,
            progress=progress,
            on_state=on_state,
            wake=self._wake.set,
            retire_pods=self._retire_pods,
        )

    # -- desired pods ------------------------------------------------------------------------------------------------

    def set_pods(self, pods: Iterable[PodSpec]) -> None:
        """Set all desired pods. Pods that were desired before and are not among these are stopped and removed.

        After `stop` this does nothing: no pod is started any more, whatever happens to manifests."""
        if self._stopping:
            return
        wanted = {pod.uid: pod for pod in pods}
        titles = {pod.title for pod in wanted.values()}
        for uid, worker in self._workers.items():
            if uid not in wanted:
                worker.retire(_EDITED if worker.title in titles else _UNWANTED)
        for uid, pod in wanted.items():
            known = self._workers.get(uid)
            if known is None or known.removed.is_set():
                self._start_worker(PodWorker(uid, self._parts, pod), pod.title)
            else:
                known.update_pod(pod)
        self._garbage_due = 0.0  # for pods of ours whose manifest went while no loop ran
        self._wake.set()

    @property
    def states(self) -> Mapping[str, PodState]:
        """The states of the desired pods that have been synced, by uid."""
        return {
            uid: worker.state
            for uid, worker in self._workers.items()
            if worker.state is not None and not worker.retired
        }

    @property
    def pod_states(self) -> list[PodState]:
        """The states of all desired pods; a pod that was not synced yet is pending."""
        return [
            worker.state or PodState(pod=worker.pod, status=PodStatus(uid=uid))
            for uid, worker in self._workers.items()
            if worker.pod is not None and not worker.retired
        ]

    @property
    def runtime_error(self) -> str:
        """Why the runtime does not answer; empty if it does."""
        return self._runtime_error

    def is_busy(self) -> bool:
        """Whether a pod is being synced, or is about to be. A pod that waits for its time does not count."""
        return not all(worker.settled or worker.removed.is_set() for worker in self._workers.values())

    @property
    def is_settled(self) -> bool:
        """Whether nothing is being done and no reason to do anything is known."""
        return not self.is_busy() and not self._chores and not self.probes.busy

    # -- running -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run the sync loop until the task is cancelled."""
        self._tasks.spawn(self._follow_events(), name="events of the runtime")
        while True:
            await self.start_due_work()
            self._wake.clear()
            await self._wait_until_due()

    async def start_due_work(self) -> None:
        """Start all work that is due, without waiting for any of it: the runtime may not answer."""
        now = self._clocks.elapsed()
        if now >= self._relist_due:
            self._relist_due = _NEVER
            self._start_chore(self._relist_and_reschedule, "list of pods")
            self._start_chore(self._cancel_starts_of_stopped, "stops by hand")
        for uid in [uid for uid, worker in self._workers.items() if worker.removed.is_set()]:
            del self._workers[uid]
        self.probes.tick()
        if self._runtime_error:
            return
        for worker in self._workers.values():
            if now >= worker.due:
                worker.poke()
        if now >= self._garbage_due:
            self._garbage_due = now + self._periods.garbage
            self._start_chore(self._collect_garbage, "garbage collection")
        if now >= self._rotation_due:
            self._rotation_due = now + self._periods.rotation
            self._start_chore(self._rotate_logs, "log rotation")

    async def relist(self) -> None:
        """Ask the runtime for its pods, and wake the workers of those whose status has changed."""
        try:
            pods = await self._manager.get_pods(all=True)
        except RpcError as error:
            if not self._runtime_error:
                _log.warning("Runtime does not respond, waiting", extra={"kv": {"err": str(error)}})
            self._runtime_error = str(error)
            return
        if self._runtime_error:
            _log.info("Runtime is back")
            self._runtime_error = ""
            for worker in self._workers.values():
                worker.poke()
        fingerprints = {pod.uid: _fingerprint(pod) for pod in pods}
        for uid, worker in self._workers.items():
            synced = _fingerprint(worker.state.status) if worker.state is not None else _ABSENT
            if fingerprints.get(uid, _ABSENT) != self._fingerprints.get(uid, synced):
                worker.on_status_change()
        self._fingerprints = {uid: fingerprints.get(uid, _ABSENT) for uid in self._workers}

    async def stop(self, grace: int | None = None, *, margin: float = _STOP_MARGIN) -> list[str]:
        """Stop and remove all pods. Pods that are left after their grace and `margin` seconds are left alone; returned
        are their names, each with the reason."""
        self._stopping = True
        workers = list(self._workers.values())
        for worker in workers:
            worker.retire("all pods are ended", grace)
        self._wake.set()
        graces = [worker.pod.termination_grace_period for worker in workers if worker.pod is not None]
        longest = grace if grace is not None else max(graces, default=0)
        with suppress(TimeoutError):
            async with asyncio.timeout(longest + margin):
                for worker in workers:
                    await worker.removed.wait()
        left = [worker for worker in workers if not worker.removed.is_set()]
        return [
            f"{worker.title}: {worker.removal_error or self._runtime_error or 'has not ended in time'}"
            for worker in left
        ]

    async def close(self) -> None:
        """Stop syncing; the pods keep running."""
        await self._tasks.cancel()
        await self.probes.close()
        await self._manager.events.flush()

    # -- inside ------------------------------------------------------------------------------------------------------

    def _start_worker(self, worker: PodWorker, name: str) -> None:
        self._workers[worker.uid] = worker
        self._tasks.spawn(worker.run(), name=f"pod {name}")

    async def _wait_until_due(self) -> None:
        """Wait until some work is due, or `_wake` is set."""
        now = self._clocks.elapsed()
        # While the runtime does not answer nothing is done about pods until a list succeeds.
        dues = [self._relist_due, *(worker.due for worker in self._workers.values() if not self._runtime_error)]
        wait = min(dues) - now
        if (probe := self.probes.next_due()) is not None:
            wait = min(wait, probe - now)
        if wait == _NEVER:
            await self._wake.wait()
            return
        timer = self._tasks.spawn(self._wake_after(max(wait, _SHORTEST)), name="next work")
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    async def _relist_and_reschedule(self) -> None:
        try:
            await self.relist()
        finally:
            self._relist_due = self._clocks.elapsed() + self._periods.relist
            self._wake.set()

    async def _cancel_starts_of_stopped(self) -> None:
        """A command that stops or removes a pod waits for the start that is under way here: cancel that."""
        starting = [worker for worker in self._workers.values() if worker.is_starting]
        for worker in starting:
            if await asyncio.to_thread(self._manager.dirs.is_stopped, worker.uid):
                worker.cancel_start()

    async def _wake_after(self, seconds: float) -> None:
        await self._clocks.sleep(seconds)
        self._wake.set()

    def _on_probe_result(self, uid: str) -> None:
        worker = self._workers.get(uid)
        if worker is not None:
            worker.on_probe_result()
            worker.poke()
            self._wake.set()

    async def _retire_pods(self, uids: Collection[str], on_trouble: Callable[[str], None]) -> None:
        workers = [self._retire_pod(uid, _EDITED) for uid in uids]
        for worker in workers:
            with worker.reporting_trouble(on_trouble):
                await worker.removed.wait()

    def _retire_pod(self, uid: str, reason: str) -> PodWorker:
        worker = self._workers.get(uid)
        if worker is None or worker.removed.is_set():
            worker = PodWorker(uid, self._parts)
            self._start_worker(worker, uid)
        worker.retire(reason)
        return worker

    def _start_chore(self, work: Callable[[], Awaitable[None]], name: str) -> None:
        if name not in self._chores:
            self._chores.add(name)
            self._tasks.spawn(self._run_chore(work, name), name=name)

    async def _run_chore(self, work: Callable[[], Awaitable[None]], name: str) -> None:
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
                self._retire_pod(uid, f"its manifest {origin.source} is gone, or does not name it any more")
        # Pods that other managers started with the same root are known, too: their garbage is not ours.
        desired = [uid for uid, worker in self._workers.items() if not worker.retired]
        await self._manager.collect_garbage({*ours, *desired})

    async def _follow_events(self) -> None:
        """Events only make syncs quicker: pods are listed every second anyway."""
        while True:
            try:
                async with aclosing(self._manager.services.container_events()) as events:
                    async for event in events:
                        worker = self._workers.get(event.pod_sandbox_status.metadata.uid)
                        if worker is not None and event.container_event_type != cri.CONTAINER_CREATED_EVENT:
                            worker.on_status_change()
            except RpcError as error:
                if error.code is Code.UNIMPLEMENTED:
                    return
            await self._clocks.sleep(self._periods.events)


def _fingerprint(pod: RuntimePod | PodStatus) -> object:
    """The part of a pod's status that is a reason to sync it. A container that was only created is none: it is about to
    be started, or its creator gave it up, and then creating another one at once would fill the runtime with them."""
    return (
        frozenset(
            (container.id, container.state)
            for container in pod.containers
            if container.state is not ContainerState.CREATED
        ),
        frozenset((sandbox.id, sandbox.ready) for sandbox in pod.sandboxes),
    )


_ABSENT: Final = _fingerprint(RuntimePod(uid=""))
