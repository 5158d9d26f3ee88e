"""What the answer of a hook server may change: one table with a row per field.

A row says what kind of value the field has, which values are valid, what it means if the field was sent and is missing
in the answer, and what stands for "removed" in an update. Merging (`merge`), writing into requests (`apply`) and
docs/hooks/answers.md follow this table; nothing else knows the name of a field. Pure: messages are not touched here.

A path names one value: a row's path, and for a row with keys the key in brackets: `resources.unified[memory.high]`.
Keys are any text; the key is what stands between the first `[` and the final `]`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType
from typing import Any

from interpose.core.model.kubernetes_names import LABEL_PREFIX

Value = int | str
Key = str | None  # None: the field has one value and no keys
Check = Callable[[Key, Value], str | None]  # what is wrong with a value, or None


class HookFieldKind(Enum):
    """The form in which a field holds its values."""

    NUMBER = "number"  # zero: not set
    TEXT = "text"  # empty: not set
    MAP = "map"
    PAGES = "limits by page size"  # a list; an entry with limit zero is a value
    ENVS = "variables"  # a map in hook messages, a list of key and bytes in CRI requests

    @property
    def is_keyed(self) -> bool:
        """Whether the field has several values, each with a key."""
        return self not in (HookFieldKind.NUMBER, HookFieldKind.TEXT)


class Absence(Enum):
    """The meaning of a value that was sent and is missing in the answer."""

    NOTHING = "never anything"
    FIRM = "cleared, if everything shows that the answer is an echo"
    LOOSE = "cleared, if all firm fields are there"
    KEYED = "cleared as firm ones, if the answer has other keys"


class Allowed(Enum):
    """All CPUs or memory nodes of this node, looked up when needed; the value is the index in the pair."""

    CPUS = 0
    MEMS = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class HookField:
    """A row. `unset_value` is what an update writes to remove the value; None: an update cannot."""

    name: str
    owner: str = ""  # the submessage it is in
    kind: HookFieldKind
    check: Check
    absence: Absence = Absence.NOTHING
    unset_value: int | Allowed | None = None
    reserved: str | None = None  # keys with this prefix cannot be changed
    secret: bool = False  # values stay out of messages and logs

    @property
    def path(self) -> str:
        """The path of the field's value, or of all its values."""
        return f"{self.owner}.{self.name}" if self.owner else self.name

    def path_of(self, key: Key) -> str:
        """The path of the value with this key."""
        return self.path if key is None else f"{self.path}[{key}]"


def split_path(path: str) -> tuple[str, Key]:
    """The path of the row and the key in it; ValueError if a bracket is left open."""
    name, bracket, rest = path.partition("[")
    if not bracket:
        return path, None
    if not rest.endswith("]"):
        raise ValueError("the bracket is not closed")
    return name, rest[:-1]


# ---- Valid values ----------------------------------------------------------------------------------------------------

_CPULIST = re.compile(r"[0-9]{1,6}(-[0-9]{1,6})?(,[0-9]{1,6}(-[0-9]{1,6})?)*")
_PAGE_SIZE = re.compile(r"[1-9][0-9]{0,5}[KMGT]B")


def _accept_any(_key: Key, _value: Value) -> None:
    return None


def _in_range(lowest: int, highest: int | None = None) -> Check:
    def check(_key: Key, value: Value) -> str | None:
        number = int(value)
        if highest is not None and not lowest <= number <= highest:
            return f"is not within {lowest} to {highest}"
        return f"is below {lowest}" if number < lowest else None

    return check


def _cpulist(_key: Key, value: Value) -> str | None:
    text = str(value)
    if not _CPULIST.fullmatch(text):
        return 'is not a list such as "0-3,8"'
    spans = (part.split("-") for part in text.split(","))
    return "has a range that runs backwards" if any(int(span[0]) > int(span[-1]) for span in spans) else None


def _cgroup_parent(_key: Key, value: Value) -> str | None:
    text = str(value)
    if not text.isprintable():
        return "has characters that cannot be printed"
    return 'has ".." in it' if ".." in text.split("/") else None


def _page_size(key: Key, _value: Value) -> str | None:
    return None if _PAGE_SIZE.fullmatch(key or "") else 'is not for a page size such as "2MB"'


def _cgroup_file(key: Key, value: Value) -> str | None:
    # The runtime makes a path of it.
    if not key or "/" in key or not key.isprintable() or key in (".", ".."):
        return "is not for a file name"
    return "holds a NUL" if "\0" in str(value) else None


def _variable(key: Key, value: Value) -> str | None:
    if not key or "=" in key or "\0" in key:
        return "has a name that no variable can have"
    return "holds a NUL" if "\0" in str(value) else None


# ---- The table -------------------------------------------------------------------------------------------------------

_RESOURCES = (
    HookField(
        name="cpu_period", kind=HookFieldKind.NUMBER, check=_in_range(0), absence=Absence.FIRM, unset_value=100_000
    ),
    HookField(name="cpu_quota", kind=HookFieldKind.NUMBER, check=_in_range(-1), absence=Absence.LOOSE, unset_value=-1),
    HookField(name="cpu_shares", kind=HookFieldKind.NUMBER, check=_in_range(0), absence=Absence.FIRM, unset_value=1024),
    HookField(
        name="memory_limit_in_bytes",
        kind=HookFieldKind.NUMBER,
        check=_in_range(-1),
        absence=Absence.FIRM,
        unset_value=-1,
    ),
    HookField(name="oom_score_adj", kind=HookFieldKind.NUMBER, check=_in_range(-1000, 1000), absence=Absence.FIRM),
    HookField(
        name="cpuset_cpus", kind=HookFieldKind.TEXT, check=_cpulist, absence=Absence.LOOSE, unset_value=Allowed.CPUS
    ),
    HookField(
        name="cpuset_mems", kind=HookFieldKind.TEXT, check=_cpulist, absence=Absence.LOOSE, unset_value=Allowed.MEMS
    ),
    HookField(name="hugepage_limits", kind=HookFieldKind.PAGES, check=_page_size, absence=Absence.KEYED),
    HookField(name="unified", kind=HookFieldKind.MAP, check=_cgroup_file, absence=Absence.KEYED),
    HookField(
        name="memory_swap_limit_in_bytes",
        kind=HookFieldKind.NUMBER,
        check=_in_range(-1),
        absence=Absence.LOOSE,
        unset_value=-1,
    ),
)

_POD = (
    # The kubelet finds its pods and containers again by labels with this prefix; a changed one would orphan them.
    HookField(name="labels", kind=HookFieldKind.MAP, check=_accept_any, reserved=LABEL_PREFIX),
    HookField(name="annotations", kind=HookFieldKind.MAP, check=_accept_any, reserved=LABEL_PREFIX),
    HookField(name="cgroup_parent", kind=HookFieldKind.TEXT, check=_cgroup_parent),
    *(replace(row, owner="resources") for row in _RESOURCES),
)

_CONTAINER = (
    HookField(name="container_annotations", kind=HookFieldKind.MAP, check=_accept_any, reserved=LABEL_PREFIX),
    HookField(name="pod_cgroup_parent", kind=HookFieldKind.TEXT, check=_cgroup_parent),
    HookField(name="container_envs", kind=HookFieldKind.ENVS, check=_variable, secret=True),
    *(replace(row, owner="container_resources") for row in _RESOURCES),
)

POD_FIELDS: Mapping[str, HookField] = MappingProxyType({row.path: row for row in _POD})
CONTAINER_FIELDS: Mapping[str, HookField] = MappingProxyType({row.path: row for row in _CONTAINER})


def fields_of(message: Any) -> Mapping[str, HookField]:
    """The rows for a request or answer of the hook protocol, by path."""
    return CONTAINER_FIELDS if hasattr(message, "container_resources") else POD_FIELDS
