"""What an answer of a hook server changes: its difference to what was sent, by the rules of `fields`.

Pure. Invariants: an answer counts whole or not at all; a value repeated as it was sent is never judged and never a
change; a missing value is a change only in an echo (docs/adr/0010-telling-an-echo-from-a-partial-answer.md); the same
input gives the same changes in the same order: that of the table, then of the keys.

Every field is looked at as a mapping from keys to values, those without keys having the one key None, so there is one
way to compare and one to write.
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
    FieldKind,
    HookField,
    Key,
    Value,
    fields_of,
    split,
)

_NOTHING_HELD: Mapping[str, Value | None] = MappingProxyType({})
_SHOWN = 80
_MOST_PAGE_SIZES = 16  # no machine has half as many
_MOST_NEW_KEYS = 256  # in one map; bounds the time of a merge


class HookAnswerError(ValueError):
    """An answer that makes no sense; nothing of it counts. The text names path and value."""


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One value that becomes another; None is "not there". Values of environment variables are secrets: do not log."""

    path: str
    before: Value | None
    after: Value | None


@dataclass(frozen=True, slots=True)
class MergeResult:
    """What an answer changes, and in words what it wanted and may not have."""

    changes: tuple[FieldChange, ...] = ()
    refused: tuple[str, ...] = ()


class _Reading(Enum):
    """How much of what is missing in an answer is meant."""

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
    """One field: what was sent, what came back, and which keys the answer says outright to clear."""

    field: HookField
    before: Mapping[Key, Value]
    after: Mapping[Key, Value]
    cleared: Set[Key]

    @property
    def missing(self) -> Set[Key]:
        """Keys that were sent and of which the answer says nothing."""
        return self.before.keys() - self.after.keys() - self.cleared


def merge(
    sent: Any, answer: Any, protected: Set[str] = frozenset(), held: Mapping[str, Value | None] = _NOTHING_HELD
) -> MergeResult:
    """What the answer changes in what was sent, but for protected paths. BadAnswerError if it makes no sense.

    `held` are values in force by path where they differ from what was sent: an answer that says outright to clear such
    a value, or to have it as it was sent, changes it. An echo does not say so: it repeats everything.
    """
    if _says_nothing(sent, answer):
        return _NOTHING
    rows = _rows(sent, answer)
    reading = _reading(rows)
    changes: list[FieldChange] = []
    refused: list[str] = []
    for row in rows:
        if row.before == row.after and not row.cleared and row.field.path not in held:
            continue
        if (said := _said_of_held(row, reading, held)) is not None:
            changes.append(said)
            continue
        for change, key in _changes(row, row.cleared | _gone(row, reading)):
            if row.field.reserved is not None and (key or "").startswith(row.field.reserved):
                refused.append(f"{_printable(change.path)} belongs to the kubelet and stays as it is")
            elif change.path in protected:
                refused.append(f"{_printable(change.path)} belongs to the pod's author and stays as it is")
            else:
                if change.path in held:  # what there is is what is changed
                    change = FieldChange(change.path, held[change.path], change.after)
                changes.append(change)
    return MergeResult(tuple(changes), tuple(refused))


def advance(sent: Any, changes: Iterable[FieldChange]) -> None:
    """Make the changes in the request itself, so that the next hook server sees what the one before it did."""
    rows = fields_of(sent)
    for change in changes:
        path, key = split(change.path)
        field = rows[path]
        if not field.owner:
            write(sent, field, key, change.after)
        elif change.after is not None or sent.HasField(field.owner):
            write(getattr(sent, field.owner), field, key, change.after)


def read(message: Any, field: HookField) -> dict[Key, Value]:
    """The values of a field in the message that has it, by key; what is not set is not in it."""
    held = getattr(message, field.name)
    if field.kind is FieldKind.PAGES:
        return {entry.page_size: entry.limit for entry in held}
    if field.kind.keyed:
        return _plain(held)
    return {None: held} if held else {}


def write(message: Any, field: HookField, key: Key, value: Value | None) -> None:
    """Set one value in the message that has the field, or take it away. An untouched value keeps its place."""
    if not field.kind.keyed:
        if value is None:
            message.ClearField(field.name)
        else:
            setattr(message, field.name, value)
        return
    held = getattr(message, field.name)
    if field.kind is FieldKind.PAGES:
        _write_page(held, key, value)
    elif value is None:
        held.pop(key, None)
    else:
        held[key] = value


def _write_page(held: Any, key: Key, value: Value | None) -> None:
    places = [place for place, entry in enumerate(held) if entry.page_size == key]
    if value is None:
        for place in reversed(places):
            del held[place]
    elif places:
        held[places[-1]].limit = value  # of entries for the same size runtimes keep the last
    else:
        held.add(page_size=key, limit=value)


# ---- Comparing -------------------------------------------------------------------------------------------------------

_NOTHING = MergeResult()


def _parts(fields: Mapping[str, HookField]) -> tuple[tuple[str, bool], ...]:
    """The names of a message that the rows are about, submessages once; with each, whether it is a map."""
    return tuple({field.owner or field.name: not field.owner and field.kind.keyed for field in fields.values()}.items())


_POD_PARTS, _CONTAINER_PARTS = _parts(POD_FIELDS), _parts(CONTAINER_FIELDS)


def _says_nothing(sent: Any, answer: Any) -> bool:
    """Whether the answer is empty, or repeats all that was sent: what most say, and told without a look at each field.

    Submessages are compared whole. One with a field we do not know may differ in that alone; the rows decide then.
    """
    if not answer.ByteSize():
        return True
    if answer.clear:
        return False
    for name, is_map in _CONTAINER_PARTS if fields_of(answer) is CONTAINER_FIELDS else _POD_PARTS:
        before, after = getattr(sent, name), getattr(answer, name)
        if (_plain(before) != _plain(after)) if is_map else before != after:
            return False
    return True


def _plain(held: Any) -> dict[Key, Value]:
    # dict(held) would go through the views of a generic mapping, which is slower.
    return {key: held[key] for key in held}


def _rows(sent: Any, answer: Any) -> list[_Row]:
    """The fields that have something on either side."""
    fields = fields_of(answer)
    cleared = _cleared(fields, answer.clear)
    rows = []
    for path, field in fields.items():
        source = getattr(sent, field.owner) if field.owner else sent
        result = getattr(answer, field.owner) if field.owner else answer
        if field.kind is FieldKind.PAGES:
            _check_pages(field, source, result)
        before = read(source, field)
        after = read(result, field)
        if len(after) > len(before) + _MOST_NEW_KEYS:
            raise HookAnswerError(f"{field.path} has {len(after)} keys where {len(before)} were sent")
        keys: Set[Key] = cleared.get(path, frozenset())
        if field.kind.keyed and None in keys:
            keys = before.keys() | after.keys()
        if before or after or keys:
            rows.append(_Row(field=field, before=before, after=after, cleared=keys))
    return rows


def _cleared(fields: Mapping[str, HookField], paths: Iterable[str]) -> dict[str, set[Key]]:
    """Keys to clear by row. For a row with keys, None stands for all of them."""
    found: dict[str, set[Key]] = {}
    for path in paths:
        try:
            name, key = split(path)
        except ValueError as error:
            raise HookAnswerError(f"clear: {_printable(path)}: {error}") from error
        if name not in fields or (key is not None and not fields[name].kind.keyed):
            raise HookAnswerError(f"clear: {_printable(path)} is not something an answer can change")
        found.setdefault(name, set()).add(key)
    return found


def _check_pages(field: HookField, source: Any, result: Any) -> None:
    """A list can hold a size twice. Repeated as sent that is the caller's business, otherwise nobody knows the wish."""
    named, sent = _by_size(getattr(result, field.name)), _by_size(getattr(source, field.name))
    if len(named) > len(sent) + _MOST_PAGE_SIZES:
        raise HookAnswerError(f"{field.path} has {len(named)} page sizes")
    for size, limits in sorted(named.items()):
        if len(limits) > 1 and limits != sent.get(size):
            raise HookAnswerError(f"{_printable(field.path_of(size))} is there {len(limits)} times")


def _by_size(held: Any) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for entry in held:
        found.setdefault(entry.page_size, []).append(entry.limit)
    return found


def _changes(row: _Row, gone: Set[Key]) -> Iterator[tuple[FieldChange, Key]]:
    for key in sorted(row.after.keys() | (gone & row.before.keys()), key=lambda key: key or ""):
        before, after = row.before.get(key), row.after.get(key)
        path = row.field.path_of(key)
        if before == after:
            # Repeated as sent, which alone is no wish; next to a `clear` it is that of a plugin that copies first.
            if key in gone:
                yield FieldChange(path, before, None), key
            continue
        if after is not None:
            _check(row, path, key, after)
        yield FieldChange(path, before, after), key


def _said_of_held(row: _Row, reading: _Reading, held: Mapping[str, Value | None]) -> FieldChange | None:
    """What an answer says outright of a value in force that was not sent; None if it says nothing, or something new."""
    path = row.field.path
    if path not in held or row.field.kind.keyed or (row.after and row.after != row.before):
        return None
    if row.cleared:
        return FieldChange(path, held[path], None)
    return FieldChange(path, held[path], row.after[None]) if row.after and reading is _Reading.PARTIAL else None


def _check(row: _Row, path: str, key: Key, value: Value) -> None:
    shown = "" if row.field.secret else f" {_printable(value)}"
    if key in row.cleared:
        raise HookAnswerError(f"{_printable(path)} is set to{shown or ' a value'} and cleared in one answer")
    problem = row.field.check(key, value)
    if problem is not None:
        raise HookAnswerError(f"{_printable(path)}:{shown} {problem}")


def _printable(value: Value) -> str:
    """A value as it may stand in a log: short, and without characters that would break a line."""
    text = repr(value)
    if isinstance(value, str) and value.isprintable() and value and " " not in value:
        text = value  # the usual path needs no quotes
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


# ---- Echo or partial -------------------------------------------------------------------------------------------------


def _reading(rows: list[_Row]) -> _Reading:
    """Whether the answer repeats what it was sent, so that what is missing was left out on purpose."""
    values = [row for row in rows if row.field.absence in (Absence.FIRM, Absence.LOOSE)]
    unchanged = [row for row in values if row.before and row.before == row.after]
    missing = [row for row in values if row.missing]
    around = [row for row in rows if row.field.absence is Absence.NOTHING and row.before]
    if around and not any(row.missing for row in around) and len(unchanged) > len(missing):
        return _Reading.STRONG_ECHO
    firm_missing = any(row.field.absence is Absence.FIRM for row in missing)
    firm_unchanged = any(row.field.absence is Absence.FIRM for row in unchanged)
    return _Reading.WEAK_ECHO if firm_unchanged and not firm_missing else _Reading.PARTIAL


def _gone(row: _Row, reading: _Reading) -> Set[Key]:
    """Which missing values of a row are to be cleared."""
    enough = _ENOUGH.get(row.field.absence)
    if enough is None or reading.value < enough.value:
        return frozenset()
    if row.field.kind.keyed and not row.after:
        return frozenset()  # a map that is missing as a whole may be one the plugin was built without
    return row.missing
