"""A request body as an object that is read once, and edits of it: members are set, the rest keeps its bytes. Pure."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from interpose.relay.docker.translate.json_edit import (
    BodyTooLargeToReadError,
    JsonContainer,
    JsonMember,
    Pairs,
    TextSplice,
    UnreadableBodyError,
    append_items,
    change_items,
    decode,
    json_string,
    kind,
    read_container,
    read_root,
    spliced,
    whole,
)

# Bytes. All that Kubernetes knows of a pod has at most 1.5 MB; who reads more holds up everybody else.
MOST: Final = 4 << 20


class EditedBody(NamedTuple):
    """A body after the chain. `without_effect` names what was changed and cannot be said to Docker."""

    body: bytes  # the very same object if nothing is different
    without_effect: tuple[str, ...]


class JsonBody:
    """A body that is an object. To reading, null is as good as nothing there."""

    __slots__ = ("raw", "root", "text")

    def __init__(self, raw: bytes) -> None:
        """Raises UnreadableBody, as all reading here does."""
        if len(raw) > MOST:
            raise BodyTooLargeToReadError(f"it has {len(raw)} bytes, more than the {MOST} that are read")
        self.raw = raw
        self.text = decode(raw)
        self.root = read_root(self.text)

    def value(self, key: str) -> Any:
        item = self.root.member(key)
        return None if item is None else item.value

    def object(self, key: str) -> Pairs | None:
        """An object in the body."""
        value = self.value(key)
        if value is not None and type(value) is not tuple:
            raise UnreadableBodyError(f"{key} is not an object but {kind(value)}")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts."""
        value = self.value(key)
        if value is None:
            return ()
        if type(value) is not list:
            raise UnreadableBodyError(f"{key} is not a list but {kind(value)}")
        return as_texts(value, key)

    def text_map(self, key: str) -> dict[str, str]:
        """A map of texts; of equal keys the last counts, as for Go."""
        found = dict(self.object(key) or ())
        return dict(zip(map(whole, found), as_texts(found.values(), key), strict=True))

    def string(self, key: str) -> str:
        """A text in the body; empty if there is none."""
        return as_text(self.value(key), key)

    def words(self, key: str) -> tuple[str, ...]:
        """A command: a list of texts, or one text."""
        value = self.value(key)
        return (whole(value),) if isinstance(value, str) else self.texts(key)


class JsonBodyEdit:
    """Edits of a body. Keys stay as they are spelt; values are texts of JSON."""

    __slots__ = ("_added", "_body", "_replaced", "_splices")

    def __init__(self, body: JsonBody) -> None:
        self._body = body
        self._splices: list[TextSplice] = []
        self._replaced: dict[int, str] = {}
        self._added: list[str] = []

    def set(self, key: str, value: str) -> None:
        """Give a member this value."""
        place = self._body.root.index_of(key)
        if place is None:
            self._added.append(_member(key, value))
        else:
            self._replaced[place] = value

    def set_fields(self, key: str, values: Mapping[str, str]) -> None:
        """Give members of an object these values. Without an object there will be one."""
        within = self._within(key)
        if within is None:
            self._set_new(key, values)
            return
        replaced: dict[int, str] = {}
        added: list[str] = []
        for name, value in values.items():
            place = within.index_of(name)
            if place is None:
                added.append(_member(name, value))
            else:
                replaced[place] = value
        self._splices += change_items(within, replaced=replaced, added=added)

    def set_entries(self, key: str, values: Mapping[str, str | None]) -> None:
        """The same for a map, whose keys are exact; None takes an entry away, as often as it is there."""
        within = self._within(key)
        if within is None:
            self._set_new(key, {name: value for name, value in values.items() if value is not None})
            return
        names = [whole(item.key) for item in within.items]
        last = {name: place for place, name in enumerate(names)}
        removed = [place for place, name in enumerate(names) if values.get(name, "") is None]
        replaced = {last[name]: value for name, value in values.items() if value is not None and name in last}
        added = [_member(name, value) for name, value in values.items() if value is not None and name not in last]
        self._splices += change_items(within, replaced=replaced, removed=removed, added=added)

    def set_items(self, key: str, *, replaced: Mapping[int, str], removed: Sequence[int], added: Sequence[str]) -> None:
        """Edit an array by places. Without an array there will be one."""
        item = self._item(key)
        if item is None:
            self.set(key, "[" + ",".join(added) + "]")
        elif replaced or removed:
            within = read_container(self._body.text, item.value_start)
            self._splices += change_items(within, replaced=replaced, removed=removed, added=added)
        elif added:
            self._splices.append(append_items(self._body.text, item.value_start, item.end, added))

    def data(self) -> bytes:
        """The body with all edits; the very same object without any."""
        splices = self._splices + change_items(self._body.root, replaced=self._replaced, added=self._added)
        return spliced(self._body.text, splices).encode() if splices else self._body.raw

    def _item(self, key: str) -> JsonMember | None:
        item = self._body.root.member(key)
        return None if item is None or item.value is None else item

    def _within(self, key: str) -> JsonContainer | None:
        item = self._item(key)
        return None if item is None else read_container(self._body.text, item.value_start)

    def _set_new(self, key: str, values: Mapping[str, str]) -> None:
        if values:
            self.set(key, "{" + ",".join(_member(name, value) for name, value in values.items()) + "}")


def as_texts(values: Collection[Any], key: str) -> tuple[str, ...]:
    """Values that have to be texts."""
    if set(map(type, values)) == {str} and all(map(str.isascii, values)):
        return tuple(values)  # there may be thousands
    return tuple([as_text(value, key) for value in values])


def as_text(value: Any, key: str) -> str:
    """A value that has to be a text; Go takes null for an empty one."""
    if type(value) is str:
        return whole(value)
    if value is None:
        return ""
    raise UnreadableBodyError(f"{key} has a value that is not text but {kind(value)}")


def _member(name: str, value: str) -> str:
    return f"{json_string(name)}:{value}"
