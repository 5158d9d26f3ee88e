"""Keys with dots: `policy.static: ...` is `policy: {static: ...}`, and parts of a group may stand in several places.

Pure. Nothing is lost: what is said twice is a problem in the report of the document.
"""

from dataclasses import replace

from interpose.config.documents.fields import Report
from interpose.config.documents.yaml import Node
from interpose.core.model.text import quoted


def unfold(node: Node, key: str, depth: int, report: Report) -> Node:
    """Keys with dots as groups, so many levels deep: below that, names are other people's and may have dots.

    `key` is that of the node itself, empty for a document.
    """
    if depth == 0 or node.tag != "map":
        return node
    parts: dict[str, list[Node]] = {}
    plain: dict[str, Node] = {}
    for name, child in node.entries:
        head, dot, rest = name.partition(".")
        if head and dot and rest:
            parts.setdefault(head, []).append(Node(tag="map", line=child.line, entries=((rest, child),)))
        elif plain.setdefault(name, child) is child:
            parts.setdefault(name, []).append(child)
        else:
            first = plain[name].line
            where = f", first in line {first}" if first else ""
            report.say(child, _below(key, name), f"is given twice{where}")
    entries = []
    for head, found in parts.items():
        where = _below(key, head)
        entries.append((head, unfold(_joined(found, where, report), where, depth - 1, report)))
    return replace(node, entries=tuple(entries))


def _joined(parts: list[Node], key: str, report: Report) -> Node:
    """One group of several; null is as good as absent."""
    said = [part for part in parts if part.tag != "null"] or parts[:1]
    if len(said) == 1:
        return said[0]
    if strange := [part for part in said if part.tag != "map"]:
        report.say(strange[0], key, "is given as a value and as a group of keys")
        return Node(tag="null", line=said[0].line)
    return replace(said[0], entries=tuple(entry for part in said for entry in part.entries))


def _below(key: str, name: str) -> str:
    shown = name if name.isprintable() else quoted(name)
    return f"{key}.{shown}" if key else shown
