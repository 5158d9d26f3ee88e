"""How the text of one value becomes that value, and back.

Flags, environment and files all hand over text, so there is one parser per kind of value. Invariant: what `show`
writes, `parse` reads back to the same value. Every error names where the text came from and the text itself.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

from interpose.config.endpoint import UnixListen, parse_address, parse_endpoint, parse_listen
from interpose.errors import ConfigError

_N = TypeVar("_N", int, float)

_DURATION_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_SIZE_UNITS = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_NUMBER_AND_UNIT = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]*)")
# The same two for those who check files before we do: editors, which read JSON Schema.
_TIME_PATTERN = r"^[0-9]+(\.[0-9]+)? ?([mM]?[sS]|[mMhH])?$"
_SIZE_PATTERN = r"^[0-9]+(\.[0-9]+)? ?([bB]|[kKmMgG][iI][bB])?$"
_BOOLEANS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
NONE = "none"  # turns off what would be a path or an address
_UNSEEN = "has characters that cannot be shown"
# Linux keeps 2^32-1 for "no such user": chown(2) reads it as "leave unchanged".
_MAX_UID = 2**32 - 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingKind:
    """One kind of value.

    `accepts` lists what a file may hold: tags of `DocumentNode`. `parse(text, where)` raises ConfigError. A list is
    handed over as one text with `separator` between its items; the flag of a `repeatable` kind may be given several
    times, which is such a list too. `form` is what JSON Schema can say of it; empty: no more than `accepts` does.
    `is_relative(text)` says that this is a path which begins nowhere: only a command line has a place for it to begin.
    """

    name: str
    accepts: frozenset[str]
    parse: Callable[[str, str], Any]
    show: Callable[[Any], str] = str
    separator: str = ","
    repeatable: bool = False
    form: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}), compare=False)
    is_relative: Callable[[str], bool] = field(default=lambda _text: False, compare=False)


def refuse(where: str, text: str, reason: str) -> ConfigError:
    """Build the error for a value that cannot be used; `where` is a flag, a variable or a file with line and key."""
    shown = text if len(text) <= 80 else text[:77] + "..."
    return ConfigError(f"{where}: {shown!r} {reason}")


def switch() -> SettingKind:

    def parse(text: str, where: str) -> bool:
        value = _BOOLEANS.get(text.strip().lower())
        if value is None:
            raise refuse(where, text, "is neither true nor false")
        return value

    return SettingKind(
        name="true or false", accepts=frozenset({"bool"}), parse=parse, show=lambda value: str(value).lower()
    )


def integer(lowest: int, highest: int) -> SettingKind:
    """A whole number within a range."""

    def parse(text: str, where: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,18}", text.strip()):
            raise refuse(where, text, "is not a whole number")
        return _within(int(text), lowest, highest, str, text, where)

    form = {"type": "integer", "minimum": lowest, "maximum": highest}
    return SettingKind(name=f"whole number, {lowest} to {highest}", accepts=frozenset({"int"}), parse=parse, form=form)


def duration(lowest: float, highest: float) -> SettingKind:
    """A time: "30s", "500ms", "2m"; a plain number is seconds."""

    def parse(text: str, where: str) -> float:
        number, factor = _split_unit(text, where, _DURATION_UNITS, 'is not a time such as "30s", "500ms" or "2m"')
        return _within(float(number) * factor, lowest, highest, show_duration, text, where)

    name = f"time, {show_duration(lowest)} to {show_duration(highest)}"
    form = _number_or("number", lowest, highest, _TIME_PATTERN)
    return SettingKind(
        name=name, accepts=frozenset({"str", "int", "float"}), parse=parse, show=show_duration, form=form
    )


def size(lowest: int, highest: int) -> SettingKind:
    """A number of bytes: "64KiB", "1MiB"; a plain number is bytes."""

    def parse(text: str, where: str) -> int:
        number, factor = _split_unit(text, where, _SIZE_UNITS, 'is not a size such as "65536", "64KiB" or "1MiB"')
        exact = float(number) * factor
        if exact != int(exact):
            raise refuse(where, text, "is not a whole number of bytes")
        value = int(number) * int(factor) if number.isdigit() else int(exact)
        return _within(value, lowest, highest, show_size, text, where)

    name = f"size, {show_size(lowest)} to {show_size(highest)}"
    form = _number_or("integer", lowest, highest, _SIZE_PATTERN)
    return SettingKind(name=name, accepts=frozenset({"str", "int"}), parse=parse, show=show_size, form=form)


def mode() -> SettingKind:
    """File mode bits, always read as octal: 0660, "0660" and 0o660 are the same."""

    def parse(text: str, where: str) -> int:
        digits = text.strip().removeprefix("0o")
        if not re.fullmatch(r"[0-7]{3,4}", digits):
            raise refuse(where, text, 'is not an octal file mode such as "0660"')
        value = int(digits, 8)
        if value > 0o777:
            raise refuse(where, text, "has bits other than read, write and execute")
        return value

    # Files keep the text of a number, so a plain YAML 0660 arrives here as it was written.
    return SettingKind(
        name="octal file mode",
        accepts=frozenset({"str", "int"}),
        parse=parse,
        show=lambda bits: f"{bits:04o}",
        form={"anyOf": [{"type": "string", "pattern": "^(0o)?0?[0-7]{3}$"}, {"type": "integer", "minimum": 0}]},
    )


def choice(*options: str) -> SettingKind:
    """One word of a few."""

    def parse(text: str, where: str) -> str:
        if text not in options:
            raise refuse(where, text, f"is not one of {', '.join(options)}")
        return text

    form = {"type": "string", "enum": list(options)}
    return SettingKind(name=" or ".join(options), accepts=frozenset({"str"}), parse=parse, form=form)


def uids() -> SettingKind:
    """Numeric user ids, separated by commas; in a file also a list."""

    def parse(text: str, where: str) -> tuple[int, ...]:
        parts = [part.strip() for part in text.split(",")] if text.strip() else []
        for part in parts:
            if not re.fullmatch(r"[0-9]{1,10}", part) or int(part) > _MAX_UID:
                raise refuse(where, part, f"is not a numeric user id, 0 to {_MAX_UID}")
        return tuple(dict.fromkeys(int(part) for part in parts))

    def show(value: tuple[int, ...]) -> str:
        return ",".join(map(str, value))

    one = {"type": "integer", "minimum": 0, "maximum": _MAX_UID}
    form = {"anyOf": [one, {"type": "array", "items": one}, {"type": "string", "pattern": "^[0-9, ]*$"}]}
    return SettingKind(
        name="list of user ids", accepts=frozenset({"str", "int", "list"}), parse=parse, show=show, form=form
    )


def owner() -> SettingKind:
    """`user`, `user:group` or `:group`, names or numbers. Whether they exist is asked when the socket is made."""

    def parse(text: str, where: str) -> str:
        if text and not re.fullmatch(r"[\w.-]*\$?(:[\w.-]+\$?)?", text):
            raise refuse(where, text, 'is not of the form "user", "user:group" or ":group"')
        return text

    return SettingKind(name="user[:group]", accepts=frozenset({"str", "int"}), parse=parse)


def endpoint(*, optional: bool, none: bool = False) -> SettingKind:
    """A unix socket; an optional one may be empty, and with `none` the word none is a value, too."""

    def parse(text: str, where: str) -> str:
        return text if (optional and not text) or (none and text == NONE) else parse_endpoint(text, where)

    others = ("none$|" if none else "") + ("$" if optional else "")
    form = {"type": "string", "pattern": f"^(/|unix:|{others})" if others else "^(/|unix:)"}
    name = "socket path, unix:///path or none" if none else "socket path or unix:///path"
    return SettingKind(name=name, accepts=frozenset({"str"}), parse=parse, form=form)


def directory(*, optional: bool = False) -> SettingKind:
    """An absolute path of a file or directory, which need not exist yet."""

    def parse(text: str, where: str) -> str:
        if optional and not text:
            return ""
        if not text.isprintable():
            raise refuse(where, text, _UNSEEN)
        if not text.startswith("/"):
            raise refuse(where, text, "is not an absolute path")
        return text.rstrip("/") or "/"

    form = {"type": "string", "pattern": "^(/|$)" if optional else "^/"}
    return SettingKind(
        name="absolute path",
        accepts=frozenset({"str"}),
        parse=parse,
        form=form,
        is_relative=lambda text: bool(text) and not text.startswith("/"),
    )


def file_or_none() -> SettingKind:
    """An absolute path, or the word none; empty is none too."""
    path = directory()

    def parse(text: str, where: str) -> str:
        return NONE if text in ("", NONE) else str(path.parse(text, where))

    return SettingKind(
        name="absolute path or none",
        accepts=frozenset({"str"}),
        parse=parse,
        is_relative=lambda text: text != NONE and path.is_relative(text),
    )


def words() -> SettingKind:
    """Words with commas between them."""

    def parse(text: str, where: str) -> tuple[str, ...]:
        found = tuple(word.strip() for word in text.split(",") if word.strip())
        if strange := [word for word in found if not word.isprintable() or " " in word]:
            raise refuse(where, strange[0], "is not a word")
        return found

    return SettingKind(name="words with commas between", accepts=frozenset({"str", "list"}), parse=parse, show=",".join)


def text() -> SettingKind:
    """Any text on one line, as labels and annotations of pods have it."""

    def parse(text: str, where: str) -> str:
        if not text.isprintable():
            raise refuse(where, text, _UNSEEN)
        return text

    # A file's `true` or `1` is the text of a label's value here.
    return SettingKind(name="text", accepts=frozenset({"str", "bool", "int"}), parse=parse)


def listen_or_none() -> SettingKind:
    """A unix socket or a loopback address, or the word none. Kept as text; it is parsed again when it is bound."""

    def parse(text: str, where: str) -> str:
        if text == NONE:
            return text
        parsed = parse_listen(text, where)
        return parsed.path if isinstance(parsed, UnixListen) else text

    return SettingKind(name="socket path, loopback host:port, or none", accepts=frozenset({"str"}), parse=parse)


def socket_or_none() -> SettingKind:
    """A unix socket, or the word none; empty is none too."""

    def parse(text: str, where: str) -> str:
        return NONE if text in ("", NONE) else parse_endpoint(text, where)

    return SettingKind(name="socket path or none", accepts=frozenset({"str"}), parse=parse)


def address(*, optional: bool = False) -> SettingKind:
    """An address that others may reach, such as 0.0.0.0:9090; an optional one may be the word none. Kept as text."""

    def parse(text: str, where: str) -> str:
        if optional and text in ("", NONE):
            return NONE
        parse_address(text, where)
        return text

    name = "host:port or none" if optional else "host:port"
    return SettingKind(name=name, accepts=frozenset({"str"}), parse=parse)


def show_duration(seconds: float) -> str:
    """The shortest way to write a time that `duration` reads back exactly."""
    for unit, factor in (("h", 3600.0), ("m", 60.0)):
        if seconds >= factor and seconds % factor == 0:
            return f"{seconds / factor:g}{unit}"
    if 0 < seconds < 1 and (seconds * 1000).is_integer() and (seconds * 1000) * 0.001 == seconds:
        return f"{seconds * 1000:g}ms"
    if seconds == int(seconds):
        return f"{int(seconds)}s"
    digits = repr(seconds)
    # repr falls back to an exponent for tiny values, which no person writes and `duration` does not read.
    return f"{seconds:.30f}".rstrip("0") + "s" if "e" in digits else f"{digits}s"


def show_size(count: int) -> str:
    """The shortest way to write a size that `size` reads back exactly."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= factor and count % factor == 0:
            return f"{count // factor}{unit}"
    return str(count)


def _number_or(kind: str, lowest: float, highest: float, pattern: str) -> Mapping[str, Any]:
    """A number within its range, or text of which only the form can be checked."""
    number = {"type": kind, "minimum": lowest, "maximum": highest}
    return {"anyOf": [number, {"type": "string", "pattern": pattern}]}


def _split_unit(
    text: str, where: str, units: "dict[str, float] | dict[str, int]", reason: str
) -> "tuple[str, float | int]":
    match = _NUMBER_AND_UNIT.fullmatch(text.strip())
    factor = units.get(match[2].lower()) if match and len(match[1]) <= 40 else None
    if match is None or factor is None:
        raise refuse(where, text, reason)
    return match[1], factor


def _within(value: _N, lowest: _N, highest: _N, show: Callable[[_N], str], text: str, where: str) -> _N:
    if not math.isfinite(value) or not lowest <= value <= highest:
        raise refuse(where, text, f"is out of range: allowed are {show(lowest)} to {show(highest)}")
    return value
