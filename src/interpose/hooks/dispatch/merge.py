"""What an answer of a hook server changes: its difference to what was sent, by the rules of `fields`.

Pure. Invariants: an answer counts whole or not at all; a value repeated as it was sent is never checked and never a
change; a missing value is a change only in an echo (docs/adr/0010-telling-an-echo-from-a-partial-answer.md); the same
input gives the same changes in the same order: that of the table, then of the keys.

Every field is read as a mapping from keys to values; a field without keys has the one key None. So there is one
function that compares and one that writes.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any

from interpose.hooks.dispatch.fields import (
    CONTAINER_FIELDS,
    POD_FIELDS,
    Absence,
    HookField,
    HookFieldKind,
    Key,
    Value,
    fields_of,
    split_path,
)

_NONE_IN_FORCE: Mapping[str, Value | None] = MappingProxyType({})
_MAX_SHOWN = 80
_MOST_PAGE_SIZES = 16  # no machine has half as many
_MOST_NEW_KEYS = 256  # in one map; bounds the time of a merge


class HookAnswerError(ValueError):
    """An invalid answer; nothing of it is used. The text names path and value."""


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A changed value; None is "absent". Values of environment variables are secrets: do not log."""

    path: str
    before: Value | None
    after: Value | None


@dataclass(frozen=True, slots=True)
class MergeResult:
    """The changes of an answer, and as texts the changes that are not allowed."""

    changes: tuple[FieldChange, ...] = ()
    refused: tuple[str, ...] = ()


class _Reading(Enum):
    """How an answer is read: which of the values missing in it are to be cleared."""

    PARTIAL = 0
    WEAK_ECHO = 1
    STRONG_ECHO = 2


# From which reading on a missing value is cleared.
_ENOUGH: Mapping[Absence, _Reading] = MappingProxyType(
    {
        Absence.LOOSE: _Reading.WEAK_ECHO,
        Absence.FIRM: _Reading.STRONG_ECHO,
        Absence.KEYED: _Reading.STRONG_ECHO,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """One field: the values sent, the values in the answer, and the keys that the answer clears explicitly."""

    field: HookField
    before: Mapping[Key, Value]
    after: Mapping[Key, Value]
    cleared: Set[Key]

    @property
    def missing(self) -> Set[Key]:
        """Keys that were sent and are neither in the answer nor cleared by it."""
        return self.before.keys() - self.after.keys() - self.cleared


def merge(
    sent: Any, answer: Any, protected: Set[str] = frozenset(), in_force: Mapping[str, Value | None] = _NONE_IN_FORCE
) -> MergeResult:
    """The changes that the answer makes, but for protected paths. HookAnswerError if it is invalid.

    `in_force` are values in force by path where they differ from what was sent: an answer that explicitly clears such a
    value, or has it as it was sent, changes it. An echo does not: it repeats everything.
    """
    if _changes_nothing(sent, answer):
        return _NOTHING
    rows = _rows(sent, answer)
    reading = _reading(rows)
    changes: list[FieldChange] = []
    refused: list[str] = []
    for row in rows:
        if row.before == row.after and not row.cleared and row.field.path not in in_force:
            continue
        if (explicit := _explicit_change(row, reading, in_force)) is not None:
            changes.append(explicit)
            continue
        for change, key in _changes(row, row.cleared | _cleared_by_echo(row, reading)):
            if row.field.reserved is not None and (key or "").startswith(row.field.reserved):
                refused.append(f"{_printable(change.path)} belongs to the kubelet and stays as it is")
            elif change.path in protected:
                refused.append(f"{_printable(change.path)} belongs to the pod's author and stays as it is")
            else:
                if change.path in in_force:  # the value in force is the one that changes
                    change = FieldChange(change.path, in_force[change.path], change.after)
                changes.append(change)
    return MergeResult(tuple(changes), tuple(refused))


def apply_changes(sent: Any, changes: Iterable[FieldChange]) -> None:
    """Make the changes in the request itself, so that the next hook server sees them."""
    rows = fields_of(sent)
    for change in changes:
        path, key = split_path(change.path)
        field = rows[path]
        if not field.owner:
            write(sent, field, key, change.after)
        elif change.after is not None or sent.HasField(field.owner):
            write(getattr(sent, field.owner), field, key, change.after)


def read(message: Any, field: HookField) -> dict[Key, Value]:
    """The values of a field in its message, by key; unset ones are absent."""
    values = getattr(message, field.name)
    if field.kind is HookFieldKind.PAGES:
        return {entry.page_size: entry.limit for entry in values}
    if field.kind.is_keyed:
        return _to_dict(values)
    return {None: values} if values else {}


def write(message: Any, field: HookField, key: Key, value: Value | None) -> None:
    """Set or remove one value in the message that has the field. Other values keep their order."""
    if not field.kind.is_keyed:
        if value is None:
            message.ClearField(field.name)
        else:
            setattr(message, field.name, value)
        return
    values = getattr(message, field.name)
    if field.kind is HookFieldKind.PAGES:
        _write_page(values, key, value)
    elif value is None:
        values.pop(key, None)
    else:
        values[key] = value


def _write_page(entries: Any, key: Key, value: Value | None) -> None:
    positions = [position for position, entry in enumerate(entries) if entry.page_size == key]
    if value is None:
        for position in reversed(positions):
            del entries[position]
    elif positions:
        entries[positions[-1]].limit = value  # of entries for the same size runtimes keep the last
    else:
        entries.add(page_size=key, limit=value)


# ---- Comparing -------------------------------------------------------------------------------------------------------

_NOTHING = MergeResult()


def _parts(fields: Mapping[str, HookField]) -> tuple[tuple[str, bool], ...]:
    """The fields of a message that have rows, submessages once; with each, whether it is a map."""
    return tuple(
        {field.owner or field.name: not field.owner and field.kind.is_keyed for field in fields.values()}.items()
    )


_POD_PARTS, _CONTAINER_PARTS = _parts(POD_FIELDS), _parts(CONTAINER_FIELDS)


def _changes_nothing(sent: Any, answer: Any) -> bool:
    """Whether the answer is empty or repeats all that was sent: most do, and this check is faster than the rows.

    Submessages are compared as a whole. Those that differ in an unknown field only are left to the rows.
    """
    if not answer.ByteSize():
        return True
    if answer.clear:
        return False
    for name, is_map in _CONTAINER_PARTS if fields_of(answer) is CONTAINER_FIELDS else _POD_PARTS:
        before, after = getattr(sent, name), getattr(answer, name)
        if (_to_dict(before) != _to_dict(after)) if is_map else before != after:
            return False
    return True


def _to_dict(values: Any) -> dict[Key, Value]:
    # dict(values) would go through the views of a generic mapping, which is slower.
    return {key: values[key] for key in values}


def _rows(sent: Any, answer: Any) -> list[_Row]:
    """The fields that have something on either side."""
    fields = fields_of(answer)
    cleared = _cleared(fields, answer.clear)
    rows = []
    for path, field in fields.items():
        source = getattr(sent, field.owner) if field.owner else sent
        result = getattr(answer, field.owner) if field.owner else answer
        if field.kind is HookFieldKind.PAGES:
            _check_pages(field, source, result)
        before = read(source, field)
        after = read(result, field)
        if len(after) > len(before) + _MOST_NEW_KEYS:
            raise HookAnswerError(f"{field.path} has {len(after)} keys where {len(before)} were sent")
        keys: Set[Key] = cleared.get(path, frozenset())
        if field.kind.is_keyed and None in keys:
            keys = before.keys() | after.keys()
        if before or after or keys:
            rows.append(_Row(field=field, before=before, after=after, cleared=keys))
    return rows


def _cleared(fields: Mapping[str, HookField], paths: Iterable[str]) -> dict[str, set[Key]]:
    """Keys to clear by row. For a row with keys, None stands for all of them."""
    found: dict[str, set[Key]] = {}
    for path in paths:
        try:
            name, key = split_path(path)
        except ValueError as error:
            raise HookAnswerError(f"clear: {_printable(path)}: {error}") from error
        if name not in fields or (key is not None and not fields[name].kind.is_keyed):
            raise HookAnswerError(f"clear: {_printable(path)} is not something an answer can change")
        found.setdefault(name, set()).add(key)
    return found


def _check_pages(field: HookField, source: Any, result: Any) -> None:
    """HookAnswerError for a page size that is listed twice, unless it was sent like that: it would be ambiguous."""
    named, sent = _limits_by_size(getattr(result, field.name)), _limits_by_size(getattr(source, field.name))
    if len(named) > len(sent) + _MOST_PAGE_SIZES:
        raise HookAnswerError(f"{field.path} has {len(named)} page sizes")
    for size, limits in sorted(named.items()):
        if len(limits) > 1 and limits != sent.get(size):
            raise HookAnswerError(f"{_printable(field.path_of(size))} is there {len(limits)} times")


def _limits_by_size(entries: Any) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for entry in entries:
        found.setdefault(entry.page_size, []).append(entry.limit)
    return found


def _changes(row: _Row, cleared: Set[Key]) -> Iterator[tuple[FieldChange, Key]]:
    for key in sorted(row.after.keys() | (cleared & row.before.keys()), key=lambda key: key or ""):
        before, after = row.before.get(key), row.after.get(key)
        path = row.field.path_of(key)
        if before == after:
            # Repeated as sent, which alone means nothing; a plugin that copies the request and clears a value does it.
            if key in cleared:
                yield FieldChange(path, before, None), key
            continue
        if after is not None:
            _check(row, path, key, after)
        yield FieldChange(path, before, after), key


def _explicit_change(row: _Row, reading: _Reading, in_force: Mapping[str, Value | None]) -> FieldChange | None:
    """The change that an answer explicitly makes to a value in force that was not sent; None without one."""
    path = row.field.path
    if path not in in_force or row.field.kind.is_keyed or (row.after and row.after != row.before):
        return None
    if row.cleared:
        return FieldChange(path, in_force[path], None)
    return FieldChange(path, in_force[path], row.after[None]) if row.after and reading is _Reading.PARTIAL else None


def _check(row: _Row, path: str, key: Key, value: Value) -> None:
    value_text = "" if row.field.secret else f" {_printable(value)}"
    if key in row.cleared:
        raise HookAnswerError(f"{_printable(path)} is set to{value_text or ' a value'} and cleared in one answer")
    problem = row.field.check(key, value)
    if problem is not None:
        raise HookAnswerError(f"{_printable(path)}:{value_text} {problem}")


def _printable(value: Value) -> str:
    """A value for the log: short, and without characters that would break a line."""
    text = repr(value)
    if isinstance(value, str) and value.isprintable() and value and " " not in value:
        text = value  # the usual path needs no quotes
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 3] + "..."


# ---- Echo or partial -------------------------------------------------------------------------------------------------


def _reading(rows: list[_Row]) -> _Reading:
    """Whether the answer is an echo of the request, so that missing values were left out on purpose."""
    values = [row for row in rows if row.field.absence in (Absence.FIRM, Absence.LOOSE)]
    unchanged = [row for row in values if row.before and row.before == row.after]
    missing = [row for row in values if row.missing]
    around = [row for row in rows if row.field.absence is Absence.NOTHING and row.before]
    if around and not any(row.missing for row in around) and len(unchanged) > len(missing):
        return _Reading.STRONG_ECHO
    firm_missing = any(row.field.absence is Absence.FIRM for row in missing)
    firm_unchanged = any(row.field.absence is Absence.FIRM for row in unchanged)
    return _Reading.WEAK_ECHO if firm_unchanged and not firm_missing else _Reading.PARTIAL


def _cleared_by_echo(row: _Row, reading: _Reading) -> Set[Key]:
    """The keys of missing values of a row that are to be cleared."""
    enough = _ENOUGH.get(row.field.absence)
    if enough is None or reading.value < enough.value:
        return frozenset()
    if row.field.kind.is_keyed and not row.after:
        return frozenset()  # a map that is missing as a whole may be one the plugin was built without
    return row.missing
