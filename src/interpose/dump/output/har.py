"""Calls as HAR 1.2, the format in which browsers and proxies exchange recordings: one entry per call.

Pure: documents of `document.flow_document` in, text out in pieces. What HAR has no place for is in fields that begin
with an underscore, as it asks. gRPC answers everything with the HTTP status 200; readers colour by that number, so a
failure gets the number that HTTP has for it, and the real status is in `grpc-status`. Calls of Docker's API are HTTP
anyway: of them there is what they really were, without headers and bodies.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from interpose import __version__
from interpose.dump.model.docker_calls import http_call, http_status

VERSION: Final = "1.2"
_PROTOCOL: Final = "HTTP/2"
_DOCKER_PROTOCOL: Final = "HTTP/1.1"
_MIME: Final = "application/json"
_REASONS: Final = "as JSON; on the wire it is protobuf"
_UNFINISHED: Final = 0  # what browsers write for a request without an answer
_OTHER_FAILURES: Final = 500
# By the number of the gRPC status.
_HTTP: Final[Mapping[int, int]] = MappingProxyType(
    {
        0: 200,
        1: 499,
        3: 400,
        4: 504,
        5: 404,
        6: 409,
        7: 403,
        8: 429,
        9: 400,
        10: 409,
        11: 400,
        12: 501,
        14: 503,
        16: 401,
    }
)
_OWN: Final = (
    *("number", "method", "kind", "origin", "pid", "uid", "subject", "namespace", "pod", "pod_uid", "pod_id"),
    *("container", "container_id", "image", "continued", "lost", "changed", "changed_by"),
    *("forgotten", "request_diff", "reply_diff"),
)


def har_pieces(documents: Iterable[Mapping[str, Any]], facts: Mapping[str, Any]) -> Iterator[str]:
    """The whole file, an entry at a time."""
    creator = {"name": "interpose", "version": __version__}
    head = json.dumps({"version": VERSION, "creator": creator, "_recording": dict(facts), "pages": []})
    yield f'{{"log":{head.removesuffix("}")},"entries":['
    for index, document in enumerate(documents):
        yield ("," if index else "") + "\n" + json.dumps(entry(document, _host(facts)))
    yield "\n]}}\n"


def _host(facts: Mapping[str, Any]) -> str:
    """Whatever stands there must make a URL."""
    name = facts.get("host")
    usable = isinstance(name, str) and name and all(char.isalnum() or char in ".-" for char in name) and name.isascii()
    return str(name) if usable else "localhost"


def entry(document: Mapping[str, Any], host: str = "localhost") -> dict[str, Any]:
    """The HAR entry of one call."""
    timings = _timings(document)
    return {
        "startedDateTime": document["time"],
        "time": sum(timings.values()),
        "request": _request(document, host),
        "response": _response(document),
        "cache": {},
        "timings": timings,
        **{f"_{key}": document[key] for key in _OWN},
    }


def _request(document: Mapping[str, Any], host: str) -> dict[str, Any]:
    messages = _of(document, "request")
    call = http_call(document["path"])
    return {
        "method": "POST" if call is None else _token(call.method),
        "url": f"http://{host}/{_url_path(document['path'] if call is None else call.path)}",
        "httpVersion": _PROTOCOL if call is None else _DOCKER_PROTOCOL,
        "cookies": [],
        "headers": [{"name": str(name), "value": str(value)} for name, value in document["metadata"]],
        "queryString": [],
        **({"postData": _content(messages)} if call is None else {}),
        "headersSize": -1,
        "bodySize": sum(message["size"] for message in messages) if call is None else -1,
    }


def _content(messages: list[Mapping[str, Any]]) -> dict[str, Any]:
    return {"mimeType": _MIME, "text": _body(messages), "comment": _comment(messages)}


def _token(method: str) -> str:
    """The method of an HTTP call; what cannot be one is marked."""
    return "".join(char if char.isascii() and (char.isalnum() or char in "-_") else "_" for char in method)


def _url_path(path: str) -> str:
    """A path of a gRPC call; what has no place in a URL is marked."""
    return "".join(char if char.isascii() and (char.isalnum() or char in "._-/") else "_" for char in path.lstrip("/"))


def _response(document: Mapping[str, Any]) -> dict[str, Any]:
    messages = _of(document, "reply")
    code = document["code"]
    http = http_call(document["path"]) is not None
    trailers = [] if code is None or http else [("grpc-status", str(code)), ("grpc-message", document["message"])]
    size = sum(message["size"] for message in messages)
    return {
        "status": _status(code, document["message"] if http else ""),
        "statusText": document["status"],
        "httpVersion": _DOCKER_PROTOCOL if http else _PROTOCOL,
        "cookies": [],
        "headers": [{"name": name, "value": value} for name, value in trailers if value],
        "content": {"size": size, **({"mimeType": ""} if http else _content(messages))},
        "redirectURL": "",
        "headersSize": -1,
        "bodySize": -1 if http else size,
    }


def _status(code: int | None, message: str) -> int:
    if code is None:
        return _UNFINISHED
    return http_status(message) or _HTTP.get(code, _OTHER_FAILURES)


def _of(document: Mapping[str, Any], side: str) -> list[Mapping[str, Any]]:
    return [message for message in document["messages"] if message["side"] == side]


def _body(messages: list[Mapping[str, Any]]) -> str:
    """One message as it is, several as a list."""
    bodies = [message["body"] for message in messages if message["body"] is not None]
    if not bodies:
        return ""
    return json.dumps(bodies[0] if len(messages) == 1 else bodies, indent=2)


def _comment(messages: list[Mapping[str, Any]]) -> str:
    notes = dict.fromkeys(message["note"] for message in messages if message["note"])
    return "; ".join([_REASONS, *notes])


def _timings(document: Mapping[str, Any]) -> dict[str, float]:
    """Until the request was on its way, until the first reply, and the rest; together they are the whole time."""
    took = document["duration_ms"]
    last = max((message["at_ms"] for message in document["messages"]), default=0.0)
    total = max(last if took is None else took, 0.0)
    sent = min(
        max((message["at_ms"] for message in document["messages"] if not _is_reply(message)), default=0.0), total
    )
    answered = min(
        min((message["at_ms"] for message in document["messages"] if _is_reply(message)), default=total), total
    )
    answered = max(answered, sent)
    return {"send": sent, "wait": answered - sent, "receive": total - answered}


def _is_reply(message: Mapping[str, Any]) -> bool:
    return message["side"] in ("received", "reply")
