"""Pods read for what a policy decides by: amounts of resources, labels, environment, and the order of containers. Pure.

Everything else of a pod may be there and is not looked at: a pod that only a cluster can run is read as well. The
PodSpec has the fields that are read here, and defaults in all others; it is for planning, not for running.
"""

from typing import Any, Final

from interpose.config.documents.fields import FieldGroup, Items, Report, Text, Texts, Unread
from interpose.config.documents.objects import Found, Quantities
from interpose.core.model.text import quoted
from interpose.node.pods.manifest.kinds import renamed, resources_of, words
from interpose.node.pods.spec import ContainerSpec, EnvVar, PodSpec, RestartPolicy

_RESOURCES: Final = FieldGroup(
    {"requests": Quantities(), "limits": Quantities(), "claims": Unread()}, resources_of, loose=True
)
_CONTAINER_FIELDS: Final = {
    "name": "name",
    "resources": "resources",
    "env": "env",
    "command": "command",
    "args": "args",
    "restartPolicy": "restart_policy",
}


def _env_var(values: dict[str, Any]) -> EnvVar | None:
    # The value of a variable with valueFrom is not known here.
    return EnvVar(name=values["name"], value=values["value"]) if "value" in values else None


def _check_names(containers: tuple[ContainerSpec, ...]) -> tuple[ContainerSpec, ...]:
    names = [container.name for container in containers]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two containers have the name {quoted(name)}")
    return containers


_ENV: Final = Items(
    FieldGroup({"name": Text(), "value": Text()}, _env_var, required=("name",), loose=True),
    make=lambda variables: tuple(filter(None, variables)),
)
_CONTAINERS: Final = Items(
    FieldGroup(
        {
            "name": Text(),
            "resources": _RESOURCES,
            "env": _ENV,
            "envFrom": Unread(),
            "command": Items(Text(), make=tuple),
            "args": Items(Text(), make=tuple),
            "restartPolicy": words(RestartPolicy),
            "restartPolicyRules": Unread(),
            "resizePolicy": Unread(),
        },
        lambda values: ContainerSpec(image="", **renamed(values, _CONTAINER_FIELDS)),
        required=("name",),
        loose=True,
    ),
    make=_check_names,
)


def _spec(values: dict[str, Any]) -> dict[str, Any]:
    found = {
        "containers": values["containers"],
        "init_containers": values.get("initContainers", ()),
        "resources": values.get("resources"),
    }
    _check_names(found["init_containers"] + found["containers"])
    return found


_SPEC: Final = FieldGroup(
    {
        "containers": _CONTAINERS,
        "initContainers": _CONTAINERS,
        "ephemeralContainers": Unread(),
        "resources": _RESOURCES,
        "resourceClaims": Unread(),
    },
    _spec,
    required=("containers",),
    loose=True,
)
_METADATA: Final = FieldGroup(
    {"name": Text(), "namespace": Text(), "labels": Texts(), "annotations": Texts()}, required=("name",), loose=True
)
_POD: Final = FieldGroup(
    {"apiVersion": Unread(), "kind": Unread(), "metadata": _METADATA, "spec": _SPEC, "status": Unread()},
    required=("metadata", "spec"),
    loose=True,
)


def read_resource_pod(found: Found, report: Report, source: str = "") -> PodSpec | None:
    """The pod of an object, without a uid; None with problems in the report."""
    values: dict[str, Any] | None = _POD.read(found.node, found.key, report)
    if values is None:
        return None
    return PodSpec(uid="", source=source, **values["metadata"], **values["spec"])
