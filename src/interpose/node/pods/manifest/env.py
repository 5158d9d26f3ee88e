"""Environment variables in manifests: texts, fields of the pod, keys of ConfigMaps and Secrets. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from interpose.config.documents.fields import FieldGroup, FlagField, Items, Report, Text
from interpose.config.documents.yaml import DocumentNode
from interpose.core.model.text import quoted
from interpose.node.pods.manifest.kinds import (
    ENV_NAME,
    NOT_SUPPORTED,
    SUBDOMAIN,
    KnownName,
    PatternText,
    Quantity,
    choice,
)
from interpose.node.pods.manifest.objects import CONFIG_MAP, SECRET, ConfigObject, ConfigObjects
from interpose.node.pods.spec import EnvVar, FieldRef, ResourceFieldRef

_KEYED: Final = r"metadata\.(labels|annotations)\['[^']+'\]"
ENV_FIELDS: Final = PatternText(
    re.compile(
        rf"metadata\.(name|namespace|uid)|{_KEYED}|spec\.(nodeName|serviceAccountName)|status\.(hostIPs?|podIPs?)"
    ),
    "a field such as metadata.name, metadata.labels['key'], spec.nodeName or status.podIP",
)
FILE_FIELDS: Final = PatternText(
    re.compile(rf"metadata\.(name|namespace|uid|labels|annotations)|{_KEYED}"),
    "a field such as metadata.name, metadata.labels or metadata.annotations['key']",
)
_RESOURCES: Final = PatternText(
    re.compile(r"(limits|requests)\.(cpu|memory|ephemeral-storage|hugepages-[0-9]+[KMGT]i)"),
    "a resource such as limits.cpu or requests.memory",
)


def field_ref(fields: PatternText) -> FieldGroup:
    """A field of the pod."""
    return FieldGroup(
        {"fieldPath": fields, "apiVersion": choice("v1")},
        lambda values: FieldRef(path=values["fieldPath"]),
        required=("fieldPath",),
    )


def resource_ref(containers: frozenset[str], *, required: bool = False) -> FieldGroup:
    """An amount that a container has; in a file the container must be named."""

    def make(values: dict[str, Any]) -> ResourceFieldRef:
        divisor = values.get("divisor", Fraction())
        return ResourceFieldRef(
            resource=values["resource"], container=values.get("containerName", ""), divisor=divisor or Fraction(1)
        )

    names = ("resource", "containerName") if required else ("resource",)
    name = KnownName(containers, "the name of a container of the pod")
    return FieldGroup({"resource": _RESOURCES, "containerName": name, "divisor": Quantity()}, make, required=names)


@dataclass(frozen=True, slots=True)
class _Key:
    """The value of a key of a ConfigMap or Secret. It is taken as it is, so that a `$` in it means nothing."""

    holders: ConfigObjects
    kind: str

    def read(self, node: DocumentNode, key: str, report: Report) -> tuple[str, ...] | None:
        """The value in a tuple, which is empty if an optional one is not there."""
        table = FieldGroup({"name": SUBDOMAIN, "key": Text(), "optional": FlagField()}, required=("name", "key"))
        values: dict[str, Any] | None = table.read(node, key, report)
        if values is None:
            return None
        holder = self.holders.wanted(self.kind, values, node, key, report)
        if holder is None:
            return ()
        if (text := holder.texts.get(values["key"])) is not None:
            return (verbatim(text),)
        if values["key"] in holder.files:
            report.say(node, key, f"{self.kind} {holder.name} has no text under {quoted(values['key'])}")
        elif not values.get("optional", False):
            report.say(node, key, f"{self.kind} {holder.name} has no key {quoted(values['key'])}")
        return ()


def verbatim(text: str) -> str:
    """Text in which no variable is looked for."""
    return text.replace("$", "$$")


def _env_var(values: dict[str, Any]) -> EnvVar | None:
    source: Any = values.get("valueFrom")
    if source is None:
        return EnvVar(name=values["name"], value=values.get("value", ""))
    if values.get("value"):
        raise ValueError("has both value and valueFrom")
    if isinstance(source, tuple):
        return EnvVar(name=values["name"], value=source[0]) if source else None
    return EnvVar(name=values["name"], source=source)


def one_of(values: dict[str, Any]) -> Any:
    """The only value of a group that takes one."""
    if len(values) != 1:
        raise ValueError("expected exactly one kind of it, found " + (" and ".join(values) if values else "none"))
    return next(iter(values.values()))


def env_table(holders: ConfigObjects, containers: frozenset[str]) -> Items:
    """`env` of a container. Variables whose optional source is not there are left out."""
    sources = FieldGroup(
        {
            "fieldRef": field_ref(ENV_FIELDS),
            "resourceFieldRef": resource_ref(containers),
            "configMapKeyRef": _Key(holders, CONFIG_MAP),
            "secretKeyRef": _Key(holders, SECRET),
            "fileKeyRef": NOT_SUPPORTED,
        },
        one_of,
    )
    variable = FieldGroup({"name": ENV_NAME, "value": Text(), "valueFrom": sources}, _env_var, required=("name",))
    return Items(variable, make=lambda found: tuple(filter(None, found)))


@dataclass(frozen=True, slots=True)
class _All:
    """All texts of a ConfigMap or Secret."""

    holders: ConfigObjects
    kind: str

    def read(self, node: DocumentNode, key: str, report: Report) -> Mapping[str, str] | None:
        values: dict[str, Any] | None = FieldGroup(
            {"name": SUBDOMAIN, "optional": FlagField()}, required=("name",)
        ).read(node, key, report)
        if values is None:
            return None
        holder: ConfigObject | None = self.holders.wanted(self.kind, values, node, key, report)
        return {} if holder is None else holder.texts


def env_from_table(holders: ConfigObjects) -> Items:
    """`envFrom` of a container, as variables."""

    def make(values: dict[str, Any]) -> tuple[EnvVar, ...]:
        prefix = values.pop("prefix", "")
        texts: Mapping[str, str] = one_of(values)
        return tuple(EnvVar(name=prefix + name, value=verbatim(text)) for name, text in sorted(texts.items()))

    source = FieldGroup(
        {"prefix": ENV_NAME, "configMapRef": _All(holders, CONFIG_MAP), "secretRef": _All(holders, SECRET)}, make
    )
    return Items(source, make=lambda found: tuple(var for part in found for var in part))
