"""JSON as a text to be edited: where the members of objects and arrays are, and what replaces them.

Whoever decodes and encodes a body again loses what he does not know: order, spelling of numbers, keys given twice. Here
values are read to be looked at, and only touched members are written; every other byte stays as it came.

dockerd reads with Go's decoder, which takes keys in any case. A key of ours in another case therefore counts; one that
is there twice is more than anybody can answer for and makes the body unreadable. Pure: whatever the bytes are, nothing
but UnreadableBody is raised.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_BOM: Final = "\ufeff"
# Digits of the longest int64; a longer number is only ever looked at, and not by us.
_DIGITS: Final = 20
# Two letters that are not ASCII are, to Go, another case of ones that are.
_FOLDED: Final = str.maketrans({"\u017f": "s", "\u212a": "k"})
_SHOWN: Final = 80


class UnreadableBody(ValueError):  # noqa: N818 - a fact about the body, which passes on as it came
    """The body is not what it should be; the text says what is wrong with it."""


class Item(NamedTuple):
    """A member of an object, or an element of an array (its key is empty, and starts where the value does)."""

    key: str
    start: int  # of the key
    value_start: int
    end: int
    value: Any


class Container:
    """An object or array: its items in their order, and where it is, brackets included."""

    __slots__ = ("_places", "end", "items", "start")

    def __init__(self, start: int, end: int, items: Sequence[Item] = ()) -> None:
        self.start = start
        self.end = end
        self.items = tuple(items)
        self._places: dict[str, list[int]] | None = None

    def place(self, name: str) -> int | None:
        """Where among the items the member is that Go takes for this field."""
        if self._places is None:
            self._places = {}
            for place, item in enumerate(self.items):
                self._places.setdefault(fold(item.key), []).append(place)
        found = self._places.get(fold(name), ())
        if len(found) > 1:
            raise UnreadableBody(f"the key {name!r} is there {len(found)} times")
        return found[0] if found else None

    def member(self, name: str) -> Item | None:
        """The member Go takes for this field; one whose value is null counts as there."""
        place = self.place(name)
        return None if place is None else self.items[place]

    def entries(self) -> dict[str, Item]:
        """The members by their exact key, as a map of Go has them: of equal ones the last counts."""
        return {item.key: item for item in self.items}


class Splice(NamedTuple):
    """Text to be put in the place of other text."""

    start: int
    end: int
    text: str


def decode(body: bytes) -> str:
    """The text of a body."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise UnreadableBody(f"it is not UTF-8: {error.reason} at byte {error.start}") from None
    if text.startswith(_BOM):
        raise UnreadableBody("it begins with a byte order mark")
    return text


def read_root(text: str) -> Container:
    """The object that is the whole text."""
    start = _skip(text, 0)
    if start == len(text):
        raise UnreadableBody("it is empty")
    found = read_object(text, start, "the body")
    if _skip(text, found.end) != len(text):
        raise UnreadableBody(f"there is something after its end, at {found.end}")
    return found


def read_object(text: str, start: int, what: str) -> Container:
    """The object that starts here."""
    if text[start] != "{":
        raise UnreadableBody(f"{what} is not an object but {excerpt(text[start:])}")
    return _guarded(text, start, "}")


def read_array(text: str, start: int, what: str) -> Container:
    """The array that starts here."""
    if text[start] != "[":
        raise UnreadableBody(f"{what} is not a list but {excerpt(text[start:])}")
    return _guarded(text, start, "]")


def spliced(text: str, splices: Iterable[Splice]) -> str:
    """The text with all replacements; they do not overlap. At one place they come in the order given."""
    out: list[str] = []
    done = 0
    for start, end, new in sorted(splices, key=lambda one: one.start):
        out += (text[done:start], new)
        done = end
    out.append(text[done:])
    return "".join(out)


def change_items(
    within: Container, *, replaced: Mapping[int, str], removed: Iterable[int] = (), added: Sequence[str] = ()
) -> list[Splice]:
    """Edit items by their place: new texts of values, items that go, and texts of whole items for the end."""
    items, gone = within.items, frozenset(removed)
    splices = [Splice(items[place].value_start, items[place].end, new) for place, new in replaced.items()]
    kept = [place for place in range(len(items)) if place not in gone]
    tail = items[kept[-1]].end if kept else within.start + 1
    if added:
        splices.append(Splice(tail, tail, ("," if kept else "") + ",".join(added)))
    for place in gone:
        item = items[place]
        # With what separates it from its neighbour: the one before, for those before the first that stays the next.
        if kept and place > kept[0]:
            splices.append(Splice(items[place - 1].end, item.end, ""))
        elif place + 1 < len(items):
            splices.append(Splice(item.start, items[place + 1].start, ""))
        else:
            splices.append(Splice(item.start, item.end, ""))
    return splices


def quote(text: str) -> str:
    """A string of JSON."""
    return json.dumps(text, ensure_ascii=False)


def whole(text: str) -> str:
    """Text that can be sent again: Go, too, puts a mark where an escape stands for half a character."""
    return _SURROGATE.sub("\ufffd", text)


def fold(key: str) -> str:
    """Equal for keys that Go takes for the same field."""
    return key.translate(_FOLDED).lower()


def excerpt(text: str) -> str:
    """The beginning of a text, for messages."""
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "...")


def _guarded(text: str, start: int, close: str) -> Container:
    try:
        return _read(text, start, close)
    except RecursionError:
        raise UnreadableBody("it is nested too deeply") from None
    except ValueError as error:
        raise UnreadableBody(f"it is not JSON: {error}") from None


def _read(text: str, start: int, close: str) -> Container:
    items: list[Item] = []
    place = _skip(text, start + 1)
    if text[place : place + 1] == close:
        return Container(start, place + 1)
    while True:
        first, key = place, ""
        if close == "}":
            if text[place : place + 1] != '"':
                raise ValueError(f"a key is missing at {place}")
            key, place = _scan(text, place)
            place = _skip(text, place)
            if text[place : place + 1] != ":":
                raise ValueError(f"a colon is missing at {place}")
            place = _skip(text, place + 1)
        value, end = _scan(text, place)
        items.append(Item(key, first, place, end, value))
        place = _skip(text, end)
        mark = text[place : place + 1]
        if mark == close:
            return Container(start, place + 1, items)
        if mark != ",":
            raise ValueError(f"a comma is missing at {place}")
        place = _skip(text, place + 1)


def _skip(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    return found.end() if found else place


def _integer(text: str) -> int | float:
    return int(text) if len(text) <= _DIGITS else float(text)


def _constant(text: str) -> Any:
    raise ValueError(f"{text} is no value")


_scan: Final = json.JSONDecoder(parse_int=_integer, parse_constant=_constant).raw_decode
