"""Ending containers and pods: hooks first, then in their order, each with what is left of its grace. Removes nothing.

A container that is not there any more has been ended. One that was told to end through a call that was lost may or may
not have been: that is an error, and the next status shows which.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from interpose.cri.services import ContainerManager, PodSandboxManager
from interpose.net.grpc.status import Code, RpcError
from interpose.node.pods.clock import Clocks
from interpose.node.pods.labels import Hook
from interpose.node.pods.spec import ContainerSpec, PodSpec
from interpose.node.pods.status.annotations import ContainerAnnotations, parse_annotations
from interpose.node.pods.sync.action_types import KillReason
from interpose.node.pods.sync.lifecycle_hooks import HookError, LifecycleHookRunner
from interpose.node.pods.sync.result import (
    SILENT,
    ProgressEvent,
    ProgressListener,
    ProgressPhase,
    StepReason,
    SyncStep,
    SyncStepKind,
)
from interpose.node.pods.sync.termination_order import (
    UNORDERED,
    TerminationOrder,
    at_least,
    grace_of,
    order_of,
    predecessors,
)
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)


class ContainerToKill(Protocol):
    """A container to end: one of a list, or of a status."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def annotations(self) -> Mapping[str, str]: ...


class _EndTracker:
    """The containers of a pod that have ended, and the order in which the others may end."""

    def __init__(self, order: TerminationOrder, running: Iterable[str]) -> None:
        self._left = Counter(running)  # more than one of a name: leftovers of a start whose outcome was lost
        self._before = predecessors(order, self._left)
        self._ended = {name: asyncio.Event() for name in self._left}

    async def wait(self, name: str, most: float) -> None:
        """Wait until its predecessors have ended, for at most `most` seconds."""
        try:
            async with asyncio.timeout(most):
                for other in self._before.get(name, ()):
                    await self._ended[other].wait()
        except TimeoutError:
            _log.info("Container stops waiting for others to terminate", extra={"kv": {"container": name}})

    def has_predecessors(self, name: str) -> bool:
        """Whether other containers have to end before this one."""
        return bool(self._before.get(name))

    def mark_ended(self, name: str) -> None:
        """Note that a container has ended, or could not be stopped."""
        self._left[name] -= 1
        if not self._left[name]:
            self._ended[name].set()


@dataclass(frozen=True, slots=True, kw_only=True)
class KillOptions:
    """How a pod's containers are ended: whose they are, why, and with which grace instead of their own. `order` is for
    those who have no manifest."""

    pod: PodSpec | None = None
    title: str = ""
    reach: tuple[str, ...] = ()  # where hooks go
    grace: int | None = None
    reasons: Mapping[str, KillReason] = field(default_factory=dict)  # by container id
    order: TerminationOrder = UNORDERED
    progress: ProgressListener = SILENT


class ContainerKiller:
    """Ends containers. Keeps no state."""

    def __init__(
        self, containers: ContainerManager, sandboxes: PodSandboxManager, hooks: LifecycleHookRunner, clocks: Clocks
    ) -> None:
        self._containers = containers
        self._sandboxes = sandboxes
        self._hooks = hooks
        self._clocks = clocks

    async def containers(
        self, targets: Sequence[ContainerToKill], how: KillOptions, *, ordered: bool = True
    ) -> list[SyncStep]:
        """End these, all at once as far as their order allows."""
        order = order_of(how.pod) if how.pod is not None else how.order
        tracker = _EndTracker(order if ordered else UNORDERED, [container.name for container in targets])
        bag = TaskBag()
        tasks = [bag.spawn(self._end(container, how, tracker), name=f"end {container.name}") for container in targets]
        try:
            return [await task for task in tasks]
        finally:
            await bag.cancel()

    async def sandboxes(self, ids: Sequence[str]) -> list[SyncStep]:
        """Stop these; the network is given back."""
        steps = []
        for sandbox_id in ids:
            error = None
            try:
                await self._sandboxes.stop_pod_sandbox(sandbox_id)
            except RpcError as failure:
                if failure.code is not Code.NOT_FOUND:
                    error = str(failure)
            reason = StepReason.NONE if error is None else StepReason.FAILED_KILL_SANDBOX
            steps.append(SyncStep(act=SyncStepKind.STOP_SANDBOX, target=sandbox_id, error=error, reason=reason))
        return steps

    async def pod(
        self, targets: Sequence[ContainerToKill], sandbox_ids: Sequence[str], how: KillOptions
    ) -> list[SyncStep]:
        """End all containers, then stop the sandboxes: also those of containers that would not end."""
        steps = await self.containers(targets, how)
        return steps + await self.sandboxes(sandbox_ids)

    async def container(self, target: ContainerToKill, how: KillOptions) -> SyncStep:
        """Stop one container, and return what came of it; it does not raise."""
        return (await self.containers([target], how, ordered=False))[0]

    async def _end(self, target: ContainerToKill, how: KillOptions, tracker: _EndTracker) -> SyncStep:
        try:
            error = await self._kill(target, how, tracker)
        finally:
            tracker.mark_ended(target.name)
        if error is None:
            how.progress.on_progress(ProgressEvent(pod=how.title, phase=ProgressPhase.STOPPED, container=target.name))
            return SyncStep(act=SyncStepKind.KILL_CONTAINER, target=target.name)
        event = ProgressEvent(
            pod=how.title,
            phase=ProgressPhase.FAILED,
            container=target.name,
            detail=error,
            reason=StepReason.FAILED_KILL,
        )
        how.progress.on_progress(event)
        return SyncStep(act=SyncStepKind.KILL_CONTAINER, target=target.name, error=error, reason=StepReason.FAILED_KILL)

    async def _kill(self, target: ContainerToKill, how: KillOptions, tracker: _EndTracker) -> str | None:
        notes = parse_annotations(target.annotations)
        container = _find_container(how.pod, target.name)
        pod = how.pod if container is not None else None
        reason = how.reasons.get(target.id)
        grace = grace_of(pod, container, notes, reason=reason, override=how.grace)
        why = "" if reason is None else f"because it {reason.words}"
        how.progress.on_progress(
            ProgressEvent(pod=how.title, phase=ProgressPhase.STOPPING, container=target.name, detail=why)
        )
        began = self._clocks.elapsed()
        hook = container.lifecycle.pre_stop if container is not None else notes.pre_stop
        if hook is not None and grace > 0:
            await self._pre_stop(target, hook, container or _container_from_annotations(target.name, notes), how, grace)
        left = grace - int(self._clocks.elapsed() - began)
        if left > 0 and tracker.has_predecessors(target.name):
            await tracker.wait(target.name, left)
            left = grace - int(self._clocks.elapsed() - began)
        try:
            await self._containers.stop_container(target.id, at_least(left))
        except RpcError as failure:
            if failure.code is not Code.NOT_FOUND:
                return str(failure)
        return None

    async def _pre_stop(
        self, target: ContainerToKill, hook: Hook, container: ContainerSpec, how: KillOptions, grace: int
    ) -> None:
        """A hook that fails or takes too long does not keep a container alive."""
        limit = asyncio.timeout(grace)
        try:
            async with limit:
                await self._hooks.run(hook, target.id, container, how.reach)
        except HookError as error:
            why = str(error)
        except TimeoutError:
            if not limit.expired():
                raise
            why = f"exceeded the grace period of {grace} s"
        else:
            return
        _log.warning("preStop hook failed", extra={"kv": {"container": target.name, "pod": how.title, "err": why}})
        how.progress.on_progress(
            ProgressEvent(pod=how.title, phase=ProgressPhase.PRE_STOP_FAILED, container=target.name, detail=why)
        )


def _find_container(pod: PodSpec | None, name: str) -> ContainerSpec | None:
    """The container as the manifest has it."""
    if pod is None:
        return None
    containers = (*pod.containers, *pod.init_containers, *pod.ephemeral_containers)
    return next((container for container in containers if container.name == name), None)


def _container_from_annotations(name: str, notes: ContainerAnnotations) -> ContainerSpec:
    """What is left of a container whose manifest is gone."""
    return ContainerSpec(name=name, image="", ports=notes.ports)
