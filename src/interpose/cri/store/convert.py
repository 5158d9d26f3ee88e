"""Between CRI messages and records: the store's one door to the generated classes.

Records hold plain values, never messages. Bytes that are no such message raise ValueError; everything that is merely
missing reads as not set.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeVar

from google.protobuf.message import DecodeError, Message

from interpose._pb import cri_pb2 as cri
from interpose.core.model.kubernetes_names import POD_UID
from interpose.core.model.pod import Container, ContainerState, Pod
from interpose.core.model.resources import NO_RESOURCES, SCALARS, LinuxResources, empty_map
from interpose.cri.store.requested import ANNOTATION, requested_parent, requested_resources
from interpose.cri.store.verbose_info import VerboseInfo, read_info, without_defaults

_STATES: Final[Mapping[int, ContainerState]] = {
    cri.CONTAINER_CREATED: ContainerState.CREATED,
    cri.CONTAINER_RUNNING: ContainerState.RUNNING,
    cri.CONTAINER_EXITED: ContainerState.EXITED,
}
_LISTS: Final[Mapping[str, Any]] = {
    "ListPodSandbox": cri.ListPodSandboxRequest,
    "ListContainers": cri.ListContainersRequest,
}
_ENTRY: Final = 0x0A  # the tag of what both kinds of lists repeat
_PART: Final = 1 << 16  # bytes that are read in about half a millisecond
_M = TypeVar("_M", bound=Message)


class ListedPod(NamedTuple):
    """A pod in a list."""

    id: str
    ready: bool
    namespace: str
    name: str
    uid: str
    attempt: int


class ListedContainer(NamedTuple):
    """A container in a list."""

    id: str
    state: ContainerState
    pod_id: str
    name: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundContainer:
    """A container as its status shows it. `pod_id` is empty if the status does not say."""

    record: Container
    pod_id: str

    def within(self, pod: Pod) -> Container:
        """The record of this container in its pod; where the runtime does not say its cgroup, it is below the pod's."""
        parent = self.record.cgroup_parent or pod.cgroup_parent
        return replace(self.record, pod_id=pod.id, cgroup_parent=parent)


# -- resources


def to_resources(message: cri.LinuxContainerResources) -> LinuxResources:
    """The value of a message."""
    if not message.ByteSize():
        return NO_RESOURCES
    values: dict[str, Any] = {name: getattr(message, name) for name in SCALARS}
    values["hugepage_limits"] = tuple((limit.page_size, limit.limit) for limit in message.hugepage_limits)
    values["unified"] = _plain(message.unified)
    return LinuxResources(**values)


# -- requests: the record that what is sent on will have; its id is not known yet


def pod_of_request(sent: cri.RunPodSandboxRequest, asked: cri.RunPodSandboxRequest, pod_id: str = "") -> Pod:
    """The pod of a request as it goes to the runtime, and as it came; the id if the runtime gave it one."""
    config, meta = sent.config, sent.config.metadata
    return Pod(
        id=pod_id,
        name=meta.name,
        uid=meta.uid,
        namespace=meta.namespace,
        attempt=meta.attempt,
        runtime_handler=sent.runtime_handler,
        labels=_plain(config.labels),
        annotations=_plain(config.annotations),
        cgroup_parent=config.linux.cgroup_parent,
        requested_cgroup_parent=asked.config.linux.cgroup_parent,
        resources=to_resources(config.linux.resources),
        overhead=to_resources(config.linux.overhead),
    )


def container_of_request(
    sent: cri.CreateContainerRequest, asked: cri.CreateContainerRequest, pod: Pod | None
) -> Container:
    """The container of a request as it goes to the runtime, and as it came; `pod` if it is known."""
    config = sent.config
    resources = to_resources(config.linux.resources)
    # containerd looks at what this request says about the pod, CRI-O at what the pod was made with; usually the same.
    parent = sent.sandbox_config.linux.cgroup_parent or (pod.cgroup_parent if pod is not None else "")
    return Container(
        id="",
        pod_id=pod.id if pod is not None else sent.pod_sandbox_id,
        name=config.metadata.name,
        attempt=config.metadata.attempt,
        labels=_plain(config.labels),
        annotations=_plain(config.annotations),
        envs=tuple((env.key, env.value) for env in config.envs),
        cgroup_parent=parent,
        resources=resources,
        requested=resources if asked is sent else to_resources(asked.config.linux.resources),
    )


# -- answers


def pod_of_status(data: bytes) -> Pod:
    """The pod of a verbose PodSandboxStatus."""
    reply = _parse(cri.PodSandboxStatusResponse, data)
    status, meta, info = reply.status, reply.status.metadata, read_info(reply.info)
    annotations = _plain(status.annotations)
    parent = info.cgroup_parent
    return Pod(
        id=status.id,
        name=meta.name,
        uid=meta.uid,
        namespace=meta.namespace,
        attempt=meta.attempt,
        runtime_handler=status.runtime_handler,
        labels=_plain(status.labels),
        annotations=annotations,
        cgroup_parent=parent,
        requested_cgroup_parent=requested_parent(annotations.get(ANNOTATION, ""), parent),
        resources=info.configured("resources"),
        overhead=info.configured("overhead"),
        ready=status.state == cri.SANDBOX_READY,
    )


def container_of_status(data: bytes) -> FoundContainer:
    """The container of a verbose ContainerStatus."""
    reply = _parse(cri.ContainerStatusResponse, data)
    status, info = reply.status, read_info(reply.info)
    annotations = _plain(status.annotations)
    created = info.created
    current = without_defaults(_current(status, info), created)
    record = Container(
        id=status.id,
        name=status.metadata.name,
        attempt=status.metadata.attempt,
        labels=_plain(status.labels),
        annotations=annotations,
        envs=info.envs,
        cgroup_parent=info.parent_in_force,
        resources=current,
        requested=requested_resources(annotations.get(ANNOTATION, ""), current, created),
        state=_state(status.state),
    )
    return FoundContainer(record=record, pod_id=info.sandbox_id)


def listed_pods(data: bytes) -> list[ListedPod]:
    """The pods of a ListPodSandbox reply."""
    return [
        ListedPod(item.id, item.state == cri.SANDBOX_READY, meta.namespace, meta.name, meta.uid, meta.attempt)
        for item in _parse(cri.ListPodSandboxResponse, data).items
        for meta in (item.metadata,)
    ]


def listed_containers(data: bytes) -> list[ListedContainer]:
    """The containers of a ListContainers reply."""
    return [
        ListedContainer(item.id, _state(item.state), item.pod_sandbox_id, meta.name, meta.attempt)
        for item in _parse(cri.ListContainersResponse, data).containers
        for meta in (item.metadata,)
    ]


def list_parts(data: bytes, size: int = _PART) -> list[bytes]:
    """A list reply in parts of some `size`, each a list reply of its own: a long one holds the loop while it is read.

    Cut between entries. What is no list is one part, and whoever reads it finds out.
    """
    parts: list[bytes] = []
    begin = position = 0
    while position + 2 < len(data) and data[position] == _ENTRY:
        length = shift = 0
        position += 1
        while position < len(data):
            byte = data[position]
            position += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        position += length
        if position - begin >= size and position < len(data):
            parts.append(data[begin:position])
            begin = position
    return [*parts, data[begin:]]


# -- questions and orders


def list_pods(*, uid: str = "") -> bytes:
    """ListPodSandbox of everything, or of the pods with this uid."""
    selector = {POD_UID: uid} if uid else {}
    return cri.ListPodSandboxRequest(filter=cri.PodSandboxFilter(label_selector=selector)).SerializeToString()


def list_containers(*, uid: str = "", pod_id: str = "", container_id: str = "") -> bytes:
    """ListContainers of everything, or of what all given parts match."""
    selector = {POD_UID: uid} if uid else {}
    wanted = cri.ContainerFilter(id=container_id, pod_sandbox_id=pod_id, label_selector=selector)
    return cri.ListContainersRequest(filter=wanted).SerializeToString()


def pod_status(ref: str) -> bytes:
    return cri.PodSandboxStatusRequest(pod_sandbox_id=ref, verbose=True).SerializeToString()


def container_status(ref: str) -> bytes:
    return cri.ContainerStatusRequest(container_id=ref, verbose=True).SerializeToString()


def update_resources(container_id: str, resources: LinuxResources) -> bytes:
    """UpdateContainerResources: runtimes leave alone what is not set here."""
    linux = cri.LinuxContainerResources(
        **{name: value for name in SCALARS if (value := getattr(resources, name))},
        unified=resources.unified,
        hugepage_limits=[cri.HugepageLimit(page_size=size, limit=limit) for size, limit in resources.hugepage_limits],
    )
    return cri.UpdateContainerResourcesRequest(container_id=container_id, linux=linux).SerializeToString()


def asks_for_all(method: str, data: bytes) -> bool:
    """Whether a list request has no filter, so that what its reply does not show does not exist."""
    try:
        return not _parse(_LISTS[method], data).filter.ListFields()
    except ValueError:
        return False


def _current(status: cri.ContainerStatus, info: VerboseInfo) -> LinuxResources:
    if (in_force := info.current) is not None:
        return in_force
    if status.resources.HasField("linux"):
        return to_resources(status.resources.linux)
    return info.configured("resources")


def _state(number: int) -> ContainerState:
    return _STATES.get(number, ContainerState.UNKNOWN)


def _plain(items: Mapping[str, str]) -> Mapping[str, str]:
    # dict(items) would go through the views of a generic mapping, which is slower. All pods have the same
    # few keys: each is kept once.
    return {sys.intern(key): items[key] for key in items} or empty_map()


def _parse(kind: type[_M], data: bytes) -> _M:
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise ValueError(f"not a {kind.__name__}: {error}") from error
