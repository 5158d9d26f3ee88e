"""Ids of a recording and the ids that stand for them now.

A runtime gives every pod and container a new id, so each id in a request is replaced by the one that the repeated call
gave. Which fields hold ids is a table. Image references are content, not names of things that were made: one that
nobody made again stays as it is.

Pure.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from interpose.dump.replay.visit import parts, type_name

_T = TypeVar("_T")


class ReferenceKind(StrEnum):
    """What an id is the id of."""

    POD = "pod"
    CONTAINER = "container"
    IMAGE = "image"


class Reference(NamedTuple):
    """An id and what it is the id of."""

    kind: ReferenceKind
    id: str

    def __str__(self) -> str:
        return f"{self.kind} {self.id[:13] if self.kind is not ReferenceKind.IMAGE else self.id}"


# Fields of requests, by message where the name alone does not say it.
_NAMED: Final[Mapping[str, ReferenceKind]] = MappingProxyType(
    {
        "pod_sandbox_id": ReferenceKind.POD,
        "container_id": ReferenceKind.CONTAINER,
        "container_ids": ReferenceKind.CONTAINER,
    }
)
_IN_MESSAGE: Final[Mapping[tuple[str, str], ReferenceKind | None]] = MappingProxyType(
    {
        ("ContainerFilter", "id"): ReferenceKind.CONTAINER,
        ("ContainerStatsFilter", "id"): ReferenceKind.CONTAINER,
        ("PodSandboxFilter", "id"): ReferenceKind.POD,
        ("PodSandboxStatsFilter", "id"): ReferenceKind.POD,
        ("NamespaceOption", "target_id"): ReferenceKind.CONTAINER,
        ("ImageSpec", "image"): ReferenceKind.IMAGE,
        ("ImageSpec", "image_ref"): ReferenceKind.IMAGE,
        ("IDMapping", "container_id"): None,  # a number of a user
    }
)
# Fields of replies that name what the call made.
_MADE: Final[Mapping[str, tuple[str, ReferenceKind]]] = MappingProxyType(
    {
        "RunPodSandboxResponse": ("pod_sandbox_id", ReferenceKind.POD),
        "CreateContainerResponse": ("container_id", ReferenceKind.CONTAINER),
        "PullImageResponse": ("image_ref", ReferenceKind.IMAGE),
    }
)
# The calls that make something with an id of its own; the same image has the same id whoever pulls it.
CREATING_METHODS: Final = frozenset({"RunPodSandbox", "CreateContainer"})
# crictl lets people type the beginning of an id; shorter ones would fit too many, longer ones are whole.
_SHORTEST: Final = 4
_WHOLE: Final = 64


class _IdField(NamedTuple):
    part: Any
    field: str
    repeated: bool
    kind: ReferenceKind


def _id_fields(message: Any) -> Iterator[_IdField]:
    for part in parts(message):
        name = type_name(part)
        for field, _value in part.ListFields():
            kind = _IN_MESSAGE.get((name, field.name), _NAMED.get(field.name))
            if kind is not None:
                yield _IdField(part, field.name, field.is_repeated, kind)


def references(message: Any) -> list[Reference]:
    """The ids in a request."""
    found = []
    for part, field, repeated, kind in _id_fields(message):
        value = getattr(part, field)
        found += [Reference(kind, object_id) for object_id in (value if repeated else [value])]
    return found


def created_object(reply: Any) -> Reference | None:
    """What a call made, by its reply."""
    field, kind = _MADE.get(type_name(reply), ("", ReferenceKind.POD))
    name = getattr(reply, field) if field else ""
    return Reference(kind, name) if name else None


def find(known: Mapping[Reference, _T], wanted: Reference) -> _T | None:
    """What is known about a thing; the unique beginning of the id of a pod or container will do."""
    exact = known.get(wanted)
    if exact is not None or wanted.kind is ReferenceKind.IMAGE or not _SHORTEST <= len(wanted.id) < _WHOLE:
        return exact
    fitting = [
        value for (kind, object_id), value in known.items() if kind is wanted.kind and object_id.startswith(wanted.id)
    ]
    return fitting[0] if len(fitting) == 1 else None


class IdMap:
    """Recorded ids and new ones."""

    def __init__(self) -> None:
        self._new: dict[Reference, str] = {}

    def learn(self, recorded: Reference, new: str) -> None:
        """What the repeated call made stands for what the recorded one made."""
        self._new[recorded] = new

    def new(self, recorded: Reference) -> str | None:
        """The id now; None: nobody made it again."""
        return find(self._new, recorded)

    def translate(self, message: Any) -> list[Reference]:
        """Put new ids into a request; the ids of pods and containers nobody made again are returned and stay."""
        unknown = []
        for part, field, repeated, kind in _id_fields(message):
            value = getattr(part, field)
            recorded = list(value) if repeated else [value]
            now = []
            for reference in recorded:
                new = self.new(Reference(kind, reference))
                if new is None and kind is not ReferenceKind.IMAGE:
                    unknown.append(Reference(kind, reference))
                now.append(reference if new is None else new)
            if repeated:
                value[:] = now
            else:
                setattr(part, field, now[0])
        return unknown
