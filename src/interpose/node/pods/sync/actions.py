"""What has to be done so that a pod becomes what its manifest says: from values, to values. Pure, and total.

`compute_pod_actions` never fails and never looks at a clock: whether a container that keeps failing has to wait is the
manager's question. It decides as the kubelet does, and goes further where the kubelet relies on an API server: a
deleted pod is killed, containers that the manifest no longer has are stopped, and so is a second instance of one.
"""

from collections.abc import Iterator
from types import MappingProxyType

from interpose.core.model.pod import ContainerState
from interpose.node.pods.labels import container_hash
from interpose.node.pods.spec import ContainerSpec, PodSpec, RestartPolicy
from interpose.node.pods.status.phase import pod_phase
from interpose.node.pods.status.types import ContainerStatus, PodStatus
from interpose.node.pods.sync.action_types import (
    UNPROBED,
    Kill,
    KillReason,
    PodActions,
    PodActionsDraft,
    ProbeResults,
    Resize,
)
from interpose.node.pods.sync.init_containers import compute_init_actions
from interpose.node.pods.sync.restart_policy import RESTART_ALL, is_sidecar, policy_of, resize, rule_for, should_restart

__all__ = [
    "UNPROBED",
    "Kill",
    "KillReason",
    "PodActions",
    "ProbeResults",
    "Resize",
    "compute_pod_actions",
    "pod_sandbox_changed",
    "should_restart",
]


def compute_pod_actions(pod: PodSpec, status: PodStatus, health: ProbeResults = UNPROBED) -> PodActions:
    """What to do now."""
    changed, attempt, sandbox_id = pod_sandbox_changed(pod, status)
    if pod.deleted:
        return PodActions(kill_pod=True, sandbox_id=sandbox_id, attempt=attempt, settled=_is_stopped(status))
    if changed:
        return _in_new_sandbox(pod, status, attempt, sandbox_id)
    if triggers := [container.id for container in _restart_all_triggers(pod, status)]:
        return _restart_all(pod, status, attempt, sandbox_id, triggers)
    draft = PodActionsDraft()
    known = {container.name for container in status.containers}
    draft.ephemeral_start += (
        index for index, container in enumerate(pod.ephemeral_containers) if container.name not in known
    )
    if compute_init_actions(pod, status, health, draft) and not _main_actions(pod, status, health, sandbox_id, draft):
        draft.kill_pod = True
        draft.init_start.clear()  # a sidecar must not keep a pod alive whose work is done
    if draft.kill_pod:
        draft.ephemeral_start.clear()
        draft.resize.clear()
    else:
        _kill_unwanted(pod, status, draft)
    return PodActions(
        kill_pod=draft.kill_pod,
        sandbox_id=sandbox_id,
        attempt=attempt,
        start=tuple(draft.start),
        init_start=tuple(draft.init_start),
        ephemeral_start=tuple(draft.ephemeral_start),
        kill=MappingProxyType(draft.kill),
        resize=tuple(draft.resize),
    )


def pod_sandbox_changed(pod: PodSpec, status: PodStatus) -> tuple[bool, int, str]:
    """Whether a new sandbox is needed, the attempt it is or will be, and the id of the newest one.

    The id is empty if there is none, or if it is of another network and therefore of no use to anybody.
    """
    if not status.sandboxes:
        return True, 0, ""
    newest = status.sandboxes[0]
    if not newest.ready or sum(sandbox.ready for sandbox in status.sandboxes) > 1:
        return True, newest.attempt + 1, newest.id
    if newest.host_network != pod.host_network:
        return True, newest.attempt + 1, ""
    if not pod.host_network and newest.ip == "":
        return True, newest.attempt + 1, newest.id
    return False, newest.attempt, newest.id


def _in_new_sandbox(pod: PodSpec, status: PodStatus, attempt: int, sandbox_id: str) -> PodActions:
    only_kill = PodActions(kill_pod=True, sandbox_id=sandbox_id, attempt=attempt, settled=_is_stopped(status))
    begun = attempt != 0 and bool(status.containers)
    # What has ended for good, be it by a policy of its containers, is not done a second time.
    if pod_phase(pod, status).final or (pod.restart_policy is RestartPolicy.NEVER and begun):
        return only_kill
    start = tuple(index for index, container in enumerate(pod.containers) if not _succeeded(pod, container, status))
    return PodActions(
        kill_pod=True,
        create_sandbox=True,
        sandbox_id=sandbox_id,
        attempt=attempt,
        start=() if pod.init_containers else start,
        init_start=(0,) if pod.init_containers else (),  # all over from the first one
    )


def _succeeded(pod: PodSpec, container: ContainerSpec, status: PodStatus) -> bool:
    found = status.latest(container.name)
    return (
        policy_of(pod, container) is RestartPolicy.ON_FAILURE
        and found is not None
        and found.state is ContainerState.EXITED
        and found.exit_code == 0
        and rule_for(container, found) is None
    )


def _is_stopped(status: PodStatus) -> bool:
    running = any(container.state is ContainerState.RUNNING for container in status.containers)
    return not running and not any(sandbox.ready for sandbox in status.sandboxes)


# -- the rule that one container's end is the end of all


def _restart_all_triggers(pod: PodSpec, status: PodStatus) -> Iterator[ContainerStatus]:
    for container in (*pod.init_containers, *pod.containers):
        found = status.latest_active(container.name)
        if found is None or rule_for(container, found) != RESTART_ALL:
            continue
        # The good end of an init container is what everybody waits for; all over again, it would never be the last.
        if found.failed or is_sidecar(container) or container in pod.containers:
            yield found


def _restart_all(pod: PodSpec, status: PodStatus, attempt: int, sandbox_id: str, triggers: list[str]) -> PodActions:
    """Everything is stopped and removed; those whose end asked for it last, so that it is still known if we die."""
    by_name = {container.name: container for container in (*pod.init_containers, *pod.containers)}
    ours = [container for container in status.containers if container.name in by_name]
    return PodActions(
        sandbox_id=sandbox_id,
        attempt=attempt,
        start=() if pod.init_containers else tuple(range(len(pod.containers))),
        init_start=(0,) if pod.init_containers else (),
        kill=MappingProxyType(
            {
                container.id: Kill(
                    container=by_name[container.name],
                    name=container.name,
                    reason=KillReason.RESTART_ALL,
                    message=f"Container {container.name} {KillReason.RESTART_ALL.words}",
                )
                for container in ours
                if container.state in (ContainerState.RUNNING, ContainerState.UNKNOWN)
            }
        ),
        reset=(*(container.id for container in ours if container.id not in triggers), *triggers),
    )


# -- main containers


def _main_actions(
    pod: PodSpec, status: PodStatus, health: ProbeResults, sandbox_id: str, draft: PodActionsDraft
) -> bool:
    """Note what to do; whether anything is left to do for the pod."""
    kept = 0
    for index, container in enumerate(pod.containers):
        found = status.latest(container.name)
        if found is None or found.state is not ContainerState.RUNNING:
            if should_restart(pod, container, found):
                draft.start.append(index)
                if found is not None and found.state is ContainerState.UNKNOWN:
                    draft.kill[found.id] = _kill(container, KillReason.UNKNOWN, restart=True)
            continue
        if (reason := _kill_reason(container, found, health, sandbox_id)) is None:
            kept += resize(index, container, found, draft)
            continue
        restart = reason is KillReason.CHANGED or policy_of(pod, container) is not RestartPolicy.NEVER
        if restart:
            draft.start.append(index)
        # With rules it is the exit code that decides, and there is none yet.
        kept += not restart and bool(container.restart_rules)
        draft.kill[found.id] = _kill(container, reason, restart=restart)
    return bool(kept or draft.start)


def _kill_reason(
    container: ContainerSpec, found: ContainerStatus, health: ProbeResults, sandbox_id: str
) -> KillReason | None:
    if found.hash != container_hash(container):
        return KillReason.CHANGED
    if found.sandbox_id not in ("", sandbox_id):  # it runs where the others are not
        return KillReason.CHANGED
    if health.liveness(found.id) is False:
        return KillReason.LIVENESS
    if health.startup(found.id) is False:
        return KillReason.STARTUP
    return None


def _kill(container: ContainerSpec, reason: KillReason, *, restart: bool) -> Kill:
    after = ", will be restarted" if restart else ""
    message = f"Container {container.name} {reason.words}{after}"
    return Kill(container=container, name=container.name, reason=reason, message=message)


def _kill_unwanted(pod: PodSpec, status: PodStatus, draft: PodActionsDraft) -> None:
    """Stop what runs and is nobody's: not in the manifest any more, or not the newest of its name."""
    early = {container.name: container for container in pod.init_containers}
    others = {container.name: container for container in (*pod.containers, *pod.ephemeral_containers)}
    ours = [status.latest_active(name) for name in early] + [status.latest(name) for name in others]
    known = {container.id for container in ours if container is not None}
    for found in status.containers:
        if found.state is ContainerState.RUNNING and found.id not in known:
            container = early.get(found.name) or others.get(found.name)
            problem = KillReason.STRAY.words if container is None else "runs beside a newer one"
            message = f"Container {found.name} {problem}"
            draft.kill[found.id] = Kill(container=container, name=found.name, reason=KillReason.STRAY, message=message)
