"""Networks of pods as values: plugin lists, readiness, results. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

INTERFACE: Final = "eth0"


class NetworkError(Exception):
    """A network could not be set up or torn down; the text is for people, in the plugin's own words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkList:
    """A network: plugins in order. `file` is the configuration file."""

    name: str
    version: str
    plugins: tuple[Mapping[str, Any], ...]
    file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Whether pods can get a network, with reason and message of the CRI condition."""

    ready: bool
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetResult:
    """Addresses of a pod, and the answer of the last plugin."""

    ip: str
    additional: tuple[str, ...] = ()
    document: Mapping[str, Any] = field(default_factory=dict)
