"""Bringing a pod to what its manifest says, one round: decide, then act in a fixed order.

Nothing is remembered from round to round but who has to wait. A call that failed or was lost is a failed step, nothing
is concluded from it: the next round begins with what the runtime says then.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterable

from interpose.core.model.pod import ContainerState
from interpose.cri.services import ContainerManager, PodSandboxManager
from interpose.net.grpc.status import RpcError
from interpose.node.pods.cgroups.pod_cgroups import PodCgroups
from interpose.node.pods.cri_config.container import container_resources, resize_annotations
from interpose.node.pods.cri_config.sandbox import sandbox_config
from interpose.node.pods.node_info import NodeFacts
from interpose.node.pods.spec import ContainerSpec, PodSpec
from interpose.node.pods.status.lister import addresses, sandbox_status
from interpose.node.pods.status.resize_record import ResizeRecord
from interpose.node.pods.status.types import ContainerStatus, PodStatus
from interpose.node.pods.sync.action_types import PodActions, ProbeResults
from interpose.node.pods.sync.actions import compute_pod_actions
from interpose.node.pods.sync.gc import ObjectRemover
from interpose.node.pods.sync.image_puller import ContainerStartError
from interpose.node.pods.sync.inflight import InflightWork
from interpose.node.pods.sync.kill import ContainerKiller, KillOptions
from interpose.node.pods.sync.restart_policy import is_sidecar
from interpose.node.pods.sync.result import (
    ProgressEvent,
    ProgressListener,
    ProgressPhase,
    StepReason,
    SyncResult,
    SyncStep,
    SyncStepKind,
)
from interpose.node.pods.sync.start_container import ContainerStarter, PodDirectories, SandboxContext
from interpose.node.pods.volumes.volumes import VolumeError

_log = logging.getLogger(__name__)

_DEAD = (ContainerState.EXITED, ContainerState.UNKNOWN)
_ALIVE = (ContainerState.RUNNING, ContainerState.UNKNOWN)


class AbortError(Exception):
    """This sync ends here; its steps have the reason."""


class PodSyncer:
    """Syncs pods. One sync at a time for each pod; any number of pods."""

    def __init__(
        self,
        sandboxes: PodSandboxManager,
        containers: ContainerManager,
        *,
        inflight: InflightWork,
        cgroups: PodCgroups,
        starter: ContainerStarter,
        killer: ContainerKiller,
        remover: ObjectRemover,
        resized: ResizeRecord,
        folders: PodDirectories,
        node: NodeFacts,
        log_root: str,
    ) -> None:
        self.inflight = inflight
        self.sandboxes = sandboxes
        self.containers = containers
        self.cgroups = cgroups
        self.starter = starter
        self.killer = killer
        self.remover = remover
        self.resized = resized
        self.folders = folders
        self.node = node
        self.log_root = log_root

    async def sync(
        self, pod: PodSpec, status: PodStatus, health: ProbeResults, progress: ProgressListener
    ) -> SyncResult:
        """Sync the pod once: compute its actions from the status and perform them."""
        actions = compute_pod_actions(pod, status, health)
        if actions.nothing:
            return SyncResult()
        sync_round = _Round(self, pod, status, actions, progress)
        with contextlib.suppress(AbortError):
            await sync_round.run()
        return sync_round.result()


class _Round:
    """One sync of one pod: collects its steps."""

    def __init__(
        self, parts: PodSyncer, pod: PodSpec, status: PodStatus, actions: PodActions, progress: ProgressListener
    ) -> None:
        self._parts = parts
        self._pod = pod
        self._status = status
        self._actions = actions
        self._progress = progress
        self._steps: list[SyncStep] = []
        self._waits: list[float] = []

    def result(self) -> SyncResult:
        """The steps that were done so far."""
        return SyncResult(steps=tuple(self._steps), retry_after=min(self._waits, default=None))

    async def run(self) -> None:
        """All steps in their order. Raises AbortError when the next ones make no sense."""
        actions = self._actions
        starts = bool(actions.start or actions.init_start or actions.ephemeral_start)
        if actions.create_sandbox or starts:
            await self._prepare(self._status.ips)
        if actions.kill_pod:
            await self._kill_pod()
            if not actions.create_sandbox:
                return
            await self._remove(
                [container for container in self._status.containers if container.name in self._init_names]
            )
        else:
            await self._kill_containers()
            await self._reset()
            await self._remove(self._old_init_containers())
        if not (actions.create_sandbox or starts or actions.resize):
            return
        if actions.create_sandbox or actions.resize:
            await self._prepare_cgroup(grow_only=not actions.create_sandbox)
        context = await self._ensure_sandbox()
        if starts and context.ips != self._status.ips:
            await self._prepare(context.ips)
        await self._resize()
        if actions.resize:
            await self._prepare_cgroup()
        await self._start(context)

    async def _prepare(self, ips: tuple[str, ...]) -> None:
        """Folders and volumes, before anything that needs them."""
        try:
            work = asyncio.to_thread(self._parts.folders.prepare, self._pod, self._parts.node, ips)
            await self._parts.inflight.run(self._pod.uid, work)
        except (VolumeError, OSError, ValueError) as error:
            self._record_failure(SyncStepKind.PREPARE, self._pod.name, str(error), StepReason.FAILED_PREPARE)
            raise AbortError from None

    async def _prepare_cgroup(self, *, grow_only: bool = False) -> None:
        """Around what its containers have: before they get more, after they got less."""
        try:
            work = asyncio.to_thread(self._parts.cgroups.make, self._pod, grow_only=grow_only)
            await self._parts.inflight.run(self._pod.uid, work)
        except (OSError, ValueError) as error:
            self._record_failure(SyncStepKind.PREPARE, self._pod.name, str(error), StepReason.FAILED_PREPARE)
            raise AbortError from None

    # -- killing -----------------------------------------------------------------------------------------------------

    async def _kill_pod(self) -> None:
        doomed = [container for container in self._status.containers if container.state in _ALIVE]
        ids = [sandbox.id for sandbox in self._status.sandboxes]
        self._add_steps(await self._parts.killer.pod(doomed, ids, self._kill_options()))

    async def _kill_containers(self) -> None:
        doomed = [container for container in self._status.containers if container.id in self._actions.kill]
        self._add_steps(await self._parts.killer.containers(doomed, self._kill_options(), ordered=False))

    async def _reset(self) -> None:
        """The pod starts over: what is left of its containers goes, in the order that was decided."""
        names = {container.id: container.name for container in self._status.containers}
        for container_id in self._actions.reset:
            try:
                await self._parts.containers.remove_container(container_id)
            except RpcError as error:
                self._record_failure(
                    SyncStepKind.REMOVE_CONTAINER, names.get(container_id, ""), str(error), StepReason.FAILED_REMOVE
                )
                raise AbortError from None
            self._steps.append(SyncStep(act=SyncStepKind.REMOVE_CONTAINER, target=names.get(container_id, "")))

    async def _remove(self, containers: Iterable[ContainerStatus]) -> None:
        """Remove leftovers. One that stays is collected later, so failures are only logged."""
        for container in containers:
            await self._parts.remover.container(container.id, log_path=container.log_path)

    def _old_init_containers(self) -> list[ContainerStatus]:
        """All but the newest of each name, if they have ended."""
        seen: set[str] = set()
        old = []
        for container in self._status.containers:
            if container.name in self._init_names:
                if container.name in seen and container.state in _DEAD and container.id not in self._actions.reset:
                    old.append(container)
                seen.add(container.name)
        return old

    # -- starting ----------------------------------------------------------------------------------------------------

    async def _ensure_sandbox(self) -> SandboxContext:
        """The sandbox that containers are started in: the one there is, or a new one."""
        pod, parts = self._pod, self._parts
        try:
            config = sandbox_config(pod, parts.node, self._actions.attempt, log_root=parts.log_root)
        except ValueError as error:
            self._record_failure(SyncStepKind.CREATE_SANDBOX, pod.name, str(error), StepReason.FAILED_SANDBOX_CONFIG)
            raise AbortError from None
        sandbox_id, ips = self._actions.sandbox_id, self._status.ips
        if self._actions.create_sandbox:
            self._report(ProgressPhase.CREATING_SANDBOX)
            try:
                work = parts.sandboxes.run_pod_sandbox(config, pod.runtime_handler)
                sandbox_id = await parts.inflight.run(pod.uid, work)
                found = sandbox_status((await parts.sandboxes.pod_sandbox_status(sandbox_id)).status)
            except RpcError as error:
                self._record_failure(SyncStepKind.CREATE_SANDBOX, pod.name, str(error), StepReason.FAILED_SANDBOX)
                raise AbortError from None
            ips = addresses(found)
            self._steps.append(SyncStep(act=SyncStepKind.CREATE_SANDBOX, target=sandbox_id))
            self._report(ProgressPhase.SANDBOX_READY, detail=", ".join(ips))
        return SandboxContext(
            pod=pod,
            sandbox_id=sandbox_id,
            sandbox_config=config,
            ips=ips,
            status=self._status,
            progress=self._progress,
        )

    async def _resize(self) -> None:
        pod, parts = self._pod, self._parts
        present = {container.id: None for container in self._status.containers}
        for resize in self._actions.resize:
            container = (pod.init_containers if resize.init else pod.containers)[resize.index]
            resources = container_resources(pod, container, parts.node)
            try:
                await parts.containers.update_container_resources(
                    resize.container_id, resources, resize_annotations(container)
                )
            except RpcError as error:
                self._record_failure(SyncStepKind.RESIZE, container.name, str(error), StepReason.FAILED_RESIZE)
                continue
            await asyncio.to_thread(
                parts.resized.note, pod.uid, resize.container_id, container.resources, present=present
            )
            self._steps.append(SyncStep(act=SyncStepKind.RESIZE, target=container.name))
            self._report(ProgressPhase.RESIZED, container.name)

    async def _start(self, context: SandboxContext) -> None:
        """Ephemeral ones, init containers up to the first that fails, then main ones whatever becomes of the others."""
        pod, actions = self._pod, self._actions
        for index in actions.ephemeral_start:
            await self._start_container(context, pod.ephemeral_containers[index])
        for index in actions.init_start:
            container = pod.init_containers[index]
            if not await self._start_container(context, container) and not is_sidecar(container):
                return
        for index in actions.start:
            await self._start_container(context, pod.containers[index])

    async def _start_container(self, context: SandboxContext, container: ContainerSpec) -> bool:
        try:
            await self._parts.starter.start(context, container)
        except ContainerStartError as error:
            if error.retry_after is not None:
                self._waits.append(error.retry_after)
            self._record_failure(SyncStepKind.START, container.name, error.message, error.reason)
            return False
        self._steps.append(SyncStep(act=SyncStepKind.START, target=container.name))
        return True

    # -- reporting ---------------------------------------------------------------------------------------------------

    @property
    def _init_names(self) -> frozenset[str]:
        return frozenset(container.name for container in self._pod.init_containers)

    def _kill_options(self) -> KillOptions:
        return KillOptions(
            pod=self._pod,
            title=self._pod.title,
            reach=self._parts.node.reach(self._status.ips, host_network=self._pod.host_network),
            reasons={container_id: kill.reason for container_id, kill in self._actions.kill.items()},
            progress=self._progress,
        )

    def _add_steps(self, steps: list[SyncStep]) -> None:
        self._steps += steps
        if any(step.error is not None for step in steps):
            raise AbortError

    def _record_failure(self, act: SyncStepKind, target: str, error: str, reason: StepReason) -> None:
        step = SyncStep(act=act, target=target, error=error, reason=reason)
        self._steps.append(step)
        moment = ProgressPhase.WAITING if step.is_waiting else ProgressPhase.FAILED
        self._report(moment, target if act in (SyncStepKind.START, SyncStepKind.RESIZE) else "", error, reason)
        if not step.is_waiting:
            details = {
                "pod": self._pod.title,
                "step": act.value,
                "target": target,
                "reason": reason.value,
                "err": error,
            }
            _log.warning("Pod sync incomplete", extra={"kv": details})

    def _report(
        self, moment: ProgressPhase, container: str = "", detail: str = "", reason: StepReason = StepReason.NONE
    ) -> None:
        title = self._pod.title
        self._progress.on_progress(
            ProgressEvent(pod=title, phase=moment, container=container, detail=detail, reason=reason)
        )
