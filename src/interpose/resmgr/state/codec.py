"""Grants and amounts as plain values of JSON, and back: for the annotation of a container and for the state file.

Reading takes nothing on trust: a value of another kind, or a number that does not fit into 64 bits, is a ValueError
that names the key. Unknown keys are ignored, so that something may be added later. Pure.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

from interpose.core.model.cpuset import CpuSet
from interpose.core.model.resources import INT64, empty_map
from interpose.core.model.text import quoted
from interpose.core.policy.decision import Grant
from interpose.core.policy.request import Amounts, Key, RequestSource

_KINDS: Final[Mapping[type, str]] = MappingProxyType(
    {
        dict: "a group of keys",
        list: "a list",
        str: "text",
        int: "a whole number",
        float: "a number with a fraction",
        bool: "true or false",
        type(None): "null",
    }
)
T = TypeVar("T")


def key_to_plain(key: Key) -> dict[str, Any]:
    """A key as plain values of JSON."""
    plain: dict[str, Any] = {"pod_id": key.pod_id, "name": key.name, "attempt": key.attempt}
    return plain | ({"twin": key.duplicate} if key.duplicate else {})


def key_from_plain(fields: "Fields") -> Key:
    """Read what `key_to_plain` writes; ValueError names the field."""
    duplicate = fields.get("twin", number) if "twin" in fields else 0
    return Key(fields.get("pod_id", text), fields.get("name", text), fields.get("attempt", number), duplicate)


def grant_to_plain(grant: Grant) -> dict[str, Any]:
    """A grant as plain values of JSON."""
    plain: dict[str, Any] = {
        "exclusive": str(grant.exclusive),
        "pools": list(grant.pools),
        "pinned": grant.pinned,
        "mems": None if grant.mems is None else str(grant.mems),
        "shares": grant.shares,
        "milli": grant.milli,
        "details": dict(grant.details),
    }
    if grant.quota is not None:
        plain["quota"] = grant.quota
    # Only while a container is created, and then of one policy only.
    if grant.envs:
        plain["envs"] = dict(grant.envs)
    if grant.command is not None:
        plain["command"] = list(grant.command)
    return plain


def grant_from_plain(plain: object, where: str = "grant") -> Grant:
    """Read what `grant_to_plain` writes; ValueError names the field."""
    fields = Fields(plain, where)
    return Grant(
        exclusive=fields.get("exclusive", cpus),
        pools=fields.get("pools", texts),
        pinned=fields.get("pinned", flag),
        mems=fields.get("mems", maybe(cpus)),
        shares=fields.get("shares", maybe(number)),
        quota=fields.get("quota", number) if "quota" in fields else None,
        milli=fields.get("milli", number),
        details=fields.get("details", text_map),
        envs=fields.get("envs", text_map) if "envs" in fields else empty_map(),
        command=fields.get("command", texts) if "command" in fields else None,
    )


def amounts_to_plain(amounts: Amounts) -> dict[str, Any]:
    """Amounts as plain values of JSON."""
    plain: dict[str, Any] = {
        "milli": amounts.milli,
        "limit_milli": amounts.limit_milli,
        "memory": amounts.memory,
        "memory_limit": amounts.memory_limit,
        "extended": dict(amounts.extended),
        "source": amounts.source.value,
    }
    return plain | ({"quota": True} if amounts.quota else {})


def amounts_from_plain(plain: object, where: str = "amounts") -> Amounts:
    """Read what `amounts_to_plain` writes; ValueError names the field."""
    fields = Fields(plain, where)
    return Amounts(
        milli=fields.get("milli", number),
        limit_milli=fields.get("limit_milli", maybe(number)),
        memory=fields.get("memory", maybe(number)),
        memory_limit=fields.get("memory_limit", maybe(number)),
        extended=fields.get("extended", number_map),
        quota="quota" in fields and fields.get("quota", flag),
        source=fields.get("source", _source),
    )


# -- parts


class Fields:
    """The keys of an object; `where` is its place in the whole, for messages."""

    def __init__(self, plain: object, where: str) -> None:
        self._fields: dict[str, Any] = _expect(plain, where, dict)
        self._where = where

    def __contains__(self, key: str) -> bool:
        return key in self._fields

    def get(self, key: str, read: Callable[[Any, str], T]) -> T:
        """The value of a key as `read` converts it; ValueError if the key is missing."""
        where = f"{self._where}.{key}"
        if key not in self._fields:
            raise ValueError(f"{where}: is missing")
        return read(self._fields[key], where)


def text(plain: object, where: str) -> str:
    found: str = _expect(plain, where, str)
    return found


def number(plain: object, where: str) -> int:
    """A whole number that fits into 64 bits."""
    found: int = _expect(plain, where, int)
    if found not in INT64:
        raise ValueError(f"{where}: expected a number of 64 bits, found one of {found.bit_length()}")
    return found


def flag(plain: object, where: str) -> bool:
    found: bool = _expect(plain, where, bool)
    return found


def cpus(plain: object, where: str) -> CpuSet:
    """A set of CPUs or memory nodes."""
    try:
        return CpuSet.parse(text(plain, where))
    except ValueError as error:
        message = str(error)
        raise ValueError(message if message.startswith(where) else f"{where}: {message}") from None


def texts(plain: object, where: str) -> tuple[str, ...]:
    """A list of texts."""
    return items(text)(plain, where)


def text_map(plain: object, where: str) -> Mapping[str, str]:
    return _map(plain, where, text)


def number_map(plain: object, where: str) -> Mapping[str, int]:
    return _map(plain, where, number)


def items(read: Callable[[Any, str], T]) -> Callable[[object, str], tuple[T, ...]]:
    """A list of what `read` reads."""

    def read_all(plain: object, where: str) -> tuple[T, ...]:
        return tuple(read(item, f"{where}[{index}]") for index, item in enumerate(_expect(plain, where, list)))

    return read_all


def maybe(read: Callable[[Any, str], T]) -> Callable[[object, str], T | None]:
    """What `read` reads, or null."""
    return lambda plain, where: None if plain is None else read(plain, where)


def _map(plain: object, where: str, read: Callable[[Any, str], T]) -> Mapping[str, T]:
    entries = _expect(plain, where, dict)
    return MappingProxyType({key: read(value, f"{where}[{quoted(key)}]") for key, value in entries.items()})


def _source(plain: object, where: str) -> RequestSource:
    name = text(plain, where)
    try:
        return RequestSource(name)
    except ValueError:
        raise ValueError(f"{where}: expected one of {', '.join(RequestSource)}, found {quoted(name)}") from None


def _expect(plain: object, where: str, kind: type) -> Any:
    """The value, if it is of this kind and not just of a related one."""
    if type(plain) is not kind:
        found = quoted(plain) if isinstance(plain, str) else _KINDS[type(plain)]
        raise ValueError(f"{where}: expected {_KINDS[kind]}, found {found}")
    return plain
