"""A call as one document: what YAML, JSON lines, pages and the live view show. Plain JSON values, keys always there.

Pure. Both sides of what was changed on the way are there, and the difference between them as lines.
"""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from interpose.dump.decode.api import DecodedMessage, MessageDecoder
from interpose.dump.decode.diff import yaml_diff
from interpose.dump.model.call import Flow
from interpose.dump.model.frames import Message, MessageSide
from interpose.dump.model.grpc_codes import code_name

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def flow_document(flow: Flow, decoder: MessageDecoder) -> dict[str, Any]:
    """The document of a call, also of one that is still in flight."""
    messages = [(message, decoder.message(flow, message)) for message in flow.messages]
    subject, end = flow.subject, flow.end
    return {
        "number": flow.number,
        "time": time_text(flow.time),
        "time_ns": flow.time,
        "method": clean(flow.name),
        "service": clean(flow.service),
        "path": clean(flow.path),
        "kind": flow_kind(flow),
        "origin": clean(flow.origin),
        "pid": flow.pid,
        "uid": flow.uid,
        "metadata": [[clean(key), clean(value)] for key, value in flow.metadata],
        "subject": str(subject),
        "namespace": subject.namespace,
        "pod": subject.pod,
        "pod_uid": subject.pod_uid,
        "pod_id": subject.pod_id,
        "container": subject.container,
        "container_id": subject.container_id,
        "image": subject.image,
        "status": "" if end is None else code_name(end.code),
        "code": None if end is None else end.code,
        "message": "" if end is None else clean(end.message),
        "duration_ms": None if end is None else milliseconds(end.elapsed),
        "continued": flow.continued,
        "lost": flow.lost,
        "changed": flow.changed,
        "changed_by": [] if end is None else [clean(name) for name in end.changed_by],
        "messages": [_message(message, decoded) for message, decoded in messages],
        "forgotten": flow.forgotten,
        "request_diff": _difference(messages, MessageSide.REQUEST, MessageSide.FORWARDED),
        "reply_diff": _difference(messages, MessageSide.RECEIVED, MessageSide.REPLY),
    }


def flow_kind(flow: Flow) -> str:
    """Who had a hand in it."""
    if flow.originated:
        return "originated"
    return "intercepted" if flow.intercepted else "passthrough"


def time_text(nanoseconds: int) -> str:
    """Nanoseconds since the epoch as `2026-11-16T09:00:00.123456Z`."""
    return (_EPOCH + timedelta(microseconds=nanoseconds // 1000)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def milliseconds(nanoseconds: int) -> float:
    """With all its digits and no more."""
    return round(nanoseconds / 1e6, 6)


def clean(text: str) -> str:
    """Bytes that were no UTF-8 travel as surrogates, which no JSON or terminal takes."""
    return text if text.isascii() else text.encode(errors="surrogateescape").decode(errors="replace")


def _message(message: Message, decoded: DecodedMessage) -> dict[str, Any]:
    return {
        "side": message.side.name.lower(),
        "at_ms": milliseconds(message.at),
        "size": message.size,
        "body": decoded.tree,
        "note": clean(decoded.note),
    }


def _difference(messages: list[tuple[Message, DecodedMessage]], before: MessageSide, after: MessageSide) -> list[str]:
    """What was changed on the way from one side to the other; of a stream, one change behind the other."""
    lines: list[str] = []
    first: DecodedMessage | None = None
    for message, decoded in messages:
        if message.side is before:
            first = decoded
        elif message.side is after and first is not None:
            if first.tree is not None and decoded.tree is not None:
                lines += ["@@"] * bool(lines) + yaml_diff(first.tree, decoded.tree)
            first = None
    return lines
