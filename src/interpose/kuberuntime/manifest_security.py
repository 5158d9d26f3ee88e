"""Security contexts of pods and containers in manifests. Pure."""

import re
from collections.abc import Mapping
from typing import Any, Final

from interpose.config.documentschema import Flag, Group, Items, Number, Text
from interpose.kuberuntime.manifest_kinds import MAX_ID, Refused, Worded, choice, renamed, unique
from interpose.kuberuntime.pod import PodSecurityContext, Profile, SecurityContext, SeLinux

_ID: Final = Number(0, MAX_ID)
_WINDOWS: Final = Refused("is of Windows, which is not supported")
_CAPABILITY: Final = Worded(re.compile(r"ALL|[A-Z][A-Z0-9_]*"), "the name of a capability such as NET_ADMIN", 64)
_CAPABILITIES: Final = Items(_CAPABILITY, make=lambda found: tuple(one.removeprefix("CAP_") for one in found))
_SYSCTL: Final = Group(
    {
        "name": Worded(re.compile(r"[a-z0-9]([-_a-z0-9]*[a-z0-9])?([./][a-z0-9]([-_a-z0-9]*[a-z0-9])?)*"), "a sysctl"),
        "value": Text(),
    },
    lambda one: (one["name"], one["value"]),
    required=("name", "value"),
)


def _profile(values: dict[str, Any]) -> Profile:
    local = values.get("localhostProfile", "")
    if (values["type"] == "Localhost") != bool(local):
        raise ValueError("localhostProfile goes with type Localhost, and only with it")
    return Profile(type=values["type"], localhost=local)


_PROFILE: Final = Group(
    {"type": choice("RuntimeDefault", "Unconfined", "Localhost"), "localhostProfile": Text()},
    _profile,
    required=("type",),
)
_SELINUX: Final = Group(
    {"user": Text(), "role": Text(), "type": Text(), "level": Text()}, lambda values: SeLinux(**values)
)
_SHARED: Final[Mapping[str, Any]] = {
    "runAsUser": _ID,
    "runAsGroup": _ID,
    "runAsNonRoot": Flag(),
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


SECURITY: Final = Group(
    {
        **_SHARED,
        "privileged": Flag(),
        "readOnlyRootFilesystem": Flag(),
        "allowPrivilegeEscalation": Flag(),
        "capabilities": Group({"add": _CAPABILITIES, "drop": _CAPABILITIES}),
        "procMount": choice("Default", "Unmasked"),
    },
    _container,
)
POD_SECURITY: Final = Group(
    {
        **_SHARED,
        "supplementalGroups": Items(_ID, make=tuple),
        "supplementalGroupsPolicy": choice("Merge", "Strict"),
        "fsGroup": _ID,
        # How, not what: volumes here are given to the group whenever they are made.
        "fsGroupChangePolicy": choice("Always", "OnRootMismatch"),
        "seLinuxChangePolicy": choice("Recursive", "MountOption"),
        "sysctls": Items(_SYSCTL, make=unique("sysctls", lambda one: one[0])),
    },
    lambda values: PodSecurityContext(**renamed(values, _POD_NAMES)),
)
