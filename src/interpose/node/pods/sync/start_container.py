"""Starting one container: wait if it keeps failing, have its image, make it, start it, run its hook.

What has been done when a step fails stays: the next status shows it, and the next attempt has another number.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from interpose.core.model.pod import ContainerState
from interpose.cri.messages import cri
from interpose.cri.services import ContainerManager
from interpose.net.grpc.status import RpcError
from interpose.node.pods.clock import Clocks
from interpose.node.pods.cri_config.container import ContainerConfigError, container_config
from interpose.node.pods.labels import container_annotations, log_directory, restarts_by_logs
from interpose.node.pods.node_info import NodeFacts
from interpose.node.pods.spec import ContainerSpec, PodSpec
from interpose.node.pods.status.types import ContainerStatus, PodStatus
from interpose.node.pods.sync.action_types import KillReason
from interpose.node.pods.sync.backoff import KeyedBackoff, container_key
from interpose.node.pods.sync.image_puller import ContainerStartError, ImagePuller, ReadyImage
from interpose.node.pods.sync.kill import ContainerKiller, KillOptions
from interpose.node.pods.sync.lifecycle_hooks import HookError, LifecycleHookRunner
from interpose.node.pods.sync.result import ProgressEvent, ProgressListener, ProgressPhase, StepReason


class PodDirectories(Protocol):
    """The folders of pods. May wait for a disk."""

    def prepare(self, pod: PodSpec, node: NodeFacts, ips: tuple[str, ...]) -> None:
        """Make all that the pod needs before it starts; may be repeated."""

    def mounts(
        self, pod: PodSpec, container: ContainerSpec, node: NodeFacts, ips: tuple[str, ...], restart_count: int
    ) -> list[cri.Mount]:
        """What a container sees of it."""

    def remove(self, uid: str) -> None:
        """Remove all that is left of a pod."""

    def uids(self) -> list[str]:
        """The pods that have folders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxContext:
    """Where a container is started: the sandbox, its configuration and its addresses, and what was there before."""

    pod: PodSpec
    sandbox_id: str
    sandbox_config: cri.PodSandboxConfig
    ips: tuple[str, ...]
    status: PodStatus
    progress: ProgressListener


class ContainerStarter:
    """Starts containers. `backoff` remembers who keeps failing."""

    def __init__(
        self,
        runtime: ContainerManager,
        *,
        images: ImagePuller,
        hooks: LifecycleHookRunner,
        killer: ContainerKiller,
        folders: PodDirectories,
        node: NodeFacts,
        backoff: KeyedBackoff,
        clocks: Clocks,
        log_root: str,
    ) -> None:
        self._runtime = runtime
        self._images = images
        self._hooks = hooks
        self._killer = killer
        self._folders = folders
        self._node = node
        self._backoff = backoff
        self._clocks = clocks
        self._log_root = log_root

    async def start(self, context: SandboxContext, container: ContainerSpec) -> str:
        """The id of the container that runs now. StartError says what kept it from that."""
        self._check_backoff(context, container)
        target = _target_id(context.status, container)
        image = await self._images.ensure(context.pod, container, context.sandbox_config, context.progress)
        count = await self._restart_count(context, container)
        config = await self._config(context, container, image, count, target)
        self._report(context, container, ProgressPhase.CREATING)
        try:
            container_id = await self._runtime.create_container(context.sandbox_id, config, context.sandbox_config)
        except RpcError as error:
            raise ContainerStartError(StepReason.CREATE, str(error)) from None
        self._report(context, container, ProgressPhase.STARTING)
        try:
            await self._runtime.start_container(container_id)
        except RpcError as error:
            raise ContainerStartError(StepReason.RUN, str(error)) from None
        await self._post_start(context, container, container_id)
        self._report(context, container, ProgressPhase.STARTED, container_id)
        return container_id

    def _check_backoff(self, context: SandboxContext, container: ContainerSpec) -> None:
        """StartError if it ended a short time ago, not for the first time."""
        ended = _last_exited(context.status, container.name)
        since = None if ended is None else ended.finished_at / 1e9
        key = container_key(context.pod, container)
        now = self._clocks.seconds
        left = self._backoff.delay(key, now, since=since)
        if left > 0:
            wait = self._backoff.wait(key)
            message = f"back-off {wait:.0f} s: next start in {left:.0f} s"
            raise ContainerStartError(StepReason.CRASH_LOOP, message, left)
        if ended is not None or self._backoff.wait(key):
            self._backoff.next(key, now, since=since)

    async def _restart_count(self, context: SandboxContext, container: ContainerSpec) -> int:
        """One more than the last one's; a runtime that has forgotten everything has left logs."""
        last = context.status.latest(container.name)
        if last is not None:
            return last.restart_count + 1
        folder = Path(log_directory(context.pod, self._log_root)) / container.name
        return await asyncio.to_thread(_count_by_logs, folder)

    async def _config(
        self, context: SandboxContext, container: ContainerSpec, image: ReadyImage, count: int, target: str
    ) -> cri.ContainerConfig:
        pod, ips = context.pod, context.ips
        try:
            mounts: Sequence[cri.Mount] = await asyncio.to_thread(
                self._folders.mounts, pod, container, self._node, ips, count
            )
            return container_config(
                pod,
                container,
                node=self._node,
                image=image.id,
                image_user=image.user,
                restart_count=count,
                ips=ips,
                mounts=mounts,
                target_id=target,
            )
        except (ContainerConfigError, OSError, ValueError) as error:
            raise ContainerStartError(StepReason.CREATE_CONFIG, str(error)) from None

    async def _post_start(self, context: SandboxContext, container: ContainerSpec, container_id: str) -> None:
        hook = container.lifecycle.post_start
        if hook is None:
            return
        reach = self._node.reach(context.ips, host_network=context.pod.host_network)
        try:
            await self._hooks.run(hook, container_id, container, reach)
        except HookError as error:
            how = KillOptions(
                pod=context.pod,
                title=context.pod.title,
                reach=reach,
                reasons={container_id: KillReason.POST_START},
                progress=context.progress,
            )
            notes = container_annotations(context.pod, container, 0)
            await self._killer.container(_Started(id=container_id, name=container.name, annotations=notes), how)
            raise ContainerStartError(StepReason.POST_START, f"postStart hook: {error}") from None

    def _report(
        self, context: SandboxContext, container: ContainerSpec, moment: ProgressPhase, detail: str = ""
    ) -> None:
        context.progress.on_progress(
            ProgressEvent(pod=context.pod.title, phase=moment, container=container.name, detail=detail)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Started:
    id: str
    name: str
    annotations: dict[str, str]


def _last_exited(status: PodStatus, name: str) -> ContainerStatus | None:
    return next(
        (
            container
            for container in status.containers
            if container.name == name and container.state is ContainerState.EXITED
        ),
        None,
    )


def _target_id(status: PodStatus, container: ContainerSpec) -> str:
    """The container whose processes an ephemeral one wants to see."""
    if not container.target:
        return ""
    found = status.latest_active(container.target)
    if found is None or found.state is not ContainerState.RUNNING:
        message = f"container {container.name}: the target container {container.target!r} does not run"
        raise ContainerStartError(StepReason.CREATE_CONFIG, message)
    return found.id


def _count_by_logs(folder: Path) -> int:
    try:
        return restarts_by_logs([path.name for path in folder.iterdir()])
    except OSError:
        return 0
