"""What the network of a pod is made of, as values. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

INTERFACE: Final = "eth0"


class NetworkError(Exception):
    """A network could not be made or taken away; the text is for people, in the plugin's own words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkList:
    """A network: plugins one after the other. `file` is where it was read."""

    name: str
    version: str
    plugins: tuple[Mapping[str, Any], ...]
    file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Whether pods can get a network, in the words of CRI's conditions."""

    ready: bool
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetResult:
    """Addresses of a pod, and what the last plugin said."""

    ip: str
    additional: tuple[str, ...] = ()
    document: Mapping[str, Any] = field(default_factory=dict)
