"""In what two configurations differ, and how that is printed. Pure.

Each is one or more objects, and each object has values by key. Objects are never mixed up: a key of one is compared
with the same key of the object that stands for the same thing on the other side, and with nothing if there is none.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from interpose.cli.config.reading import DocumentPart
from interpose.config.effective import SettingRow
from interpose.core.model.text import printable

_NOTHING: Final = SettingRow("", "", "")


class Side(NamedTuple):
    """One of the two configurations that are compared."""

    name: str
    parts: Sequence[DocumentPart]


class Difference(NamedTuple):
    """A key with different values on the two sides; None where a side has no value."""

    key: str
    left: SettingRow | None
    right: SettingRow | None


def find_differences(left: Side, right: Side) -> list[Difference]:
    """In the order of the left side, then what only the right one has."""
    pairs = list(_pair_parts(left.parts, right.parts))
    found: list[Difference] = []
    for title, *sides in pairs:
        before, after = ({} if part is None else {row.key: row for row in part.rows} for part in sides)
        prefix = f"{title}: " if title and len(pairs) > 1 else ""
        keys = dict.fromkeys((*before, *after))
        found += [Difference(f"{prefix}{key}", before.get(key), after.get(key)) for key in keys]
    return [item for item in found if (item.left or _NOTHING).value != (item.right or _NOTHING).value]


def _pair_parts(
    left: Sequence[DocumentPart], right: Sequence[DocumentPart]
) -> Iterator[tuple[str, DocumentPart | None, DocumentPart | None]]:
    """Title and both sides of each comparison: one object of a family with one, whatever their titles are, and of
    several those of the same title."""
    for family in dict.fromkeys(part.family for part in (*left, *right)):
        before, after = ({part.title: part for part in parts if part.family == family} for parts in (left, right))
        if len(before) == len(after) == 1:
            ((title, first), (other, second)) = (*before.items(), *after.items())
            yield title or other, first, second
        else:
            for title in dict.fromkeys((*before, *after)):
                yield title, before.get(title), after.get(title)


def render_differences(found: Sequence[Difference], left: Side, right: Side) -> str:
    """The differences as text, in the form of diff(1)."""
    if not found:
        return printable(f"no difference between {left.name} and {right.name}")
    lines = [f"--- {left.name}", f"+++ {right.name}"]
    for difference in found:
        rows = (("-", difference.left), ("+", difference.right))
        lines += [difference.key, *(f"  {mark} {_format_row(row)}" for mark, row in rows)]
    return "\n".join(map(printable, lines))


def _format_row(row: SettingRow | None) -> str:
    return "nothing" if row is None else f"{row.value or chr(34) * 2}  ({row.origin})"


def differences_json(found: Sequence[Difference]) -> list[Mapping[str, Any]]:
    """The differences as values for JSON output."""
    return [{"key": item.key, "left": _values(item.left), "right": _values(item.right)} for item in found]


def _values(row: SettingRow | None) -> Mapping[str, str] | None:
    return None if row is None else {"value": row.value, "origin": row.origin}
