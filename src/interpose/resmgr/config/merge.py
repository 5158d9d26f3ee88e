"""Flags over a policy document, key by key. Pure: what stands in files and cgroups is asked elsewhere.

What somebody said on the command line, in the environment or in the settings file counts before the document, whoever
wrote that. Defaults of settings do not: they are what is left when nobody said anything. Pools are the exception: those
that a document has itself count before files and directories, whoever names these. Nothing is overridden in silence.
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
    notes: tuple[str, ...] = ()  # what was said and does not count


class _Override(NamedTuple):
    """A setting, the keys of a document with what they become, and the options with the setting in their place."""

    key: str
    replaces: Mapping[str, str]
    put: Callable[[Any, Any], Any]


_PLACES: Final = MappingProxyType({"ConfFilePath": "conf_file", "ConfDirPath": "conf_dir"})
# Where pools are is one question: whoever answers it by a flag means no file or directory of the document.
_OVERRIDES: Final[Mapping[str, tuple[_Override, ...]]] = MappingProxyType(
    {
        "static": (
            _Override(
                "static_relaxed_isolation",
                {"RelaxedIsolation": "relaxed_isolation"},
                lambda options, said: replace(options, relaxed_isolation=said),
            ),
        ),
        "static-pools": (
            _Override("pools_dir", _PLACES, lambda options, said: replace(options, conf_file="", conf_dir=said)),
            _Override("pools_file", _PLACES, lambda options, said: replace(options, conf_file=said)),
            _Override(
                "pools_label_node", {"LabelNode": "label_node"}, lambda options, said: replace(options, label_node=said)
            ),
            _Override(
                "pools_taint_node", {"TaintNode": "taint_node"}, lambda options, said: replace(options, taint_node=said)
            ),
        ),
    }
)


def combine(
    settings: PolicySettings, origins: Mapping[str, str], document: PolicyDocument, where: str = "document"
) -> Draft:
    """What shall be in force; `origins` says by key where each setting is from. ConfigError with all problems.

    `where` is what people call the document.
    """
    notes = _Notes(where, origins)
    policy = document.active or NONE
    if is_said("name", settings, origins):
        policy = settings.name
        notes.overridden("Active", document.active, "name", policy)
    problems: list[str] = []
    amounts: dict[str, CpuAmount | None] = {}
    for key, name, of_document in (
        ("available", "AvailableResources", document.available),
        ("reserved", "ReservedResources", document.reserved),
    ):
        try:
            said = _amount(key, settings, origins)
            amounts[key] = of_document if said is None else said
            notes.overridden(f"{name}.CPU", of_document, key, amounts[key])
        except ConfigError as error:
            problems += error.problems
    available = amounts.get("available")
    if available is not None and available.milli is not None:
        problems.append(f"available CPUs: {available} is an amount, it must say which CPUs: 0-7 or cgroup:DIR")
    if problems:
        raise ConfigError(problems)
    options = _options(policy, settings, origins, document, notes)
    return Draft(
        policy=policy, available=available, reserved=amounts["reserved"], options=options, notes=tuple(notes.said)
    )


class _Notes:
    """What does not count, in words."""

    def __init__(self, where: str, origins: Mapping[str, str]) -> None:
        self.said: list[str] = []
        self._where = where
        self._origins = origins

    def overridden(self, name: str, of_document: object, key: str, by: object) -> None:
        """A key of the document, unless it says the same or nothing."""
        if of_document not in (None, by):
            by_whom = self._origins.get(f"policy.{key}", key)
            self.said.append(f"{self._where}: policy.{name}: has no effect, {by_whom} counts before it")

    def unused(self, key: str) -> None:
        """A setting about pools, as the document has some."""
        by_whom = self._origins[f"policy.{key}"]
        self.said.append(f"{by_whom}: has no effect, {self._where} has pools itself")


def _options(
    policy: str, settings: PolicySettings, origins: Mapping[str, str], document: PolicyDocument, notes: _Notes
) -> Any:
    default = options_type(policy)()
    options = document.options.get(policy) or default
    for override in _OVERRIDES.get(policy, ()):
        if not is_said(override.key, settings, origins):
            continue
        if override.replaces is _PLACES and options.pools:
            notes.unused(override.key)
            continue
        before, options = options, override.put(options, getattr(settings, override.key))
        for name, field in override.replaces.items():
            # Of typed options nobody can tell whether a default was written down: it counts as not said.
            if (was := getattr(before, field)) != getattr(default, field):
                notes.overridden(f"{policy}.{name}", was, override.key, getattr(options, field))
    return options


def _amount(key: str, settings: PolicySettings, origins: Mapping[str, str]) -> CpuAmount | None:
    """What a setting says about CPUs; None if nothing."""
    found = parse_resources(getattr(settings, key), origins.get(f"policy.{key}", f"policy.{key}")).get(CPU)
    return found if isinstance(found, CpuAmount) else None


def is_said(key: str, settings: PolicySettings, origins: Mapping[str, str]) -> bool:
    """Whether somebody set it. Defaults are ours, or those of a program whose name we go by."""
    said = not origins.get(f"policy.{key}", "default").startswith("default")
    return said and getattr(settings, key) != ""
