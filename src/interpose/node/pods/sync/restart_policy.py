"""When a container that does not run is started again, and when one that runs needs other resources. Pure."""

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from interpose.core.model.pod import ContainerState
from interpose.node.pods.status.container_values import ResourceRequirements, RestartPolicy
from interpose.node.pods.status.types import ContainerStatus
from interpose.node.pods.sync.action_types import Kill, KillReason, PodActionsDraft, Resize

if TYPE_CHECKING:
    from interpose.node.pods.spec import ContainerSpec, PodSpec

RESTART_ALL: Final = "RestartAllContainers"
RESTART_CONTAINER: Final = "RestartContainer"
# What can be changed while a container runs.
_RESIZED: Final = ("cpu", "memory")


def policy_of(pod: "PodSpec", container: "ContainerSpec") -> RestartPolicy:
    """The container's own, or that of the pod."""
    return container.restart_policy or pod.restart_policy


def is_sidecar(container: "ContainerSpec") -> bool:
    """Of an init container: whether it stays while the others run."""
    return container.restart_policy is RestartPolicy.ALWAYS


def rule_for(container: "ContainerSpec", status: ContainerStatus | None) -> str | None:
    """What the first rule that knows about the end of a container says; None if it has not ended or none knows."""
    if status is None or status.state is not ContainerState.EXITED:
        return None
    for rule in container.restart_rules:
        if (status.exit_code in rule.codes) == (rule.operator == "In"):
            return rule.action
    return None


def should_restart(pod: "PodSpec", container: "ContainerSpec", status: ContainerStatus | None) -> bool:
    """Whether a container whose newest instance is `status` is to be started."""
    if pod.deleted:
        return False
    if status is None:
        return True
    if status.state is not ContainerState.EXITED:
        # Created ones were given up halfway, and of unknown ones nobody knows better.
        return status.state is not ContainerState.RUNNING
    if rule_for(container, status) is not None:
        return True
    return restarts_after(policy_of(pod, container), failed=status.exit_code != 0)


def restarts_after(policy: RestartPolicy, *, failed: bool) -> bool:
    """What a policy says about an end."""
    return policy is RestartPolicy.ALWAYS or (policy is RestartPolicy.ON_FAILURE and failed)


def resize(
    index: int, container: "ContainerSpec", status: ContainerStatus, draft: PodActionsDraft, *, init: bool = False
) -> bool:
    """Note what a running container needs if its resources were edited. False: it is killed and started for it."""
    changed = _changed(container.resources, status.resources)
    if any(container.resize_policy.get(name) == RESTART_CONTAINER for name in changed):
        draft.kill[status.id] = Kill(
            container=container,
            name=container.name,
            reason=KillReason.RESIZE,
            message=f"Container {container.name} {KillReason.RESIZE.words}, will be restarted",
        )
        (draft.init_start if init else draft.start).append(index)
        return False
    if changed:
        draft.resize.append(Resize(index=index, container_id=status.id, init=init))
    return True


def _changed(wanted: ResourceRequirements, given: ResourceRequirements | None) -> tuple[str, ...]:
    if given is None:
        return ()
    return tuple(name for name in _RESIZED if _of(wanted, name) != _of(given, name))


def _of(resources: ResourceRequirements, name: str) -> tuple[Fraction, Fraction]:
    """Request and limit, zero for none; a request that is missing is the limit."""
    limits: Mapping[str, Fraction] = resources.limits
    return resources.requests.get(name, limits.get(name, Fraction())), limits.get(name, Fraction())
