"""Objects of Kubernetes in documents: finding them in lists, and amounts of resources. Pure."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from interpose.config.documents.fields import Report
from interpose.config.documents.yaml import DocumentNode
from interpose.core.model.quantity import parse_quantity
from interpose.core.model.text import quoted


class Found(NamedTuple):
    """An object: its kind, where it is, and the key under which it stands."""

    kind: str
    node: DocumentNode
    key: str


def find_objects(node: DocumentNode, key: str, report: Report, kinds: Collection[str]) -> Iterator[Found]:
    """The objects of a document, those in lists one by one; other kinds are problems."""
    entries = dict(reversed(node.entries)) if node.tag == "map" else {}
    kind = entries.get("kind")
    expected = f"expected {', '.join(kinds)} or List"
    if kind is None:
        report.say(node, _below(key, "kind"), f"is missing, {expected}")
    elif kind.text == "List" or kind.text in [f"{name}List" for name in kinds]:
        items = entries.get("items", DocumentNode(tag="list"))
        if items.tag != "list":
            report.expected("a list", "list", items, _below(key, "items"))
        for index, item in enumerate(items.items):
            yield from find_objects(item, _below(key, f"items[{index}]"), report, kinds)
    elif kind.text not in kinds:
        report.say(kind, _below(key, "kind"), f"{expected}, found {quoted(kind.text)}")
    else:
        yield Found(kind.text, node, key)


def _below(key: str, name: str) -> str:
    return f"{key}.{name}".lstrip(".")


@dataclass(frozen=True, slots=True)
class Quantities:
    """Amounts by the name of a resource."""

    def read(self, node: DocumentNode, key: str, report: Report) -> Mapping[str, Fraction] | None:
        if node.tag != "map":
            report.expected("a group of keys", "map", node, key)
            return None
        found: dict[str, Fraction] = {}
        for name, child in node.entries:
            where = f"{key}.{name if name.isprintable() else quoted(name)}"
            if name in found:
                report.say(child, where, "is given twice")
                continue
            try:
                # Kept as text until here: YAML would make 1e3 and 0.1 something else.
                found[name] = parse_quantity(child.text, negative=False)
            except ValueError as error:
                report.say(child, where, str(error))
        return found


def amount(value: Fraction) -> str:
    """An amount for people."""
    return f"{float(value):g}"
