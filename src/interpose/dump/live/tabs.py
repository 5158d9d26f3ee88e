"""A call as the text of its tabs: lines with a tint, long lists folded.

Pure: made of the document of a call. Every line is harmless for a terminal.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from interpose.core.model.humanize import format_duration, format_short_size
from interpose.core.model.text import printable
from interpose.dump.decode.yaml import yaml_lines, yaml_text
from interpose.dump.model.call import Flow

FOLDED: Final = 10  # entries that are seen of a long list
_WORTH_FOLDING: Final = FOLDED + 3
# Messages of a stream that are decoded for the screen: its first, which is the request, and its end.
SEEN_MESSAGES: Final = 50
_MILLI: Final = 1_000_000
_NAMES: Final = 14  # columns for the names of facts


class Tab(StrEnum):
    """What one can see of a call."""

    REQUEST = "request"
    REPLY = "reply"
    DIFF = "diff"
    INFO = "info"


class Tint(StrEnum):
    """What a line, or a part of it, is."""

    PLAIN = "plain"
    YAML = "yaml"
    HEADING = "heading"
    NOTE = "note"
    ADDED = "added"
    REMOVED = "removed"
    HUNK = "hunk"
    FOLD = "fold"
    KEY = "key"
    NUMBER = "number"
    TEXT = "text"
    REDACTED = "redacted"


@dataclass(frozen=True, slots=True)
class DetailLine:
    """A line of a tab."""

    text: str
    tint: Tint = Tint.PLAIN


_SIDES: Final[Mapping[Tab, Mapping[str, str]]] = {
    Tab.REQUEST: {"request": "request", "forwarded": "as the runtime got it"},
    Tab.REPLY: {"received": "as the runtime answered", "reply": "reply"},
}
_DIFFS: Final = (
    ("request_diff", "request: what was asked, and what the runtime got"),
    ("reply_diff", "reply: what the runtime answered, and what the caller got"),
)
_DIFF_TINTS: Final = {"+": Tint.ADDED, "-": Tint.REMOVED, "@": Tint.HUNK}
_SUBJECT: Final = ("namespace", "pod", "pod_uid", "pod_id", "container", "container_id", "image")
_NOT_CHANGED: Final[Mapping[str, str]] = {
    "passthrough": "unchanged: passed through as bytes, no interceptor was called",
    "originated": "the relay made this call itself",
}


def decodable_part(flow: Flow) -> Flow:
    """A call with as many messages as are worth decoding; the others count as forgotten."""
    too_many = len(flow.messages) - SEEN_MESSAGES
    if too_many <= 0:
        return flow
    messages = [flow.messages[0], *flow.messages[too_many + 1 :]]
    return replace(flow, messages=messages, forgotten=flow.forgotten + too_many)


def fold(tree: Any, most: int = FOLDED) -> Any:
    """A tree whose long lists and maps have an entry that says how many more there are."""
    if isinstance(tree, Mapping):
        pairs = sorted(tree.items())
        kept = {key: fold(value, most) for key, value in _beginning(pairs, most)}
        return kept if len(kept) == len(pairs) else {**kept, "…": f"{len(pairs) - len(kept)} more"}
    if isinstance(tree, list):
        entries = [fold(value, most) for value in _beginning(tree, most)]
        return entries if len(entries) == len(tree) else [*entries, f"… {len(tree) - len(entries)} more"]
    return tree


def _beginning(entries: list[Any], most: int) -> list[Any]:
    return entries if len(entries) < most + _WORTH_FOLDING - FOLDED else entries[:most]


def lines(document: Mapping[str, Any], tab: Tab, *, unfolded: bool = False) -> list[DetailLine]:
    """The text of a tab."""
    if tab is Tab.DIFF:
        found = _diff(document)
    elif tab is Tab.INFO:
        found = _info(document)
    else:
        found = _messages(document, tab, unfolded=unfolded)
    return [DetailLine(printable(line.text), line.tint) for line in found]


def clipboard_text(document: Mapping[str, Any], tab: Tab) -> str:
    """What of a tab goes to the clipboard: the YAML, whole and without headings, or the text of the diff."""
    if tab not in _SIDES:
        return "".join(f"{line.text}\n" for line in lines(document, tab))
    # As the caller saw it; what the runtime saw is in the diff.
    bodies = [
        message["body"] for message in document["messages"] if message["side"] == tab and message["body"] is not None
    ]
    return "---\n".join(yaml_text(body).rstrip("\n") + "\n" for body in bodies)


def _messages(document: Mapping[str, Any], tab: Tab, *, unfolded: bool) -> Iterator[DetailLine]:
    names = _SIDES[tab]
    messages = [message for message in document["messages"] if message["side"] in names]
    if tab is Tab.REPLY and document["message"]:
        yield DetailLine(f"{document['status']}: {document['message']}", Tint.REMOVED)
    if tab is Tab.REPLY and document["forgotten"]:
        yield DetailLine(f"{document['forgotten']} earlier messages are not shown", Tint.NOTE)
    if not messages:
        yield DetailLine(_why_none(document, tab), Tint.NOTE)
    for message in messages:
        yield DetailLine(
            f"{names[message['side']]}, {format_short_size(message['size'])}, after {_at(message)}",
            Tint.HEADING,
        )
        if message["note"]:
            yield from (DetailLine(part, Tint.NOTE) for part in message["note"].splitlines())
        if message["body"] is not None:
            yield from _yaml(message["body"], unfolded=unfolded)


def _why_none(document: Mapping[str, Any], tab: Tab) -> str:
    if tab is Tab.REPLY and not document["status"]:
        return "no reply yet"
    return f"no {tab}"


def _yaml(tree: Any, *, unfolded: bool) -> Iterator[DetailLine]:
    if tree in ({}, [], None):
        yield DetailLine("nothing in it", Tint.NOTE)
        return
    for text in yaml_lines(tree if unfolded else fold(tree)):
        yield DetailLine(text, Tint.FOLD if _FOLD.match(text) else Tint.YAML)


def _diff(document: Mapping[str, Any]) -> Iterator[DetailLine]:
    if document["changed_by"]:
        yield DetailLine(f"changed by {', '.join(document['changed_by'])}", Tint.HEADING)
    differences = [(title, document[key]) for key, title in _DIFFS if document[key]]
    if not differences:
        yield DetailLine(_NOT_CHANGED.get(document["kind"], "nobody changed it"), Tint.NOTE)
    for title, diff in differences:
        yield DetailLine(title, Tint.HEADING)
        yield from (DetailLine(text, _DIFF_TINTS.get(text[:1], Tint.YAML)) for text in diff)


def _info(document: Mapping[str, Any]) -> Iterator[DetailLine]:
    for name, value in _facts(document):
        if value:
            yield DetailLine(f"{name + ':':<{_NAMES}}{value}", Tint.YAML)
    for title, entries in _lists(document):
        if entries:
            yield DetailLine(title, Tint.HEADING)
            yield from (DetailLine(entry, Tint.YAML) for entry in entries)


def _facts(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    taken = document["duration_ms"]
    yield "call", str(document["number"])
    yield "time", document["time"]
    yield "path", document["path"]
    yield "status", document["status"] or "in flight"
    yield "message", document["message"]
    yield "took", "" if taken is None else format_duration(int(taken * _MILLI))
    yield "kind", document["kind"]
    yield "origin", document["origin"]
    yield "caller", f"process {document['pid']} of user {document['uid']}" if document["pid"] else ""
    yield "changed by", ", ".join(document["changed_by"])
    for key in _SUBJECT:
        yield key.replace("_", " "), document[key]


def _lists(document: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    yield "metadata", [f"{name}: {value}" for name, value in document["metadata"]]
    messages = [
        f"{_at(message):>8}  {message['side']:<9}  {format_short_size(message['size']):>9}  {message['note']}".rstrip()
        for message in document["messages"]
    ]
    missing = f", without {document['forgotten']} earlier ones" if document["forgotten"] else ""
    yield f"messages{missing}", messages


def _at(message: Mapping[str, Any]) -> str:
    return format_duration(int(message["at_ms"] * _MILLI))


# -- colours of YAML

_FOLD: Final = re.compile(r"""\s*(?:- )?["']?… ?["']?(?::|\d)""")
_KEY: Final = re.compile(r"""\s*(?:- )*((?:"(?:[^"\\]|\\.)*"|'[^']*'|[^\s"'#:-][^:]*|-[^\s:][^:]*):)(?=\s|$)""")
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?$|true$|false$|null$")
_REDACTED: Final = "<redacted>"


def spans(line: DetailLine) -> list[tuple[int, int, Tint]]:
    """Which parts of a line are what: begin, end, tint."""
    if line.tint is not Tint.YAML:
        return [(0, len(line.text), line.tint)]
    found: list[tuple[int, int, Tint]] = []
    at = len(line.text) - len(line.text.lstrip(" -"))
    if key := _KEY.match(line.text):
        found.append((key.start(1), key.end(1), Tint.KEY))
        at = key.end() + 1
    value = line.text[at:]
    if value:
        tint = Tint.NUMBER if _NUMBER.match(value) else Tint.REDACTED if _REDACTED in value else Tint.TEXT
        found.append((at, len(line.text), tint))
    return found
