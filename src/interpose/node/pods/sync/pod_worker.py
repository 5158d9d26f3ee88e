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
    NO_TROUBLES,
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
_CALM: Final = 1.0  # after a failure, before anything that the runtime shows is a reason to try again


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerParts:
    """What all workers of a node share."""

    manager: RuntimeManager
    probes: ProbeManager
    clocks: Clocks
    progress: ProgressListener
    observe: Callable[[PodState], None]
    wake: Callable[[], None]  # when something is due was not known before
    # Removes those of other uids and waits for it; says why it takes longer.
    retire_others: Callable[[Collection[str], Callable[[str], None]], Awaitable[None]]


class PodWorker:
    """Keeps one pod. `state` is what was last seen of it; None before the first sync, and of pods that only leave."""

    def __init__(self, uid: str, parts: WorkerParts, pod: PodSpec | None = None) -> None:
        self.uid = uid
        self.pod = pod
        self.state: PodState | None = None
        self.due = 0.0  # of the clock that never goes back
        self.gone = asyncio.Event()
        self.retired = pod is None
        self.settled = False  # nothing is under way, and nothing is known that should be
        self.trouble = ""  # why it cannot be removed
        self._heirs: list[Callable[[str], None]] = []  # who waits for it to be gone
        self._why = ""
        self._announced = False
        self._round: asyncio.Task[None] | None = None
        self._may_be_given_up = False
        self._noticed = False  # something happened while a round was under way
        self._calm = 0.0  # until then the last failure is waited out
        self._remarks = RateLimited(_log, clock=parts.clocks.elapsed)
        self._parts = parts
        self._poked = asyncio.Event()
        self._troubles: StartFailures = NO_TROUBLES
        self._grace: int | None = None
        self._alone = False  # pods of the same name were looked for
        self._edited = False  # what was said by hand before counts no more
        self._refreshed: PodSpec | None = None  # whose files are in the volumes
        self._ending = False
        self.poke()

    # -- from outside ------------------------------------------------------------------------------------------------

    def poke(self) -> None:
        """Ask for a sync as soon as possible."""
        self.due = _NEVER
        self.settled = False
        self._poked.set()

    def notice(self) -> None:
        """The runtime's status of the pod has changed: sync, but not right after a failed sync."""
        if self._round is not None and not self._round.done():
            self._noticed = True
        elif self._parts.clocks.elapsed() < self._calm:
            self.due = min(self.due, self._calm)
        else:
            self.poke()

    def want(self, pod: PodSpec) -> None:
        """The manifest was read again. An edit ends what somebody said by hand."""
        self.retired = self._announced = False
        self.trouble = ""
        self._grace = None
        if pod != self.pod:
            self.pod = pod
            self._troubles = NO_TROUBLES
            self._edited = True
            self.poke()

    def retire(self, why: str = "", grace: int | None = None) -> None:
        """It is not wanted any more: end it, remove it, and end. A grace only ever becomes shorter."""
        sooner = grace is not None and (self._grace is None or grace < self._grace)
        if not self.retired or sooner:
            self.retired = True
            self._grace = grace if sooner else self._grace
            self.give_up()
            if self._ending and self._round is not None:
                self._round.cancel()  # what waits for a longer grace is begun again with this one
            self.poke()
        self._why = self._why or why

    def give_up(self) -> None:
        """Whatever is being done to get it going is of no use any more."""
        if self._may_be_given_up and self._round is not None:
            self._round.cancel()

    @contextmanager
    def inherited(self, tell: Callable[[str], None]) -> Generator[None]:
        """Who waits for it to be gone hears why it is not."""
        self._heirs.append(tell)
        if self.trouble:
            tell(self._excuse)
        try:
            yield
        finally:
            self._heirs.remove(tell)

    @property
    def _excuse(self) -> str:
        return f"the one before it ({self.uid}) cannot be removed: {self.trouble}"

    @property
    def starting(self) -> bool:
        """Whether something is being done to get it going."""
        return self._may_be_given_up

    async def run(self) -> None:
        """Until the pod is removed, or for ever."""
        rounds = TaskBag()
        try:
            while not self.gone.is_set():
                await self._poked.wait()
                self._poked.clear()
                self._noticed, self._calm = False, 0.0
                self._round = rounds.spawn(self._once(), name=f"round of pod {self.title}")
                await asyncio.wait((self._round,))
                if self._round.cancelled():
                    self.poke()
                elif self._noticed:
                    self.notice()
                if not self._poked.is_set():
                    self.settled = True
                self._parts.wake()
        finally:
            await rounds.cancel()
            self._parts.probes.forget(self.uid)
            self.gone.set()

    # -- one look ----------------------------------------------------------------------------------------------------

    async def _once(self) -> None:
        try:
            if self.retired or self.pod is None:
                async with self._parts.manager.locks.held(self.uid):
                    await self._remove()
                return
            if not self._alone:
                await self._have_the_name(self.pod)
            async with self._parts.manager.locks.held(self.uid):
                await self._sync(self.pod)
        except BusyPodError:
            self._sleep(_AFTER_BUSY, _AFTER_BUSY)
        except RpcError as error:
            transient = error.code in _TRANSIENT
            level = logging.DEBUG if transient else logging.WARNING  # the sync loop logs once that the runtime is away
            _log.log(level, "Pod could not be looked at", extra={"kv": {"pod": self.title, "err": str(error)}})
            self._sleep_off(_AFTER_TRANSIENT if transient else _AFTER_ERROR)
        except Exception:
            _log.exception("Failed to sync pod", extra={"kv": {"pod": self.title}})
            self._sleep_off(_AFTER_ERROR)

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
            await self._end(pod, status, STOPPED, "stopped by hand")
            return
        left = self._time_left(pod, origin.began)
        if left is not None and left <= 0:
            if not pod_phase(pod, status).final or self._overran(pod, status, origin):
                await self._end(pod, status, DEADLINE, f"was active longer than {pod.active_deadline} s")
                return
            left = None  # it had ended before that
        await self._refresh(pod, status)
        with self._given_up_if_need_be():
            result = await manager.sync_pod(pod, status, parts.probes, progress=parts.progress)
        self._troubles = update_failures(self._troubles, result)
        if result.steps:
            status = await manager.get_pod_status(pod.uid)
            parts.probes.update(pod, status)
        self._show(pod, status)
        await self._note(pod)
        known = [wait for wait in (result.retry_after, left) if wait is not None]  # when something is due for sure
        if any(not step.waits for step in result.errors):
            self._sleep_off(_AFTER_ERROR, *known)
        else:
            self._sleep(_RESYNC, *known)

    async def _refresh(self, pod: PodSpec, status: PodStatus) -> None:
        """Files from ConfigMaps, Secrets and the pod's own fields follow an edit while containers go on."""
        if pod == self._refreshed or not status.active:
            return
        trouble = await self._parts.manager.refresh_files(pod, status)
        if trouble:
            self._remarks.log(logging.WARNING, "Volumes are as they were", key="volumes", pod=pod.title, err=trouble)
        else:
            self._refreshed = pod

    async def _have_the_name(self, pod: PodSpec) -> None:
        """An edited manifest is another pod: the one of the same name before it has to be gone."""
        known = await known_pods(self._parts.manager)
        others = [
            other.uid
            for other in known.pods
            if other.title == pod.title and other.uid != pod.uid and other.uid in known.ours
        ]
        if others:

            def tell(trouble: str) -> None:
                self._show(pod, PodStatus(uid=pod.uid), reason=REPLACING, message=trouble)

            tell("")
            with self._given_up_if_need_be():
                await self._parts.retire_others(others, tell)
        self._alone = True

    @contextmanager
    def _given_up_if_need_be(self) -> Generator[None]:
        self._may_be_given_up = True
        try:
            yield
        finally:
            self._may_be_given_up = False

    async def _end(self, pod: PodSpec, status: PodStatus, reason: str, message: str) -> None:
        """Its time is over, or somebody stopped it: it is ended if it runs, stays, and is not started again."""
        manager = self._parts.manager
        running = await manager.find_pod(pod.uid)
        failed = False
        if running.running or any(sandbox.ready for sandbox in running.sandboxes):
            _log.info("Stopping pod", extra={"kv": {"pod": pod.title, "reason": reason, "why": message}})
            if reason == DEADLINE:
                manager.events.record(
                    pod.uid, ProgressEvent(pod=pod.title, moment=ProgressPhase.EXPIRED, detail=f"Pod {message}")
                )
            result = await manager.kill_pod(running, pod, progress=self._parts.progress)
            failed = self._complain(result) != ""
            status = await manager.get_pod_status(pod.uid)
            self._parts.probes.update(pod, status)
        self._show(pod, status, reason=reason, message=message)
        await self._note(pod)
        if failed:
            self._sleep_off(_AFTER_ERROR)
        else:
            self._sleep(_RESYNC)

    async def _remove(self) -> None:
        manager = self._parts.manager
        if not self._announced:
            self._announced = True
            _log.info("Stopping and removing pod", extra={"kv": {"pod": self.title, "uid": self.uid, "why": self._why}})
        running = await manager.find_pod(self.uid)
        self._ending = True
        try:
            result = await manager.remove_pod(running, self.pod, self._grace, progress=self._parts.progress)
        finally:
            self._ending = False
        self.trouble = self._complain(result)
        if self.trouble:
            for heir in self._heirs:
                heir(self._excuse)
            self._sleep_off(_AFTER_ERROR)
            return
        _log.info("Removing pod", extra={"kv": {"pod": self.title, "uid": self.uid}})
        if self.retired:  # it may be wanted again by now
            self.gone.set()
        else:
            self.poke()

    def _complain(self, result: SyncResult) -> str:
        """What kept a pod from being ended or removed: it goes on, and nobody may be looking."""
        for step in result.errors:
            self._remarks.log(
                logging.WARNING,
                "Pod could not be ended or removed, trying again",
                key=f"{step.act} {step.target}",
                pod=self.title,
                step=step.act.value,
                target=step.target,
                err=step.error,
            )
        return result.errors[0].error or "" if result.errors else ""

    def _overran(self, pod: PodSpec, status: PodStatus, origin: Origin) -> bool:
        """Whether it was ended for its time; also if another manager did it."""
        ends = [container.finished_at for container in status.containers]
        return max(ends, default=0) >= origin.began + (pod.active_deadline or 0) * 1_000_000_000

    def _time_left(self, pod: PodSpec, began: int) -> float | None:
        if pod.active_deadline is None:
            return None
        return pod.active_deadline - (self._parts.clocks.now() - began) / 1e9

    # -- saying ------------------------------------------------------------------------------------------------------

    def _show(self, pod: PodSpec, status: PodStatus, *, reason: str = "", message: str = "") -> None:
        health, troubles = self._parts.probes, self._troubles
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
        self._parts.observe(state)

    async def _note(self, pod: PodSpec) -> None:
        """Keep what was shown for whoever looks later. Nothing is decided from it."""
        if self.state is None:
            return
        status = last_status(self.state, self._parts.clocks.now())
        try:
            await asyncio.to_thread(write_last_status, self._parts.manager.dirs.folder(pod.uid), status)
        except OSError as error:
            why = str(error)
            self._remarks.log(logging.WARNING, "Cannot write the pod status note", key="note", pod=pod.title, err=why)

    def refresh(self) -> None:
        """Probes say something else: what is shown follows, whatever the runtime has."""
        if self.state is not None and self.pod is not None:
            health = self._parts.probes
            views = container_views(self.pod, self.state.status, health, self._troubles.waiting)
            is_ready = ready(self.pod, self.state.status, health) and bool(self.state.status.active)
            state = replace(self.state, containers=views, ready=is_ready)
            log_changes(_log, self.state, state)
            self.state = state
            self._parts.observe(state)

    @property
    def title(self) -> str:
        """Its name for people; the uid if no more is known."""
        return self.pod.title if self.pod is not None else self.uid

    def _sleep_off(self, usual: float, *known: float) -> None:
        """The same after a failure, which may itself have changed what the runtime shows."""
        self._calm = self._parts.clocks.elapsed() + _CALM
        self._sleep(usual, *known)

    def _sleep(self, usual: float, *known: float) -> None:
        """Be poked after the usual time, not with all others at once; sooner if something is due before."""
        if not self._poked.is_set():
            wait = min((usual * (1 + _JITTER * random.random()), *(max(seconds, _SOONEST) for seconds in known)))
            self.due = self._parts.clocks.elapsed() + wait


def log_changes(log: logging.Logger, before: PodState | None, state: PodState) -> None:
    """Say what has become of it; of a pod that is seen for the first time only that it is ready, or over."""
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
