"""What the annotations of a container say about it, read back. Pure.

The container may be of another manager, a kubelet or an older release: what is not understood counts as not there, and
never stops a pod from being judged or stopped.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, TypeVar

from interpose.core.model.kubernetes_names import RESTART_COUNT
from interpose.core.model.quantity import parse_quantity
from interpose.node.pods import labels
from interpose.node.pods.labels import Hook
from interpose.node.pods.status.container_values import (
    ExecAction,
    HttpAction,
    Port,
    ResourceRequirements,
    SleepAction,
    TcpAction,
    TerminationMessagePolicy,
)

_T = TypeVar("_T")
_MAX_TEXT: Final = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerAnnotations:
    """What a container says about itself. None and empty: it does not, or not so that it can be understood."""

    hash: str = ""
    restart_count: int = 0
    termination_message_path: str = ""
    termination_message_policy: TerminationMessagePolicy = TerminationMessagePolicy.FILE
    grace: int | None = None
    deletion_grace: int | None = None
    pre_stop: Hook | None = None
    ports: tuple[Port, ...] = ()
    resources: ResourceRequirements | None = None


def parse_annotations(annotations: Mapping[str, str]) -> ContainerAnnotations:
    """The annotations of a container."""
    return ContainerAnnotations(
        hash=annotations.get(labels.HASH, ""),
        restart_count=_understood(annotations.get(RESTART_COUNT), _number) or 0,
        termination_message_path=annotations.get(labels.MESSAGE_PATH, ""),
        termination_message_policy=_understood(annotations.get(labels.MESSAGE_POLICY), TerminationMessagePolicy)
        or TerminationMessagePolicy.FILE,
        grace=_understood(annotations.get(labels.GRACE), _number),
        deletion_grace=_understood(annotations.get(labels.DELETION_GRACE), _number),
        pre_stop=_understood(annotations.get(labels.PRE_STOP), _hook),
        ports=_understood(annotations.get(labels.PORTS), _ports) or (),
        resources=_understood(annotations.get(labels.RESOURCES), _resources),
    )


def _understood(text: str | None, read: Callable[[str], _T]) -> _T | None:
    if text is None or len(text) > _MAX_TEXT:
        return None
    try:
        return read(text)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, ZeroDivisionError):
        return None  # whatever a document of others can be that is none of ours


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise ValueError(text)
    return int(text)


def _hook(text: str) -> Hook:
    document: dict[str, dict[str, Any]] = json.loads(text)
    if "exec" in document:
        return ExecAction(command=tuple(_text(word) for word in document["exec"]["command"]))
    if "httpGet" in document:
        given = document["httpGet"]
        return HttpAction(
            path=_text(given.get("path", "/")),
            port=_port_number(given["port"]),
            host=_text(given.get("host", "")),
            scheme=_text(given.get("scheme", "HTTP")),
            headers=tuple((_text(header["name"]), _text(header["value"])) for header in given.get("httpHeaders", ())),
        )
    if "tcpSocket" in document:
        given = document["tcpSocket"]
        return TcpAction(port=_port_number(given["port"]), host=_text(given.get("host", "")))
    return SleepAction(seconds=_whole(document["sleep"]["seconds"]))


def _ports(text: str) -> tuple[Port, ...]:
    return tuple(
        Port(
            container_port=_whole(port["containerPort"]),
            host_port=_whole(port.get("hostPort", 0)),
            host_ip=_text(port.get("hostIP", "")),
            name=_text(port.get("name", "")),
            protocol=_text(port.get("protocol", "TCP")),
        )
        for port in json.loads(text)
    )


def _resources(text: str) -> ResourceRequirements:
    document: dict[str, dict[str, str]] = json.loads(text)
    amounts = {
        kind: {_text(name): _amount(_text(value)) for name, value in document.get(kind, {}).items()}
        for kind in ("requests", "limits")
    }
    return ResourceRequirements(**amounts)


def _amount(text: str) -> Fraction:
    # What has no name as a quantity was written as a fraction.
    return Fraction(text) if "/" in text else parse_quantity(text, negative=False)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(value)
    return value


def _port_number(value: object) -> int | str:
    return value if isinstance(value, str) else _whole(value)
