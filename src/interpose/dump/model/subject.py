"""Whom a call is about: pod, container, image, by name where that can be known.

Requests and replies tell ids, some of them names as well; the tables here say where. Lists, states and events teach
which names belong to which ids. Calls that are about many (lists without a filter, events) are about nobody.

Nothing makes identifying fail: a message that cannot be read tells nothing.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from interpose.core.model.kubernetes_names import POD_NAME, POD_NAMESPACE, POD_UID
from interpose.cri.errors import UnreadableMessageError
from interpose.cri.parser import CriParser
from interpose.dump.model.call import Flow, Subject
from interpose.dump.model.frames import DamagedFrameError, Message, MessageSide
from interpose.dump.model.id_names import MAX_IDS, IdNames, KnownContainer, KnownPod

_POD_ID: Final = {"pod_id": "pod_sandbox_id"}
_CONTAINER_ID: Final = {"container_id": "container_id"}
_IMAGE: Final = {"image": "image.image"}
_PODS_FILTER: Final = {"pod_id": "filter.id"}
_CONTAINERS_FILTER: Final = {"container_id": "filter.id", "pod_id": "filter.pod_sandbox_id"}


def _pod_names(path: str) -> dict[str, str]:
    return {"namespace": f"{path}.namespace", "pod": f"{path}.name", "pod_uid": f"{path}.uid"}


# Method -> part of the subject -> where it is in the request.
REQUESTS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "RunPodSandbox": _pod_names("config.metadata"),
        "RestorePod": _pod_names("config.metadata"),
        "StopPodSandbox": _POD_ID,
        "RemovePodSandbox": _POD_ID,
        "PodSandboxStatus": _POD_ID,
        "PodSandboxStats": _POD_ID,
        "PortForward": _POD_ID,
        "UpdatePodSandboxResources": _POD_ID,
        "CheckpointPod": _POD_ID,
        "CreateContainer": {
            **_POD_ID,
            **_pod_names("sandbox_config.metadata"),
            "container": "config.metadata.name",
            "image": "config.image.image",
        },
        "StartContainer": _CONTAINER_ID,
        "StopContainer": _CONTAINER_ID,
        "RemoveContainer": _CONTAINER_ID,
        "ContainerStatus": _CONTAINER_ID,
        "ContainerStats": _CONTAINER_ID,
        "UpdateContainerResources": _CONTAINER_ID,
        "ReopenContainerLog": _CONTAINER_ID,
        "ExecSync": _CONTAINER_ID,
        "Exec": _CONTAINER_ID,
        "Attach": _CONTAINER_ID,
        "CheckpointContainer": _CONTAINER_ID,
        "ListPodSandbox": _PODS_FILTER,
        "StreamPodSandboxes": _PODS_FILTER,
        "ListPodSandboxStats": _PODS_FILTER,
        "StreamPodSandboxStats": _PODS_FILTER,
        "ListContainers": _CONTAINERS_FILTER,
        "StreamContainers": _CONTAINERS_FILTER,
        "ListContainerStats": _CONTAINERS_FILTER,
        "StreamContainerStats": _CONTAINERS_FILTER,
        "PullImage": {**_IMAGE, **_pod_names("sandbox_config.metadata")},
        "ImageStatus": _IMAGE,
        "RemoveImage": _IMAGE,
        "ListImages": {"image": "filter.image.image"},
        "StreamImages": {"image": "filter.image.image"},
    }
)
# The same of replies. These calls make something: what is known when they are done is remembered.
REPLIES: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {"RunPodSandbox": _POD_ID, "RestorePod": _POD_ID, "CreateContainer": _CONTAINER_ID}
)
# Method -> where in the reply pods are, and containers: parts with `id`, `metadata` and labels.
PODS_IN_REPLIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ListPodSandbox": "items",
        "StreamPodSandboxes": "pod_sandboxes",
        "PodSandboxStatus": "status",
        "GetContainerEvents": "pod_sandbox_status",
        "PodSandboxStats": "stats.attributes",
        "ListPodSandboxStats": "stats.attributes",
        "StreamPodSandboxStats": "pod_sandbox_stats.attributes",
    }
)
CONTAINERS_IN_REPLIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ListContainers": "containers",
        "StreamContainers": "containers",
        "ContainerStatus": "status",
        "PodSandboxStatus": "containers_statuses",
        "GetContainerEvents": "containers_statuses",
        "ContainerStats": "stats.attributes",
        "ListContainerStats": "stats.attributes",
        "StreamContainerStats": "container_stats.attributes",
    }
)
# Methods whose replies tell something.
NAMING_REPLIES: Final = frozenset({*REPLIES, *PODS_IN_REPLIES, *CONTAINERS_IN_REPLIES})
_LABELS: Final = {
    "namespace": POD_NAMESPACE,
    "name": POD_NAME,
    "uid": POD_UID,
}
# A member of an enumeration takes longer to look up than all else that is done with it here.
_REQUEST: Final = MessageSide.REQUEST
_REPLY: Final = MessageSide.REPLY


class Subjects:
    """Learns from the calls it sees and says whom they are about."""

    def __init__(self, *, max_ids: int = MAX_IDS) -> None:
        self._names = IdNames(max_ids=max_ids)
        self._parsers: dict[str, CriParser] = {}

    def identify(self, flow: Flow, message: Message) -> Subject:
        """Whom the call is about, now that it has this message."""
        method = flow.method
        if method is None:
            return flow.subject
        if message.side is _REQUEST and method.name in REQUESTS:
            request = self._parse(method.request, message)
            return flow.subject if request is None else self._from_request(method.name, request, flow.subject)
        if message.side is _REPLY and method.name in NAMING_REPLIES:
            reply = self._parse(method.response, message)
            return flow.subject if reply is None else self._from_reply(method.name, reply, flow.subject)
        return flow.subject

    def context(self) -> dict[str, Any]:
        """What is known, for the beginning of another file: JSON, bounded."""
        return self._names.context()

    def learn(self, facts: Mapping[str, Any]) -> None:
        """Add the names in the facts of a CONTEXT frame."""
        self._names.learn(facts)

    def _from_request(self, name: str, request: Any, subject: Subject) -> Subject:
        subject = _fill(subject, request, REQUESTS[name])
        return self._names.complete(subject)

    def _from_reply(self, name: str, reply: Any, subject: Subject) -> Subject:
        if name in REPLIES:
            subject = _fill(subject, reply, REPLIES[name])
            self._learn_created(subject)
            if name == "RestorePod":
                self._learn_restored(reply, subject)
            return subject
        pods = _parts(reply, PODS_IN_REPLIES[name]) if name in PODS_IN_REPLIES else []
        for sandbox in pods:
            if not self._names.has_pod(sandbox.id):
                self._names.add_pod(sandbox.id, _pod(sandbox.metadata))
        # Of the containers in the state of a pod it is known which pod that is.
        pod_id, pod = (pods[0].id, _pod(pods[0].metadata)) if len(pods) == 1 else ("", KnownPod())
        for container in _parts(reply, CONTAINERS_IN_REPLIES[name]) if name in CONTAINERS_IN_REPLIES else []:
            if not self._names.has_container(container.id):
                self._names.add_container(container.id, _container(container, pod_id, pod))
        return self._names.complete(subject) if subject else subject

    def _learn_created(self, subject: Subject) -> None:
        pod = KnownPod(namespace=subject.namespace, name=subject.pod, uid=subject.pod_uid)
        self._names.add_pod(subject.pod_id, pod)
        self._names.add_container(
            subject.container_id,
            KnownContainer(name=subject.container, image=subject.image, pod_id=subject.pod_id, pod=pod),
        )

    def _learn_restored(self, reply: Any, subject: Subject) -> None:
        for container in reply.restored_containers:
            self._names.add_container(
                container.container_id, KnownContainer(name=container.name, pod_id=subject.pod_id)
            )

    def _parse(self, name: str, message: Message) -> Any | None:
        parser = self._parsers.get(name)
        if parser is None:
            parser = self._parsers[name] = CriParser(name)
        try:
            # One that was not kept would read as one that is empty.
            return None if message.absent else parser.parse(message.data)
        except (UnreadableMessageError, DamagedFrameError):
            return None


def _fill(subject: Subject, message: Any, paths: Mapping[str, str]) -> Subject:
    found = {part: str(value) for part, path in paths.items() for value in _parts(message, path) if value}
    return replace(subject, **found) if found else subject


def _parts(message: Any, path: str) -> list[Any]:
    """What is at a path. A list on the way stands for all that is in it; a part that is not set is not there."""
    parts = [message]
    for name in path.split("."):
        parts = [inner for part in parts for inner in _inner(part, name)]
    return parts


def _inner(message: Any, name: str) -> Any:
    field = message.DESCRIPTOR.fields_by_name[name]
    value = getattr(message, name)
    if field.is_repeated:
        return value
    return (value,) if field.message_type is None or message.HasField(name) else ()


def _pod(metadata: Any) -> KnownPod:
    return KnownPod(namespace=metadata.namespace, name=metadata.name, uid=metadata.uid)


def _container(container: Any, pod_id: str, pod: KnownPod) -> KnownContainer:
    """From a list, a state or statistics: they have different things besides id, name and labels."""
    labels = container.labels
    names = {part: labels.get(label, "") for part, label in _LABELS.items()}
    image = container.image.image if "image" in container.DESCRIPTOR.fields_by_name else ""
    return KnownContainer(
        name=container.metadata.name,
        image=image,
        pod_id=getattr(container, "pod_sandbox_id", "") or pod_id,
        pod=KnownPod(**names) if names["name"] else pod,
    )
