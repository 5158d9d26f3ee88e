"""The `info` of verbose answers: JSON that is not a part of the protocol, and the only source of some facts.

containerd shows `config` (the create request) and `runtimeSpec` (what is in force), CRI-O the latter only. Whatever is
missing or odd reads as not set: no document makes anything here fail.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from interpose.core.model.cgroup import slice_path
from interpose.core.model.resources import INT64, LinuxResources, empty_map

_OCI_CPU: Final = {
    "shares": "cpu_shares",
    "quota": "cpu_quota",
    "period": "cpu_period",
    "cpus": "cpuset_cpus",
    "mems": "cpuset_mems",
}
_OCI_MEMORY: Final = {"limit": "memory_limit_in_bytes", "swap": "memory_swap_limit_in_bytes"}
_NUMBERS: Final = (
    "cpu_period", "cpu_quota", "cpu_shares", "memory_limit_in_bytes", "oom_score_adj", "memory_swap_limit_in_bytes",
)  # fmt: skip
_TEXTS: Final = ("cpuset_cpus", "cpuset_mems")
_SANDBOX_ANNOTATIONS: Final = ("io.kubernetes.cri.sandbox-id", "io.kubernetes.cri-o.SandboxID")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerboseInfo:
    """The parts of the document; empty where there is none."""

    document: Mapping[str, Any] = field(default_factory=dict)

    @property
    def config(self) -> Mapping[str, Any]:
        return _part(self.document, "config")

    @property
    def spec(self) -> Mapping[str, Any]:
        return _part(self.document, "runtimeSpec")

    @property
    def sandbox_id(self) -> str:
        """The pod a container is in."""
        annotations = _part(self.spec, "annotations")
        ids = (_text(self.document.get("sandboxID")), *(_text(annotations.get(key)) for key in _SANDBOX_ANNOTATIONS))
        return next(filter(None, ids), "")

    @property
    def cgroup_parent(self) -> str:
        """The cgroup of the pod: as requested, else where the runtime put the object itself."""
        return _text(_part(self.config, "linux").get("cgroup_parent")) or self.parent_in_force

    @property
    def parent_in_force(self) -> str:
        """The cgroup above the one of this object."""
        return parent_of(_text(_part(self.spec, "linux").get("cgroupsPath")))

    @property
    def created(self) -> LinuxResources | None:
        """What a container was created with."""
        return self.configured("resources") if self.config else None

    def configured(self, name: str) -> LinuxResources:
        """Resources of the create request: `resources`, or the `overhead` of a pod."""
        return _configured(_part(self.config, "linux").get(name))

    @property
    def current(self) -> LinuxResources | None:
        """What a container has now."""
        resources = _part(self.spec, "linux").get("resources")
        if not isinstance(resources, dict):
            return None
        values: dict[str, Any] = {"oom_score_adj": _number(_part(self.spec, "process").get("oomScoreAdj"))}
        for part, names in (("cpu", _OCI_CPU), ("memory", _OCI_MEMORY)):
            found = _part(resources, part)
            for key, name in names.items():
                values[name] = _text(found.get(key)) if name in _TEXTS else _number(found.get(key))
        values["hugepage_limits"] = _hugepages(resources.get("hugepageLimits"), "pageSize")
        values["unified"] = _texts(resources.get("unified"))
        return LinuxResources(**values)

    @property
    def envs(self) -> tuple[tuple[str, bytes], ...]:
        """The variables of the create request in their order, with the values in force.

        The request itself shows values as text or, from younger runtimes, as base64 of it; so it only says which.
        """
        in_force = dict(
            _text(variable).partition("=")[::2] for variable in _list(_part(self.spec, "process").get("env"))
        )
        if not self.config:
            return tuple((key, value.encode()) for key, value in in_force.items())
        envs = [env for env in _list(self.config.get("envs")) if isinstance(env, dict)]
        pairs = ((_text(env.get("key")), _text(env.get("value"))) for env in envs)
        return tuple((key, in_force.get(key, value).encode()) for key, value in pairs)


def read_info(info: Mapping[str, str]) -> VerboseInfo:
    """Parse the map of a verbose answer."""
    try:
        document = json.loads(info.get("info", ""))
    except (ValueError, RecursionError):
        document = None
    return VerboseInfo(document=document) if isinstance(document, dict) else VerboseInfo()


def _configured(value: object) -> LinuxResources:
    """Resources with the field names of the protocol."""
    if not isinstance(value, dict):
        return LinuxResources()
    values: dict[str, Any] = {name: _number(value.get(name)) for name in _NUMBERS}
    values |= {name: _text(value.get(name)) for name in _TEXTS}
    values["hugepage_limits"] = _hugepages(value.get("hugepage_limits"), "page_size")
    values["unified"] = _texts(value.get("unified"))
    return LinuxResources(**values)


def without_defaults(current: LinuxResources, created: LinuxResources | None) -> LinuxResources:
    """Without what the runtime added by itself: who limits memory and says nothing about swap gets none."""
    asked = created.memory_swap_limit_in_bytes if created is not None else 0
    if not asked and current.memory_swap_limit_in_bytes == current.memory_limit_in_bytes:
        return replace(current, memory_swap_limit_in_bytes=0)
    return current


def parent_of(cgroups_path: str) -> str:
    """The parent in a cgroup path of the OCI view: `/parent/name`, or `slice:prefix:name` with systemd."""
    if cgroups_path.count(":") == 2:
        return slice_path(cgroups_path.partition(":")[0])
    return cgroups_path.rpartition("/")[0]


def _part(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = document.get(key)
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: object) -> int:
    return value if type(value) is int and value in INT64 else 0


def _text(value: object) -> str:
    """Text that can be sent again: JSON knows characters that UTF-8 does not."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _texts(value: object) -> Mapping[str, str]:
    return {_text(key): _text(one) for key, one in value.items()} if isinstance(value, dict) and value else empty_map()


def _hugepages(value: object, size: str) -> tuple[tuple[str, int], ...]:
    limits = [limit for limit in _list(value) if isinstance(limit, dict)]
    return tuple((_text(limit.get(size)), _number(limit.get("limit"))) for limit in limits)
