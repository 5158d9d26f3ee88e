"""JSON as a text to be edited: where the members of objects and arrays are, and what replaces them.

Decoding and encoding a body again would lose what is not modelled: order, spelling of numbers, keys given twice. Here
values are read to be looked at, and only touched members are written; every other byte stays as it came. Places are
found for the members of one object or array at a time; what is inside of them is read in one go. So an object in a
value is the tuple of its pairs, in their order, and an array is a list.

dockerd reads with Go's decoder, which takes keys in any case. A key of ours in another case therefore counts; one that
is there twice is more than anybody can answer for and makes the body unreadable. Pure: whatever the bytes are, nothing
but UnreadableBody is raised. Its text never has anything of the body in it, since secrets are in bodies.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

_WHITE: Final = " \t\n\r"
_SPACE: Final = re.compile(f"[{_WHITE}]*")
_COLON: Final = re.compile(f"[{_WHITE}]*:[{_WHITE}]*")
_COMMA: Final = re.compile(f"[{_WHITE}]*,[{_WHITE}]*")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_BOM: Final = "\ufeff"
# Two letters that are not ASCII are, to Go, another case of ones that are.
_FOLDED: Final = str.maketrans({"\u017f": "s", "\u212a": "k"})
# Of a whole body. Docker knows about a hundred; it takes long to find out where each of many more is.
_MOST_MEMBERS: Final = 1000
_KINDS: Final[Mapping[type, str]] = {
    tuple: "an object",
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a number",
    float: "a number with a point or an exponent",
    bool: "true or false",
}

Pairs = tuple[tuple[str, Any], ...]


class UnreadableBodyError(ValueError):
    """The body is not what it should be; the text says what is wrong with it."""


class BodyTooLargeToReadError(UnreadableBodyError):
    """The body is larger than anybody should be made to read."""


class JsonMember(NamedTuple):
    """A member of an object, or an element of an array (its key is empty, and starts where the value does)."""

    key: str
    start: int  # of the key
    value_start: int
    end: int
    value: Any


class MemberIndex:
    """Which of the keys of an object Go takes for a field."""

    __slots__ = ("_places", "_times")

    def __init__(self, keys: Iterable[str]) -> None:
        folded = [fold(key) for key in keys]
        self._places = dict(zip(folded, range(len(folded)), strict=True))
        self._times = Counter(folded) if len(self._places) < len(folded) else {}

    def index_of(self, name: str) -> int | None:
        """Where among the keys it is."""
        key = fold(name)
        if (times := self._times.get(key, 1)) > 1:
            raise UnreadableBodyError(f"the key {name!r} is there {times} times")
        return self._places.get(key)


class JsonContainer:
    """An object or array: its items in their order, and where it is, brackets included."""

    __slots__ = ("_fields", "end", "items", "start")

    def __init__(self, start: int, end: int, items: Sequence[JsonMember] = ()) -> None:
        self.start = start
        self.end = end
        self.items = items
        self._fields: MemberIndex | None = None

    def index_of(self, name: str) -> int | None:
        """Where among the items the member is that Go takes for this field."""
        if self._fields is None:
            self._fields = MemberIndex(item.key for item in self.items)
        return self._fields.index_of(name)

    def member(self, name: str) -> JsonMember | None:
        """The member Go takes for this field; one whose value is null counts as there."""
        place = self.index_of(name)
        return None if place is None else self.items[place]


class TextSplice(NamedTuple):
    """Text to be put in the place of other text."""

    start: int
    end: int
    text: str


def decode(body: bytes) -> str:
    """The text of a body."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise UnreadableBodyError(f"it is not UTF-8: {error.reason} at byte {error.start}") from None
    if text.startswith(_BOM):
        raise UnreadableBodyError("it begins with a byte order mark")
    return text


def read_root(text: str) -> JsonContainer:
    """The object that is the whole text."""
    start = _skip(text, 0)
    if start == len(text):
        raise UnreadableBodyError("it is empty")
    if text[start] != "{":
        raise UnreadableBodyError("it is not an object")
    found = read_container(text, start, _MOST_MEMBERS)
    if _skip(text, found.end) != len(text):
        raise UnreadableBodyError(f"there is something after its end, at {found.end}")
    return found


def read_container(text: str, start: int, most: int = sys.maxsize) -> JsonContainer:
    """The object or array that starts here. An object may have so many members."""
    try:
        return _read_members(text, start, most) if text[start] == "{" else _read_elements(text, start)
    except RecursionError:
        raise UnreadableBodyError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise UnreadableBodyError(f"it is not JSON: {error}") from None
    except UnreadableBodyError:
        raise
    except ValueError:
        raise UnreadableBodyError("a number in it is too long") from None


def spliced(text: str, splices: Iterable[TextSplice]) -> str:
    """The text with all replacements; they do not overlap. At one place they come in the order given."""
    out: list[str] = []
    done = 0
    for start, end, new in sorted(splices, key=lambda one: one.start):
        out += (text[done:start], new)
        done = end
    out.append(text[done:])
    return "".join(out)


def change_items(
    within: JsonContainer, *, replaced: Mapping[int, str], removed: Iterable[int] = (), added: Sequence[str] = ()
) -> list[TextSplice]:
    """Edit items by their place: new texts of values, items that go, and texts of whole items for the end."""
    items, gone = within.items, frozenset(removed)
    splices = [TextSplice(items[place].value_start, items[place].end, new) for place, new in replaced.items()]
    first = next((place for place in range(len(items)) if place not in gone), None)
    last = next((place for place in range(len(items) - 1, -1, -1) if place not in gone), None)
    if added:
        tail = within.start + 1 if last is None else items[last].end
        splices.append(TextSplice(tail, tail, ("" if last is None else ",") + ",".join(added)))
    for place in gone:
        item = items[place]
        # With what separates it from its neighbour: the one before, for those before the first that stays the next.
        if first is not None and place > first:
            splices.append(TextSplice(items[place - 1].end, item.end, ""))
        elif place + 1 < len(items):
            splices.append(TextSplice(item.start, items[place + 1].start, ""))
        else:
            splices.append(TextSplice(item.start, item.end, ""))
    return splices


def append_items(text: str, start: int, end: int, added: Sequence[str]) -> TextSplice:
    """Texts of whole items for the end of an object or array, of which only the position is known."""
    held = text[start + 1 : end - 1].rstrip(_WHITE)
    tail = start + 1 + len(held)
    return TextSplice(tail, tail, ("," if held else "") + ",".join(added))


def json_string(text: str) -> str:
    """A string of JSON."""
    return json.dumps(text, ensure_ascii=False)


def whole(text: str) -> str:
    """Text that can be sent again: Go, too, puts a mark where an escape stands for half a character."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def fold(key: str) -> str:
    """Equal for keys that Go takes for the same field."""
    return key.lower() if key.isascii() else key.translate(_FOLDED).lower()


def kind(value: object) -> str:
    """What a value is, for messages: they must not say more of it."""
    return _KINDS.get(type(value), "null")


def _read_members(text: str, start: int, most: int) -> JsonContainer:
    place = _skip(text, start + 1)
    if text[place : place + 1] == "}":
        return JsonContainer(start, place + 1)
    items: list[JsonMember] = []
    while True:
        if text[place : place + 1] != '"':
            raise UnreadableBodyError(f"it is not JSON: a key is missing at {place}")
        key, end = _scan(text, place)
        colon = _COLON.match(text, end)
        if colon is None:
            raise UnreadableBodyError(f"it is not JSON: a colon is missing at {end}")
        begin = colon.end()
        value, end = _scan(text, begin)
        items.append(JsonMember(key, place, begin, end, value))
        if len(items) > most:
            raise UnreadableBodyError(f"it has more than {most} members")
        comma = _COMMA.match(text, end)
        if comma is None:
            return JsonContainer(start, _closed(text, end, "}"), items)
        place = comma.end()


def _read_elements(text: str, start: int) -> JsonContainer:
    place = _skip(text, start + 1)
    if text[place : place + 1] == "]":
        return JsonContainer(start, place + 1)
    items: list[JsonMember] = []
    while True:
        value, end = _scan(text, place)
        items.append(JsonMember("", place, place, end, value))
        comma = _COMMA.match(text, end)
        if comma is None:
            return JsonContainer(start, _closed(text, end, "]"), items)
        place = comma.end()


def _closed(text: str, place: int, mark: str) -> int:
    """The place after the closing bracket, which has to come now."""
    place = _skip(text, place)
    if text[place : place + 1] != mark:
        raise UnreadableBodyError(f"it is not JSON: a comma is missing at {place}")
    return place + 1


def _skip(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    return found.end() if found else place


def _constant(text: str) -> Any:
    raise UnreadableBodyError(f"it is not JSON: {text} is not a value")


_scan: Final = json.JSONDecoder(object_pairs_hook=tuple, parse_constant=_constant).raw_decode
