"""Security contexts of pods and containers in manifests. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from interpose.config.documents.fields import FieldGroup, FlagField, Items, Number, Report, Text
from interpose.config.documents.yaml import DocumentNode
from interpose.core.model.text import quoted
from interpose.node.pods.manifest.kinds import MAX_ID, Labels, PatternText, UnsupportedField, choice, renamed, unique
from interpose.node.pods.spec import ContainerSpec, PodSecurityContext, Profile, SecurityContext, SeLinux

_ID: Final = Number(0, MAX_ID)
_WINDOWS: Final = UnsupportedField("is of Windows, which is not supported")
_CAPABILITY: Final = PatternText(re.compile(r"ALL|[A-Z][A-Z0-9_]*"), "the name of a capability such as NET_ADMIN", 64)
_CAPABILITIES: Final = Items(_CAPABILITY, make=lambda found: tuple(name.removeprefix("CAP_") for name in found))
_SWAPPED: Final = str.maketrans("./", "/.")


def _sysctl_name(text: str) -> str:
    """The name with dots between its parts, as runtimes want it. Where the first of them is a slash, slashes are
    between the parts, and dots in them: net/ipv4/conf/eth0.1/mtu."""
    first = next((letter for letter in text if letter in "./"), ".")
    return text.translate(_SWAPPED) if first == "/" else text


_SYSCTL: Final = FieldGroup(
    {
        "name": PatternText(
            re.compile(r"[a-z0-9]([-_a-z0-9]*[a-z0-9])?([./][a-z0-9]([-_a-z0-9]*[a-z0-9])?)*"), "a sysctl"
        ),
        "value": PatternText(re.compile(r"[^\0]*"), "a value of at most 4095 characters, as the kernel takes it", 4095),
    },
    lambda sysctl: (_sysctl_name(sysctl["name"]), sysctl["value"]),
    required=("name", "value"),
)


def _profile(values: dict[str, Any]) -> Profile:
    local = values.get("localhostProfile", "")
    if (values["type"] == "Localhost") != bool(local):
        raise ValueError("localhostProfile goes with type Localhost, and only with it")
    return Profile(type=values["type"], localhost=local)


_PROFILE: Final = FieldGroup(
    {"type": choice("RuntimeDefault", "Unconfined", "Localhost"), "localhostProfile": Text()},
    _profile,
    required=("type",),
)
_SELINUX: Final = FieldGroup(
    {"user": Text(), "role": Text(), "type": Text(), "level": Text()}, lambda values: SeLinux(**values)
)
_SHARED: Final[Mapping[str, Any]] = {
    "runAsUser": _ID,
    "runAsGroup": _ID,
    "runAsNonRoot": FlagField(),
    "seccompProfile": _PROFILE,
    "appArmorProfile": _PROFILE,
    "seLinuxOptions": _SELINUX,
    "windowsOptions": _WINDOWS,
}
_SHARED_NAMES: Final = {
    "runAsUser": "run_as_user",
    "runAsGroup": "run_as_group",
    "runAsNonRoot": "run_as_non_root",
    "seccompProfile": "seccomp",
    "appArmorProfile": "apparmor",
    "seLinuxOptions": "selinux",
}
_NAMES: Final = {
    **_SHARED_NAMES,
    "privileged": "privileged",
    "readOnlyRootFilesystem": "read_only_root",
    "allowPrivilegeEscalation": "allow_privilege_escalation",
    "procMount": "proc_mount",
}
_POD_NAMES: Final = {
    **_SHARED_NAMES,
    "supplementalGroups": "supplemental_groups",
    "supplementalGroupsPolicy": "supplemental_groups_policy",
    "fsGroup": "fs_group",
    "sysctls": "sysctls",
}


def _container(values: dict[str, Any]) -> SecurityContext:
    capabilities: dict[str, tuple[str, ...]] = values.get("capabilities", {})
    found = SecurityContext(
        **renamed(values, _NAMES),
        add_capabilities=capabilities.get("add", ()),
        drop_capabilities=capabilities.get("drop", ()),
    )
    if found.allow_privilege_escalation is False:
        if found.privileged:
            raise ValueError("allowPrivilegeEscalation cannot be false where privileged is true")
        if "SYS_ADMIN" in found.add_capabilities:
            raise ValueError("allowPrivilegeEscalation cannot be false where SYS_ADMIN is added")
    return found


SECURITY: Final = FieldGroup(
    {
        **_SHARED,
        "privileged": FlagField(),
        "readOnlyRootFilesystem": FlagField(),
        "allowPrivilegeEscalation": FlagField(),
        "capabilities": FieldGroup({"add": _CAPABILITIES, "drop": _CAPABILITIES}),
        "procMount": choice("Default", "Unmasked"),
    },
    _container,
)
POD_SECURITY: Final = FieldGroup(
    {
        **_SHARED,
        "supplementalGroups": Items(_ID, make=tuple),
        "supplementalGroupsPolicy": choice("Merge", "Strict"),
        "fsGroup": _ID,
        # How, not what: volumes here are given to the group whenever they are made.
        "fsGroupChangePolicy": choice("Always", "OnRootMismatch"),
        "seLinuxChangePolicy": choice("Recursive", "MountOption"),
        "sysctls": Items(_SYSCTL, make=unique("sysctls", lambda sysctl: sysctl[0])),
    },
    lambda values: PodSecurityContext(**renamed(values, _POD_NAMES)),
)


# -- AppArmor, as it was said before it had a field

_APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_LOCAL: Final = "localhost/"
_OLD_PROFILES: Final = {"runtime/default": Profile(type="RuntimeDefault"), "unconfined": Profile(type="Unconfined")}


@dataclass(frozen=True, slots=True)
class PodAnnotations:
    """Annotations of a pod. Nobody checks them, but for those about the profiles of its `containers`."""

    containers: frozenset[str]

    def read(self, node: DocumentNode, key: str, report: Report) -> Mapping[str, str] | None:
        """The texts by their names."""
        found = Labels(any_text=True).read(node, key, report)
        lines = dict(node.entries)
        for name, value in (found or {}).items():
            container = name.removeprefix(_APPARMOR)
            where = f"{key}[{quoted(name)}]"
            if container == name:
                continue
            if container not in self.containers:
                report.say(lines[name], where, f"{quoted(container)} is the name of no container of the pod")
            if value and _old_profile(value) is None:
                report.expected("runtime/default or unconfined or localhost/PROFILE", "str", lines[name], where)
        return found


def annotated(containers: Iterable[ContainerSpec], annotations: Mapping[str, str]) -> tuple[ContainerSpec, ...]:
    """The containers, with the profiles of annotations where they have none of their own. The pod's is for the rest."""
    return tuple(_annotated(container, annotations.get(f"{_APPARMOR}{container.name}", "")) for container in containers)


def _annotated(container: ContainerSpec, value: str) -> ContainerSpec:
    profile = _old_profile(value)
    if profile is None or container.security.apparmor is not None:
        return container
    return replace(container, security=replace(container.security, apparmor=profile))


def _old_profile(value: str) -> Profile | None:
    """None for an empty text, which says nothing, and for one that is not a profile."""
    name = value.removeprefix(_LOCAL)
    if name not in ("", value):
        return Profile(type="Localhost", localhost=name)
    return _OLD_PROFILES.get(value)
