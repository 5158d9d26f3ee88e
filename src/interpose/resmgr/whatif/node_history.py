"""The pods and containers of a node, put together from calls that were made long ago.

What a call means is what it means to a relay (`relay.store_updates`), and an answer never undoes what was learned since
the question. Nobody can be asked any more, though: what was there before the first call is known as far as answers tell
of it, and what is only guessed is counted. Bytes that are no such message raise ValueError or Unreadable, and nothing
has changed. No IO and no clock; messages are read through the doors of the relay and the store.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from interpose.core.model.kubernetes_names import POD_NAME, POD_NAMESPACE, POD_UID
from interpose.core.model.pod import Container, ContainerState, Pod
from interpose.cri.methods import METHODS
from interpose.cri.parser import CriParser
from interpose.cri.store import convert
from interpose.cri.store.convert import FoundContainer, ListedContainer
from interpose.cri.store.store import Store
from interpose.net.grpc.status import Code
from interpose.resmgr.whatif.events import ReplyEvent, RequestEvent

_ALIVE: Final = frozenset((ContainerState.RUNNING, ContainerState.UNKNOWN))
_LISTS: Final = ("ListPodSandbox", "ListContainers")
# Events of containers by number; of what was created a create has told.
_STARTED: Final = 1
_STOPPED: Final = 2
_DELETED: Final = 3
# Methods whose calls tell something of pods, or of containers that are there.
METHODS_OF_NODES: Final = frozenset(
    (
        "RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "StartContainer", "StopContainer", "RemoveContainer",
        "ListPodSandbox", "StreamPodSandboxes", "ListContainers", "StreamContainers", "PodSandboxStatus",
        "ContainerStatus", "GetContainerEvents",
    )
)  # fmt: skip


class Bygone:
    """A node. `store` tells of every change of a container."""

    def __init__(self) -> None:
        self.store = Store()
        self.strangers: dict[str, str] = {}  # containers that run and were in lists only, with their pods
        self.guessed: set[str] = set()  # pods of which not everything is known, and containers from before
        self._acts: Mapping[str, Callable[[Any, ReplyEvent], None]] = {
            "StartContainer": self._start,
            "StopContainer": self._stop,
            "RemoveContainer": self._remove,
            "StopPodSandbox": self._stop_pod,
            "RemovePodSandbox": self._remove_pod,
        }
        self._tells: Mapping[str, Callable[[bytes, int, bool], None]] = {
            "ListPodSandbox": self._see_pods,
            "StreamPodSandboxes": self._see_pods,
            "ListContainers": self._see_containers,
            "StreamContainers": self._see_containers,
            "PodSandboxStatus": self._see_pod,
            "ContainerStatus": self._see_container,
            "GetContainerEvents": self._see_event,
        }

    # -- calls

    def answered(self, asked: RequestEvent, answer: ReplyEvent, mark: int) -> None:
        """A call is over that was asked at `mark`. Creates and updates of containers are somebody else's."""
        if asked.method in self._tells:
            if answer.code == Code.OK and answer.reply is not None:
                self._tells[asked.method](answer.reply, mark, self.complete(asked))
        elif asked.method == "RunPodSandbox":
            if answer.code == Code.OK and answer.reply is not None:
                self._run_pod(asked, answer.reply, answer.forwarded)
        elif asked.method in self._acts and answer.code in (Code.OK, Code.NOT_FOUND):
            self._acts[asked.method](CriParser(METHODS[asked.method].request).parse(asked.request), answer)

    def told(self, asked: RequestEvent, reply: bytes, mark: int) -> None:
        """One answer of a call that was asked at `mark`."""
        if (tell := self._tells.get(asked.method)) is not None:
            tell(reply, mark, False)

    def complete(self, asked: RequestEvent) -> bool:
        """Whether the one answer of this call tells of all there is."""
        return asked.method in _LISTS and convert.asks_for_all(asked.method, asked.request)

    def _run_pod(self, asked: RequestEvent, reply: bytes, forwarded: bytes | None) -> None:
        requests = CriParser("RunPodSandboxRequest")
        sent = requests.parse(asked.request if forwarded is None else forwarded)
        response = CriParser("RunPodSandboxResponse").parse(reply)
        self.store.put_pod(convert.pod_of_request(sent, requests.parse(asked.request), response.pod_sandbox_id))

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

    def _start(self, asked: Any, answer: ReplyEvent) -> None:
        container = self.store.container(asked.container_id)
        if container is not None and answer.code == Code.OK:
            self.store.put_container(replace(container, state=ContainerState.RUNNING))

    def _stop(self, asked: Any, answer: ReplyEvent) -> None:
        self.strangers.pop(asked.container_id, None)
        if answer.code == Code.NOT_FOUND:
            self.store.remove_container(asked.container_id)
        elif (container := self.store.container(asked.container_id)) is not None:
            self.store.put_container(_ended(container))

    def _remove(self, asked: Any, answer: ReplyEvent) -> None:
        self.strangers.pop(asked.container_id, None)
        self.store.remove_container(asked.container_id)

    def _stop_pod(self, asked: Any, answer: ReplyEvent) -> None:
        if answer.code == Code.NOT_FOUND:
            self._remove_pod(asked, answer)
            return
        self._forget_strangers(asked.pod_sandbox_id)
        pod = self.store.pod(asked.pod_sandbox_id)
        if pod is not None:
            self._pod_ready(pod, False)
            for container in self.store.containers_of(pod.id):
                self.store.put_container(_ended(container))

    def _remove_pod(self, asked: Any, answer: ReplyEvent) -> None:
        self._forget_strangers(asked.pod_sandbox_id)
        self.store.remove_pod(asked.pod_sandbox_id)

    def _forget_strangers(self, pod_id: str) -> None:
        for one in [one for one, within in self.strangers.items() if within == pod_id]:
            del self.strangers[one]

    def _pod_ready(self, pod: Pod, ready: bool) -> None:
        """Containers that wait in a pod that is stopped will not run: whoever looks at them is told."""
        self.store.put_pod(replace(pod, ready=ready))
        if not ready:
            for container in self.store.containers_of(pod.id):
                self.store.put_container(container)

    # -- answers

    def _see_pods(self, reply: bytes, mark: int, complete: bool) -> None:
        """What a complete list does not show does not exist, unless it came since the question."""
        listed = convert.listed_pods(reply)
        if complete:
            self.store.forget_missing(mark, pods={one.id for one in listed})
        for one in listed:
            known = self.store.pods.get(one.id)
            if known is not None and known.ready != one.ready and self.store.unchanged_since(one.id, mark):
                self._pod_ready(known, one.ready)

    def _see_containers(self, reply: bytes, mark: int, complete: bool) -> None:
        """As for pods."""
        listed = convert.listed_containers(reply)
        if complete:
            ids = {one.id for one in listed}
            self.store.forget_missing(mark, containers=ids)
            self.strangers = {one: pod for one, pod in self.strangers.items() if one in ids}
        for one in listed:
            known = self.store.containers.get(one.id)
            if known is not None:
                self._see_state(known, one.state, mark)
            else:
                self._see_stranger(one)

    def _see_stranger(self, one: ListedContainer) -> None:
        if one.state in _ALIVE:
            self.strangers[one.id] = one.pod_id
        else:
            self.strangers.pop(one.id, None)

    def _see_state(self, known: Container, state: ContainerState, mark: int) -> None:
        if known.state is not state and self.store.unchanged_since(known.id, mark):
            self.store.put_container(replace(known, state=state))

    def _see_pod(self, reply: bytes, mark: int, complete: bool) -> None:
        pod = convert.pod_of_status(reply)
        known = self.store.pods.get(pod.id)
        if known is None and pod.id:
            self.guessed.add(pod.id)
            self.store.put_pod(pod)
        elif known is not None and known.ready != pod.ready and self.store.unchanged_since(pod.id, mark):
            self._pod_ready(known, pod.ready)

    def _see_container(self, reply: bytes, mark: int, complete: bool) -> None:
        found = convert.container_of_status(reply)
        known = self.store.containers.get(found.record.id)
        if known is not None:
            self._see_state(known, found.record.state, mark)
        elif found.record.state in _ALIVE or found.record.state is ContainerState.CREATED:
            self._see_survivor(found)

    def _see_survivor(self, found: FoundContainer) -> None:
        """A container from before the first call; where nothing says which pod it is in, it stays a stranger."""
        record = found.record
        pod_id = found.pod_id or self.strangers.get(record.id, "")
        if not pod_id or not record.id:
            return
        pod = self.store.pods.get(pod_id)
        if pod is None:
            name, namespace, uid = (record.labels.get(one, "") for one in (POD_NAME, POD_NAMESPACE, POD_UID))
            pod = Pod(id=pod_id, name=name, namespace=namespace, uid=uid)
        if not pod.cgroup_parent:
            parent = record.cgroup_parent
            pod = replace(pod, cgroup_parent=parent, requested_cgroup_parent=parent)
        self.store.put_pod(pod)
        self.strangers.pop(record.id, None)
        self.guessed.update((pod.id, record.id))
        self.store.put_container(found.within(pod))

    def _see_event(self, reply: bytes, mark: int, complete: bool) -> None:
        event = CriParser("ContainerEventResponse").parse(reply)
        ref, kind = event.container_id, event.container_event_type
        pod, container = self.store.pods.get(ref), self.store.containers.get(ref)
        if kind in (_STOPPED, _DELETED):
            self.strangers.pop(ref, None)
        if pod is not None and kind == _STOPPED:
            self._pod_ready(pod, False)
        elif pod is not None and kind == _DELETED:
            self.store.remove_pod(ref)
        elif container is not None and kind == _STARTED and container.state is ContainerState.CREATED:
            self.store.put_container(replace(container, state=ContainerState.RUNNING))
        elif container is not None and kind == _STOPPED:
            self.store.put_container(_ended(container))
        elif container is not None and kind == _DELETED:
            self.store.remove_container(ref)


def _ended(container: Container) -> Container:
    return replace(container, state=ContainerState.EXITED) if container.state in _ALIVE else container
