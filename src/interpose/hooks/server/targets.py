"""Targets, and the values that plugins desire on them.

A desired value is one value on one target, with the plugin that set it and the reason: what reports, metrics and logs
show, and what the diff compares with the actual value.
"""

from dataclasses import dataclass
from typing import NamedTuple

from interpose.core.model.cgroup import Level, Parameter, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class ActuatorTarget:
    """Something that has values: the node, a cgroup, a container. Level and `key` identify a target."""

    level: Level
    key: str  # a container's id, a pod's sandbox id, a directory; unique within the level
    directory: str = ""  # of its cgroup below each hierarchy's root, without a leading slash; empty: it has none (yet)
    name: str = ""  # for people: "default/nginx", "default/nginx/main", "BestEffort"
    pod_uid: str = ""
    running: bool = True  # whether its processes exist; a container that was only created has no cgroup


class DesiredValue(NamedTuple):
    """A value that a plugin desires on a target."""

    target: ActuatorTarget
    parameter: Parameter
    value: Value
    plugin: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Two plugins that set different values of one parameter on a target; the later one wins."""

    target: ActuatorTarget
    parameter: Parameter
    loser: str
    winner: str
