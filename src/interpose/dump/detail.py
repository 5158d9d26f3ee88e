"""One call, whole: who and when, the request, what was changed on the way, the reply.

Pure: a document of `document.flow_document` in, lines out. Invariant: nothing of a message is left out, and no line can
move a cursor.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from interpose.dump.calllist import Style
from interpose.dump.shown import plain, size
from interpose.dump.yamltext import yaml_lines

_DIFF_ROLES: Final[Mapping[str, str]] = {"-": "bad", "+": "good", "@": "dim"}
_SIDES: Final[Mapping[str, str]] = {
    "request": "Request",
    "forwarded": "Changed in the request",
    "received": "Changed in the reply",
    "reply": "Reply",
}
# Where the two forms of a message differ, only the first is written whole: the difference says the rest.
_AS_DIFF: Final = ("forwarded", "received")


def detail_lines(document: Mapping[str, Any], style: Style | None = None) -> list[str]:
    """The call as lines."""
    styled: Style = style or (lambda text, _role: text)
    return [*_head(document, styled), *_messages(document, styled)]


def _head(document: Mapping[str, Any], style: Style) -> Iterator[str]:
    yield style(f"Call {document['number']}: {plain(document['path'])}", "title")
    for name, value in _facts(document):
        if value:
            yield f"  {style(f'{name}:'.ljust(13), 'dim')} {plain(value)}"


def _facts(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    took = document["duration_ms"]
    status = document["status"] or "not over"
    yield "time", str(document["time"])
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
    diffs = {"forwarded": document["request_diff"], "received": document["reply_diff"]}
    replies = 0
    for message in document["messages"]:
        side = message["side"]
        replies += side == "reply"
        if side == "reply" and replies == 2 and document["forgotten"]:
            yield from ("", style(f"  ({document['forgotten']} older messages were not kept)", "dim"))
        yield ""
        number = (
            f" #{replies + document['forgotten'] * (replies > 1)}" if side == "reply" and _is_stream(document) else ""
        )
        facts = f" ({size(message['size'])}, after {message['at_ms']:.3f} ms)"
        yield style(f"{_SIDES[side]}{number}", "title") + style(facts, "dim")
        if side in _AS_DIFF and diffs[side]:
            yield from (f"  {style(plain(line), _DIFF_ROLES.get(line[:1], ''))}" for line in diffs[side])
            continue
        if message["note"]:
            yield f"  {style(plain(message['note']), 'dim')}"
        if message["body"] is not None:
            yield from (f"  {plain(line)}" for line in yaml_lines(message["body"]))


def _is_stream(document: Mapping[str, Any]) -> bool:
    return len([one for one in document["messages"] if one["side"] == "reply"]) > 1
