"""Resources in Docker's words and in CRI's: one table, and the few places where the two mean different things.

- `NanoCpus` is another way to say quota and period, and excludes them. It is shown as those; when one of them is
  changed, they are written and it is taken away.
- Memory with as much `MemorySwap` (what dockershim always asks for) means no swap, which CRI says by saying nothing. So
  it is shown as nothing, and written along with a memory limit that is changed: dockerd would refuse a limit above
  the swap it knows, and give swap to containers that say nothing about it.
- A negative memory limit means none in CRI and is an error in Docker. A create says none with zero; an update cannot.

Zero and empty mean "not set" on both sides. Cgroup parents are here, too: with the cgroupfs driver both sides have a
path; with systemd Docker has the name of a slice, and CRI the path that leads to it.

Pure; messages are duck-typed.
"""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, Final

from interpose.core.model.cgroup import SUFFIX, slice_path
from interpose.core.model.resources import INT64
from interpose.relay.docker.translate.body import as_text
from interpose.relay.docker.translate.json_edit import MemberIndex, Pairs, UnreadableBodyError, kind

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
PARENT: Final = "CgroupParent"
# What Docker has no word for.
UNKNOWN: Final = ("hugepage_limits", "unified")

_PERIOD: Final = "cpu_period"
_QUOTA: Final = "cpu_quota"
_MEMORY: Final = "memory_limit_in_bytes"
_SWAP: Final = "memory_swap_limit_in_bytes"
_SCORE: Final = "oom_score_adj"
_NANO: Final = 10**9
_SHOWN_PERIOD: Final = 100_000
_WORDS: Final = frozenset((*TEXTS.values(), PARENT))

Values = dict[str, int | str]


def raw_values(pairs: Pairs) -> Values:
    """What an object sets, by Docker's keys; what has the wrong type makes the body unreadable, as to dockerd."""
    fields = MemberIndex(key for key, _ in pairs)
    found: Values = {}
    for key in (*NUMBERS.values(), NANO_CPUS, *TEXTS.values(), PARENT):
        place = fields.index_of(key)
        value = None if place is None else pairs[place][1]
        if value is not None:
            found[key] = as_text(value, key) if key in _WORDS else _whole_number(value, key)
    return found


def values_to_cri(raw: Mapping[str, Any], *, filled: Collection[int] = ()) -> Values:
    """The values CRI shows, by CRI's names; what is not set is left out.

    `filled` are limits of swap beside one of memory that count as not set: see `filled_in`.
    """
    found: Values = {name: value for name, key in KEYS.items() if (value := raw.get(key))}
    nano = raw.get(NANO_CPUS, 0)
    if nano and not {_QUOTA, _PERIOD} & found.keys():
        found[_QUOTA], found[_PERIOD] = nano * _SHOWN_PERIOD // _NANO, _SHOWN_PERIOD
    swap, memory = found.get(_SWAP), found.get(_MEMORY)
    if memory and (swap == memory or swap in filled):
        del found[_SWAP]
    return found


def filled_in(sent: Mapping[str, Any] | None) -> tuple[int, ...]:
    """What dockerd may have made itself of the swap of a container with a limit of memory.

    `sent` is what it was created with by CRI's names, None: unknown. Where the kernel does not count swap, dockerd
    makes every limit -1, that of dockershim too: so unless it was asked for, -1 says nothing. Twice the memory is what
    it fills in if a create says nothing; without knowing that one did not, the limit is shown as what it is.
    """
    if sent is None:
        return (-1,)
    if sent.get(_SWAP):
        return ()
    memory = sent.get(_MEMORY)
    return (-1, 2 * memory) if type(memory) is int else (-1,)


def fill(message: Any, values: Mapping[str, int | str]) -> None:
    """Write values into a message of resources; one that has none is not touched."""
    for name, value in values.items():
        setattr(message, name, value)


def read_resources(message: Any) -> Values:
    """The fields that a message of resources sets, as far as Docker has them."""
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


def _whole_number(value: Any, key: str) -> int:
    if type(value) is not int:
        raise UnreadableBodyError(f"{key} is not a whole number but {kind(value)}")
    if value not in INT64:
        raise UnreadableBodyError(f"{key} is a number of more than 64 bits")
    return value


def parent_to_cri(parent: str) -> str:
    """Docker's cgroup parent as CRI has it."""
    return slice_path(parent) if _is_slice(parent) else parent


def parent_to_docker(path: str, before: str) -> str:
    """CRI's as Docker has it, in the form of what was there; where nothing was, a slice is systemd's."""
    systemd = _is_slice(before) if before else path.endswith(SUFFIX)
    return path.rstrip("/").rpartition("/")[2] if systemd else path


def cgroups_path(parent: str, container_id: str) -> str:
    """The cgroup of a container as its OCI view names it; empty if Docker does not say where it is."""
    if not parent:
        return ""
    return f"{parent}:docker:{container_id}" if _is_slice(parent) else f"{parent.rstrip('/')}/{container_id}"


def _is_slice(parent: str) -> bool:
    return "/" not in parent and parent.endswith(SUFFIX)
