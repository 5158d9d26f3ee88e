"""What calls mean for the store: one class per CRI method, and a table of them.

A record appears or changes when the runtime has confirmed, never before and never when it refused. A create whose
outcome is unknown is pending until the runtime is asked. The only edit of a request is the annotation that keeps what
was requested (see `cri.store.requested`).

Pure: `relay.store_updater` applies these classes to calls that pass, `resmgr.whatif` to calls of a recording.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, Protocol

from interpose.core.model.pod import Container, ContainerState, Pod
from interpose.cri.errors import UnreadableMessageError
from interpose.cri.store import convert
from interpose.cri.store.pending import Entry
from interpose.cri.store.requested import ANNOTATION, NOT_REQUESTED, parent_note, resources_note
from interpose.cri.store.store import Store
from interpose.net.grpc.status import OUTCOME_UNKNOWN, Code
from interpose.relay.api import CLIENT, Call, Reply


def has_unknown_outcome(reply: Reply) -> bool:
    """Whether the runtime may have done it, although it did not say so."""
    return reply.code in OUTCOME_UNKNOWN or (reply.raw is not None and reply.raw.failure is not None)


_NOTE: Final = ANNOTATION.encode()
_ALIVE: Final = frozenset((ContainerState.RUNNING, ContainerState.UNKNOWN))


class RecordLookup(Protocol):
    """Looks up in the background what a call does not show; `cri.store.sync.Synchronizer` is one."""

    def look_up_soon(self, *, pods: Iterable[str] = (), containers: Iterable[str] = ()) -> None: ...

    def refresh_soon(self, ref: str) -> None: ...

    def resync_soon(self) -> None: ...

    def settle_soon(self) -> None: ...


class StoreUpdate:
    """The effect of one call on the store. A subclass says what success means, and what the other outcomes do."""

    def __init__(self, store: Store, sync: RecordLookup, call: Call) -> None:
        self.dropped: Entry | None = None  # a pending create that had to make room for this one
        self.store = store
        self.sync = sync
        self.call = call
        self.prepare()

    def prepare(self) -> None:
        """Called before the call is sent. May raise UnreadableMessageError."""

    def on_success(self, response: Any) -> None:
        """Called when the runtime answered OK."""

    def on_not_found(self) -> None:
        """Called when the runtime does not know the object."""

    def on_unknown_outcome(self) -> None:
        """Called when the runtime may have done it, or not."""

    def close(self) -> None:
        """Called last, whatever the outcome was."""

    @property
    def original_request(self) -> Any:
        """The request as its caller made it, not to be edited."""
        body = self.call.body
        return body.read() if self.call.origin != CLIENT or body.received == body.data() else body.original()


class RunPod(StoreUpdate):
    """RunPodSandbox: a new pod."""

    def prepare(self) -> None:
        body = self.call.body
        self._original: Any = None  # None: the same as what was sent
        if body.readable and body.untouched and _NOTE not in body.received:
            return  # nobody looked into it, so there is nothing to note; it is read when the caller has its answer
        request, original = self.call.request, self.original_request
        parents = (request.config.linux.cgroup_parent, original.config.linux.cgroup_parent)
        _annotate(request.config.annotations, parent_note(*parents))
        self._original = original

    def on_success(self, response: Any) -> None:
        if (pod := self._pod(response.pod_sandbox_id)) is not None:
            self.store.put_pod(pod)

    def on_unknown_outcome(self) -> None:
        if (pod := self._pod()) is not None:
            _add_pending(self, pod)

    def _pod(self, pod_id: str = "") -> Pod | None:
        """The record; None if the request cannot be read."""
        try:
            sent = self.call.body.read()
        except UnreadableMessageError:
            return None
        return convert.pod_of_request(sent, sent if self._original is None else self._original, pod_id)


class CreateContainer(StoreUpdate):
    """CreateContainer: a new container, not running."""

    def prepare(self) -> None:
        request, original = self.call.request, self.original_request
        pod = self.store.pod(request.pod_sandbox_id)
        container = convert.container_of_request(request, original, pod)
        if _annotate(request.config.annotations, resources_note(container.resources, container.requested)):
            container = replace(container, annotations=dict(request.config.annotations))
        self._container = container
        self._pod_known = pod is not None
        self._placed = pod is not None and container.cgroup_parent != pod.cgroup_parent
        self._uid = pod.uid if pod is not None else request.sandbox_config.metadata.uid
        self._query = self.store.begin_query(container.pod_id)

    def close(self) -> None:
        self.store.end_query(self._query)

    def on_success(self, response: Any) -> None:
        if self._pod_known and not self._query.stale:
            self.store.put_container(replace(self._container, id=response.container_id))
            if self._placed:
                # Not every runtime follows a request that wants a container elsewhere than its pod.
                self.sync.refresh_soon(response.container_id)
        else:
            # The pod is not known, perhaps by a part of its id only, or went meanwhile: the runtime knows better.
            self.sync.look_up_soon(containers=(response.container_id,))

    def on_unknown_outcome(self) -> None:
        if not self._query.stale:
            _add_pending(self, self._container, self._uid)


class ContainerStoreUpdate(StoreUpdate):
    """A call that names one container."""

    def prepare(self) -> None:
        self.ref: str = self.call.body.read().container_id

    def change(self, container: Container) -> Container:
        """The record after success."""
        return container

    def on_success(self, response: Any) -> None:
        container = self.store.container(self.ref)
        if container is not None:
            self.store.put_container(self.change(container))
        else:
            self.store.disturb(self.ref)
            self.sync.look_up_soon(containers=(self.ref,))


class StartContainer(ContainerStoreUpdate):
    """StartContainer: the container runs."""

    def change(self, container: Container) -> Container:
        return replace(container, state=ContainerState.RUNNING)

    def on_unknown_outcome(self) -> None:
        if (container := self.store.container(self.ref)) is not None:
            self.store.put_container(replace(container, state=ContainerState.UNKNOWN))


class StopContainer(ContainerStoreUpdate):
    """StopContainer: the container has exited. One that was never started stays created."""

    def change(self, container: Container) -> Container:
        return exited(container)

    def on_not_found(self) -> None:
        self.store.remove_container(self.ref)


class RemoveContainer(ContainerStoreUpdate):
    """RemoveContainer: the container is removed."""

    def on_success(self, response: Any) -> None:
        self.store.remove_container(self.ref)

    def on_not_found(self) -> None:
        self.store.remove_container(self.ref)


class UpdateContainer(ContainerStoreUpdate):
    """UpdateContainerResources. What our own parts send is not what was requested."""

    def prepare(self) -> None:
        super().prepare()
        request, original = self.call.body.read(), self.original_request
        self._sent = convert.to_resources(request.linux)
        self._original = self._sent if original is request else convert.to_resources(original.linux)

    def change(self, container: Container) -> Container:
        resources = container.resources.overlay(self._sent)
        if self.call.origin != CLIENT or NOT_REQUESTED in self.call.metadata:
            return replace(container, resources=resources)
        return replace(container, resources=resources, requested=container.requested.overlay(self._original))

    def on_unknown_outcome(self) -> None:
        self.store.disturb(self.ref)
        self.sync.refresh_soon(self.ref)


class PodStoreUpdate(StoreUpdate):
    """A call that names one pod."""

    def prepare(self) -> None:
        self.ref: str = self.call.body.read().pod_sandbox_id


class PodTeardown(PodStoreUpdate):
    """A call that stops or removes a pod with all its containers, or, in Docker mode, the sandbox alone."""

    def on_not_found(self) -> None:
        pod = self.store.pod(self.ref)
        if pod is not None and self.call.alone and self.store.containers_of(pod.id):
            # Those that are left are its own, and it is there as long as they are.
            self.store.put_pod(replace(pod, ready=False))
        else:
            self.store.remove_pod(self.ref)


class StopPod(PodTeardown):
    """StopPodSandbox: the pod is not ready, its containers have exited."""

    def on_success(self, response: Any) -> None:
        pod = self.store.pod(self.ref)
        if pod is None:
            self.store.disturb(self.ref)
            return
        self.store.put_pod(replace(pod, ready=False))
        if not self.call.alone:
            for container in self.store.containers_of(pod.id):
                self.store.put_container(exited(container))


class RemovePod(PodTeardown):
    """RemovePodSandbox: the pod is removed."""

    def on_success(self, response: Any) -> None:
        self.on_not_found()


class UpdatePod(PodStoreUpdate):
    """UpdatePodSandboxResources: other resources of the pod."""

    def prepare(self) -> None:
        super().prepare()
        request = self.call.body.read()
        self._resources = convert.to_resources(request.resources)
        self._overhead = convert.to_resources(request.overhead)

    def on_success(self, response: Any) -> None:
        pod = self.store.pod(self.ref)
        if pod is None:
            self.store.disturb(self.ref)
            self.sync.look_up_soon(pods=(self.ref,))
            return
        resources, overhead = pod.resources.overlay(self._resources), pod.overhead.overlay(self._overhead)
        self.store.put_pod(replace(pod, resources=resources, overhead=overhead))


class RestorePod(StoreUpdate):
    """RestorePod: a new pod with containers that only the runtime knows."""

    def on_success(self, response: Any) -> None:
        self.sync.resync_soon()

    def on_unknown_outcome(self) -> None:
        self.sync.resync_soon()


STORE_UPDATES: Final[Mapping[str, type[StoreUpdate]]] = {
    "RunPodSandbox": RunPod,
    "StopPodSandbox": StopPod,
    "RemovePodSandbox": RemovePod,
    "CreateContainer": CreateContainer,
    "StartContainer": StartContainer,
    "StopContainer": StopContainer,
    "RemoveContainer": RemoveContainer,
    "UpdateContainerResources": UpdateContainer,
    "UpdatePodSandboxResources": UpdatePod,
    "RestorePod": RestorePod,
}


def _annotate(annotations: Any, note: str) -> bool:
    """Write our annotation, or remove one that is not ours: it must not be trusted later."""
    if note:
        annotations[ANNOTATION] = note
        return True
    if ANNOTATION in annotations:
        del annotations[ANNOTATION]
        return True
    return False


def _add_pending(update: StoreUpdate, record: Pod | Container, pod_uid: str = "") -> None:
    update.dropped = update.store.pending.add(record, pod_uid=pod_uid)
    update.sync.settle_soon()


def exited(container: Container) -> Container:
    """The record of a container after its end; one that was never started stays as it is."""
    return replace(container, state=ContainerState.EXITED) if container.state in _ALIVE else container


def apply_outcome(update: StoreUpdate, reply: Reply) -> None:
    """Change the store by the reply to a call; a failure that is known changes nothing."""
    if reply.code == Code.OK:
        try:
            response = reply.read()
        except UnreadableMessageError:
            update.on_unknown_outcome()
        else:
            update.on_success(response)
    elif has_unknown_outcome(reply):
        update.on_unknown_outcome()
    elif reply.code == Code.NOT_FOUND:
        update.on_not_found()
