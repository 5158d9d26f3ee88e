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
from interpose.node.pods.spec import Container, Pod
from interpose.node.pods.status.lister import addresses, sandbox_status
from interpose.node.pods.status.resize_record import Resized
from interpose.node.pods.status.types import ContainerStatus, PodStatus
from interpose.node.pods.sync.action_types import Health, PodActions
from interpose.node.pods.sync.actions import compute_pod_actions
from interpose.node.pods.sync.gc import Remover
from interpose.node.pods.sync.image_puller import StartError
from interpose.node.pods.sync.inflight import Lasting
from interpose.node.pods.sync.kill import Killer, Killing
from interpose.node.pods.sync.restart_policy import is_sidecar
from interpose.node.pods.sync.result import Act, Moment, News, Progress, Reason, Step, SyncResult
from interpose.node.pods.sync.start_container import Folders, Place, Starter
from interpose.node.pods.volumes.volumes import VolumeError

_log = logging.getLogger(__name__)

_DEAD = (ContainerState.EXITED, ContainerState.UNKNOWN)
_ALIVE = (ContainerState.RUNNING, ContainerState.UNKNOWN)


class AbortError(Exception):
    """The round is over; the steps say why."""


class Syncer:
    """Makes rounds. One at a time for a pod; any number of pods."""

    def __init__(
        self,
        sandboxes: PodSandboxManager,
        containers: ContainerManager,
        *,
        lasting: Lasting,
        cgroups: PodCgroups,
        starter: Starter,
        killer: Killer,
        remover: Remover,
        resized: Resized,
        folders: Folders,
        node: NodeFacts,
        log_root: str,
    ) -> None:
        self.lasting = lasting
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

    async def sync(self, pod: Pod, status: PodStatus, health: Health, progress: Progress) -> SyncResult:
        """One round."""
        actions = compute_pod_actions(pod, status, health)
        if actions.nothing:
            return SyncResult()
        sync_round = _Round(self, pod, status, actions, progress)
        with contextlib.suppress(AbortError):
            await sync_round.run()
        return sync_round.result()


class _Round:
    """One round of one pod: collects what was done."""

    def __init__(self, parts: Syncer, pod: Pod, status: PodStatus, actions: PodActions, progress: Progress) -> None:
        self._parts = parts
        self._pod = pod
        self._status = status
        self._actions = actions
        self._progress = progress
        self._steps: list[Step] = []
        self._waits: list[float] = []

    def result(self) -> SyncResult:
        """What was done."""
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
            await self._remove([one for one in self._status.containers if one.name in self._init_names])
        else:
            await self._kill_containers()
            await self._reset()
            await self._remove(self._old_init_containers())
        if not (actions.create_sandbox or starts or actions.resize):
            return
        if actions.create_sandbox or actions.resize:
            await self._prepare_cgroup(grow_only=not actions.create_sandbox)
        place = await self._place()
        if starts and place.ips != self._status.ips:
            await self._prepare(place.ips)
        await self._resize()
        if actions.resize:
            await self._prepare_cgroup()
        await self._start(place)

    async def _prepare(self, ips: tuple[str, ...]) -> None:
        """Folders and volumes, before anything that needs them."""
        try:
            work = asyncio.to_thread(self._parts.folders.prepare, self._pod, self._parts.node, ips)
            await self._parts.lasting.run(self._pod.uid, work)
        except (VolumeError, OSError, ValueError) as error:
            self._failed(Act.PREPARE, self._pod.name, str(error), Reason.FAILED_PREPARE)
            raise AbortError from None

    async def _prepare_cgroup(self, *, grow_only: bool = False) -> None:
        """Around what its containers have: before they get more, after they got less."""
        try:
            work = asyncio.to_thread(self._parts.cgroups.make, self._pod, grow_only=grow_only)
            await self._parts.lasting.run(self._pod.uid, work)
        except (OSError, ValueError) as error:
            self._failed(Act.PREPARE, self._pod.name, str(error), Reason.FAILED_PREPARE)
            raise AbortError from None

    # -- what goes ---------------------------------------------------------------------------------------------------

    async def _kill_pod(self) -> None:
        doomed = [one for one in self._status.containers if one.state in _ALIVE]
        ids = [one.id for one in self._status.sandboxes]
        self._add(await self._parts.killer.pod(doomed, ids, self._how()))

    async def _kill_containers(self) -> None:
        doomed = [one for one in self._status.containers if one.id in self._actions.kill]
        self._add(await self._parts.killer.containers(doomed, self._how(), ordered=False))

    async def _reset(self) -> None:
        """The pod starts over: what is left of its containers goes, in the order that was decided."""
        names = {one.id: one.name for one in self._status.containers}
        for container_id in self._actions.reset:
            try:
                await self._parts.containers.remove_container(container_id)
            except RpcError as error:
                self._failed(Act.REMOVE_CONTAINER, names.get(container_id, ""), str(error), Reason.FAILED_REMOVE)
                raise AbortError from None
            self._steps.append(Step(act=Act.REMOVE_CONTAINER, target=names.get(container_id, "")))

    async def _remove(self, containers: Iterable[ContainerStatus]) -> None:
        """Leftovers. One that stays is collected later, so failures are only told to the log."""
        for one in containers:
            await self._parts.remover.container(one.id, log_path=one.log_path)

    def _old_init_containers(self) -> list[ContainerStatus]:
        """All but the newest of each name, if they have ended."""
        seen: set[str] = set()
        old = []
        for one in self._status.containers:
            if one.name in self._init_names:
                if one.name in seen and one.state in _DEAD and one.id not in self._actions.reset:
                    old.append(one)
                seen.add(one.name)
        return old

    # -- what comes --------------------------------------------------------------------------------------------------

    async def _place(self) -> Place:
        """The sandbox that containers are started in: the one there is, or a new one."""
        pod, parts = self._pod, self._parts
        try:
            config = sandbox_config(pod, parts.node, self._actions.attempt, log_root=parts.log_root)
        except ValueError as error:
            self._failed(Act.CREATE_SANDBOX, pod.name, str(error), Reason.FAILED_SANDBOX_CONFIG)
            raise AbortError from None
        sandbox_id, ips = self._actions.sandbox_id, self._status.ips
        if self._actions.create_sandbox:
            self._tell(Moment.CREATING_SANDBOX)
            try:
                work = parts.sandboxes.run_pod_sandbox(config, pod.runtime_handler)
                sandbox_id = await parts.lasting.run(pod.uid, work)
                found = sandbox_status((await parts.sandboxes.pod_sandbox_status(sandbox_id)).status)
            except RpcError as error:
                self._failed(Act.CREATE_SANDBOX, pod.name, str(error), Reason.FAILED_SANDBOX)
                raise AbortError from None
            ips = addresses(found)
            self._steps.append(Step(act=Act.CREATE_SANDBOX, target=sandbox_id))
            self._tell(Moment.SANDBOX_READY, detail=", ".join(ips))
        return Place(
            pod=pod,
            sandbox_id=sandbox_id,
            sandbox_config=config,
            ips=ips,
            status=self._status,
            progress=self._progress,
        )

    async def _resize(self) -> None:
        pod, parts = self._pod, self._parts
        present = {one.id: None for one in self._status.containers}
        for resize in self._actions.resize:
            container = (pod.init_containers if resize.init else pod.containers)[resize.index]
            resources = container_resources(pod, container, parts.node)
            try:
                await parts.containers.update_container_resources(
                    resize.container_id, resources, resize_annotations(container)
                )
            except RpcError as error:
                self._failed(Act.RESIZE, container.name, str(error), Reason.FAILED_RESIZE)
                continue
            await asyncio.to_thread(
                parts.resized.note, pod.uid, resize.container_id, container.resources, present=present
            )
            self._steps.append(Step(act=Act.RESIZE, target=container.name))
            self._tell(Moment.RESIZED, container.name)

    async def _start(self, place: Place) -> None:
        """Ephemeral ones, init containers up to the first that fails, then main ones whatever becomes of the others."""
        pod, actions = self._pod, self._actions
        for index in actions.ephemeral_start:
            await self._started(place, pod.ephemeral_containers[index])
        for index in actions.init_start:
            container = pod.init_containers[index]
            if not await self._started(place, container) and not is_sidecar(container):
                return
        for index in actions.start:
            await self._started(place, pod.containers[index])

    async def _started(self, place: Place, container: Container) -> bool:
        try:
            await self._parts.starter.start(place, container)
        except StartError as error:
            if error.retry_after is not None:
                self._waits.append(error.retry_after)
            self._failed(Act.START, container.name, error.message, error.reason)
            return False
        self._steps.append(Step(act=Act.START, target=container.name))
        return True

    # -- telling -----------------------------------------------------------------------------------------------------

    @property
    def _init_names(self) -> frozenset[str]:
        return frozenset(one.name for one in self._pod.init_containers)

    def _how(self) -> Killing:
        return Killing(
            pod=self._pod,
            title=self._pod.title,
            reach=self._parts.node.reach(self._status.ips, host_network=self._pod.host_network),
            reasons={container_id: kill.reason for container_id, kill in self._actions.kill.items()},
            progress=self._progress,
        )

    def _add(self, steps: list[Step]) -> None:
        self._steps += steps
        if any(step.error is not None for step in steps):
            raise AbortError

    def _failed(self, act: Act, target: str, error: str, reason: Reason) -> None:
        step = Step(act=act, target=target, error=error, reason=reason)
        self._steps.append(step)
        moment = Moment.WAITING if step.waits else Moment.FAILED
        self._tell(moment, target if act in (Act.START, Act.RESIZE) else "", error, reason)
        if not step.waits:
            details = {
                "pod": self._pod.title,
                "step": act.value,
                "target": target,
                "reason": reason.value,
                "err": error,
            }
            _log.warning("Pod sync incomplete", extra={"kv": details})

    def _tell(self, moment: Moment, container: str = "", detail: str = "", reason: Reason = Reason.NONE) -> None:
        title = self._pod.title
        self._progress.tell(News(pod=title, moment=moment, container=container, detail=detail, reason=reason))
