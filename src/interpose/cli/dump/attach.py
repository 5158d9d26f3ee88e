"""Attaching to a running relay: what passes it from now on, as frames.

The answer has no end, so it is read from the socket itself rather than through an HTTP library.
"""

import http
import json
import select
import socket
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Final
from urllib.parse import urlencode

import click

from interpose.cli.common.admin_client import AdminConnection, raise_unreachable
from interpose.config.dump_rules import DumpTarget, parse_rules
from interpose.config.endpoint import parse_listen
from interpose.cri.methods import METHODS

_PATH: Final = "/v1/dump"
_READ: Final = 1 << 16
_LONGEST_HEAD: Final = 1 << 16
_END_OF_HEAD: Final = b"\r\n\r\n"


class DumpConnection:
    """A connection that gives frames. Iterating waits; `close` from another thread or a signal handler ends it.

    So does `finish`, after the rest.
    """

    def __init__(self, sock: socket.socket, first: bytes) -> None:
        self._sock = sock
        self._first = first
        self._closed = False
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)

    def read(self, timeout: float | None = None) -> bytes | None:
        """What came next; None if nothing did within the time, nothing at all if the relay is gone."""
        if self._first:
            first, self._first = self._first, b""
            return first
        if self._closed:
            return b""
        try:
            if not self._poll.poll(None if timeout is None else timeout * 1000):
                return None
            return self._sock.recv(_READ)
        except OSError:
            return b""

    def __iter__(self) -> Iterator[bytes]:
        while data := self.read():
            yield data

    def finish(self) -> None:
        """Want no more. What has passed until now still comes, and then the end."""
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError:
            return

    def close(self) -> None:
        """End it, also for somebody who waits."""
        if not self._closed:
            self._closed = True
            try:
                self._sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                return

    def __enter__(self) -> "DumpConnection":
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()
        self._sock.close()


def attach(admin: str, rules: Sequence[str] = ()) -> DumpConnection:
    """What passes the relay behind this admin address. `rules` choose calls, as those of --dump do; none: all.

    A click error that names the address if nobody can be asked or the answer is no, ConfigError for wrong rules.
    """
    if admin == "none":
        raise click.ClickException("--admin is none: the relay runs without an admin socket")
    connection = AdminConnection(parse_listen(admin, "--admin"))
    try:
        connection.connect()
        sock: socket.socket = connection.sock
    except OSError as error:
        connection.close()
        raise_unreachable(admin, error)
    query = urlencode(_query_parameters(rules))
    try:
        target = f"{_PATH}?{query}" if query else _PATH
        sock.sendall(f"GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        head, first = _head(sock)
        status = _status(head, admin)
        if status != http.HTTPStatus.OK:
            raise click.ClickException(f"{admin} refused {_PATH}: {_reason(first)} ({status})")
    except OSError as error:
        sock.close()
        raise_unreachable(admin, error)
    except click.ClickException:
        sock.close()
        raise
    sock.settimeout(None)  # the answer has begun: from now on silence is normal
    return DumpConnection(sock, first)


def _query_parameters(rules: Sequence[str]) -> dict[str, str]:
    """What rules mean for each method, worked out here: expressions can be slow, and a relay cannot wait."""
    if not rules:
        return {}
    chosen = parse_rules(rules)
    targets = chosen.selected(METHODS)
    full = [name for name, target in targets.items() if target is DumpTarget.FULL]
    calls = [name for name, target in targets.items() if target is not DumpTarget.FULL]
    asked = {"full": ",".join(full), "calls": ",".join(calls)}
    return asked | ({"others": ""} if chosen.enabled else {})


def _head(sock: socket.socket) -> tuple[bytes, bytes]:
    """The head of the answer, and what came with it."""
    data = b""
    while _END_OF_HEAD not in data and len(data) < _LONGEST_HEAD and (more := sock.recv(_READ)):
        data += more
    head, _, rest = data.partition(_END_OF_HEAD)
    return head, rest


def _status(head: bytes, admin: str) -> int:
    version, _, rest = head.partition(b" ")
    if not version.startswith(b"HTTP/1.") or not rest[:3].isdigit():
        raise click.ClickException(f"{admin} does not speak HTTP: is it the admin socket?")
    return int(rest[:3])


def _reason(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return "no reason given; is it the admin socket of a relay, and of this version?"
