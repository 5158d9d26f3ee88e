"""In what two configurations differ, and how that is written down. Pure.

Each is one or more objects, and each object says something by key. Objects are never mixed up: a key of one is compared
with the same key of the object that stands for the same thing on the other side, and with nothing if there is none.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from interpose.cli.config.reading import DocumentPart
from interpose.config.effective import SettingRow
from interpose.core.model.text import printable

_NOTHING: Final = SettingRow("", "", "")


class Side(NamedTuple):
    """One of the two."""

    name: str
    parts: Sequence[DocumentPart]


class Difference(NamedTuple):
    """A key of which the two say something else; None where one says nothing."""

    key: str
    left: SettingRow | None
    right: SettingRow | None


def differences(left: Side, right: Side) -> list[Difference]:
    """In the order of the left side, then what only the right one has."""
    pairs = list(_pairs(left.parts, right.parts))
    found: list[Difference] = []
    for title, *sides in pairs:
        before, after = ({} if one is None else {row.key: row for row in one.rows} for one in sides)
        prefix = f"{title}: " if title and len(pairs) > 1 else ""
        keys = dict.fromkeys((*before, *after))
        found += [Difference(f"{prefix}{key}", before.get(key), after.get(key)) for key in keys]
    return [one for one in found if (one.left or _NOTHING).value != (one.right or _NOTHING).value]


def _pairs(
    left: Sequence[DocumentPart], right: Sequence[DocumentPart]
) -> Iterator[tuple[str, DocumentPart | None, DocumentPart | None]]:
    """What is compared with what, and how it is called: one object of a family with one, whatever their titles are, and
    of more those of the same title."""
    for family in dict.fromkeys(part.family for part in (*left, *right)):
        before, after = ({part.title: part for part in parts if part.family == family} for parts in (left, right))
        if len(before) == len(after) == 1:
            ((title, one), (other, two)) = (*before.items(), *after.items())
            yield title or other, one, two
        else:
            for title in dict.fromkeys((*before, *after)):
                yield title, before.get(title), after.get(title)


def text_of(found: Sequence[Difference], left: Side, right: Side) -> str:
    """For people."""
    if not found:
        return printable(f"no difference between {left.name} and {right.name}")
    lines = [f"--- {left.name}", f"+++ {right.name}"]
    for one in found:
        lines.append(one.key)
        lines += [f"  {mark} {_said(row)}" for mark, row in (("-", one.left), ("+", one.right))]
    return "\n".join(map(printable, lines))


def _said(row: SettingRow | None) -> str:
    return "nothing" if row is None else f"{row.value or chr(34) * 2}  ({row.origin})"


def plain(found: Sequence[Difference]) -> list[Mapping[str, Any]]:
    """For JSON."""
    return [{"key": one.key, "left": _values(one.left), "right": _values(one.right)} for one in found]


def _values(row: SettingRow | None) -> Mapping[str, str] | None:
    return None if row is None else {"value": row.value, "origin": row.origin}
