"""The pods and containers of this node, as far as they are known.

Pure: callers put records and read them. Records are values and are replaced, never changed. Two things are
remembered besides them: how old each record is, so that an answer of the runtime which is older than the record cannot
undo it, and which queries to the runtime are open, so that an answer which comes too late is known to be.
Both are bounded by what exists and by what is in flight.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

from interpose.core.model.pod import Container, ContainerState, Pod
from interpose.cri.store.pending import PendingCreates
from interpose.cri.store.variables import VariableTable

_Record = TypeVar("_Record", Pod, Container)


class StoreQuery:
    """An open query to the runtime about one object. `stale` once that object changed or was removed meanwhile."""

    __slots__ = ("ref", "stale")

    def __init__(self, ref: str) -> None:
        self.ref = ref
        self.stale = False


class Store:
    """Pods and containers by id. Wherever an id is taken from outside, the unique start of one is as good."""

    def __init__(self, *, pending: PendingCreates | None = None) -> None:
        self._pods: dict[str, Pod] = {}
        self._containers: dict[str, Container] = {}
        self._members: dict[str, dict[str, None]] = {}  # pod id -> ids of its containers, in order
        self._revision = 0
        self._changed: dict[str, int] = {}  # id -> revision of its last change
        self._queries: set[StoreQuery] = set()
        self._diverging: dict[str, Container] = {}
        self._variables = VariableTable()
        self.pending = pending if pending is not None else PendingCreates()
        # Called when the first container diverges from what was requested, and when the last one no longer does.
        self.on_diverging: Callable[[], None] | None = None
        # Called for every change of a container: the record before and after, None where there is none.
        self.on_container: Callable[[Container | None, Container | None], None] | None = None

    # -- reading

    @property
    def pods(self) -> Mapping[str, Pod]:
        """All pods by full id."""
        return MappingProxyType(self._pods)

    @property
    def containers(self) -> Mapping[str, Container]:
        """All containers by full id."""
        return MappingProxyType(self._containers)

    @property
    def diverging(self) -> Mapping[str, Container]:
        """The containers with other resources than their caller asked for, by full id."""
        return self._diverging

    def pod(self, ref: str) -> Pod | None:
        """The pod with this id, or the only one whose id starts like this."""
        return _find(self._pods, ref)

    def container(self, ref: str) -> Container | None:
        """The container with this id, or the only one whose id starts like this."""
        return _find(self._containers, ref)

    def containers_of(self, pod_id: str) -> tuple[Container, ...]:
        """The containers of a pod, in the order they became known."""
        return tuple(self._containers[container_id] for container_id in self._members.get(pod_id, ()))

    # -- writing

    def put_pod(self, pod: Pod) -> None:
        """Record a pod, or replace its record."""
        self._pods[pod.id] = pod
        self._touch(pod.id)
        self.pending.drop_pod(pod)

    def put_container(self, container: Container) -> None:
        """Record a container, or replace its record. Its pod counts as changed: it must be there."""
        old = self._containers.get(container.id)
        if old is not None and old.pod_id != container.pod_id:
            self._leave(old)
        if container.envs and (old is None or container.envs is not old.envs):
            container = replace(container, envs=self._variables.shared(container.envs))
        self._containers[container.id] = container
        self._members.setdefault(container.pod_id, {})[container.id] = None
        self._touch(container.id)
        pod = self._pods.get(container.pod_id)
        if pod is not None:
            self._touch(pod.id)
        self.pending.drop_container(container, pod)
        self._note_divergence(container, container.diverges)
        if self.on_container is not None:
            self.on_container(old, container)

    def remove_pod(self, ref: str) -> None:
        """Remove a pod with all its containers."""
        pod = self.pod(ref)
        pod_id = pod.id if pod is not None else ref
        for container in self.containers_of(pod_id):
            self.remove_container(container.id)
        if pod is not None:
            del self._pods[pod_id]
            self._changed.pop(pod_id, None)  # a runtime may give a container the id of its pod
        self.pending.drop_members(pod_id)
        self.disturb(pod_id)

    def remove_container(self, ref: str) -> None:
        container = self.container(ref)
        if container is None:
            self.disturb(ref)
            return
        del self._containers[container.id]
        self._changed.pop(container.id, None)
        self._leave(container)
        self.disturb(container.id)
        self._note_divergence(container, False)
        if self.on_container is not None:
            self.on_container(container, None)

    # -- answers that come late

    def mark(self) -> int:
        """A mark to be taken before the runtime is asked: later changes are newer than its answer."""
        return self._revision

    def unchanged_since(self, object_id: str, mark: int) -> bool:
        """Whether there is such a record, and an answer to a query at `mark` is newer than it."""
        changed = self._changed.get(object_id)
        return changed is not None and changed <= mark

    def observe_ready(self, pod_id: str, ready: bool, mark: int) -> bool:
        """Take over the state of a pod from an answer asked for at `mark`; whether its record changed."""
        pod = self._pods.get(pod_id)
        if pod is None or pod.ready == ready or not self.unchanged_since(pod_id, mark):
            return False
        self.put_pod(replace(pod, ready=ready))
        return True

    def observe_state(self, container_id: str, state: ContainerState, mark: int) -> bool:
        """Take over the state of a container from an answer asked for at `mark`; whether its record changed."""
        container = self._containers.get(container_id)
        if container is None or container.state is state or not self.unchanged_since(container_id, mark):
            return False
        self.put_container(replace(container, state=state))
        return True

    def forget_missing(
        self, mark: int, *, pods: Collection[str] | None = None, containers: Collection[str] | None = None
    ) -> int:
        """Remove what a complete list asked for at `mark` does not show; None: no such list. Returns how many."""
        before = len(self._pods) + len(self._containers)
        if pods is not None:
            for pod_id in self._older(self._pods, pods, mark):
                self.remove_pod(pod_id)
        if containers is not None:
            for container_id in self._older(self._containers, containers, mark):
                self.remove_container(container_id)
        return before - len(self._pods) - len(self._containers)

    def _older(self, records: Mapping[str, object], listed: Collection[str], mark: int) -> list[str]:
        """Ids of the records that are not listed and did not change since the mark."""
        return [key for key in records if key not in listed and self._changed.get(key, 0) <= mark]

    def begin_query(self, ref: str) -> StoreQuery:
        """Note that the runtime is asked about this pod or container: the query says whether its answer still holds."""
        query = StoreQuery(ref)
        self._queries.add(query)
        return query

    def end_query(self, query: StoreQuery) -> None:
        """Note that the runtime has answered."""
        self._queries.discard(query)

    @contextmanager
    def query(self, ref: str) -> Iterator[StoreQuery]:
        """`begin_query` and `end_query` around a block."""
        query = self.begin_query(ref)
        try:
            yield query
        finally:
            self.end_query(query)

    def disturb(self, ref: str) -> None:
        """Make open queries about an object stale, known or not: something happened to it."""
        for query in self._queries:
            if query.ref.startswith(ref) or ref.startswith(query.ref):
                query.stale = True

    def _touch(self, object_id: str) -> None:
        self._revision += 1
        self._changed[object_id] = self._revision

    def _leave(self, container: Container) -> None:
        members = self._members[container.pod_id]
        del members[container.id]
        if not members:
            del self._members[container.pod_id]

    def _note_divergence(self, container: Container, diverges: bool) -> None:
        before = bool(self._diverging)
        if diverges:
            self._diverging[container.id] = container
        else:
            self._diverging.pop(container.id, None)
        if bool(self._diverging) != before and self.on_diverging is not None:
            self.on_diverging()


def _find(records: Mapping[str, _Record], ref: str) -> _Record | None:
    found = records.get(ref)
    if found is not None or not ref:
        return found
    matches = [record for object_id, record in records.items() if object_id.startswith(ref)]
    return matches[0] if len(matches) == 1 else None
