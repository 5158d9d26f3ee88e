"""Flags over a policy document, key by key. Pure: what stands in files and cgroups is asked elsewhere.

What somebody said on the command line, in the environment or in the settings file counts before the document, whoever
wrote that. Defaults of settings do not: they are what is left when nobody said anything.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from interpose.config.constraints import CPU, CpuAmount, parse_resources
from interpose.config.policy_document import PolicyDocument
from interpose.config.settings import PolicySettings
from interpose.errors import ConfigError
from interpose.policy.names import NONE
from interpose.policy.registry import options_type


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A configuration before CPUs of cgroups and pools of files are known."""

    policy: str
    available: CpuAmount | None
    reserved: CpuAmount | None
    options: Any


class _Override(NamedTuple):
    """A setting, and the options with it in place of what the document says."""

    key: str
    put: Callable[[Any, Any], Any]


# Where pools are is one question: whoever answers it by a flag means none of the document's answers.
_OVERRIDES: Final[Mapping[str, tuple[_Override, ...]]] = MappingProxyType(
    {
        "static": (
            _Override("static_relaxed_isolation", lambda options, said: replace(options, relaxed_isolation=said)),
        ),
        "static-pools": (
            _Override("pools_dir", lambda options, said: replace(options, pools={}, conf_file="", conf_dir=said)),
            _Override("pools_file", lambda options, said: replace(options, pools={}, conf_file=said)),
            _Override("pools_label_node", lambda options, said: replace(options, label_node=said)),
            _Override("pools_taint_node", lambda options, said: replace(options, taint_node=said)),
        ),
    }
)


def combine(settings: PolicySettings, origins: Mapping[str, str], document: PolicyDocument) -> Draft:
    """What shall be in force; `origins` says by key where each setting is from. ConfigError with all problems."""
    policy = (settings.name if _is_said("name", settings, origins) else document.active) or NONE
    problems: list[str] = []
    amounts: dict[str, CpuAmount | None] = {}
    for key, of_document in (("available", document.available), ("reserved", document.reserved)):
        try:
            said = _amount(key, settings, origins)
            amounts[key] = of_document if said is None else said
        except ConfigError as error:
            problems += error.problems
    available = amounts.get("available")
    if available is not None and available.milli is not None:
        problems.append(f"available CPUs: {available} is an amount, it must say which CPUs: 0-7 or cgroup:DIR")
    if problems:
        raise ConfigError(problems)
    return Draft(
        policy=policy,
        available=available,
        reserved=amounts["reserved"],
        options=_options(policy, settings, origins, document),
    )


def _options(policy: str, settings: PolicySettings, origins: Mapping[str, str], document: PolicyDocument) -> Any:
    options = document.options.get(policy) or options_type(policy)()
    for override in _OVERRIDES.get(policy, ()):
        if _is_said(override.key, settings, origins):
            options = override.put(options, getattr(settings, override.key))
    return options


def _amount(key: str, settings: PolicySettings, origins: Mapping[str, str]) -> CpuAmount | None:
    """What a setting says about CPUs; None if nothing."""
    found = parse_resources(getattr(settings, key), origins.get(f"policy.{key}", f"policy.{key}")).get(CPU)
    return found if isinstance(found, CpuAmount) else None


def _is_said(key: str, settings: PolicySettings, origins: Mapping[str, str]) -> bool:
    """Whether somebody set it. Defaults are ours, or those of a program whose name we go by."""
    said = not origins.get(f"policy.{key}", "default").startswith("default")
    return said and getattr(settings, key) != ""
