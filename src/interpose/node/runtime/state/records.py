"""Records of sandboxes and containers, as values and as documents on the disk.

A record has the request and the phase of an object. Invariant: a record is written before the step it announces, so
every object on the node has a record, and a transitional phase tells the next start what to undo or finish.
"""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, TypeVar

from google.protobuf.message import DecodeError, Message

from interpose.cri.messages import cri

_FORMAT: Final = 1


class RecordError(ValueError):
    """A document that is not a valid record."""


class SandboxPhase(StrEnum):
    """The phase of a sandbox in its life."""

    CREATING = "creating"  # incomplete: undone at the next start
    READY = "ready"
    STOPPED = "stopped"  # stopped, or its pause process died; network and shim may still be there
    REMOVING = "removing"  # half removed: finished at the next start


class ContainerPhase(StrEnum):
    """The phase of a container in its life."""

    CREATING = "creating"
    CREATED = "created"
    STARTING = "starting"
    RUNNING = "running"
    EXITED = "exited"
    REMOVING = "removing"


class NetworkMode(StrEnum):
    """The network of a sandbox: its own or the node's."""

    HOST = "host"  # the request asks for the node's network
    NODE = "node"  # the request asks for its own, but there is no network configuration: it shares the node's
    POD = "pod"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerUser:
    """The user of a container's process."""

    uid: int = 0
    gid: int = 0
    groups: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedImage:
    """The image of a container: its id, and its name and digest for status."""

    id: str
    name: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxRecord:
    """The record of a sandbox. `network_held`: the network was set up, at least partly, and not torn down."""

    id: str
    config: cri.PodSandboxConfig
    created_at: int
    runtime_handler: str = ""
    phase: SandboxPhase = SandboxPhase.CREATING
    place: NetworkMode = NetworkMode.HOST
    network_held: bool = False
    ip: str = ""
    additional_ips: tuple[str, ...] = ()
    resources: cri.LinuxContainerResources = field(default_factory=cri.LinuxContainerResources)
    overhead: cri.LinuxContainerResources = field(default_factory=cri.LinuxContainerResources)

    @property
    def name(self) -> str:
        """The unique name of a sandbox, from its metadata."""
        meta = self.config.metadata
        return f"{meta.name}_{meta.namespace}_{meta.uid}_{meta.attempt}"

    @property
    def ready(self) -> bool:
        """Whether containers can be created in the sandbox."""
        return self.phase is SandboxPhase.READY


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRecord:
    """The record of a container. `config` is the create-time request, `resources` are those in force."""

    id: str
    sandbox_id: str
    name: str
    config: cri.ContainerConfig
    image: UsedImage
    created_at: int
    cgroup: str = ""  # below the root of the cgroups
    log_path: str = ""
    phase: ContainerPhase = ContainerPhase.CREATING
    pid: int = 0
    started_at: int = 0
    finished_at: int = 0
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    resources: cri.LinuxContainerResources = field(default_factory=cri.LinuxContainerResources)
    user: ContainerUser = ContainerUser()
    stop_signal: int = 15  # its number

    @property
    def running(self) -> bool:
        """Whether the container runs, as far as is known."""
        return self.phase is ContainerPhase.RUNNING


Record = TypeVar("Record", SandboxRecord, ContainerRecord)


def _message(kind: type[Message]) -> Callable[[Any], Message]:
    def read(value: Any) -> Message:
        message = kind()
        message.ParseFromString(base64.b64decode(value, validate=True))
        return message

    return read


def _of_type(kind: Any) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise RecordError(f"{value!r} is not of type {kind.__name__}")
        return value

    return read


def _list_of(kind: type[Any]) -> Callable[[Any], tuple[Any, ...]]:
    return lambda value: tuple(map(_of_type(kind), value))


def _object_of(kind: type[Any]) -> Callable[[Any], Any]:
    return lambda value: kind(**_values(kind, value))


_READERS: Final[Mapping[type[Any], Mapping[str, Callable[[Any], Any]]]] = MappingProxyType(
    {
        SandboxRecord: {
            "config": _message(cri.PodSandboxConfig),
            "phase": SandboxPhase,
            "place": NetworkMode,
            "additional_ips": _list_of(str),
            "resources": _message(cri.LinuxContainerResources),
            "overhead": _message(cri.LinuxContainerResources),
        },
        ContainerRecord: {
            "config": _message(cri.ContainerConfig),
            "image": _object_of(UsedImage),
            "phase": ContainerPhase,
            "resources": _message(cri.LinuxContainerResources),
            "user": _object_of(ContainerUser),
        },
        ContainerUser: {"groups": _list_of(int)},
        UsedImage: {},
    }
)


def encode(record: SandboxRecord | ContainerRecord) -> bytes:
    """The record as a JSON document."""
    return json.dumps({"format": _FORMAT, **_document(record)}).encode()


def decode(kind: type[Record], data: bytes) -> Record:
    """The record in a document; RecordError if it is invalid. Keys of newer versions are ignored."""
    try:
        document = json.loads(data)
        if not isinstance(document, dict) or document.get("format") != _FORMAT:
            raise RecordError("not a record of this version")
        return kind(**_values(kind, document))
    except (ValueError, TypeError, KeyError, DecodeError) as error:
        raise RecordError(str(error)) from None


def _document(value: Any) -> dict[str, Any]:
    return {item.name: _to_json(getattr(value, item.name)) for item in fields(value)}


def _to_json(value: Any) -> Any:
    if isinstance(value, Message):
        return base64.b64encode(value.SerializeToString()).decode()
    return _document(value) if isinstance(value, ContainerUser | UsedImage) else value


def _values(kind: type[Any], document: Mapping[str, Any]) -> dict[str, Any]:
    known = [item for item in fields(kind) if item.name in document]
    return {item.name: _READERS[kind].get(item.name, _of_type(item.type))(document[item.name]) for item in known}
