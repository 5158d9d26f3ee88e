"""The worker of one pod: a task that syncs the pod when there is a reason to, and removes it when it is not wanted.

Reasons come from outside as `poke`: a probe has a result, a wait is over (`due`, watched by the sync loop), the
manifest was edited. However many come during a sync, one more sync follows. A changed status of the runtime is a
reason, too (`notice`), but not right after a sync that failed: the change may be its own. A long sync (an image, a
hook) is cancelled when the pod is to be removed or was stopped by hand: the next status shows how far it came. All
changes of a pod are made with its lock: other processes may act on the same pod.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from interpose.core.model.pod import ContainerState
from interpose.log import RateLimited
from interpose.net.grpc.status import Code, RpcError
from interpose.node.pods.clock import Clocks
from interpose.node.pods.locks import BusyPodError
from interpose.node.pods.prober.prober import ProbeManager
from interpose.node.pods.spec import PodSpec
from interpose.node.pods.status.last_status import write_last_status
from interpose.node.pods.status.origin import Origin, write_origin
from interpose.node.pods.status.phase import PodPhase, container_views, pod_phase, ready
from interpose.node.pods.status.pod_index import known_pods
from interpose.node.pods.status.pod_state import (
    DEADLINE,
    NO_FAILURES,
    REPLACING,
    STOPPED,
    PodState,
    StartFailures,
    update_failures,
)
from interpose.node.pods.status.summary import last_status
from interpose.node.pods.status.types import PodStatus
from interpose.node.pods.sync.manager import RuntimeManager
from interpose.node.pods.sync.result import ProgressEvent, ProgressListener, ProgressPhase, StepReason, SyncResult
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)

# Seconds until the next sync: after a failure, after one that will soon be over, and without any reason.
_AFTER_ERROR: Final = 10.0
_AFTER_TRANSIENT: Final = 2.0
_RESYNC: Final = 60.0
_SOONEST: Final = 0.05
_JITTER: Final = 0.5
_TRANSIENT: Final = frozenset((Code.UNAVAILABLE, Code.CANCELLED, Code.ABORTED))
_NEVER: Final = float("inf")
_AFTER_BUSY: Final = 1.0  # another process is at work on the pod
_QUIET: Final = 1.0  # after a failure, before anything that the runtime shows is a reason to try again


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerParts:
    """What all workers of a node share."""

    manager: RuntimeManager
    probes: ProbeManager
    clocks: Clocks
    progress: ProgressListener
    on_state: Callable[[PodState], None]
    wake: Callable[[], None]  # the sync loop has to look at `due` again
    # Removes the pods of these uids and waits for it; the callback gets the reason when that takes longer.
    retire_pods: Callable[[Collection[str], Callable[[str], None]], Awaitable[None]]


class PodWorker:
    """Keeps one pod. `state` is of the last sync; None before the first one, and of pods that are only removed."""

    def __init__(self, uid: str, parts: WorkerParts, pod: PodSpec | None = None) -> None:
        self.uid = uid
        self.pod = pod
        self.state: PodState | None = None
        self.due = 0.0  # of the clock that never goes back
        self.removed = asyncio.Event()
        self.retired = pod is None
        self.settled = False  # nothing is under way, and nothing is known that should be
        self.removal_error = ""  # why the pod cannot be removed
        self._trouble_listeners: list[Callable[[str], None]] = []  # of those that wait for the removal
        self._retire_reason = ""
        self._announced = False
        self._round: asyncio.Task[None] | None = None
        self._cancellable = False
        self._status_changed = False  # while a sync was under way
        self._quiet_until = 0.0  # until then a changed status is no reason to sync
        self._limited_log = RateLimited(_log, clock=parts.clocks.elapsed)
        self._parts = parts
        self._poked = asyncio.Event()
        self._start_failures: StartFailures = NO_FAILURES
        self._grace: int | None = None
        self._name_is_free = False  # no other pod has the name
        self._edited = False  # a stop by hand before the edit does not count any more
        self._refreshed: PodSpec | None = None  # the version of the pod whose files are in the volumes
        self._ending = False
        self.poke()

    # -- from outside ------------------------------------------------------------------------------------------------

    def poke(self) -> None:
        """Ask for a sync as soon as possible."""
        self.due = _NEVER
        self.settled = False
        self._poked.set()

    def on_status_change(self) -> None:
        """The runtime's status of the pod has changed: sync, but not right after a failed sync."""
        if self._round is not None and not self._round.done():
            self._status_changed = True
        elif self._parts.clocks.elapsed() < self._quiet_until:
            self.due = min(self.due, self._quiet_until)
        else:
            self.poke()

    def update_pod(self, pod: PodSpec) -> None:
        """Take the pod of a manifest that was read again. An edit cancels a stop by hand."""
        self.retired = self._announced = False
        self.removal_error = ""
        self._grace = None
        if pod != self.pod:
            self.pod = pod
            self._start_failures = NO_FAILURES
            self._edited = True
            self.poke()

    def retire(self, reason: str = "", grace: int | None = None) -> None:
        """Stop and remove the pod, then end the worker. A further call can only shorten the grace."""
        sooner = grace is not None and (self._grace is None or grace < self._grace)
        if not self.retired or sooner:
            self.retired = True
            self._grace = grace if sooner else self._grace
            self.cancel_start()
            if self._ending and self._round is not None:
                self._round.cancel()  # what waits for a longer grace is begun again with this one
            self.poke()
        self._retire_reason = self._retire_reason or reason

    def cancel_start(self) -> None:
        """Cancel what is being done to start the pod, if anything is."""
        if self._cancellable and self._round is not None:
            self._round.cancel()

    @contextmanager
    def reporting_trouble(self, on_trouble: Callable[[str], None]) -> Generator[None]:
        """Inside the block `on_trouble` is called with the reason whenever the pod cannot be removed."""
        self._trouble_listeners.append(on_trouble)
        if self.removal_error:
            on_trouble(self._removal_trouble)
        try:
            yield
        finally:
            self._trouble_listeners.remove(on_trouble)

    @property
    def _removal_trouble(self) -> str:
        return f"the one before it ({self.uid}) cannot be removed: {self.removal_error}"

    @property
    def is_starting(self) -> bool:
        """Whether the pod is being started by work that `cancel_start` cancels."""
        return self._cancellable

    async def run(self) -> None:
        """Sync the pod until it is removed, or for ever."""
        rounds = TaskBag()
        try:
            while not self.removed.is_set():
                await self._poked.wait()
                self._poked.clear()
                self._status_changed, self._quiet_until = False, 0.0
                self._round = rounds.spawn(self._run_round(), name=f"round of pod {self.title}")
                await asyncio.wait((self._round,))
                if self._round.cancelled():
                    self.poke()
                elif self._status_changed:
                    self.on_status_change()
                if not self._poked.is_set():
                    self.settled = True
                self._parts.wake()
        finally:
            await rounds.cancel()
            self._parts.probes.forget(self.uid)
            self.removed.set()

    # -- one round ---------------------------------------------------------------------------------------------------

    async def _run_round(self) -> None:
        try:
            if self.retired or self.pod is None:
                async with self._parts.manager.locks.held(self.uid):
                    await self._remove()
                return
            if not self._name_is_free:
                await self._wait_for_name(self.pod)
            async with self._parts.manager.locks.held(self.uid):
                await self._sync(self.pod)
        except BusyPodError:
            self._schedule(_AFTER_BUSY, _AFTER_BUSY)
        except RpcError as error:
            transient = error.code in _TRANSIENT
            level = logging.DEBUG if transient else logging.WARNING  # the sync loop logs once that the runtime is away
            _log.log(level, "Pod could not be looked at", extra={"kv": {"pod": self.title, "err": str(error)}})
            self._schedule_after_failure(_AFTER_TRANSIENT if transient else _AFTER_ERROR)
        except Exception:
            _log.exception("Failed to sync pod", extra={"kv": {"pod": self.title}})
            self._schedule_after_failure(_AFTER_ERROR)

    async def _sync(self, pod: PodSpec) -> None:
        parts, manager = self._parts, self._parts.manager
        origin = await asyncio.to_thread(
            write_origin, manager.dirs.folder(pod.uid), pod, parts.clocks.now(), manager.where
        )
        await manager.events.begin(pod, manager.node.name)
        if self._edited:
            await asyncio.to_thread(manager.dirs.clear_stopped, pod.uid)
            self._edited = pod is not self.pod  # edited once more meanwhile
        status = await manager.get_pod_status(pod.uid)
        parts.probes.update(pod, status)
        if await asyncio.to_thread(manager.dirs.is_stopped, pod.uid):
            await self._stop_pod(pod, status, STOPPED, "stopped by hand")
            return
        left = self._time_left(pod, origin.began)
        if left is not None and left <= 0:
            if not pod_phase(pod, status).final or self._exceeded_deadline(pod, status, origin):
                await self._stop_pod(pod, status, DEADLINE, f"was active longer than {pod.active_deadline} s")
                return
            left = None  # it had ended before that
        await self._refresh(pod, status)
        with self._cancellable_work():
            result = await manager.sync_pod(pod, status, parts.probes, progress=parts.progress)
        self._start_failures = update_failures(self._start_failures, result)
        if result.steps:
            status = await manager.get_pod_status(pod.uid)
            parts.probes.update(pod, status)
        self._publish_state(pod, status)
        await self._save_status(pod)
        known = [wait for wait in (result.retry_after, left) if wait is not None]  # when something is due for sure
        if any(not step.is_waiting for step in result.errors):
            self._schedule_after_failure(_AFTER_ERROR, *known)
        else:
            self._schedule(_RESYNC, *known)

    async def _refresh(self, pod: PodSpec, status: PodStatus) -> None:
        """After an edit, update files from ConfigMaps, Secrets and fields of the pod while its containers run."""
        if pod == self._refreshed or not status.active:
            return
        trouble = await self._parts.manager.refresh_files(pod, status)
        if trouble:
            self._limited_log.log(
                logging.WARNING, "Volumes are as they were", key="volumes", pod=pod.title, err=trouble
            )
        else:
            self._refreshed = pod

    async def _wait_for_name(self, pod: PodSpec) -> None:
        """An edited manifest is another pod: the previous pod of that name has to be removed first."""
        known = await known_pods(self._parts.manager)
        others = [
            other.uid
            for other in known.pods
            if other.title == pod.title and other.uid != pod.uid and other.uid in known.ours
        ]
        if others:

            def publish(trouble: str) -> None:
                self._publish_state(pod, PodStatus(uid=pod.uid), reason=REPLACING, message=trouble)

            publish("")
            with self._cancellable_work():
                await self._parts.retire_pods(others, publish)
        self._name_is_free = True

    @contextmanager
    def _cancellable_work(self) -> Generator[None]:
        self._cancellable = True
        try:
            yield
        finally:
            self._cancellable = False

    async def _stop_pod(self, pod: PodSpec, status: PodStatus, reason: str, message: str) -> None:
        """Stop a pod whose deadline is over or that was stopped by hand. It is not removed, and not started again."""
        manager = self._parts.manager
        running = await manager.find_pod(pod.uid)
        failed = False
        if running.running or any(sandbox.ready for sandbox in running.sandboxes):
            _log.info("Stopping pod", extra={"kv": {"pod": pod.title, "reason": reason, "why": message}})
            if reason == DEADLINE:
                manager.events.record(
                    pod.uid, ProgressEvent(pod=pod.title, phase=ProgressPhase.EXPIRED, detail=f"Pod {message}")
                )
            result = await manager.kill_pod(running, pod, progress=self._parts.progress)
            failed = self._log_failures(result) != ""
            status = await manager.get_pod_status(pod.uid)
            self._parts.probes.update(pod, status)
        self._publish_state(pod, status, reason=reason, message=message)
        await self._save_status(pod)
        if failed:
            self._schedule_after_failure(_AFTER_ERROR)
        else:
            self._schedule(_RESYNC)

    async def _remove(self) -> None:
        manager = self._parts.manager
        if not self._announced:
            self._announced = True
            _log.info(
                "Stopping and removing pod",
                extra={"kv": {"pod": self.title, "uid": self.uid, "why": self._retire_reason}},
            )
        running = await manager.find_pod(self.uid)
        self._ending = True
        try:
            result = await manager.remove_pod(running, self.pod, self._grace, progress=self._parts.progress)
        finally:
            self._ending = False
        self.removal_error = self._log_failures(result)
        if self.removal_error:
            for on_trouble in self._trouble_listeners:
                on_trouble(self._removal_trouble)
            self._schedule_after_failure(_AFTER_ERROR)
            return
        _log.info("Removing pod", extra={"kv": {"pod": self.title, "uid": self.uid}})
        if self.retired:  # it may be wanted again by now
            self.removed.set()
        else:
            self.poke()

    def _log_failures(self, result: SyncResult) -> str:
        """Log what kept the pod from being stopped or removed; the first error is returned, empty if there is none."""
        for step in result.errors:
            self._limited_log.log(
                logging.WARNING,
                "Pod could not be ended or removed, trying again",
                key=f"{step.act} {step.target}",
                pod=self.title,
                step=step.act.value,
                target=step.target,
                err=step.error,
            )
        return result.errors[0].error or "" if result.errors else ""

    def _exceeded_deadline(self, pod: PodSpec, status: PodStatus, origin: Origin) -> bool:
        """Whether the pod was stopped for its deadline, be it by another manager."""
        ends = [container.finished_at for container in status.containers]
        return max(ends, default=0) >= origin.began + (pod.active_deadline or 0) * 1_000_000_000

    def _time_left(self, pod: PodSpec, began: int) -> float | None:
        if pod.active_deadline is None:
            return None
        return pod.active_deadline - (self._parts.clocks.now() - began) / 1e9

    # -- state -------------------------------------------------------------------------------------------------------

    def _publish_state(self, pod: PodSpec, status: PodStatus, *, reason: str = "", message: str = "") -> None:
        health, troubles = self._parts.probes, self._start_failures
        phase = pod_phase(pod, status)
        if reason == DEADLINE:
            phase = PodPhase.FAILED
        state = PodState(
            pod=pod,
            status=status,
            phase=phase,
            ready=ready(pod, status, health) and bool(status.active),
            containers=container_views(pod, status, health, troubles.waiting),
            reason=reason or troubles.reason,
            message=message or troubles.message,
            failures=troubles.failures,
        )
        log_changes(_log, self.state, state)
        self.state = state
        self._parts.on_state(state)

    async def _save_status(self, pod: PodSpec) -> None:
        """Save the state for commands that show the pod later. Nothing is decided from it."""
        if self.state is None:
            return
        status = last_status(self.state, self._parts.clocks.now())
        try:
            await asyncio.to_thread(write_last_status, self._parts.manager.dirs.folder(pod.uid), status)
        except OSError as error:
            problem = str(error)
            self._limited_log.log(
                logging.WARNING, "Cannot write the pod status note", key="note", pod=pod.title, err=problem
            )

    def on_probe_result(self) -> None:
        """Publish the state with the new results of probes; the runtime is not asked."""
        if self.state is not None and self.pod is not None:
            health = self._parts.probes
            views = container_views(self.pod, self.state.status, health, self._start_failures.waiting)
            is_ready = ready(self.pod, self.state.status, health) and bool(self.state.status.active)
            state = replace(self.state, containers=views, ready=is_ready)
            log_changes(_log, self.state, state)
            self.state = state
            self._parts.on_state(state)

    @property
    def title(self) -> str:
        """`namespace/name` of the pod; its uid if no more is known."""
        return self.pod.title if self.pod is not None else self.uid

    def _schedule_after_failure(self, usual: float, *known: float) -> None:
        """As `_schedule`, after a failure, which may itself have changed the status of the runtime."""
        self._quiet_until = self._parts.clocks.elapsed() + _QUIET
        self._schedule(usual, *known)

    def _schedule(self, usual: float, *known: float) -> None:
        """Sync after the usual time, with some jitter, or after one of the `known` times if that is sooner."""
        if not self._poked.is_set():
            wait = min((usual * (1 + _JITTER * random.random()), *(max(seconds, _SOONEST) for seconds in known)))
            self.due = self._parts.clocks.elapsed() + wait


def log_changes(log: logging.Logger, before: PodState | None, state: PodState) -> None:
    """Log how the pod has changed; of a pod that is seen for the first time only that it is ready, or has ended."""
    about = {"pod": state.pod.title}
    if state.ready and (before is None or not before.ready):
        log.info("Pod is ready", extra={"kv": {**about, "ips": ", ".join(state.status.ips)}})
    if state.phase.final and (before is None or before.phase is not state.phase):
        log.info("Pod terminated", extra={"kv": {**about, "phase": state.phase.value, "reason": state.reason}})
    if before is None:
        return
    ran = {container.id for container in before.status.containers if container.state is ContainerState.RUNNING}
    for container in state.status.containers:
        if container.id in ran and container.state is ContainerState.EXITED:
            details = {
                **about,
                "container": container.name,
                "exit_code": container.exit_code,
                "reason": container.reason,
            }
            log.info("Container terminated", extra={"kv": details})
    waited = {container.name for container in before.containers if container.reason == StepReason.CRASH_LOOP}
    for view in state.containers:
        if view.reason == StepReason.CRASH_LOOP and view.name not in waited:
            details = {**about, "container": view.name, "reason": view.message}
            log.info("Container restart delayed (back-off)", extra={"kv": details})
