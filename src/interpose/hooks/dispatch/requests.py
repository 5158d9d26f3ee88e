"""Requests of the hook protocol: the pod or container of a CRI call as the message for hook servers.

Records have what the CRI request does not carry (a StartContainer has only an id), the request has what is newer than
the record. Environment values that are not UTF-8 are left out: the protocol has text only, and an unchanged value
keeps its bytes in the request.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from interpose.core.model.pod import Container, Pod
from interpose.core.model.resources import SCALARS, LinuxResources
from interpose.hooks.api.messages import (
    ContainerResourceHookRequest,
    LinuxContainerResources,
    PodSandboxHookRequest,
    PodSandboxMetadata,
)
from interpose.hooks.api.registration import EVERY_POD, Selector
from interpose.hooks.dispatch.wire import pod_question
from interpose.relay.call import Body

_NONE_IN_FORCE: Mapping[str, int | str | None] = MappingProxyType({})


class HookSubject:
    """A pod, or a container of it, as hook servers are told about it; the rest is for selecting them."""

    __slots__ = ("_data", "_handler", "_message", "container", "in_force")

    def __init__(
        self, message: Any, runtime_handler: str | None = None, container: str | None = None, *, data: bytes = b""
    ) -> None:
        """Without a message `data` are its bytes, and the handler is in it."""
        self._message = message
        self._data = data
        self._handler = runtime_handler
        self.container = container  # its name; None for a pod
        self.in_force: Mapping[str, int | str | None] = (
            _NONE_IN_FORCE  # values in force by path that differ from those in `message`
        )

    @property
    def message(self) -> Any:
        """The message for hook servers."""
        if self._message is None:
            self._message = PodSandboxHookRequest.FromString(self._data)
        return self._message

    @property
    def data(self) -> bytes:
        """Its bytes; the message does not change any more."""
        if not self._data:
            self._data = self.message.SerializeToString()
        return self._data

    @property
    def _labels(self) -> Any:
        return self.message.labels if self.container is None else self.message.pod_labels

    def has_mark(self, key: str, value: str) -> bool:
        """Whether the pod has this label or annotation."""
        if not key or (self._message is None and key.encode() not in self._data):
            return False
        annotations = self.message.annotations if self.container is None else self.message.pod_annotations
        return value in (self._labels.get(key), annotations.get(key))

    def is_selected_by(self, selector: Selector) -> bool:
        """Whether a hook server with this selector is called for the pod."""
        if selector is EVERY_POD:
            return True
        handler = self.message.runtime_handler if self._handler is None else self._handler
        return selector.matches(self.message.pod_meta.namespace, self._labels, handler)

    def copy(self) -> Any:
        """A copy of the message that the caller may change."""
        message = type(self.message)()
        message.CopyFrom(self.message)
        return message

    @property
    def log_fields(self) -> dict[str, str]:
        """Pod and container as fields of log lines."""
        meta = self.message.pod_meta
        pod = f"{meta.namespace}/{meta.name}"
        return {"pod": pod} if self.container is None else {"pod": pod, "container": self.container}


def pod_to_run(body: Body) -> HookSubject:
    """The pod of a RunPodSandbox, copied from message to message without a record, mostly byte by byte."""
    question = pod_question(body.received) if body.readable and body.untouched else None
    if question is not None:
        return HookSubject(None, data=question)
    request = body.message
    config = request.config
    meta, linux = config.metadata, config.linux
    message = PodSandboxHookRequest(
        pod_meta=PodSandboxMetadata(name=meta.name, uid=meta.uid, namespace=meta.namespace, attempt=meta.attempt),
        runtime_handler=request.runtime_handler,
        labels=config.labels,
        annotations=config.annotations,
        cgroup_parent=linux.cgroup_parent,
    )
    if linux.HasField("overhead"):
        _copy(linux.overhead, message.overhead)
    if linux.HasField("resources"):
        _copy(linux.resources, message.resources)
    return HookSubject(message, request.runtime_handler)


def existing_pod(pod: Pod) -> HookSubject:
    """A pod that the runtime already has."""
    message = _pod_message(pod)
    write_resources(pod.overhead, message.overhead)
    write_resources(pod.resources, message.resources)
    return HookSubject(message, pod.runtime_handler)


def container_to_create(request: Any, pod: Pod) -> HookSubject:
    """The container of a CreateContainer; `pod` is its record in the store."""
    config = request.config
    message = _container_message(pod)
    # A caller may put one container below another parent; the record only has the parent of the pod.
    message.pod_cgroup_parent = request.sandbox_config.linux.cgroup_parent or pod.cgroup_parent
    message.container_meta.name = config.metadata.name
    message.container_meta.attempt = config.metadata.attempt
    message.container_annotations.update(config.annotations)
    message.container_resources.SetInParent()
    if config.linux.HasField("resources"):
        _copy(config.linux.resources, message.container_resources)
    message.container_envs.update(text_envs((env.key, env.value) for env in config.envs))
    return HookSubject(message, pod.runtime_handler, config.metadata.name)


def existing_container(container: Container, pod: Pod) -> HookSubject:
    """A container that the runtime already has."""
    message = _container_message(pod)
    message.pod_cgroup_parent = container.cgroup_parent or pod.cgroup_parent
    message.container_meta.name = container.name
    message.container_meta.attempt = container.attempt
    message.container_meta.id = container.id
    message.container_annotations.update(container.annotations)
    message.container_resources.SetInParent()
    write_resources(container.resources, message.container_resources)
    message.container_envs.update(text_envs(container.envs))
    return HookSubject(message, pod.runtime_handler, container.name)


def container_to_update(request: Any, container: Container, pod: Pod) -> HookSubject:
    """A container as it is requested by an UpdateContainerResources: the original request, patched by this one.

    Not the values in force: a plugin that scales a value would scale its own result again with every update.
    """
    subject = existing_container(replace(container, resources=container.requested), pod)
    patch = LinuxContainerResources.FromString(request.linux.SerializeToString())
    resources = subject.message.container_resources
    for field, value in patch.ListFields():
        if field.name == "unified":
            resources.unified.update(patch.unified)
        elif field.name == "hugepage_limits":
            merged = {limit.page_size: limit.limit for limit in (*resources.hugepage_limits, *patch.hugepage_limits)}
            _write_hugepages(merged.items(), resources)
        else:
            setattr(resources, field.name, value)
    subject.message.container_annotations.update(request.annotations)
    if container.diverges:
        subject.in_force = {
            f"container_resources.{name}": getattr(container.resources, name) or None
            for name in SCALARS
            if not getattr(patch, name) and getattr(container.resources, name) != getattr(container.requested, name)
        }
    return subject


def pod_from_config(pod_id: str, config: Any, runtime_handler: str = "") -> Pod:
    """A pod as a request describes it, if it is not in the store."""
    meta = config.metadata
    parent = config.linux.cgroup_parent
    return Pod(
        id=pod_id,
        name=meta.name,
        uid=meta.uid,
        namespace=meta.namespace,
        attempt=meta.attempt,
        runtime_handler=runtime_handler,
        labels=dict(config.labels),
        annotations=dict(config.annotations),
        cgroup_parent=parent,
        requested_cgroup_parent=parent,
    )


def text_envs(envs: Iterable[tuple[str, bytes]]) -> Mapping[str, str]:
    """Environment variables whose values are text; of a repeated key the last one counts, as in a process."""
    texts: dict[str, str] = {}
    for key, value in envs:
        try:
            texts[key] = value.decode()
        except UnicodeDecodeError:
            texts.pop(key, None)
    return texts


def write_resources(resources: LinuxResources, message: Any) -> None:
    """Write resources into an empty message."""
    for name in SCALARS:
        if value := getattr(resources, name):
            setattr(message, name, value)
    if resources.unified:
        message.unified.update(resources.unified)
    if resources.hugepage_limits:
        _write_hugepages(resources.hugepage_limits, message)


def _write_hugepages(limits: Iterable[tuple[str, int]], message: Any) -> None:
    del message.hugepage_limits[:]
    for page_size, limit in limits:
        message.hugepage_limits.add(page_size=page_size, limit=limit)


def _copy(resources: Any, message: Any) -> None:
    """Copy CRI resources by their bytes: the hook protocol has the same field numbers and types.

    Fields that the hook protocol does not have are dropped.
    """
    message.ParseFromString(resources.SerializeToString())
    message.DiscardUnknownFields()


def _pod_message(pod: Pod) -> Any:
    message = PodSandboxHookRequest(runtime_handler=pod.runtime_handler, cgroup_parent=pod.cgroup_parent)
    _write_meta(pod, message.pod_meta)
    message.labels.update(pod.labels)
    message.annotations.update(pod.annotations)
    return message


def _container_message(pod: Pod) -> Any:
    message = ContainerResourceHookRequest()
    _write_meta(pod, message.pod_meta)
    message.pod_labels.update(pod.labels)
    message.pod_annotations.update(pod.annotations)
    write_resources(pod.resources, message.pod_resources)
    return message


def _write_meta(pod: Pod, meta: Any) -> None:
    meta.name = pod.name
    meta.uid = pod.uid
    meta.namespace = pod.namespace
    meta.attempt = pod.attempt
