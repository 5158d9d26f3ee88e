"""A group of keys of a document, read key by key: who asks says what it should be. Pure.

Keys nobody asks for are left alone. Invariant: no message shows a value, since it may be a secret.
"""

import base64
import json
import posixpath
from typing import Any, Final, NoReturn

from interpose.config.documents.yaml import TAG_NAMES, Node
from interpose.errors import ConfigError
from interpose.net.http.tls import Pem

_TRUE: Final = ("true", "yes", "on")


class Section:
    """A group of keys of a file. `where` names the file, `label` the part of it, in every message."""

    def __init__(self, node: Node, *, where: str, folder: str, label: str = "") -> None:
        self._node = node
        self._where = where
        self._folder = folder
        self._label = label
        if node.tag != "map":
            self.fail("", f"expected a group of keys, found {TAG_NAMES[node.tag]}")

    def fail(self, key: str, text: str) -> NoReturn:
        """ConfigError that names file, line, part and key."""
        node = self._find(key) or self._node
        line = f" line {node.line}" if node.line else ""
        parts = [part for part in (self._label, key) if part]
        raise ConfigError(": ".join((f"{self._where}{line}", *parts, text)))

    def _find(self, key: str) -> Node | None:
        return next((node for name, node in self._node.entries if name == key and node.tag != "null"), None)

    def node(self, key: str) -> Node | None:
        """The value of a key, if it has one."""
        if sum(name == key for name, _node in self._node.entries) > 1:
            self.fail(key, "appears more than once")
        return self._find(key)

    def text(self, key: str) -> str:
        """A text; empty if there is none. What is found instead is not shown, it may be a secret."""
        node = self.node(key)
        if node is None:
            return ""
        if node.tag != "str":
            self.fail(key, f"expected text, found {TAG_NAMES[node.tag]}; quotes make it text")
        return node.text

    def needed(self, key: str) -> str:
        """A text that has to be there."""
        return self.text(key) or self.fail(key, "is missing")

    def flag(self, key: str) -> bool:
        """True or false; false if it is not there."""
        node = self.node(key)
        if node is None:
            return False
        if node.tag != "bool":
            self.fail(key, f"expected true or false, found {TAG_NAMES[node.tag]}")
        return node.text.lower() in _TRUE

    def path(self, key: str) -> str:
        """A file; a relative one is below the folder of the kubeconfig."""
        path = self.text(key)
        return posixpath.normpath(posixpath.join(self._folder, path)) if path else ""

    def command(self, key: str) -> str:
        """A program; one without a slash is looked for in PATH."""
        return self.path(key) if "/" in self.needed(key) else self.text(key)

    def pem(self, key: str, mark: str) -> Pem:
        """The file of a key, or the text of its sister `<key>-data`, which counts more."""
        data_key = f"{key}-data"
        data = "".join(self.text(data_key).split())
        if not data:
            return Pem(file=self.path(key))
        try:
            text = base64.b64decode(data, validate=True).decode()
        except ValueError:
            self.fail(data_key, "is not base64 of a PEM text")
        if mark not in text:
            self.fail(data_key, f"is base64 of something without {mark!r}")
        return Pem(text=text)

    def section(self, key: str) -> "Section | None":
        """A group of keys inside this one."""
        node = self.node(key)
        return self._inner(node, key) if node is not None else None

    def sections(self, key: str) -> "list[Section]":
        """A list of groups of keys."""
        return [self._inner(node, f"{key}[{index}]") for index, node in enumerate(self._items(key))]

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts."""
        items = self._items(key)
        if any(item.tag != "str" for item in items):
            self.fail(key, "expected a list of texts; quotes make it text")
        return tuple(item.text for item in items)

    def called(self, label: str) -> "Section":
        """The same under another name in messages."""
        return Section(self._node, where=self._where, folder=self._folder, label=label)

    def _items(self, key: str) -> tuple[Node, ...]:
        node = self.node(key)
        if node is not None and node.tag != "list":
            self.fail(key, f"expected a list, found {TAG_NAMES[node.tag]}")
        return node.items if node is not None else ()

    def _inner(self, node: Node, key: str) -> "Section":
        label = f"{self._label}: {key}" if self._label else key
        return Section(node, where=self._where, folder=self._folder, label=label)


def plain(node: Node) -> Any:
    """A value as JSON has it."""
    if node.tag == "map":
        return {key: plain(value) for key, value in node.entries}
    if node.tag == "list":
        return [plain(item) for item in node.items]
    if node.tag == "bool":
        return node.text.lower() in _TRUE
    if node.tag == "null":
        return None
    if node.tag in ("int", "float"):
        try:
            return json.loads(node.text)
        except ValueError:
            return node.text  # a spelling of numbers that JSON does not have
    return node.text
