"""Flags over a policy document, key by key. Pure: files and cgroups are read elsewhere.

Settings of the command line, the environment or the settings file count before the document, wherever that comes from.
Defaults of settings do not. Pools are the exception: those that a document has itself count before files and
directories, wherever these are named. Nothing is overridden in silence.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from interpose.config.documents.amounts import CPU, CpuAmount, parse_resources
from interpose.config.documents.policy import PolicyDocument
from interpose.config.relay.settings import PolicySettings
from interpose.core.policy.names import NONE
from interpose.core.policy.registry import options_type
from interpose.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A configuration before CPUs of cgroups and pools of files are known."""

    policy: str
    available: CpuAmount | None
    reserved: CpuAmount | None
    options: Any
    migrate_memory: bool = False
    notes: tuple[str, ...] = ()  # what has no effect


class _Override(NamedTuple):
    """A setting, the keys of a document with what they become, and the options with the setting in their place."""

    key: str
    replaces: Mapping[str, str]
    put: Callable[[Any, Any], Any]


_POOL_PATHS: Final = MappingProxyType({"ConfFilePath": "conf_file", "ConfDirPath": "conf_dir"})
# Where pools are is one question: a flag that answers it replaces file and directory of the document.
_OVERRIDES: Final[Mapping[str, tuple[_Override, ...]]] = MappingProxyType(
    {
        "static": (
            _Override(
                "static_relaxed_isolation",
                {"RelaxedIsolation": "relaxed_isolation"},
                lambda options, value: replace(options, relaxed_isolation=value),
            ),
        ),
        "topology-aware": (
            _Override(
                "topology_pin_cpu", {"PinCPU": "pin_cpu"}, lambda options, value: replace(options, pin_cpu=value)
            ),
            _Override(
                "topology_pin_memory",
                {"PinMemory": "pin_memory"},
                lambda options, value: replace(options, pin_memory=value),
            ),
            _Override(
                "topology_prefer_isolated",
                {"PreferIsolatedCPUs": "prefer_isolated"},
                lambda options, value: replace(options, prefer_isolated=value),
            ),
            _Override(
                "topology_prefer_shared",
                {"PreferSharedCPUs": "prefer_shared"},
                lambda options, value: replace(options, prefer_shared=value),
            ),
        ),
        "static-pools": (
            _Override("pools_dir", _POOL_PATHS, lambda options, value: replace(options, conf_file="", conf_dir=value)),
            _Override("pools_file", _POOL_PATHS, lambda options, value: replace(options, conf_file=value)),
            _Override(
                "pools_label_node",
                {"LabelNode": "label_node"},
                lambda options, value: replace(options, label_node=value),
            ),
            _Override(
                "pools_taint_node",
                {"TaintNode": "taint_node"},
                lambda options, value: replace(options, taint_node=value),
            ),
        ),
    }
)


def combine(
    settings: PolicySettings, origins: Mapping[str, str], document: PolicyDocument, where: str = "document"
) -> Draft:
    """What shall be in force; `origins` says by key where each setting is from. ConfigError with all problems.

    `where` is the display name of the document.
    """
    notes = _Notes(where, origins)
    policy = document.active or NONE
    if is_set("name", settings, origins):
        policy = settings.name
        notes.add_overridden("Active", document.active, "name", policy)
    problems: list[str] = []
    amounts: dict[str, CpuAmount | None] = {}
    for key, name, of_document in (
        ("available", "AvailableResources", document.available),
        ("reserved", "ReservedResources", document.reserved),
    ):
        try:
            value = _amount(key, settings, origins)
            amounts[key] = of_document if value is None else value
            notes.add_overridden(f"{name}.CPU", of_document, key, amounts[key])
        except ConfigError as error:
            problems += error.problems
    available = amounts.get("available")
    if available is not None and available.milli is not None:
        problems.append(f"available CPUs: {available} is an amount, it must say which CPUs: 0-7 or cgroup:DIR")
    if problems:
        raise ConfigError(problems)
    options = _options(policy, settings, origins, document, notes)
    return Draft(
        policy=policy,
        available=available,
        reserved=amounts["reserved"],
        options=options,
        migrate_memory=bool(document.migrate_memory),
        notes=tuple(notes.texts),
    )


class _Notes:
    """Remarks about parts of a document and settings that have no effect."""

    def __init__(self, where: str, origins: Mapping[str, str]) -> None:
        self.texts: list[str] = []
        self._where = where
        self._origins = origins

    def add_overridden(self, name: str, of_document: object, key: str, by: object) -> None:
        """Note that a key of the document has no effect, unless it says the same or nothing."""
        if of_document not in (None, by):
            by_whom = self._origins.get(f"policy.{key}", key)
            self.texts.append(f"{self._where}: policy.{name}: has no effect, {by_whom} counts before it")

    def add_unused(self, key: str) -> None:
        """Note that a setting about pools has no effect: the document has pools itself."""
        by_whom = self._origins[f"policy.{key}"]
        self.texts.append(f"{by_whom}: has no effect, {self._where} has pools itself")


def _options(
    policy: str, settings: PolicySettings, origins: Mapping[str, str], document: PolicyDocument, notes: _Notes
) -> Any:
    default = options_type(policy)()
    options = document.options.get(policy) or default
    for override in _OVERRIDES.get(policy, ()):
        if not is_set(override.key, settings, origins):
            continue
        if override.replaces is _POOL_PATHS and options.pools:
            notes.add_unused(override.key)
            continue
        before, options = options, override.put(options, getattr(settings, override.key))
        for name, field in override.replaces.items():
            # Typed options do not show whether a default was written down: it counts as not configured.
            if (was := getattr(before, field)) != getattr(default, field):
                notes.add_overridden(f"{policy}.{name}", was, override.key, getattr(options, field))
    return options


def _amount(key: str, settings: PolicySettings, origins: Mapping[str, str]) -> CpuAmount | None:
    """The CPUs of a setting; None if it names none."""
    found = parse_resources(getattr(settings, key), origins.get(f"policy.{key}", f"policy.{key}")).get(CPU)
    return found if isinstance(found, CpuAmount) else None


def is_set(key: str, settings: PolicySettings, origins: Mapping[str, str]) -> bool:
    """Whether a setting was configured; defaults are not, neither ours nor those of a program whose name we go by."""
    configured = not origins.get(f"policy.{key}", "default").startswith("default")
    return configured and getattr(settings, key) != ""
