"""Containers of the three kinds in manifests. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from interpose.config.documents.fields import FieldGroup, FlagField, Items, Number, Text
from interpose.node.pods.manifest.env import env_from_table, env_table
from interpose.node.pods.manifest.kinds import (
    LABEL,
    MAX_PORT,
    NEEDS_CLUSTER,
    PORT_NAME,
    WORD,
    Address,
    KnownName,
    PatternText,
    ResourceAmounts,
    UnsupportedField,
    choice,
    or_unset,
    renamed,
    resources_of,
    unique,
    words,
)
from interpose.node.pods.manifest.objects import ConfigObjects
from interpose.node.pods.manifest.probes import LIFECYCLE, PROBES, check_ports
from interpose.node.pods.manifest.security import SECURITY
from interpose.node.pods.manifest.volumes import mounts_table
from interpose.node.pods.spec import (
    ContainerSpec,
    Port,
    PullPolicy,
    RestartPolicy,
    RestartRule,
    TerminationMessagePolicy,
)

_MAX_RULES: Final = 20
_RESOURCE_NAME: Final = PatternText(re.compile(r"cpu|memory"), "cpu or memory")
RESOURCES: Final = FieldGroup(
    {"requests": ResourceAmounts(), "limits": ResourceAmounts(), "claims": NEEDS_CLUSTER},
    resources_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerReferences:
    """What a container may refer to."""

    holders: ConfigObjects
    volumes: frozenset[str]
    containers: frozenset[str]  # init and main ones


_PORT_NAMES: Final = {
    "containerPort": "container_port",
    "hostPort": "host_port",
    "hostIP": "host_ip",
    "name": "name",
    "protocol": "protocol",
}
_PORT: Final = FieldGroup(
    {
        "containerPort": Number(1, MAX_PORT),
        "hostPort": Number(0, MAX_PORT),
        "hostIP": Address(),
        "name": PORT_NAME,
        "protocol": or_unset(choice("TCP", "UDP", "SCTP")),
    },
    lambda values: Port(**renamed(values, _PORT_NAMES)),
    required=("containerPort",),
)


def _ports(found: tuple[Port, ...]) -> tuple[Port, ...]:
    unique("ports")(tuple(port for port in found if port.name))
    return found


_CODES: Final = FieldGroup(
    {"operator": choice("In", "NotIn"), "values": Items(Number(0, 255), make=tuple)}, required=("operator", "values")
)


def _rule(values: dict[str, Any]) -> RestartRule:
    codes = values["exitCodes"]
    if not codes["values"]:
        raise ValueError("exitCodes.values is empty")
    return RestartRule(action=values["action"], operator=codes["operator"], codes=codes["values"])


def _rules(found: tuple[RestartRule, ...]) -> tuple[RestartRule, ...]:
    if len(found) > _MAX_RULES:
        raise ValueError(f"has {len(found)} rules, allowed are {_MAX_RULES}")
    return found


_RULES: Final = Items(
    FieldGroup(
        {"action": choice("Restart", "RestartAllContainers"), "exitCodes": _CODES},
        _rule,
        required=("action", "exitCodes"),
    ),
    _rules,
)


def _resize_policy(found: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    unique("policies", lambda policy: policy[0])(found)
    return MappingProxyType(dict(found))


_RESIZE: Final = Items(
    FieldGroup(
        {"resourceName": _RESOURCE_NAME, "restartPolicy": choice("NotRequired", "RestartContainer")},
        lambda values: (values["resourceName"], values["restartPolicy"]),
        required=("resourceName", "restartPolicy"),
    ),
    _resize_policy,
)

_NAMES: Final = {
    "name": "name",
    "image": "image",
    "command": "command",
    "args": "args",
    "workingDir": "working_dir",
    "ports": "ports",
    "resources": "resources",
    "resizePolicy": "resize_policy",
    "volumeMounts": "volume_mounts",
    "livenessProbe": "liveness",
    "readinessProbe": "readiness",
    "startupProbe": "startup",
    "lifecycle": "lifecycle",
    "securityContext": "security",
    "terminationMessagePath": "termination_message_path",
    "terminationMessagePolicy": "termination_message_policy",
    "imagePullPolicy": "pull_policy",
    "stdin": "stdin",
    "stdinOnce": "stdin_once",
    "tty": "tty",
    "restartPolicy": "restart_policy",
    "restartPolicyRules": "restart_rules",
    "targetContainerName": "target",
}


def default_pull_policy(image: str) -> PullPolicy:
    """An image that may be another one tomorrow is asked for each time: no tag, or the tag `latest`."""
    if "@" in image:
        return PullPolicy.IF_NOT_PRESENT
    _, _, tag = image.rpartition("/")[2].partition(":")
    return PullPolicy.ALWAYS if tag in ("", "latest") else PullPolicy.IF_NOT_PRESENT


def _container(values: dict[str, Any]) -> ContainerSpec:
    found = renamed(values, _NAMES)
    found.setdefault("pull_policy", default_pull_policy(found["image"]))
    container = ContainerSpec(**found, env=(*values.get("envFrom", ()), *values.get("env", ())))
    if container.restart_rules and container.restart_policy is None:
        raise ValueError("restartPolicyRules need a restartPolicy of the container")
    if not container.security.privileged and any(
        mount.propagation == "Bidirectional" for mount in container.volume_mounts
    ):
        raise ValueError("mountPropagation Bidirectional is for privileged containers only")
    actions = {key: probe.action for key in PROBES if (probe := values.get(key)) is not None}
    hooks = {"lifecycle.postStart": container.lifecycle.post_start, "lifecycle.preStop": container.lifecycle.pre_stop}
    check_ports({**actions, **hooks}, frozenset(port.name for port in container.ports))
    return container


def _keys(around: ContainerReferences) -> dict[str, Any]:
    return {
        "name": LABEL,
        "image": WORD,
        "command": Items(Text(), make=tuple),
        "args": Items(Text(), make=tuple),
        "workingDir": Text(),
        "env": env_table(around.holders, around.containers),
        "envFrom": env_from_table(around.holders),
        "ports": Items(_PORT, _ports),
        "resources": RESOURCES,
        "resizePolicy": _RESIZE,
        "volumeMounts": mounts_table(around.volumes),
        "volumeDevices": NEEDS_CLUSTER,
        **PROBES,
        "lifecycle": LIFECYCLE,
        "securityContext": SECURITY,
        "terminationMessagePath": Text(),
        "terminationMessagePolicy": or_unset(words(TerminationMessagePolicy)),
        "imagePullPolicy": or_unset(words(PullPolicy)),
        "stdin": FlagField(),
        "stdinOnce": FlagField(),
        "tty": FlagField(),
        "restartPolicy": words(RestartPolicy),
        "restartPolicyRules": _RULES,
    }


def main_table(around: ContainerReferences) -> Items:
    """The table of the entries of `containers`."""
    return Items(FieldGroup(_keys(around), _container, required=("name", "image")), make=tuple)


def init_table(around: ContainerReferences) -> Items:
    """`initContainers`: those that end have no probes and no hooks."""

    def make(values: dict[str, Any]) -> ContainerSpec:
        found = _container(values)
        if found.restart_policy is not RestartPolicy.ALWAYS:
            for key in (*PROBES, "lifecycle"):
                if key in values:
                    raise ValueError(f"{key} is only for init containers that stay, with restartPolicy Always")
        return found

    return Items(FieldGroup(_keys(around), make, required=("name", "image")), make=tuple)


_NOT_EPHEMERAL: Final = UnsupportedField("is not for ephemeral containers")


def ephemeral_table(around: ContainerReferences) -> Items:
    """`ephemeralContainers`: they look at others, and nobody looks after them."""
    refused = ("ports", "resources", "resizePolicy", *PROBES, "lifecycle", "restartPolicy", "restartPolicyRules")
    keys = {
        **_keys(around),
        **dict.fromkeys(refused, _NOT_EPHEMERAL),
        "volumeMounts": mounts_table(around.volumes, sub_paths=False),
        "targetContainerName": KnownName(around.containers, "the name of a container of the pod"),
    }
    return Items(FieldGroup(keys, _container, required=("name", "image")), make=tuple)
