"""The kinds of objects that may be the configuration of a node, and which of them are candidates for a node. Pure.

A kind has up to one object for a node, for its group and for all others, told apart by their names. A label of the Node
says which group it is in. Invariant: the text of a source is unique in the cluster, and tells kind, namespace and name.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from interpose.core.model.text import quoted
from interpose.kube.client.api import BALLOONS_POLICIES, CONFIG_MAPS, TOPOLOGY_AWARE_POLICIES, Object, Resource
from interpose.kube.client.objects import mapping, metadata

_MAX_NAME: Final = 253
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
# By the names that settings have for them.
RESOURCES: Final[Mapping[str, Resource]] = MappingProxyType(
    {resource.kind: resource for resource in (CONFIG_MAPS, TOPOLOGY_AWARE_POLICIES, BALLOONS_POLICIES)}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKind:
    """A kind of objects that may be the configuration of a node."""

    resource: Resource
    group_labels: tuple[str, ...] = ()  # the first that the Node has names its group; none: nodes have no groups
    base: str = ""  # what names begin with; an object of just this name counts last

    def names(self, node: str, group: str) -> tuple[str, ...]:
        """The objects that may count for a node, the first that exists does. What is no name is left out."""
        names = (self.node_name(node), self.group_name(group) if group else "", self._name("default"), self.base)
        return tuple(name for name in names if is_name(name))

    def node_name(self, node: str) -> str:
        """The name of the object for one node."""
        return self._name(f"node.{node}")

    def group_name(self, group: str) -> str:
        """The name of the object for a group of nodes."""
        return self._name(f"group.{group}")

    def group_of(self, node: Object) -> str:
        """The group of a Node; empty if it is in none."""
        labels = mapping(metadata(node).get("labels"))
        found = (labels.get(label) for label in self.group_labels)
        return next((value for value in found if isinstance(value, str)), "")

    def group_problem(self, group: str) -> str:
        """Why there can be no object for a group; empty if there can be one, or there is no group."""
        name = self.group_name(group)
        if not group or is_name(name):
            return ""
        return f"group {quoted(group)}: no {self.resource.kind} can be named {name}, so none is looked for"

    def _name(self, rest: str) -> str:
        return f"{self.base}.{rest}" if self.base else rest


class ConfigSource(NamedTuple):
    """One object of the cluster that is, or was, the configuration of a node."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}"
        return place if self.kind == CONFIG_MAPS.kind else f"{self.kind} {place}"


def title_of(source: str) -> str:
    """The text of a source with its kind, for people."""
    return source if " " in source else f"{CONFIG_MAPS.kind} {source}"


def parse_source(text: str) -> ConfigSource | None:
    """The source that a text means; None if it is not one."""
    kind, _, place = text.rpartition(" ")
    namespace, slash, name = place.partition("/")
    known = kind in RESOURCES and kind != CONFIG_MAPS.kind
    return ConfigSource(kind or CONFIG_MAPS.kind, namespace, name) if slash and (known or not kind) else None


def config_kinds(
    sources: Sequence[str], *, base: str, group_label: str, object_labels: tuple[str, ...]
) -> tuple[ConfigKind, ...]:
    """The kinds of these names, in their order. ConfigMaps have names and a label of their own."""
    found = []
    for name in sources:
        resource = RESOURCES[name]
        if resource == CONFIG_MAPS:
            labels = (group_label,) if group_label else ()
            found.append(ConfigKind(resource=resource, group_labels=labels, base=base))
        else:
            found.append(ConfigKind(resource=resource, group_labels=object_labels))
    return tuple(found)


def is_name(text: str) -> bool:
    """Whether a text is a valid object name."""
    return len(text) <= _MAX_NAME and _NAME.fullmatch(text) is not None
