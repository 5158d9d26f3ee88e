"""ConfigMaps and Secrets that stand beside pods, and what a pod takes out of them. Pure.

What a pod takes is remembered: it is part of what the pod is, and another value makes it another pod.
"""

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from interpose.config.documents.fields import FieldGroup, FlagField, Items, Report, Text, Texts
from interpose.config.documents.objects import Found
from interpose.config.documents.yaml import DocumentNode
from interpose.core.model.text import quoted
from interpose.node.pods.manifest.kinds import IGNORED, NOT_SUPPORTED, RELATIVE, SUBDOMAIN, FileMode, choice
from interpose.node.pods.spec import FileItem

CONFIG_MAP: Final = "ConfigMap"
SECRET: Final = "Secret"  # noqa: S105
_DATA_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigObject:
    """A ConfigMap or Secret. `texts` are the keys that may become variables, `files` all of them."""

    kind: str
    namespace: str
    name: str
    texts: Mapping[str, str] = field(repr=False)
    files: Mapping[str, bytes] = field(repr=False)
    title: str = ""  # the document, for people


@dataclass(frozen=True, slots=True)
class _HiddenTexts:
    """Texts by keys; what is none, or in their place, is not repeated: it may be a secret."""

    def read(self, node: DocumentNode, key: str, report: Report) -> Mapping[str, str] | None:
        shown = ((name, entry if entry.tag == "str" else replace(entry, text="...")) for name, entry in node.entries)
        return Texts().read(replace(node, text=node.text and "...", entries=tuple(shown)), key, report)


@dataclass(frozen=True, slots=True)
class _Base64:
    """Base64 values by key, decoded to bytes."""

    def read(self, node: DocumentNode, key: str, report: Report) -> Mapping[str, bytes]:
        found: dict[str, bytes] = {}
        lines = dict(node.entries)
        for name, text in (_HiddenTexts().read(node, key, report) or {}).items():
            try:
                found[name] = base64.b64decode("".join(text.split()), validate=True)
            except ValueError:  # also of letters that no base64 has
                # The value may be half a secret, so it is not repeated.
                report.say(lines[name], f"{key}[{quoted(name)}]", "is not base64")
        return found


def read_config_object(found: Found, report: Report, title: str = "") -> ConfigObject | None:
    """A ConfigMap or Secret; None with problems in the report."""

    def make(values: dict[str, Any]) -> ConfigObject:
        texts: dict[str, str] = dict(values.get("data" if found.kind == CONFIG_MAP else "stringData", {}))
        files: dict[str, bytes] = dict(values.get("binaryData" if found.kind == CONFIG_MAP else "data", {}))
        if found.kind == CONFIG_MAP and (twice := texts.keys() & files.keys()):
            raise ValueError(f"{quoted(min(twice))} is in data and in binaryData")
        files |= {name: text.encode() for name, text in texts.items()}
        if strange := [name for name in files if not _DATA_KEY.fullmatch(name)]:
            raise ValueError(f"{quoted(strange[0])} is not a key of letters, digits, '-', '_' and '.'")
        if found.kind == SECRET:
            texts = {name: text for name, data in files.items() if (text := _text(data)) is not None}
        metadata = values["metadata"]
        return ConfigObject(
            kind=found.kind,
            namespace=metadata.get("namespace", "default"),
            name=metadata["name"],
            texts=texts,
            files=files,
            title=title,
        )

    holder: ConfigObject | None = FieldGroup(_KEYS[found.kind], make, required=("metadata",)).read(
        found.node, found.key, report
    )
    return holder


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


_METADATA: Final = FieldGroup({"name": SUBDOMAIN, "namespace": Text()}, required=("name",), loose=True)
_HEAD: Final = {"apiVersion": choice("v1"), "kind": IGNORED, "metadata": _METADATA, "immutable": FlagField()}
_KEYS: Final[Mapping[str, Mapping[str, Any]]] = {
    CONFIG_MAP: {**_HEAD, "data": Texts(), "binaryData": _Base64()},
    SECRET: {**_HEAD, "data": _Base64(), "stringData": _HiddenTexts(), "type": Text()},
}


class ConfigObjects:
    """All that stand beside a pod, in its namespace."""

    def __init__(self, holders: Iterable[ConfigObject] = (), namespace: str = "default") -> None:
        self._by_name = {
            (config_object.kind, config_object.name): config_object
            for config_object in holders
            if config_object.namespace == namespace
        }
        self._namespace = namespace
        self.used: dict[str, dict[str, str]] = {}  # by title, for the uid

    def get(self, kind: str, name: str) -> ConfigObject | None:
        """That one; it is remembered as used."""
        found = self._by_name.get((kind, name))
        if found is not None:
            self.used[f"{kind} {name}"] = {key: data.hex() for key, data in found.files.items()}
        return found

    def wanted(
        self, kind: str, values: Mapping[str, Any], node: DocumentNode, key: str, report: Report
    ) -> ConfigObject | None:
        """The one that a reference names; a problem if there is none and it is not optional."""
        found = self.get(kind, values["name"])
        if found is None and not values.get("optional", False):
            title = f"{kind} {self._namespace}/{values['name']}"
            shown = title if title.isprintable() else repr(title)  # that the namespace is wrong is another problem
            report.say(node, key, f"{shown} is not among these manifests, put its document beside the pod")
        return found


@dataclass(frozen=True, slots=True)
class ConfigObjectFiles:
    """Files of a ConfigMap or Secret, all of them or those that `items` names."""

    holders: ConfigObjects
    kind: str
    name_key: str = "name"

    def read(self, node: DocumentNode, key: str, report: Report) -> dict[str, Any] | None:
        """`items`, a tuple of FileItem, and `default_mode` if it is given."""
        values: dict[str, Any] | None = FieldGroup(
            {
                self.name_key: SUBDOMAIN,
                "optional": FlagField(),
                "items": Items(_ITEM, make=tuple),
                "defaultMode": FileMode(),
                "defaultUser": NOT_SUPPORTED,
            },
            required=(self.name_key,),
        ).read(node, key, report)
        if values is None:
            return None
        values = {**values, "name": values[self.name_key]}
        holder = self.holders.wanted(self.kind, values, node, key, report)
        modes = {"default_mode": values["defaultMode"]} if "defaultMode" in values else {}
        if holder is None:
            return {"items": (), **modes}
        if "items" not in values:
            every = sorted(holder.files.items())
            return {"items": tuple(self._file(path=name, content=data) for name, data in every), **modes}
        return {"items": tuple(self._picked(holder, values, node, key, report)), **modes}

    def _picked(
        self, holder: ConfigObject, values: Mapping[str, Any], node: DocumentNode, key: str, report: Report
    ) -> Iterable[FileItem]:
        for item in values["items"]:
            if (data := holder.files.get(item["key"])) is not None:
                yield self._file(path=item["path"], content=data, mode=item.get("mode"))
            elif not values.get("optional", False):
                report.say(node, f"{key}.items", f"{self.kind} {holder.name} has no key {quoted(item['key'])}")

    def _file(self, **fields: Any) -> FileItem:
        return FileItem(secret=self.kind == SECRET, **fields)


_ITEM: Final = FieldGroup(
    {"key": Text(), "path": RELATIVE, "mode": FileMode(), "user": NOT_SUPPORTED}, required=("key", "path")
)
