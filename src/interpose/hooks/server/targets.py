"""What shall be where: targets, and the values that plugins want on them.

A want is one value on one target, with the plugin that wants it and the reason: what reports, metrics and logs show,
and what planning compares with what is there.
"""

from dataclasses import dataclass
from typing import NamedTuple

from interpose.core.model.cgroup import Level, Parameter, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class ActuatorTarget:
    """Something values can be set on. Two targets are the same if level and `key` are."""

    level: Level
    key: str  # a container's id, a pod's sandbox id, a directory; unique within the level
    directory: str = ""  # of its cgroup below each hierarchy's root, without a leading slash; empty: it has none (yet)
    name: str = ""  # for people: "default/nginx", "default/nginx/main", "BestEffort"
    pod_uid: str = ""
    running: bool = True  # whether its processes exist; a container that was only created has no cgroup


class DesiredValue(NamedTuple):
    """A value that shall be on a target."""

    target: ActuatorTarget
    parameter: Parameter
    value: Value
    plugin: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Two plugins want different values for the same thing; the later one has it."""

    target: ActuatorTarget
    parameter: Parameter
    loser: str
    winner: str
