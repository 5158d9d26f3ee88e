"""The pods and containers of a node, put together from the calls of a recording.

What a call means for the store is what it means to a relay (`relay.store_updates`), and an answer never undoes what was
learned since the question. There is no runtime to ask, though: what was there before the first call is known as far as
replies show it, and what is only guessed is counted. Bytes that are no such message raise ValueError or
UnreadableMessageError. No IO and no clock; messages are read through the parsers of the relay and the store.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from interpose.core.model.kubernetes_names import POD_NAME, POD_NAMESPACE, POD_UID
from interpose.core.model.pod import ContainerState, Pod
from interpose.cri.methods import METHODS
from interpose.cri.parser import CriParser
from interpose.cri.store import convert
from interpose.cri.store.convert import FoundContainer, ListedContainer
from interpose.cri.store.requested import NOT_REQUESTED
from interpose.cri.store.store import Store
from interpose.net.grpc.status import OUTCOME_UNKNOWN, Code
from interpose.relay.api import Body, Call, Reply
from interpose.relay.store_updates import STORE_UPDATES, apply_outcome, exited
from interpose.resmgr.whatif.events import ReplyEvent, RequestEvent

_ALIVE: Final = frozenset((ContainerState.RUNNING, ContainerState.UNKNOWN))
_LISTS: Final = ("ListPodSandbox", "ListContainers")
# Methods whose replies have an id, without which nothing is known of the object.
_CREATES: Final = ("RunPodSandbox", "CreateContainer")
# Events of containers by number; creates are known from their calls.
_STARTED: Final = 1
_STOPPED: Final = 2
_DELETED: Final = 3
# Methods whose calls show or change pods, or containers that exist.
METHODS_OF_NODES: Final = frozenset(
    (
        "RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "StartContainer", "StopContainer", "RemoveContainer",
        "ListPodSandbox", "StreamPodSandboxes", "ListContainers", "StreamContainers", "PodSandboxStatus",
        "ContainerStatus", "GetContainerEvents",
    )
)  # fmt: skip


class _NoRuntime:
    """The lookup of a recording: nothing can be asked any more."""

    def look_up_soon(self, *, pods: Iterable[str] = (), containers: Iterable[str] = ()) -> None:
        """Unknown objects stay unknown."""

    def refresh_soon(self, ref: str) -> None:
        """The record stays as it is."""

    def resync_soon(self) -> None:
        """Recorded lists count when they come."""

    def settle_soon(self) -> None:
        """Recorded lists show the outcome of creates."""


class NodeHistory:
    """The pods and containers of a node. `store` reports every change of a container."""

    def __init__(self) -> None:
        self.store = Store()
        self.unknown: dict[str, str] = {}  # containers that run and were in lists only, with their pods
        self.guessed: set[str] = set()  # pods of which not everything is known, and containers from before
        self._lookup = _NoRuntime()
        self._readers: Mapping[str, Callable[[bytes, int, bool], None]] = {
            "ListPodSandbox": self._read_pods,
            "StreamPodSandboxes": self._read_pods,
            "ListContainers": self._read_containers,
            "StreamContainers": self._read_containers,
            "PodSandboxStatus": self._read_pod_status,
            "ContainerStatus": self._read_container_status,
            "GetContainerEvents": self._read_event,
        }

    # -- calls

    def on_reply(self, request: RequestEvent, reply: ReplyEvent, mark: int) -> None:
        """The end of a call that began at `mark` of the store."""
        if request.method in self._readers:
            if reply.code == Code.OK and reply.reply is not None:
                self._readers[request.method](reply.reply, mark, self.is_complete(request))
        elif request.method in STORE_UPDATES:
            self._update_store(request, reply)

    def on_message(self, request: RequestEvent, message: bytes, mark: int) -> None:
        """One message of a stream that began at `mark` of the store."""
        if (read := self._readers.get(request.method)) is not None:
            read(message, mark, False)

    def is_complete(self, request: RequestEvent) -> bool:
        """Whether the one reply of this call shows all there is."""
        return request.method in _LISTS and convert.asks_for_all(request.method, request.request)

    def _update_store(self, request: RequestEvent, reply: ReplyEvent) -> None:
        if reply.code not in (Code.OK, Code.NOT_FOUND, *OUTCOME_UNKNOWN):
            return
        method = METHODS[request.method]
        body = Body(request.request, CriParser(method.request))
        if reply.forwarded is not None:
            body.restore(reply.forwarded)
        metadata = (NOT_REQUESTED,) if request.amends else ()
        call = Call(method=method, path=b"", body=body, origin=request.origin, metadata=lambda: metadata)
        # Other replies than those with an id are empty, so that one which was not recorded is as good.
        data = b"" if reply.reply is None and request.method not in _CREATES else reply.reply
        response = None if data is None else Body(data, CriParser(method.response))
        answer = Reply(code=reply.code, message=reply.message, body=response)
        update = STORE_UPDATES[request.method](self.store, self._lookup, call)
        if reply.code in (Code.OK, Code.NOT_FOUND):
            self._forget_unknown(request.method, call.request)
        apply_outcome(update, answer)
        update.close()
        if reply.code == Code.OK and response is not None:
            _ = response.message  # raises if it is none, which is counted

    def pod_of_create(self, request: Any) -> Pod:
        """The pod of a create. One that is not known is as the request says: kubelets repeat all of it."""
        pod = self.store.pod(request.pod_sandbox_id)
        if pod is None:
            made = CriParser("RunPodSandboxRequest").parse(b"")
            made.config.CopyFrom(request.sandbox_config)
            pod = convert.pod_of_request(made, made, request.pod_sandbox_id)
            self.guessed.add(pod.id)
            self.store.put_pod(pod)
        return pod

    def _forget_unknown(self, method: str, request: Any) -> None:
        if method in ("StopContainer", "RemoveContainer"):
            self.unknown.pop(request.container_id, None)
        elif method in ("StopPodSandbox", "RemovePodSandbox"):
            pod_id = request.pod_sandbox_id
            self.unknown = {ref: within for ref, within in self.unknown.items() if within != pod_id}

    # -- replies

    def _read_pods(self, reply: bytes, mark: int, complete: bool) -> None:
        """What a complete list does not show does not exist, unless it was created since the question."""
        listed = convert.listed_pods(reply)
        if complete:
            self.store.forget_missing(mark, pods={pod.id for pod in listed})
        for pod in listed:
            self._observe_ready(pod.id, pod.ready, mark)

    def _observe_ready(self, pod_id: str, ready: bool, mark: int) -> None:
        """Containers that wait in a pod that is stopped will not run: their records are reported again."""
        if self.store.observe_ready(pod_id, ready, mark) and not ready:
            for container in self.store.containers_of(pod_id):
                self.store.put_container(container)

    def _read_containers(self, reply: bytes, mark: int, complete: bool) -> None:
        """What a complete list does not show does not exist, unless it was created since the question."""
        listed = convert.listed_containers(reply)
        if complete:
            ids = {container.id for container in listed}
            self.store.forget_missing(mark, containers=ids)
            self.unknown = {ref: pod for ref, pod in self.unknown.items() if ref in ids}
        for container in listed:
            if container.id in self.store.containers:
                self.store.observe_state(container.id, container.state, mark)
            else:
                self._note_unknown(container)

    def _note_unknown(self, container: ListedContainer) -> None:
        if container.state in _ALIVE:
            self.unknown[container.id] = container.pod_id
        else:
            self.unknown.pop(container.id, None)

    def _read_pod_status(self, reply: bytes, mark: int, complete: bool) -> None:
        pod = convert.pod_of_status(reply)
        if pod.id and pod.id not in self.store.pods:
            self.guessed.add(pod.id)
            self.store.put_pod(pod)
        else:
            self._observe_ready(pod.id, pod.ready, mark)

    def _read_container_status(self, reply: bytes, mark: int, complete: bool) -> None:
        found = convert.container_of_status(reply)
        state = found.record.state
        if found.record.id in self.store.containers:
            self.store.observe_state(found.record.id, state, mark)
        elif state in _ALIVE or state is ContainerState.CREATED:
            self._add_existing(found)

    def _add_existing(self, found: FoundContainer) -> None:
        """A container from before the first call; where nothing shows which pod it is in, it stays unknown."""
        record = found.record
        pod_id = found.pod_id or self.unknown.get(record.id, "")
        if not pod_id or not record.id:
            return
        pod = self.store.pods.get(pod_id)
        if pod is None:
            name, namespace, uid = (record.labels.get(label, "") for label in (POD_NAME, POD_NAMESPACE, POD_UID))
            pod = Pod(id=pod_id, name=name, namespace=namespace, uid=uid)
        if not pod.cgroup_parent:
            parent = record.cgroup_parent
            pod = replace(pod, cgroup_parent=parent, requested_cgroup_parent=parent)
        self.store.put_pod(pod)
        self.unknown.pop(record.id, None)
        self.guessed.update((pod.id, record.id))
        self.store.put_container(found.within(pod))

    def _read_event(self, reply: bytes, mark: int, complete: bool) -> None:
        event = CriParser("ContainerEventResponse").parse(reply)
        ref, kind = event.container_id, event.container_event_type
        pod, container = self.store.pods.get(ref), self.store.containers.get(ref)
        if kind in (_STOPPED, _DELETED):
            self.unknown.pop(ref, None)
        if pod is not None and kind == _STOPPED:
            self._observe_ready(ref, False, self.store.mark())
        elif pod is not None and kind == _DELETED:
            self.store.remove_pod(ref)
        elif container is not None and kind == _STARTED and container.state is ContainerState.CREATED:
            self.store.put_container(replace(container, state=ContainerState.RUNNING))
        elif container is not None and kind == _STOPPED:
            self.store.put_container(exited(container))
        elif container is not None and kind == _DELETED:
            self.store.remove_container(ref)
