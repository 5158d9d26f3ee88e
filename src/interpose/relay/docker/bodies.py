"""Editing a request body: members of its object and of objects in it are set, and the rest keeps its bytes. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from interpose.relay.docker.jsontext import (
    Container,
    Item,
    Splice,
    UnreadableBody,
    change_items,
    decode,
    excerpt,
    quote,
    read_array,
    read_object,
    read_root,
    spliced,
    whole,
)


class Edited(NamedTuple):
    """A body after the chain. `without_effect` names what was changed and cannot be said to Docker."""

    body: bytes  # the very same object if nothing is different
    without_effect: tuple[str, ...]


class Body:
    """A body that is an object, and the edits of it."""

    __slots__ = ("_added", "_raw", "_replaced", "_splices", "root", "text")

    def __init__(self, raw: bytes) -> None:
        """Raises UnreadableBody, as all reading here does."""
        self._raw = raw
        self.text = decode(raw)
        self.root = read_root(self.text)
        self._splices: list[Splice] = []
        self._replaced: dict[int, str] = {}
        self._added: list[str] = []

    # -- reading; null is as good as nothing there

    def object(self, key: str) -> Container | None:
        """An object in the body."""
        item = self._member(key)
        return None if item is None else read_object(self.text, item.value_start, key)

    def array(self, key: str) -> Container | None:
        """An array in the body."""
        item = self._member(key)
        return None if item is None else read_array(self.text, item.value_start, key)

    def string(self, key: str) -> str:
        """A text in the body; empty if there is none."""
        item = self._member(key)
        return "" if item is None else as_text(item.value, key)

    def words(self, key: str) -> list[str]:
        """A command: a list of texts, or one text."""
        item = self._member(key)
        if item is None:
            return []
        if isinstance(item.value, str):
            return [whole(item.value)]
        return [as_text(one.value, key) for one in read_array(self.text, item.value_start, key).items]

    def _member(self, key: str) -> Item | None:
        item = self.root.member(key)
        return None if item is None or item.value is None else item

    # -- writing; keys stay as they are spelt

    def set(self, key: str, value: str) -> None:
        """Give a member this text of JSON."""
        place = self.root.place(key)
        if place is None:
            self._added.append(f"{quote(key)}:{value}")
        else:
            self._replaced[place] = value

    def set_fields(self, key: str, within: Container | None, values: Mapping[str, str]) -> None:
        """Give members of an object these texts. Without an object there will be one."""
        if within is None:
            self._set_new(key, values)
            return
        replaced: dict[int, str] = {}
        added: list[str] = []
        for name, value in values.items():
            place = within.place(name)
            if place is None:
                added.append(f"{quote(name)}:{value}")
            else:
                replaced[place] = value
        self._splices += change_items(within, replaced=replaced, added=added)

    def set_entries(self, key: str, within: Container | None, values: Mapping[str, str | None]) -> None:
        """The same for a map, whose keys are exact; None takes an entry away, as often as it is there."""
        if within is None:
            self._set_new(key, {name: value for name, value in values.items() if value is not None})
            return
        last = {item.key: place for place, item in enumerate(within.items)}
        removed = [place for place, item in enumerate(within.items) if values.get(item.key, "") is None]
        replaced = {last[name]: value for name, value in values.items() if value is not None and name in last}
        added = [f"{quote(name)}:{value}" for name, value in values.items() if value is not None and name not in last]
        self._splices += change_items(within, replaced=replaced, removed=removed, added=added)

    def set_items(
        self, within: Container, *, replaced: Mapping[int, str], removed: Sequence[int], added: Sequence[str]
    ) -> None:
        """Edit an array by places."""
        self._splices += change_items(within, replaced=replaced, removed=removed, added=added)

    def _set_new(self, key: str, values: Mapping[str, str]) -> None:
        if values:
            self.set(key, "{" + ",".join(f"{quote(name)}:{value}" for name, value in values.items()) + "}")

    def data(self) -> bytes:
        """The body with all edits."""
        splices = self._splices + change_items(self.root, replaced=self._replaced, added=self._added)
        return spliced(self.text, splices).encode() if splices else self._raw


def as_text(value: Any, key: str) -> str:
    """A value that has to be a text; Go takes null for an empty one."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UnreadableBody(f"{key} has a value that is no text: {excerpt(str(value))}")
    return whole(value)
