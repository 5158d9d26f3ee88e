"""How the runtime shows its objects: list items, statuses, events, filters. From records to CRI messages, nothing else.

The answers satisfy what the kubelet's client checks: ids, metadata, creation times, image references are never empty.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from interpose.cri.messages import cri
from interpose.node.runtime.oci.signals import number
from interpose.node.runtime.service.registry import ContainerEntry, ObjectRegistry, SandboxEntry
from interpose.node.runtime.state.ids import wanted_id
from interpose.node.runtime.state.records import ContainerPhase, ContainerRecord, NetworkPlace, SandboxRecord

CONTAINER_STATES: Final[Mapping[ContainerPhase, "cri.ContainerState"]] = MappingProxyType(
    {
        ContainerPhase.CREATING: cri.CONTAINER_CREATED,
        ContainerPhase.CREATED: cri.CONTAINER_CREATED,
        ContainerPhase.STARTING: cri.CONTAINER_CREATED,
        ContainerPhase.RUNNING: cri.CONTAINER_RUNNING,
        ContainerPhase.EXITED: cri.CONTAINER_EXITED,
        ContainerPhase.REMOVING: cri.CONTAINER_EXITED,
    }
)
# Several names may have the same number; the first one is the usual one.
_SIGNALS: Final[Mapping[int, int]] = MappingProxyType(
    {
        number(name.removeprefix("SIGNAL_")): cri.Signal.Value(name)
        for name in reversed(cri.Signal.keys())
        if name != "SIGNAL_RUNTIME_DEFAULT"
    }
)


def state_name(container: ContainerEntry) -> str:
    """The state as CRI spells it, for messages."""
    return cri.ContainerState.Name(CONTAINER_STATES[container.phase])


def sandbox_state(record: SandboxRecord) -> "cri.PodSandboxState":
    """READY while its holder and its network stand."""
    return cri.SANDBOX_READY if record.ready else cri.SANDBOX_NOTREADY


def sandbox_item(record: SandboxRecord) -> cri.PodSandbox:
    """As lists show it."""
    return cri.PodSandbox(
        id=record.id,
        metadata=record.config.metadata,
        state=sandbox_state(record),
        created_at=record.created_at,
        labels=record.config.labels,
        annotations=record.config.annotations,
        runtime_handler=record.runtime_handler,
    )


def sandbox_status(record: SandboxRecord) -> cri.PodSandboxStatus:
    """As PodSandboxStatus shows it: a pod in the node's network by its own wish has no address, nor a stopped one."""
    status = cri.PodSandboxStatus(
        id=record.id,
        metadata=record.config.metadata,
        state=sandbox_state(record),
        created_at=record.created_at,
        labels=record.config.labels,
        annotations=record.config.annotations,
        runtime_handler=record.runtime_handler,
    )
    if record.ready and record.place is not NetworkPlace.HOST:
        status.network.ip = record.ip
        status.network.additional_ips.extend(cri.PodIP(ip=one) for one in record.additional_ips)
    else:
        status.network.SetInParent()
    status.linux.namespaces.options.CopyFrom(record.config.linux.security_context.namespace_options)
    return status


def container_item(record: ContainerRecord) -> cri.Container:
    """As lists show it."""
    return cri.Container(
        id=record.id,
        pod_sandbox_id=record.sandbox_id,
        metadata=record.config.metadata,
        image=record.config.image,
        image_ref=record.image.id,
        image_id=record.image.id,
        state=CONTAINER_STATES[record.phase],
        created_at=record.created_at,
        labels=record.config.labels,
        annotations=record.config.annotations,
    )


def container_status(record: ContainerRecord) -> cri.ContainerStatus:
    """As ContainerStatus shows it, with the resources in force now."""
    status = cri.ContainerStatus(
        id=record.id,
        metadata=record.config.metadata,
        state=CONTAINER_STATES[record.phase],
        created_at=record.created_at,
        started_at=record.started_at,
        finished_at=record.finished_at,
        exit_code=record.exit_code,
        reason=record.reason,
        message=record.message,
        image=cri.ImageSpec(image=record.image.name or record.config.image.image),
        image_ref=record.image.digest or record.image.id,
        image_id=record.image.id,
        labels=record.config.labels,
        annotations=record.config.annotations,
        mounts=record.config.mounts,
        log_path=record.log_path,
        resources=cri.ContainerResources(linux=record.resources),
        stop_signal=_SIGNALS.get(record.stop_signal, cri.SIGNAL_RUNTIME_DEFAULT),  # type: ignore[arg-type]
    )
    status.user.linux.uid, status.user.linux.gid = record.user.uid, record.user.gid
    status.user.linux.supplemental_groups.extend(record.user.groups)
    return status


def shown(sandbox: SandboxEntry) -> list[ContainerEntry]:
    """The containers of a sandbox that can be seen, in the order they were created."""
    return [one for one in sandbox.containers.values() if one.visible]


def event(
    kind: "cri.ContainerEventType", object_id: str, sandbox: SandboxEntry | None, now: int
) -> cri.ContainerEventResponse:
    """An event with the whole pod beside it; only the end of the sandbox itself has nothing left to show."""
    message = cri.ContainerEventResponse(container_id=object_id, container_event_type=kind, created_at=now)
    if sandbox is not None:
        message.pod_sandbox_status.CopyFrom(sandbox_status(sandbox.record))
        message.containers_statuses.extend(container_status(one.record) for one in shown(sandbox))
    return message


def list_sandboxes(registry: ObjectRegistry, wanted: cri.PodSandboxFilter) -> list[cri.PodSandbox]:
    """The sandboxes a filter asks for; all parts of a filter must match."""
    sandbox_id = wanted_id(registry.sandboxes, wanted.id)
    return [
        _kept_sandbox(one)
        for one in registry.shown_sandboxes()
        if sandbox_id in ("", one.id)
        and (not wanted.HasField("state") or sandbox_state(one.record) == wanted.state.state)
        and has_labels(one.record.config.labels, wanted.label_selector)
    ]


def list_containers(registry: ObjectRegistry, wanted: cri.ContainerFilter) -> list[cri.Container]:
    """The containers a filter asks for; all parts of a filter must match."""
    return [
        _kept_container(one)
        for one in matching(registry, wanted.id, wanted.pod_sandbox_id, wanted.label_selector)
        if not wanted.HasField("state") or CONTAINER_STATES[one.phase] == wanted.state.state
    ]


def _kept_sandbox(one: SandboxEntry) -> cri.PodSandbox:
    """Lists are asked for all the time and change seldom. Whoever gets it copies it and changes nothing."""
    if one.item is None or one.item[0] is not one.record:
        one.item = (one.record, sandbox_item(one.record))
    return one.item[1]


def _kept_container(one: ContainerEntry) -> cri.Container:
    if one.item is None or one.item[0] is not one.record:
        one.item = (one.record, container_item(one.record))
    return one.item[1]


def matching(
    registry: ObjectRegistry, container_id: str, sandbox_id: str, labels: Mapping[str, str]
) -> Iterable[ContainerEntry]:
    """The containers with these ids (or starts of them; empty for any) and labels."""
    container_id = wanted_id(registry.containers, container_id)
    sandbox_id = wanted_id(registry.sandboxes, sandbox_id)
    return (
        one
        for one in registry.shown_containers()
        if container_id in ("", one.id)
        and sandbox_id in ("", one.record.sandbox_id)
        and has_labels(one.record.config.labels, labels)
    )


def has_labels(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    """Whether every label of the selector is there with the same value."""
    return all(labels.get(key) == value for key, value in selector.items())
