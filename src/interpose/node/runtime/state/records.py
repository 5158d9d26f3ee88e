"""What is remembered of sandboxes and containers, as values and as documents for the disk.

A record says what was asked for and how far it got. Invariant: a record is written before the act it announces, so
whatever exists on the node has a record, and a phase that is not at rest tells the next start what to undo or finish.
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
    """A document that is no record."""


class SandboxPhase(StrEnum):
    """How far a sandbox is."""

    CREATING = "creating"  # half made: undone at the next start
    READY = "ready"
    STOPPED = "stopped"  # asked to stop, or its holder died; some of its parts may still have to be given back
    REMOVING = "removing"  # half removed: finished at the next start


class ContainerPhase(StrEnum):
    """How far a container is."""

    CREATING = "creating"
    CREATED = "created"
    STARTING = "starting"
    RUNNING = "running"
    EXITED = "exited"
    REMOVING = "removing"


class NetworkMode(StrEnum):
    """Where a sandbox has its network."""

    HOST = "host"  # asked for the node's own
    NODE = "node"  # asked for one of its own, but there is no network configuration: it shares the node's
    POD = "pod"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerUser:
    """Who runs in a container."""

    uid: int = 0
    gid: int = 0
    groups: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedImage:
    """The image of a container: its id, and how the runtime calls it for people."""

    id: str
    name: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxRecord:
    """A sandbox. `network_held`: the network was asked for and has not been given back."""

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
        """What no two sandboxes may be called at the same time."""
        meta = self.config.metadata
        return f"{meta.name}_{meta.namespace}_{meta.uid}_{meta.attempt}"

    @property
    def ready(self) -> bool:
        """Whether containers can be made in it."""
        return self.phase is SandboxPhase.READY


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRecord:
    """A container. `config` is the create-time request, `resources` what is in force."""

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
        """Whether there is a process, as far as is known."""
        return self.phase is ContainerPhase.RUNNING


Record = TypeVar("Record", SandboxRecord, ContainerRecord)


def _message(kind: type[Message]) -> Callable[[Any], Message]:
    def read(value: Any) -> Message:
        message = kind()
        message.ParseFromString(base64.b64decode(value, validate=True))
        return message

    return read


def _of(kind: Any) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise RecordError(f"{value!r} is not of type {kind.__name__}")
        return value

    return read


def _many(kind: type[Any]) -> Callable[[Any], tuple[Any, ...]]:
    return lambda value: tuple(map(_of(kind), value))


def _nested(kind: type[Any]) -> Callable[[Any], Any]:
    return lambda value: kind(**_values(kind, value))


_READERS: Final[Mapping[type[Any], Mapping[str, Callable[[Any], Any]]]] = MappingProxyType(
    {
        SandboxRecord: {
            "config": _message(cri.PodSandboxConfig),
            "phase": SandboxPhase,
            "place": NetworkMode,
            "additional_ips": _many(str),
            "resources": _message(cri.LinuxContainerResources),
            "overhead": _message(cri.LinuxContainerResources),
        },
        ContainerRecord: {
            "config": _message(cri.ContainerConfig),
            "image": _nested(UsedImage),
            "phase": ContainerPhase,
            "resources": _message(cri.LinuxContainerResources),
            "user": _nested(ContainerUser),
        },
        ContainerUser: {"groups": _many(int)},
        UsedImage: {},
    }
)


def encode(record: SandboxRecord | ContainerRecord) -> bytes:
    """The record as a document."""
    return json.dumps({"format": _FORMAT, **_document(record)}).encode()


def decode(kind: type[Record], data: bytes) -> Record:
    """The record in a document; RecordError if there is none. What a younger version added is left out."""
    try:
        document = json.loads(data)
        if not isinstance(document, dict) or document.get("format") != _FORMAT:
            raise RecordError("not a record of this version")
        return kind(**_values(kind, document))
    except (ValueError, TypeError, KeyError, DecodeError) as error:
        raise RecordError(str(error)) from None


def _document(value: Any) -> dict[str, Any]:
    return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}


def _plain(value: Any) -> Any:
    if isinstance(value, Message):
        return base64.b64encode(value.SerializeToString()).decode()
    return _document(value) if isinstance(value, ContainerUser | UsedImage) else value


def _values(kind: type[Any], document: Mapping[str, Any]) -> dict[str, Any]:
    known = [one for one in fields(kind) if one.name in document]
    return {one.name: _READERS[kind].get(one.name, _of(one.type))(document[one.name]) for one in known}
