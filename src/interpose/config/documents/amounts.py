"""How much of a machine, as people write it: `cpu=1000m`, `cpu=0,2`, `cpu=cpuset:0-3,memory=1Gi`, `cpu=cgroup:/system`.

Only CPUs are interpreted, what is said about the other domains is kept as text. Invariant: what `str` of an amount and
`show_resources` write is read back to the same value. No IO: what a cgroup may use is asked in `host.cpusets`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from interpose.config.values import refuse
from interpose.core.model.cpuset import CpuSet
from interpose.core.model.quantity import milli, parse_quantity
from interpose.core.model.text import quoted
from interpose.errors import ConfigError

CPU: Final = "cpu"
DOMAINS: Final = (CPU, "memory", "hugepages", "cache", "memory-bandwidth")

# The comma before the next `domain=`; all others belong to a list of CPUs.
_SEPARATOR: Final = re.compile(r",(?=\s*[A-Za-z][\w-]*\s*=)")
_FORMS: Final = (
    "expected an amount (2, 750m), CPUs (0-3, cpuset:2, #2), all but some (exclude-cpuset:0) "
    "or a cgroup (cgroup:DIR, /DIR)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuAmount:
    """Exactly one of: these CPUs, all but these, so many thousandths of one, the CPUs of a cgroup."""

    cpus: CpuSet | None = None
    excluded: CpuSet | None = None
    milli: int | None = None
    cgroup: str | None = None

    def __post_init__(self) -> None:
        if sum(value is not None for value in (self.cpus, self.excluded, self.milli, self.cgroup)) != 1:
            raise ValueError("exactly one of cpus, excluded, milli and cgroup is needed")

    def __str__(self) -> str:
        if self.cpus is not None:
            return f"cpuset:{self.cpus}"
        if self.excluded is not None:
            return f"exclude-cpuset:{self.excluded}"
        return f"{self.milli}m" if self.milli is not None else f"cgroup:{self.cgroup}"


Resources = Mapping[str, CpuAmount | str]


def parse_resources(text: str, where: str) -> Resources:
    """Amounts by domain: an amount of CPU for `cpu`, text for the others; nothing for empty text. ConfigError."""
    found: dict[str, CpuAmount | str] = {}
    for part in _SEPARATOR.split(text) if text.strip() else ():
        name, equals, value = (piece.strip() for piece in part.partition("="))
        domain = name.lower()
        if not equals or "=" in value:
            raise refuse(where, text, f"is not of the form domain=value,...: {quoted(part)} is not domain=value")
        if domain not in DOMAINS:
            raise refuse(where, text, f"names {quoted(name)}, the known domains are {', '.join(DOMAINS)}")
        if domain in found:
            raise refuse(where, text, f"names {domain} twice")
        if not value:
            raise refuse(where, text, f"has no value for {domain}")
        found[domain] = parse_cpu_amount(value, where) if domain == CPU else value
    return MappingProxyType(found)


def show_resources(resources: Resources) -> str:
    """The text that `parse_resources` reads back."""
    return ",".join(f"{domain}={value}" for domain, value in resources.items())


def parse_cpu_amount(text: str, where: str) -> CpuAmount:
    """An amount of CPU; ConfigError that begins with `where` and names the text."""
    try:
        return cpu_amount(text)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from None


def cpu_amount(text: str) -> CpuAmount:
    """An amount of CPU; ValueError that names the text."""
    value = text.strip()
    if value.startswith("/"):  # before the kinds: names of cgroups have colons
        return _cgroup(value)
    if value.startswith("#"):
        return _cpus(value[1:])
    kind, colon, rest = value.partition(":")
    if colon and not kind[:1].isdigit():  # the kernel's "0-31:1/2" is a list
        read = _KINDS.get(kind.strip().lower())
        if read is None:
            raise ValueError(f"{quoted(value)} is of the unknown kind {quoted(kind)}, known are {', '.join(_KINDS)}")
        return read(rest.strip())
    return _cpus(value) if "-" in value or "," in value else _quantity(value)


def _cpus(text: str) -> CpuAmount:
    return CpuAmount(cpus=_list(text))


def _excluded(text: str) -> CpuAmount:
    return CpuAmount(excluded=_list(text))


def _list(text: str) -> CpuSet:
    cpus = CpuSet.parse(text)
    if not cpus:
        raise ValueError(f"the list of CPUs is empty, {_FORMS}")
    return cpus


def _quantity(text: str) -> CpuAmount:
    try:
        return CpuAmount(milli=milli(parse_quantity(text, negative=False)))
    except ValueError as error:
        raise ValueError(f"{error}; {_FORMS}") from None


def _cgroup(text: str) -> CpuAmount:
    if not text.strip("/") or not text.isprintable() or ".." in text.split("/"):
        raise ValueError(f"{quoted(text)} is not a directory of a cgroup")
    return CpuAmount(cgroup=text)


_KINDS: Final[Mapping[str, Callable[[str], CpuAmount]]] = MappingProxyType(
    {"cpuset": _cpus, "exclude-cpuset": _excluded, "quantity": _quantity, "cgroup": _cgroup}
)
