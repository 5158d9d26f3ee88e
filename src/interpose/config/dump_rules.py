"""Which calls are dumped, and how much of each: the rules of `--dump SPEC`.

Pure. A SPEC is a list of items with commas between, read from left to right:

    reset                    forget all rules, the defaults among them
    on, enable               dump what the rules say; it is so anyway
    off, disable             dump nothing, whatever the rules say
    [target:]method          a rule

Targets are off (suppress), short (name), full (long, verbose) and count. A target holds for the items after it in the
same SPEC, too; a SPEC begins with full. A method is a name if it is `*` or has none of `.*?+()[]|`; else it is a
regular expression that is found anywhere in a name. Rules of several SPECs add up, after the defaults.
"""

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from interpose.core.model.text import quoted
from interpose.errors import ConfigError


class DumpTarget(StrEnum):
    """How much of a call is dumped."""

    OFF = "off"
    SHORT = "short"  # its name, when it is over
    FULL = "full"
    COUNT = "count"  # how many there were, from time to time


TARGETS: Final[Mapping[str, DumpTarget]] = MappingProxyType(
    {
        "off": DumpTarget.OFF,
        "suppress": DumpTarget.OFF,
        "name": DumpTarget.SHORT,
        "short": DumpTarget.SHORT,
        "full": DumpTarget.FULL,
        "long": DumpTarget.FULL,
        "verbose": DumpTarget.FULL,
        "count": DumpTarget.COUNT,
    }
)
# In force before the first SPEC: everything that changes something. Calls of Docker's API have names such as
# `GET /containers/json`.
DEFAULTS: Final = "full:.*,off:Version,.*List.*,.*Status.*,.*Info.*,.*Log.*,.*Reopen.*,^(GET|HEAD) /.*"
RESET: Final = "reset"
SWITCHES: Final[Mapping[str, bool]] = MappingProxyType({"enable": True, "on": True, "disable": False, "off": False})
ALL: Final = "*"
# Names of methods are far shorter; whoever calls may make up any.
_LONGEST: Final = 128
_SPECIAL: Final = frozenset(".*?+()[]|")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Rules in force: those with a name, and those with a regular expression in the order in which they came."""

    enabled: bool
    exact: Mapping[str, DumpTarget]
    patterns: tuple[tuple[re.Pattern[str], DumpTarget], ...]

    def target(self, name: str) -> DumpTarget:
        """What to do with the calls of a method, named without its service.

        A rule with its name comes first, then the rule `*`, then the last expression that is found in the name.
        """
        if not self.enabled:
            return DumpTarget.OFF
        name = name[:_LONGEST]
        for key in (name, ALL):
            if key in self.exact:
                return self.exact[key]
        return next((target for pattern, target in reversed(self.patterns) if pattern.search(name)), DumpTarget.OFF)

    def selected(self, names: Iterable[str]) -> dict[str, DumpTarget]:
        """Those of these methods of which anything is dumped."""
        targets = {name: self.target(name) for name in names}
        return {name: target for name, target in targets.items() if target is not DumpTarget.OFF}


NOTHING: Final = Rules(enabled=False, exact=MappingProxyType({}), patterns=())


def parse_rules(specs: Sequence[str], where: str = "--dump") -> Rules:
    """The rules of these SPECs; without any nothing is dumped. ConfigError with all wrong items, after `where`."""
    if not specs:
        return NOTHING
    reading = _Reading()
    for spec in (DEFAULTS, *specs):
        reading.target = DumpTarget.FULL
        for item in filter(None, map(str.strip, spec.split(","))):
            reading.take(item)
    if reading.problems:
        raise ConfigError([f"{where}: {problem}" for problem in reading.problems])
    return Rules(
        enabled=reading.enabled, exact=MappingProxyType(reading.exact), patterns=tuple(reading.patterns.values())
    )


class _Reading:
    """What is known after some items."""

    def __init__(self) -> None:
        self.enabled = True
        self.target = DumpTarget.FULL
        self.exact: dict[str, DumpTarget] = {}
        self.patterns: dict[str, tuple[re.Pattern[str], DumpTarget]] = {}
        self.problems: list[str] = []

    def take(self, item: str) -> None:
        if item == RESET:
            self.exact.clear()
            self.patterns.clear()
        elif item in SWITCHES:
            self.enabled = SWITCHES[item]
        else:
            self._rule(item)

    def _rule(self, item: str) -> None:
        said, colon, method = (part.strip() for part in item.rpartition(":"))
        if ":" in said:
            self.problems.append(f"{quoted(item)} has more than one colon, it is target:method")
            return
        if colon and said not in TARGETS:
            self.problems.append(f"{quoted(item)} names {quoted(said)}, targets are {', '.join(TARGETS)}")
            return
        if not method:
            self.problems.append(f"{quoted(item)} names no method")
            return
        self.target = TARGETS[said] if colon else self.target
        if method == ALL or not _SPECIAL & set(method):
            self.exact[method] = self.target
            return
        try:
            pattern = _compiled(method)
        except (re.error, OverflowError, RecursionError) as error:
            self.problems.append(f"{quoted(item)} is not a regular expression: {error}")
            return
        # The same expression again takes the place of the newest, so that rules given for ever stay few.
        self.patterns.pop(method, None)
        self.patterns[method] = (pattern, self.target)


def _compiled(method: str) -> "re.Pattern[str]":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about what later versions of Python may read differently
        # What is found anywhere may have anything around it: said or not, but saying it costs the square of the time.
        bare = re.sub(r"^(\.\*)+|(?<!\\)(\.\*)+$", "", method)
        return re.compile(bare if _same_meaning(bare) else method)


def _same_meaning(bare: str) -> bool:
    """Whether an expression without its outer `.*` is whole: not so if that was all, or a part of something else."""
    if not bare or bare[0] in "*+?{":
        return False
    try:
        re.compile(bare)
    except (re.error, OverflowError, RecursionError):
        return False
    return True
