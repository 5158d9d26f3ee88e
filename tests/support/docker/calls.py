"""Calls of Docker's API without a socket: requests as a client sends them, and a dockerd that answers from a table.

For tests of what stands between the two. A dockerd with state is `tests.support.docker.fake`.
"""

import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from interpose.net.h1.heads import Heads
from interpose.relay.docker.connection import HttpReply
from interpose.relay.docker.http_call import DockerHttpCall
from interpose.relay.docker.routes import classify

HEADS = Heads(classify=classify)

Send = Callable[[bytes], Awaitable[HttpReply]]


def http_reply(status: int, document: Any = None) -> HttpReply:
    """An answer of dockerd; without a document it has no body."""
    body = b"" if document is None else json.dumps(document).encode() + b"\n"
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", "Api-Version: 1.41", "Server: Docker/20.10.24 (linux)"]
    if status not in (204, 304):
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    head = ("\r\n".join(lines) + "\r\n\r\n").encode()
    return HttpReply(head=HEADS.response(head, "POST"), body=body, raw=head + body)


def http_call(line: str, document: Any, send: Send, *, kind: str = "application/json") -> DockerHttpCall:
    """A call: `POST /v1.41/containers/create?name=x` with a JSON document, bytes as they are, or None for no body."""
    body = document if isinstance(document, bytes) else b"" if document is None else json.dumps(document).encode()
    fields = {"Host": "docker"}
    if body:
        fields |= {"Content-Type": kind, "Content-Length": str(len(body))}
    lines = [f"{line} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    head = HEADS.request(("\r\n".join(lines) + "\r\n\r\n").encode())
    return DockerHttpCall(head=head, body=body, send=send)


def body_of(answer: bytes) -> Any:
    """The JSON of a whole answer; None if it has no body."""
    body = answer.partition(b"\r\n\r\n")[2]
    return json.loads(body) if body else None


def status_of(answer: bytes) -> int:
    """The status of a whole answer."""
    return int(answer.split(b" ", 2)[1])


class ScriptedDocker:
    """Answers requests of ours by their line, as `DockerUpstream.request` does, and notes them."""

    def __init__(self) -> None:
        self.event_session = 1
        self.on_event: Callable[[bytes], None] | None = None
        self.answers: dict[str, HttpReply | Exception] = {}
        self.asked: list[tuple[str, bytes]] = []

    async def request(self, method: str, target: str, body: bytes = b"", *, timeout: float) -> HttpReply:
        """One call; what nobody scripted does not exist."""
        line = f"{method} {target}"
        self.asked.append((line, body))
        given = self.answers.get(line.partition("?")[0])
        if isinstance(given, Exception):
            raise given
        return given or http_reply(404, {"message": f"No such container: {target}"})
