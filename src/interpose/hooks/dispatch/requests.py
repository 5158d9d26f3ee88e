"""What a call is about, in the words of the hook protocol: the message a hook server is asked with.

Records give what the request does not carry (a StartContainer has only an id), the request gives what is newer than
the record. Environment values that are not UTF-8 are left out: the protocol knows text only, and an untouched value
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

_NOTHING_HELD: Mapping[str, int | str | None] = MappingProxyType({})


class HookSubject:
    """A pod, or a container of it. `asked` is the message for hook servers; everything else is for choosing them."""

    __slots__ = ("_annotations", "_labels", "asked", "container", "held", "runtime_handler")

    def __init__(self, asked: Any, runtime_handler: str, container: str | None = None) -> None:
        self.asked = asked
        self.runtime_handler = runtime_handler
        self.container = container  # its name; None for a pod
        self.held: Mapping[str, int | str | None] = (
            _NOTHING_HELD  # values in force by path that are not those in `asked`
        )
        about_pod = container is None
        self._labels = asked.labels if about_pod else asked.pod_labels
        self._annotations = asked.annotations if about_pod else asked.pod_annotations

    def carries(self, key: str, value: str) -> bool:
        """Whether the pod has this label or annotation."""
        return bool(key) and value in (self._labels.get(key), self._annotations.get(key))

    def selected_by(self, selector: Selector) -> bool:
        """Whether a hook server with this selector is asked about it."""
        return selector is EVERY_POD or selector.matches(
            self.asked.pod_meta.namespace, self._labels, self.runtime_handler
        )

    def copy(self) -> Any:
        """A message of its own for whoever changes it."""
        message = type(self.asked)()
        message.CopyFrom(self.asked)
        return message

    @property
    def names(self) -> dict[str, str]:
        """For log lines."""
        meta = self.asked.pod_meta
        pod = f"{meta.namespace}/{meta.name}"
        return {"pod": pod} if self.container is None else {"pod": pod, "container": self.container}


def pod_to_run(request: Any) -> HookSubject:
    """The pod of a RunPodSandbox. Values go from message to message, without records in between."""
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


def known_pod(pod: Pod) -> HookSubject:
    """A pod that exists."""
    message = _pod_message(pod)
    write_resources(pod.overhead, message.overhead)
    write_resources(pod.resources, message.resources)
    return HookSubject(message, pod.runtime_handler)


def container_to_create(request: Any, pod: Pod) -> HookSubject:
    """The container of a CreateContainer, in a pod as the runtime knows it."""
    config = request.config
    message = _container_message(pod)
    # A caller may place one container elsewhere; the record only says where its pod is.
    message.pod_cgroup_parent = request.sandbox_config.linux.cgroup_parent or pod.cgroup_parent
    message.container_meta.name = config.metadata.name
    message.container_meta.attempt = config.metadata.attempt
    message.container_annotations.update(config.annotations)
    message.container_resources.SetInParent()
    if config.linux.HasField("resources"):
        _copy(config.linux.resources, message.container_resources)
    message.container_envs.update(text_envs((env.key, env.value) for env in config.envs))
    return HookSubject(message, pod.runtime_handler, config.metadata.name)


def known_container(container: Container, pod: Pod) -> HookSubject:
    """A container that exists."""
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
    """A container as its caller wants it after an UpdateContainerResources: what was asked for, and the patch over it.

    Not what it has: a plugin that scales a value would scale its own result again with every update.
    """
    subject = known_container(replace(container, resources=container.requested), pod)
    patch = LinuxContainerResources.FromString(request.linux.SerializeToString())
    resources = subject.asked.container_resources
    for field, value in patch.ListFields():
        if field.name == "unified":
            resources.unified.update(patch.unified)
        elif field.name == "hugepage_limits":
            merged = {one.page_size: one.limit for one in (*resources.hugepage_limits, *patch.hugepage_limits)}
            _write_hugepages(merged.items(), resources)
        else:
            setattr(resources, field.name, value)
    subject.asked.container_annotations.update(request.annotations)
    if container.diverges:
        subject.held = {
            f"container_resources.{name}": getattr(container.resources, name) or None
            for name in SCALARS
            if not getattr(patch, name) and getattr(container.resources, name) != getattr(container.requested, name)
        }
    return subject


def pod_of_config(pod_id: str, config: Any, runtime_handler: str = "") -> Pod:
    """A pod as the request describes it, for when the runtime has not confirmed it."""
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
    """Environment variables whose values are text; of a key given twice the last one counts, as in a process."""
    texts: dict[str, str] = {}
    for key, value in envs:
        try:
            texts[key] = value.decode()
        except UnicodeDecodeError:
            texts.pop(key, None)
    return texts


def write_resources(resources: LinuxResources, message: Any) -> None:
    """Fill a message of resources that was empty."""
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
    """CRI's resources have the numbers and types of the hook protocol's: their bytes are read as the other message.

    What is newer than the protocol is not passed on.
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
