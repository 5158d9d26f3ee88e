"""One call, whole: who and when, the request, what was changed on the way, the reply.

Pure: a document of `document.flow_document` in, lines out. Where a message was changed on the way, one of its two forms
is written whole and the difference says the rest. Invariant: nothing is left out, and no line can move a cursor.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from interpose.core.model.humanize import format_short_size
from interpose.core.model.text import printable
from interpose.dump.decode.diff import yaml_diff
from interpose.dump.decode.yaml import yaml_lines
from interpose.dump.output.list import NO_BEGINNING, NO_END, Style

_DIFF_ROLES: Final[Mapping[str, str]] = {"-": "bad", "+": "good", "@": "dim"}
_SIDES: Final[Mapping[str, str]] = {
    "request": "Request",
    "forwarded": "Changed in the request",
    "received": "Changed in the reply",
    "reply": "Reply",
}


def detail_lines(document: Mapping[str, Any], style: Style | None = None) -> list[str]:
    """The document of a call as lines for a terminal."""
    styled: Style = style or (lambda text, _role: text)
    return [*_head(document, styled), *_messages(document, styled)]


def _head(document: Mapping[str, Any], style: Style) -> Iterator[str]:
    yield style(f"Call {document['number']}: {printable(document['path'])}", "title")
    for name, value in _facts(document):
        if value:
            yield f"  {style(f'{name}:'.ljust(13), 'dim')} {printable(value)}"


def _facts(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    took = document["duration_ms"]
    status = document["status"] or (NO_END if document["lost"] else "not over")
    yield "time", f"{document['time']}, {NO_BEGINNING}" if document["continued"] else str(document["time"])
    yield "subject", str(document["subject"])
    for name in ("pod_uid", "pod_id", "container_id", "image"):
        yield name.replace("_", " "), str(document[name])
    yield "status", f"{status}: {document['message']}" if document["message"] else status
    yield "took", "" if took is None else f"{took:.3f} ms"
    process = f", process {document['pid']} of user {document['uid']}" if document["pid"] else ""
    yield "from", f"{document['origin']}{process}"
    yield "kind", str(document["kind"])
    changed = "yes" if document["changed"] else ""
    yield "changed", ", ".join(document["changed_by"]) or changed
    yield "metadata", ", ".join(f"{name}: {value}" for name, value in document["metadata"])


def _messages(document: Mapping[str, Any], style: Style) -> Iterator[str]:
    messages = document["messages"]
    stream = sum(message["side"] == "reply" for message in messages) > 1
    replies = document["forgotten"]
    for place, message in enumerate(messages):
        title = _SIDES[message["side"]]
        if message["side"] == "reply":
            if replies and replies == document["forgotten"]:
                yield from ("", style(f"  ({replies} older messages were not kept)", "dim"))
            replies += 1
            title += f" #{replies}" * stream
        facts = f" ({format_short_size(message['size'])}, after {message['at_ms']:.3f} ms)"
        yield from ("", style(title, "title") + style(facts, "dim"))
        changes = _changes(messages, place)
        if changes:
            yield from (f"  {style(printable(line), _DIFF_ROLES.get(line[:1], ''))}" for line in changes)
            continue
        if message["note"]:
            yield f"  {style(printable(message['note']), 'dim')}"
        if message["body"] is not None:
            yield from (f"  {printable(line)}" for line in yaml_lines(message["body"]))


def _changes(messages: Sequence[Mapping[str, Any]], place: int) -> list[str]:
    """The difference between the two forms of a message, at its second form upwards and at its first downwards."""
    pairs = {"forwarded": (place - 1, place, "request"), "received": (place, place + 1, "reply")}
    pair = pairs.get(messages[place]["side"])
    if pair is None or not 0 <= pair[0] < pair[1] < len(messages):
        return []
    before, after = messages[pair[0]], messages[pair[1]]
    if pair[2] not in (before["side"], after["side"]) or before["body"] is None or after["body"] is None:
        return []
    return yaml_diff(before["body"], after["body"])
