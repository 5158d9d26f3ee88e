"""The lines of a journal: a header that names the boot, then one JSON object per change of an entry.

Each line has the whole entry, so the last one of a target and parameter counts. Keys nobody knows are ignored; so are
lines about levels and parameters of a later version. Half a line at the end is what a killed process left, and is none.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from interpose.core.model.cgroup import Level, Parameter, Special, Value
from interpose.hooks.server.targets import ActuatorTarget

VERSION: Final = 1
TargetId = tuple[Level, str]  # level and key

_LEVELS: Final = {str(level): level for level in Level}
_PARAMETERS: Final = {str(parameter): parameter for parameter in Parameter}


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """A value that we set, with the value found before."""

    found: Value | None  # before we touched it; None: nothing of its own
    written: Value  # what we wrote last, or were about to
    plugin: str
    before: Value | None = None  # of our earlier values the one that was there when `written` was on its way
    # Somebody asked for something else together with `written`: as long as `before` is there, this is the original.
    moved: bool = False
    found_before: Value | None = None

    def original(self, *, has_written: bool) -> Value | None:
        """What to go back to, by whether the last value has come to be."""
        return self.found_before if self.moved and not has_written else self.found


@dataclass(slots=True)
class Slot:
    """The entries of a target, and the target as it was when the last one was made."""

    target: ActuatorTarget
    entries: dict[Parameter, JournalEntry] = field(default_factory=dict)


@dataclass(slots=True)
class Content:
    """The entries of a journal file, and its problems."""

    slots: dict[TargetId, Slot] = field(default_factory=dict)
    lines: int = 0  # without the header
    size: int = 0  # up to the end of the last whole line; 0: there is nothing to go on with
    foreign: bool = False  # it is of another boot or version
    damaged: list[str] = field(default_factory=list)  # lines that say nothing


def header_line(boot: str) -> bytes:
    """The first line, with version and boot id."""
    return _encoded({"version": VERSION, "boot": boot})


def line_of(target: ActuatorTarget, parameter: Parameter, entry: JournalEntry) -> bytes:
    """The line that makes or replaces an entry."""
    fields = {
        "level": target.level,
        "key": target.key,
        "parameter": parameter,
        "found": _plain(entry.found),
        "written": _plain(entry.written),
        "before": _plain(entry.before),
        **({"found_before": _plain(entry.found_before)} if entry.moved else {}),
        "plugin": entry.plugin,
        "directory": target.directory,
        "name": target.name,
        "pod_uid": target.pod_uid,
    }
    return _encoded(fields)


def forget_line(level: Level, key: str, parameter: Parameter | None = None) -> bytes:
    """The line that ends an entry, or all entries of a target."""
    return _encoded({"level": level, "key": key, "parameter": parameter, "forget": True})


def parse(data: bytes, boot: str) -> Content:
    """The entries in a file; ValueError if it has no header. A line that is damaged costs its own entry only."""
    *lines, torn = data.split(b"\n")
    if not lines:
        return Content()
    header = _object(lines[0], 1)
    if header.get("version") != VERSION or header.get("boot") != boot:
        return Content(foreign=True)
    content = Content(lines=len(lines) - 1, size=len(data) - len(torn))
    for number, line in enumerate(lines[1:], 2):
        try:
            _replay(content.slots, _object(line, number))
        except KeyError as error:
            content.damaged.append(f"line {number}: {error} is missing")
        except ValueError as error:
            content.damaged.append(str(error) if str(error).startswith("line ") else f"line {number}: {error}")
    return content


def _replay(slots: dict[TargetId, Slot], fields: Mapping[str, Any]) -> None:
    """Apply one line to the entries."""
    level, key, name = _LEVELS.get(_text(fields["level"])), _text(fields["key"]), fields.get("parameter")
    if level is None or (name is not None and _text(name) not in _PARAMETERS):
        return
    if not fields.get("forget"):
        _make(slots, level, key, _PARAMETERS[_text(name)], fields)
    elif name is None:
        slots.pop((level, key), None)
    elif slot := slots.get((level, key)):
        slot.entries.pop(_PARAMETERS[name], None)
        if not slot.entries:
            del slots[level, key]


def _make(slots: dict[TargetId, Slot], level: Level, key: str, parameter: Parameter, fields: Mapping[str, Any]) -> None:
    written = _value(fields["written"])
    if written is None:
        raise ValueError("expected a value that was written, found None")
    target = ActuatorTarget(
        level=level,
        key=key,
        directory=_text(fields.get("directory", "")),
        name=_text(fields.get("name", "")),
        pod_uid=_text(fields.get("pod_uid", "")),
    )
    slot = slots.setdefault((level, key), Slot(target))
    slot.target = target
    slot.entries[parameter] = JournalEntry(
        found=_value(fields["found"]),
        written=written,
        plugin=_text(fields["plugin"]),
        before=_value(fields.get("before")),
        moved="found_before" in fields,
        found_before=_value(fields.get("found_before")),
    )


def _object(line: bytes, number: int) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"line {number}: {error}") from None
    if not isinstance(fields, dict):
        raise ValueError(f"line {number}: expected an object")
    return fields


def _encoded(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def _plain(value: Value | None) -> object:
    """A value as JSON; the words that are not text are objects, so that no text can be taken for them."""
    return {"special": value.value} if isinstance(value, Special) else value


def _value(plain: object) -> Value | None:
    if isinstance(plain, dict):
        return Special(plain["special"])
    if plain is None or (isinstance(plain, int | str) and not isinstance(plain, bool)):
        return plain
    raise ValueError(f"expected a value, found {plain!r}")


def _text(plain: object) -> str:
    if isinstance(plain, str):
        return plain
    raise ValueError(f"expected text, found {plain!r}")
