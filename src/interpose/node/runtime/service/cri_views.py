"""CRI messages from records: list items, statuses, events, filters. Nothing else.

The answers pass the checks of the kubelet's client: ids, metadata, creation times, image references are never empty.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, Protocol, TypeVar

from interpose.cri.messages import cri
from interpose.node.runtime.oci.signals import number
from interpose.node.runtime.service.registry import ContainerEntry, ObjectRegistry, SandboxEntry
from interpose.node.runtime.state.ids import resolve_id
from interpose.node.runtime.state.records import ContainerPhase, ContainerRecord, NetworkMode, SandboxRecord

_Record = TypeVar("_Record")
_Item = TypeVar("_Item")
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
    """READY while the sandbox has a pause process and its network."""
    return cri.SANDBOX_READY if record.ready else cri.SANDBOX_NOTREADY


def sandbox_item(record: SandboxRecord) -> cri.PodSandbox:
    """A sandbox as an item of a list."""
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
    """The answer of PodSandboxStatus: a pod that asked for the node's network has no address, nor a stopped one."""
    status = cri.PodSandboxStatus(
        id=record.id,
        metadata=record.config.metadata,
        state=sandbox_state(record),
        created_at=record.created_at,
        labels=record.config.labels,
        annotations=record.config.annotations,
        runtime_handler=record.runtime_handler,
    )
    if record.ready and record.place is not NetworkMode.HOST:
        status.network.ip = record.ip
        status.network.additional_ips.extend(cri.PodIP(ip=address) for address in record.additional_ips)
    else:
        status.network.SetInParent()
    status.linux.namespaces.options.CopyFrom(record.config.linux.security_context.namespace_options)
    return status


def container_item(record: ContainerRecord) -> cri.Container:
    """A container as an item of a list."""
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
    """The answer of ContainerStatus, with the resources in force now."""
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


def visible_containers(sandbox: SandboxEntry) -> list[ContainerEntry]:
    """The containers of a sandbox that lists show, in the order of creation."""
    return [container for container in sandbox.containers.values() if container.visible]


def event(
    kind: "cri.ContainerEventType", object_id: str, sandbox: SandboxEntry | None, now: int
) -> cri.ContainerEventResponse:
    """An event with the status of the whole pod; only the removal of the sandbox itself has none."""
    message = cri.ContainerEventResponse(container_id=object_id, container_event_type=kind, created_at=now)
    if sandbox is not None:
        message.pod_sandbox_status.CopyFrom(sandbox_status(sandbox.record))
        message.containers_statuses.extend(
            container_status(container.record) for container in visible_containers(sandbox)
        )
    return message


def list_sandboxes(registry: ObjectRegistry, query: cri.PodSandboxFilter) -> list[cri.PodSandbox]:
    """The sandboxes that match all parts of a filter."""
    return [
        _cached_item(sandbox, sandbox_item)
        for sandbox in matching_sandboxes(registry, query.id, query.label_selector)
        if not query.HasField("state") or sandbox_state(sandbox.record) == query.state.state
    ]


def list_containers(registry: ObjectRegistry, query: cri.ContainerFilter) -> list[cri.Container]:
    """The containers that match all parts of a filter."""
    return [
        _cached_item(container, container_item)
        for container in matching_containers(registry, query.id, query.pod_sandbox_id, query.label_selector)
        if not query.HasField("state") or CONTAINER_STATES[container.phase] == query.state.state
    ]


class _ItemOwner(Protocol[_Record, _Item]):
    record: _Record
    item: tuple[_Record, _Item] | None


def _cached_item(entry: _ItemOwner[_Record, _Item], make: Callable[[_Record], _Item]) -> _Item:
    """Lists are asked for often and change seldom: an item is made once per record. Callers must not change it."""
    if entry.item is None or entry.item[0] is not entry.record:
        entry.item = (entry.record, make(entry.record))
    return entry.item[1]


def matching_sandboxes(registry: ObjectRegistry, sandbox_id: str, labels: Mapping[str, str]) -> Iterable[SandboxEntry]:
    """The visible sandboxes with this id (or prefix; empty for any) and labels."""
    sandbox_id = resolve_id(registry.sandboxes, sandbox_id)
    return (
        sandbox
        for sandbox in registry.visible_sandboxes()
        if sandbox_id in ("", sandbox.id) and has_labels(sandbox.record.config.labels, labels)
    )


def matching_containers(
    registry: ObjectRegistry, container_id: str, sandbox_id: str, labels: Mapping[str, str]
) -> Iterable[ContainerEntry]:
    """The visible containers with these ids (or prefixes; empty for any) and labels."""
    container_id = resolve_id(registry.containers, container_id)
    sandbox_id = resolve_id(registry.sandboxes, sandbox_id)
    return (
        container
        for container in registry.visible_containers()
        if container_id in ("", container.id)
        and sandbox_id in ("", container.record.sandbox_id)
        and has_labels(container.record.config.labels, labels)
    )


def has_labels(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    """Whether `labels` has every label of the selector with the same value."""
    return all(labels.get(key) == value for key, value in selector.items())
