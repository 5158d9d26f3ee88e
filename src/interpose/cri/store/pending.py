"""Creates whose outcome is not known: cancelled, timed out, or lost with the backend.

The runtime may have carried them out all the same. Each waits here under the name that the runtime reserves for it,
with the record it will have, until a list of the runtime settles it. Pure, and bounded: the oldest one makes room.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from interpose.core.model.kubernetes_names import POD_UID
from interpose.core.model.pod import Container, Pod

# Creates in doubt come in numbers only when a whole node starts behind a runtime that dies.
_MOST: Final = 1024


class PodKey(NamedTuple):
    """The key that is unique among pods of a runtime."""

    namespace: str
    name: str
    uid: str
    attempt: int


class ContainerKey(NamedTuple):
    """The key that is unique among containers of a runtime."""

    pod_uid: str
    name: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingPod:
    """A pod that may exist. Its record has no id yet."""

    key: PodKey
    pod: Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingContainer:
    """A container that may exist. Its record has no id yet."""

    key: ContainerKey
    container: Container


Entry = PendingPod | PendingContainer
Key = PodKey | ContainerKey


class PendingCreates:
    """Creates with unknown outcome, the oldest first."""

    def __init__(self, most: int = _MOST) -> None:
        self._entries: dict[Key, Entry] = {}
        self._most = most

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(tuple(self._entries.values()))

    def __contains__(self, entry: object) -> bool:
        """Whether exactly this entry still waits: not one that took its place later."""
        return isinstance(entry, Entry) and self._entries.get(entry.key) is entry

    def add(self, record: Pod | Container, *, pod_uid: str = "") -> Entry | None:
        """Add a create with unknown outcome. Returns the oldest entry if it had to make room."""
        entry: Entry
        if isinstance(record, Pod):
            entry = PendingPod(key=pod_key(record), pod=record)
        else:
            entry = PendingContainer(key=ContainerKey(pod_uid, record.name, record.attempt), container=record)
        self._entries.pop(entry.key, None)
        self._entries[entry.key] = entry
        return self._entries.pop(next(iter(self._entries))) if len(self._entries) > self._most else None

    def drop(self, entry: Entry) -> None:
        if entry in self:
            del self._entries[entry.key]

    def drop_pod(self, pod: Pod) -> None:
        """Drop the entry of a pod that is known to exist."""
        if self._entries:
            self._entries.pop(pod_key(pod), None)

    def drop_container(self, container: Container, pod: Pod | None) -> None:
        """Drop the entry of a container that is known to exist."""
        if self._entries:
            uid = pod.uid if pod is not None else container.labels.get(POD_UID, "")
            self._entries.pop(ContainerKey(uid, container.name, container.attempt), None)

    def drop_members(self, pod_id: str) -> None:
        """Drop the entries of all containers of a removed pod."""
        for entry in self:
            if isinstance(entry, PendingContainer) and entry.container.pod_id == pod_id:
                self.drop(entry)


def pod_key(pod: Pod) -> PodKey:
    """The name of a pod at the runtime."""
    return PodKey(pod.namespace, pod.name, pod.uid, pod.attempt)
