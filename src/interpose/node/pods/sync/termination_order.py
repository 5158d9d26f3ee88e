"""The grace period of a container, and the order in which the containers of a pod end. Pure; whole seconds."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from interpose.node.pods.spec import ContainerSpec, PodSpec, Probe
from interpose.node.pods.status.annotations import ContainerAnnotations
from interpose.node.pods.sync.action_types import KillReason
from interpose.node.pods.sync.restart_policy import is_sidecar

MINIMUM: Final = 2  # even a container that should end now may close its files
USUAL: Final = 30


def grace_of(
    pod: PodSpec | None,
    container: ContainerSpec | None,
    notes: ContainerAnnotations,
    *,
    reason: KillReason | None = None,
    override: int | None = None,
) -> int:
    """The grace before anything was done with it. Without a manifest, what was noted on the container counts."""
    if override is not None:
        return override
    if pod is None:
        given = notes.deletion_grace if notes.deletion_grace is not None else notes.grace
        return given if given is not None else MINIMUM
    if pod.deletion_grace_period is not None:
        return pod.deletion_grace_period
    probe = _probe(container, reason)
    if probe is not None and probe.termination_grace_period is not None:
        return probe.termination_grace_period
    return pod.termination_grace_period


def _probe(container: ContainerSpec | None, reason: KillReason | None) -> Probe | None:
    if container is None:
        return None
    return {KillReason.LIVENESS: container.liveness, KillReason.STARTUP: container.startup}.get(
        reason or KillReason.UNKNOWN
    )


def at_least(left: float) -> int:
    """What is said to the runtime: never less than the minimum. What was used up counts in whole seconds."""
    return max(int(left), MINIMUM)


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminationOrder:
    """The names of a pod's main containers, and of its sidecars as they are started."""

    containers: tuple[str, ...] = ()
    sidecars: tuple[str, ...] = ()


UNORDERED: Final = TerminationOrder()


def order_of(pod: PodSpec) -> TerminationOrder:
    """The termination order of a pod, from its manifest."""
    return TerminationOrder(
        containers=tuple(container.name for container in pod.containers),
        sidecars=tuple(container.name for container in pod.init_containers if is_sidecar(container)),
    )


def predecessors(order: TerminationOrder, running: Collection[str]) -> Mapping[str, tuple[str, ...]]:
    """For each sidecar that runs, those that have to end before it: all main containers, then the sidecars behind it.

    Empty for a pod without sidecars, whose containers end all at once.
    """
    found: dict[str, tuple[str, ...]] = {}
    before = tuple(name for name in order.containers if name in running)
    for name in reversed(order.sidecars):
        if name in running:
            found[name] = before
            before = (*before, name)
    return found
