"""The runtime manager: pods on any runtime that speaks CRI.

It has no state that matters: what exists is asked of the runtime, what is wanted is in the manifests, and only who has
to wait before the next try is remembered. A manager that dies at any point is replaced by a new one. Whoever uses it
sees to it that one at a time acts on a pod: `locks` are for that.
"""

import asyncio
from collections.abc import Collection
from typing import Final

from interpose.core.model.cgroup import CGROUP_ROOT
from interpose.cri.client import RuntimeClient
from interpose.cri.messages import cri
from interpose.net.grpc.status import RpcError
from interpose.node.pods.cgroups.pod_cgroups import PodCgroups
from interpose.node.pods.clock import Clocks
from interpose.node.pods.events.recorder import EventRecorder
from interpose.node.pods.labels import LOG_ROOT
from interpose.node.pods.locks import PodLocks
from interpose.node.pods.node_info import NodeFacts
from interpose.node.pods.spec import PodSpec
from interpose.node.pods.status.lister import addresses
from interpose.node.pods.status.origin import read_origin
from interpose.node.pods.status.reader import PodReader
from interpose.node.pods.status.runtime_pod import RuntimePod
from interpose.node.pods.status.types import PodStatus
from interpose.node.pods.sync.action_types import UNPROBED, ProbeResults
from interpose.node.pods.sync.backoff import KeyedBackoff
from interpose.node.pods.sync.gc import GarbageCollector, ObjectRemover
from interpose.node.pods.sync.image_puller import Auth, ImagePuller
from interpose.node.pods.sync.inflight import InflightWork
from interpose.node.pods.sync.kill import ContainerKiller, KillOptions
from interpose.node.pods.sync.lifecycle_hooks import LifecycleHookRunner
from interpose.node.pods.sync.result import SILENT, ProgressListener, StepReason, SyncResult, SyncStep, SyncStepKind
from interpose.node.pods.sync.start_container import ContainerStarter
from interpose.node.pods.sync.sync_pod import PodSyncer
from interpose.node.pods.sync.termination_order import UNORDERED, TerminationOrder
from interpose.node.pods.volumes.pod_dirs import PodDirs
from interpose.node.pods.volumes.volumes import VolumeError

_CLOCKS: Final = Clocks()
_ROUNDS: Final = 3  # of a removal beside somebody who starts the pod


def _no_auth(_image: str) -> cri.AuthConfig | None:
    return None


class RuntimeManager(PodReader):
    """Brings pods up, ends them, says how they are, and cleans up."""

    def __init__(
        self,
        services: RuntimeClient,
        *,
        node: NodeFacts,
        dirs: PodDirs,
        log_root: str = LOG_ROOT,
        cgroup_mount: str = CGROUP_ROOT,
        clocks: Clocks = _CLOCKS,
        auth: Auth = _no_auth,
        where: str = "",
    ) -> None:
        super().__init__(services, dirs=dirs, where=where)
        self.dirs: PodDirs = dirs
        self.node = node
        self.locks = PodLocks(dirs.lock_file)
        self.events = EventRecorder(dirs.folder, clocks)
        self.backoff = KeyedBackoff()
        self.pull_backoff = KeyedBackoff()
        self._clocks = clocks
        hooks = LifecycleHookRunner(services, clocks)
        self._killer = ContainerKiller(services, services, hooks, clocks)
        self._remover = ObjectRemover(services, services, log_root=log_root)
        starter = ContainerStarter(
            services,
            images=ImagePuller(services, self.pull_backoff, clocks, auth),
            hooks=hooks,
            killer=self._killer,
            folders=dirs,
            node=node,
            backoff=self.backoff,
            clocks=clocks,
            log_root=log_root,
        )
        cgroups = PodCgroups(node, cgroup_mount, folder=dirs.folder)
        self._inflight = InflightWork()
        self._syncer = PodSyncer(
            services,
            services,
            inflight=self._inflight,
            cgroups=cgroups,
            starter=starter,
            killer=self._killer,
            remover=self._remover,
            resized=self._resized,
            folders=dirs,
            node=node,
            log_root=log_root,
        )
        self._collector = GarbageCollector(
            self._listing,
            killer=self._killer,
            remover=self._remover,
            folders=dirs,
            cgroups=cgroups,
            resized=self._resized,
        )

    async def sync_pod(
        self, pod: PodSpec, status: PodStatus, health: ProbeResults = UNPROBED, *, progress: ProgressListener = SILENT
    ) -> SyncResult:
        """Bring a pod one round nearer to what its manifest says. `status` is what `get_pod_status` just said."""
        try:
            return await self._syncer.sync(pod, status, health, self.events.recording(pod.uid, progress))
        finally:
            await self.events.flush()

    async def refresh_files(self, pod: PodSpec, status: PodStatus) -> str:
        """Give the volumes of a pod that runs the files that its manifest has now; what went wrong, or nothing."""
        try:
            work = asyncio.to_thread(self.dirs.prepare, pod, self.node, status.ips)
            await self._inflight.run(pod.uid, work)
        except (VolumeError, OSError, ValueError) as error:
            return str(error)
        return ""

    async def kill_pod(
        self,
        running: RuntimePod,
        pod: PodSpec | None = None,
        grace: int | None = None,
        *,
        progress: ProgressListener = SILENT,
    ) -> SyncResult:
        """End everything of a pod and give its network back; nothing is removed. Without `pod`, what was noted on its
        containers says how."""
        return SyncResult(steps=tuple(await self._kill(running, pod, grace, progress)))

    async def remove_pod(
        self,
        running: RuntimePod,
        pod: PodSpec | None = None,
        grace: int | None = None,
        *,
        keep_logs: bool = False,
        progress: ProgressListener = SILENT,
    ) -> SyncResult:
        """End a pod and remove all that is left of it. What cannot be ended is not removed, and as long as a runtime
        has anything of the pod its folder stays: somebody may have started it again."""
        await self._inflight.wait_idle(running.uid)
        steps: list[SyncStep] = []
        left = running if running.complete else await self._listing.pod(running.uid)
        for _ in range(_ROUNDS):
            steps += await self._put_away(left, pod, grace, progress)
            if any(step.error is not None for step in steps):
                return SyncResult(steps=tuple(steps))
            left = await self._listing.pod(running.uid)
            if not left.containers and not left.sandboxes:
                steps += await self._collector.folders([running.uid], keep_logs=keep_logs)
                return SyncResult(steps=tuple(steps))
        error = "another client keeps restarting it"
        steps.append(
            SyncStep(act=SyncStepKind.CLEAN_UP, target=running.uid, error=error, reason=StepReason.FAILED_REMOVE)
        )
        return SyncResult(steps=tuple(steps))

    async def _put_away(
        self, running: RuntimePod, pod: PodSpec | None, grace: int | None, progress: ProgressListener
    ) -> list[SyncStep]:
        steps = await self._kill(running, pod, grace, progress)
        if any(step.error is not None for step in steps):
            return steps
        for container in running.containers:
            # Logs go with their folder.
            steps.append(await self._remover.container(container.id, log_path=""))
        for sandbox in running.sandboxes:
            steps.append(await self._remover.sandbox(sandbox.id, stopped=True))
        return steps

    async def collect_garbage(self, known: Collection[str], *, evict_deleted: bool = False) -> SyncResult:
        """Remove what is left over of the pods whose uids are `known`, but their newest; with `evict_deleted` also all
        that does not run of pods of ours that are not known. Other users' pods are never touched."""
        now = self._clocks.seconds
        self.backoff.collect(now)
        self.pull_backoff.collect(now)
        return await self._collector.collect(frozenset(known), evict_deleted=evict_deleted)

    async def _kill(
        self, running: RuntimePod, pod: PodSpec | None, grace: int | None, progress: ProgressListener
    ) -> list[SyncStep]:
        order = UNORDERED if pod is not None else await asyncio.to_thread(self._noted_order, running.uid)
        reach = await self._reach(running)
        recorded = self.events.recording(running.uid, progress)
        how = KillOptions(pod=pod, title=running.title, reach=reach, grace=grace, progress=recorded, order=order)
        try:
            return await self._killer.pod(running.running, [sandbox.id for sandbox in running.sandboxes], how)
        finally:
            await self.events.flush()

    async def _reach(self, running: RuntimePod) -> tuple[str, ...]:
        """Where hooks of its containers go, as the runtime says it now: what it was before may be another pod's."""
        if not running.running:
            return ()
        try:
            sandbox = await self._listing.newest_sandbox(running)
        except RpcError:
            return ()  # hooks that need it fail, and say so
        return () if sandbox is None else self.node.reach(addresses(sandbox), host_network=sandbox.host_network)

    def _noted_order(self, uid: str) -> TerminationOrder:
        """The order of containers as it was noted when the pod was started. Pods of others have none."""
        try:
            origin = read_origin(self.dirs.folder(uid))
        except ValueError:
            return UNORDERED
        return UNORDERED if origin is None else TerminationOrder(containers=origin.containers, sidecars=origin.sidecars)
