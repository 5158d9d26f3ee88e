"""Probes and lifecycle hooks in manifests. Pure."""

import re
from collections.abc import Mapping
from typing import Any, Final

from interpose.config.documents.fields import FieldGroup, Items, Number, Text
from interpose.core.model.text import quoted
from interpose.node.pods.manifest.env import one_of
from interpose.node.pods.manifest.kinds import (
    MAX_PORT,
    NOT_SUPPORTED,
    WORD,
    PatternText,
    PortNumber,
    UnsupportedField,
    choice,
    or_unset,
    renamed,
)
from interpose.node.pods.spec import (
    ExecAction,
    GrpcAction,
    HttpAction,
    LifecycleHandlers,
    Probe,
    SleepAction,
    TcpAction,
)

_NUMBER: Final = Number(0, 2**31 - 1)
_SIGNAL: Final = PatternText(re.compile(r"SIG[A-Z0-9]+([+-][0-9]+)?"), "the name of a signal such as SIGUSR1", 16)


def _exec(values: dict[str, Any]) -> ExecAction:
    if not values.get("command"):
        raise ValueError("command is missing")
    return ExecAction(command=values["command"])


_HEADER: Final = FieldGroup(
    {"name": WORD, "value": Text()}, lambda header: (header["name"], header.get("value", "")), required=("name",)
)
_HTTP_NAMES: Final = {"path": "path", "port": "port", "host": "host", "scheme": "scheme", "httpHeaders": "headers"}


def _http(values: dict[str, Any]) -> HttpAction:
    found = renamed(values, _HTTP_NAMES)
    path = found.get("path") or "/"
    return HttpAction(**{**found, "path": path if path.startswith("/") else f"/{path}"})


_EXEC: Final = FieldGroup({"command": Items(Text(), make=tuple)}, _exec)
_HTTP: Final = FieldGroup(
    {
        "path": Text(),
        "port": PortNumber(),
        "host": Text(),
        "scheme": or_unset(choice("HTTP", "HTTPS")),
        "httpHeaders": Items(_HEADER, make=tuple),
        "protocol": NOT_SUPPORTED,
    },
    _http,
    required=("port",),
)
_TCP: Final = FieldGroup({"port": PortNumber(), "host": Text()}, lambda values: TcpAction(**values), required=("port",))
_GRPC: Final = FieldGroup(
    {"port": Number(1, MAX_PORT), "service": Text(), "mode": NOT_SUPPORTED},
    lambda values: GrpcAction(**values),
    required=("port",),
)
_SLEEP: Final = FieldGroup({"seconds": _NUMBER}, lambda values: SleepAction(**values), required=("seconds",))
_ACTIONS: Final = {"exec": _EXEC, "httpGet": _HTTP, "tcpSocket": _TCP}

_PROBE_NAMES: Final = {
    "initialDelaySeconds": "initial_delay",
    "timeoutSeconds": "timeout",
    "periodSeconds": "period",
    "successThreshold": "success_threshold",
    "failureThreshold": "failure_threshold",
    "terminationGracePeriodSeconds": "termination_grace_period",
}


def _probe(values: dict[str, Any]) -> Probe:
    action = one_of({name: value for name, value in values.items() if name not in _PROBE_NAMES})
    # The API server puts its default where 0 is said.
    return Probe(action=action, **{name: value for name, value in renamed(values, _PROBE_NAMES).items() if value})


def _probe_table(*, ends: bool) -> FieldGroup:
    """A probe; one that `ends` a container needs only one success, and may have a grace of its own."""
    return FieldGroup(
        {
            **_ACTIONS,
            "grpc": _GRPC,
            "initialDelaySeconds": _NUMBER,
            "timeoutSeconds": _NUMBER,
            "periodSeconds": _NUMBER,
            "successThreshold": Number(0, 1) if ends else _NUMBER,
            "failureThreshold": _NUMBER,
            "terminationGracePeriodSeconds": (
                Number(1, 2**31 - 1) if ends else UnsupportedField("is not for readiness probes, which end nothing")
            ),
        },
        _probe,
    )


PROBES: Final[Mapping[str, FieldGroup]] = {
    "livenessProbe": _probe_table(ends=True),
    "readinessProbe": _probe_table(ends=False),
    "startupProbe": _probe_table(ends=True),
}
_HANDLER: Final = FieldGroup({**_ACTIONS, "sleep": _SLEEP}, one_of)
LIFECYCLE: Final = FieldGroup(
    {"postStart": _HANDLER, "preStop": _HANDLER, "stopSignal": _SIGNAL},
    lambda values: LifecycleHandlers(
        **renamed(values, {"postStart": "post_start", "preStop": "pre_stop", "stopSignal": "stop_signal"})
    ),
)


def check_ports(named: Mapping[str, Any], ports: frozenset[str]) -> None:
    """ValueError if a probe or hook, by the key it has, asks at a port that the container does not name."""
    for key, action in named.items():
        port = getattr(action, "port", None)
        if isinstance(port, str) and port not in ports:
            raise ValueError(f"{key}: {quoted(port)} is the name of no port of the container")
