"""Values of a manifest that containers carry with them as annotations: how to end them, what they were given. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from types import MappingProxyType
from typing import Final

_NO_AMOUNTS: Final[Mapping[str, Fraction]] = MappingProxyType({})


def no_amounts() -> Mapping[str, Fraction]:
    """The one empty map of amounts."""
    return _NO_AMOUNTS


class RestartPolicy(StrEnum):
    """When a container that has ended is started again."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"


class TerminationMessagePolicy(StrEnum):
    """Where the termination message of a container comes from."""

    FILE = "File"
    FALLBACK_TO_LOGS = "FallbackToLogsOnError"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRequirements:
    """Requests and limits by the name of the resource. A missing request is NOT filled in from the limit here:
    the rules for shares and classes tell the two cases apart."""

    requests: Mapping[str, Fraction] = field(default_factory=no_amounts)
    limits: Mapping[str, Fraction] = field(default_factory=no_amounts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A port that the manifest declares for a container."""

    container_port: int
    host_port: int = 0
    host_ip: str = ""
    name: str = ""
    protocol: str = "TCP"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecAction:
    """A command that runs in the container."""

    command: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAction:
    """GET this; `host` empty is the pod's address. `port` is a number or the name of a port of the container."""

    path: str = "/"
    port: int | str
    host: str = ""
    scheme: str = "HTTP"
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpAction:
    """A TCP connection to this port succeeds."""

    port: int | str
    host: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SleepAction:
    """Wait so many seconds; of lifecycle hooks only."""

    seconds: int
