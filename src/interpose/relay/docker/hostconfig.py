"""Resources in Docker's words and in CRI's: one table, and the few places where the two mean different things.

- `NanoCpus` is another way to say quota and period, and excludes them. It is shown as those; when one of them is
  changed, they are written and it is taken away.
- Memory with as much `MemorySwap` (what dockershim always asks for) means no swap, which CRI says by saying nothing. So
  it is shown as nothing, and written along with a memory limit that is changed: dockerd would refuse a limit above
  the swap it knows, and give swap to whoever says nothing about it.
- A negative memory limit means none in CRI and is an error in Docker. A create says none with zero; an update cannot.

Zero and empty mean "not set" on both sides. Pure; messages are duck-typed.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from interpose.relay.docker.jsontext import Container, UnreadableBody, excerpt, whole

NUMBERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cpu_period": "CpuPeriod",
        "cpu_quota": "CpuQuota",
        "cpu_shares": "CpuShares",
        "memory_limit_in_bytes": "Memory",
        "memory_swap_limit_in_bytes": "MemorySwap",
        "oom_score_adj": "OomScoreAdj",
    }
)
TEXTS: Final[Mapping[str, str]] = MappingProxyType({"cpuset_cpus": "CpusetCpus", "cpuset_mems": "CpusetMems"})
KEYS: Final[Mapping[str, str]] = MappingProxyType({**NUMBERS, **TEXTS})
NANO_CPUS: Final = "NanoCpus"
# What Docker has no word for.
UNKNOWN: Final = ("hugepage_limits", "unified")

_PERIOD: Final = "cpu_period"
_QUOTA: Final = "cpu_quota"
_MEMORY: Final = "memory_limit_in_bytes"
_SWAP: Final = "memory_swap_limit_in_bytes"
_SCORE: Final = "oom_score_adj"
_NANO: Final = 10**9
_SHOWN_PERIOD: Final = 100_000
_INT64: Final = range(-(1 << 63), 1 << 63)

Values = dict[str, int | str]


def raw_values(within: Container) -> Values:
    """What is set, by Docker's keys; what has the wrong type makes the body unreadable, as it does to dockerd."""
    found: Values = {}
    for key in (*NUMBERS.values(), NANO_CPUS):
        if (item := within.member(key)) is not None and item.value is not None:
            if type(item.value) is not int or item.value not in _INT64:
                raise UnreadableBody(f"{key} is not a whole number but {excerpt(str(item.value))}")
            found[key] = item.value
    for key in TEXTS.values():
        if (item := within.member(key)) is not None and item.value is not None:
            if not isinstance(item.value, str):
                raise UnreadableBody(f"{key} is not a text but {excerpt(str(item.value))}")
            found[key] = whole(item.value)
    return found


def shown(raw: Mapping[str, Any], *, defaults: bool = False) -> Values:
    """The values CRI shows, by CRI's names; what is not set is left out.

    `defaults`: what dockerd fills in counts as not set. Who limits memory gets as much swap again, and no limit of it
    at all where the kernel has none.
    """
    found: Values = {name: value for name, key in KEYS.items() if (value := raw.get(key))}
    nano = raw.get(NANO_CPUS, 0)
    if nano and not {_QUOTA, _PERIOD} & found.keys():
        found[_QUOTA], found[_PERIOD] = nano * _SHOWN_PERIOD // _NANO, _SHOWN_PERIOD
    memory = found.get(_MEMORY, 0)
    if found.get(_SWAP) in ((memory, 2 * memory, -1) if defaults and memory else (memory,)):
        del found[_SWAP]
    return found


def fill(message: Any, values: Mapping[str, int | str]) -> None:
    """Write values into a message of resources; one that has none is not touched."""
    for name, value in values.items():
        setattr(message, name, value)


def taken(message: Any) -> Values:
    """What a message of resources sets, of what Docker has a word for."""
    return {name: value for name in KEYS if (value := getattr(message, name))}


def changes(raw: Mapping[str, Any], before: Any, after: Any, *, update: bool) -> tuple[Values, list[str]]:
    """What to write by Docker's keys, and the names of what cannot be written. The messages are resources."""
    wanted: Values = {}
    without_effect = [name for name in UNKNOWN if getattr(before, name) != getattr(after, name)]
    for name in KEYS:
        value = getattr(after, name)
        if value == getattr(before, name):
            continue
        if update and (name == _SCORE or (name == _MEMORY and value < 0)):
            without_effect.append(name)
        else:
            wanted[name] = value
    if wanted.keys() & {_QUOTA, _PERIOD} and raw.get(NANO_CPUS):
        wanted |= {_QUOTA: getattr(after, _QUOTA), _PERIOD: getattr(after, _PERIOD)}
        wanted[NANO_CPUS] = 0
    if _MEMORY in wanted:
        wanted[_MEMORY] = max(int(wanted[_MEMORY]), 0)
        if not getattr(after, _SWAP):
            wanted[_SWAP] = wanted[_MEMORY]
    elif wanted.get(_SWAP) == 0 and raw.get("Memory"):
        # Taken away: with a limit and nothing said, Docker would give as much swap again.
        wanted[_SWAP] = raw["Memory"]
    return {KEYS.get(name, name): value for name, value in wanted.items()}, without_effect
