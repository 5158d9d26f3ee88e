"""Which pods and containers are behind which ids, as far as calls have told.

Pure and bounded: the ids that were not used for longest are forgotten first. A removed pod stays known until then, so
that calls about it that come late still have a name.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeVar

from interpose.dump.model.call import Subject

MAX_IDS: Final = 20_000  # of pods, and of containers
# What a file of a rotated recording begins with: the newest are more than a node runs.
MAX_CONTEXT_IDS: Final = 2_000
_FULL_ID: Final = 64
_PODS: Final = "pods"
_CONTAINERS: Final = "containers"

ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPod:
    """The names of a pod sandbox."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownContainer:
    """The name of a container and where it is; names of its pod in case the pod itself was never seen."""

    name: str = ""
    image: str = ""
    pod_id: str = ""
    pod: KnownPod = KnownPod()


class _LruCache(Generic[ValueT]):
    """A map that forgets what was not used for longest."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[str, ValueT] = OrderedDict()

    def get(self, key: str) -> tuple[str, ValueT] | None:
        """The full id and what is known; a beginning of an id that fits one only will do, as tools accept it."""
        if key not in self._values:
            if not key or len(key) >= _FULL_ID:
                return None
            matches = [known for known in self._values if known.startswith(key)]
            if len(matches) != 1:
                return None
            (key,) = matches
        self._values.move_to_end(key)
        return key, self._values[key]

    def exact(self, key: str) -> ValueT | None:
        """What is known; being asked for is being used."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: str, value: ValueT) -> None:
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > self._size:
            self._values.popitem(last=False)

    def newest(self, count: int) -> list[tuple[str, ValueT]]:
        """The oldest of them first, so that learning them in this order gives the same order."""
        return list(self._values.items())[-count:]


class IdNames:
    """Names of pods and containers by the ids of the runtime."""

    def __init__(self, *, max_ids: int = MAX_IDS) -> None:
        self._pods: _LruCache[KnownPod] = _LruCache(max_ids)
        self._containers: _LruCache[KnownContainer] = _LruCache(max_ids)

    def add_pod(self, pod_id: str, pod: KnownPod) -> None:
        """These are the names of this pod."""
        if pod_id and pod.name:
            self._pods.put(pod_id, pod)

    def add_container(self, container_id: str, container: KnownContainer) -> None:
        """This is known about this container; what is empty was not said and keeps what it was."""
        if not container_id or not container.name:
            return
        before = self._containers.exact(container_id)
        if before is not None and before != container:
            container = KnownContainer(
                name=container.name,
                image=container.image or before.image,
                pod_id=container.pod_id or before.pod_id,
                pod=container.pod if container.pod.name else before.pod,
            )
        self._containers.put(container_id, container)

    def has_pod(self, pod_id: str) -> bool:
        """Whether there is nothing to learn about it: names of an id never change."""
        return self._pods.exact(pod_id) is not None

    def has_container(self, container_id: str) -> bool:
        """Whether there is nothing to learn about it."""
        container = self._containers.exact(container_id)
        return container is not None and bool(container.image and container.pod_id and container.pod.name)

    def complete(self, subject: Subject) -> Subject:
        """The subject with what its ids tell; what it says itself stays."""
        if subject.container_id:
            found = self._containers.get(subject.container_id)
            if found is not None:
                container_id, container = found
                subject = replace(
                    subject,
                    container_id=container_id,
                    container=subject.container or container.name,
                    image=subject.image or container.image,
                    pod_id=subject.pod_id or container.pod_id,
                )
                subject = _named(subject, container.pod)
        if subject.pod_id:
            pod = self._pods.get(subject.pod_id)
            if pod is not None:
                subject = _named(replace(subject, pod_id=pod[0]), pod[1])
        return subject

    def context(self) -> dict[str, Any]:
        """What a reader has to know who begins here; JSON."""
        return {
            _PODS: {pod_id: [pod.namespace, pod.name, pod.uid] for pod_id, pod in self._pods.newest(MAX_CONTEXT_IDS)},
            _CONTAINERS: {
                container_id: [it.name, it.image, it.pod_id, it.pod.namespace, it.pod.name, it.pod.uid]
                for container_id, it in self._containers.newest(MAX_CONTEXT_IDS)
            },
        }

    def learn(self, facts: Mapping[str, Any]) -> None:
        """What `context` gave, possibly of another version: what cannot be used is passed over."""
        for pod_id, (namespace, name, uid) in _rows(facts.get(_PODS), 3):
            self.add_pod(pod_id, KnownPod(namespace=namespace, name=name, uid=uid))
        for container_id, (name, image, pod_id, namespace, pod, uid) in _rows(facts.get(_CONTAINERS), 6):
            names = KnownPod(namespace=namespace, name=pod, uid=uid)
            self.add_container(container_id, KnownContainer(name=name, image=image, pod_id=pod_id, pod=names))


def _named(subject: Subject, pod: KnownPod) -> Subject:
    return replace(
        subject,
        namespace=subject.namespace or pod.namespace,
        pod=subject.pod or pod.name,
        pod_uid=subject.pod_uid or pod.uid,
    )


def _rows(value: object, width: int) -> list[tuple[str, list[str]]]:
    if not isinstance(value, Mapping):
        return []
    return [
        (key, row)
        for key, row in value.items()
        if isinstance(row, list) and len(row) == width and all(isinstance(text, str) for text in row)
    ]
