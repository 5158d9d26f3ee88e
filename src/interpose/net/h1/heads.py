"""Heads of requests and answers: checked once by our own rules and by h11, then remembered by their bytes.

Clients and servers repeat themselves: the same bytes get the same result from a bounded cache. Heads that are long,
or that hold credentials, are not remembered.

The target of a request is read as Go's server reads it. It has four forms: `/path?query`, `http://host/path?query`,
`*`, and `host:port` for CONNECT. What Go would take for something else (`http:path`, `path` without a slash, a `%` that
escapes nothing) is refused, so that no request is routed by one path and served by another.

Invariant: a head that is given out ends with its first blank line, and its body ends for every reader where `framing`
and `length` say.
"""

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, NamedTuple, TypeVar

from interpose.net.h1 import h11_check
from interpose.net.h1.rules import (
    BLANK,
    LIMIT,
    REQUESTS,
    RESPONSES,
    DeclaredBody,
    Fields,
    Framing,
    Grammar,
    MalformedError,
    format_value,
)

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class HeadCache(Generic[K, V]):
    """A cache of parsed heads with at most `entries` entries and no search or sort for eviction.

    Two halves: an entry that is used again moves from the old half to the young one. A full young half becomes the old
    one, and the entries of the old one are dropped.
    """

    __slots__ = ("_half", "_old", "_young")

    def __init__(self, entries: int) -> None:
        self._half = entries // 2
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def get(self, key: K) -> V | None:
        found = self._young.get(key)
        if found is None:
            found = self._old.pop(key, None)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: K, value: V) -> None:
        if len(self._young) >= self._half:
            if not self._half:
                return
            self._old, self._young = self._young, {}
        self._young[key] = value


__all__ = ["Framing", "Heads", "MalformedError", "RequestHead", "ResponseHead"]

_LONGEST_REMEMBERED: Final = 4096
_SECRETS: Final = frozenset(
    (b"authorization", b"cookie", b"proxy-authorization", b"x-registry-auth", b"x-registry-config", b"set-cookie")
)
# Servers put the time into every answer; it has no influence on the result.
_DATE: Final = re.compile(
    rb"\r\nDate: ([A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT)\r\n"
)
_KINDS: Final = ("HEAD", "CONNECT")  # the methods that change what an answer means

Classify = Callable[[str, str, str], Any]


def _no_route(_method: str, _path: str, _query: str) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHead:
    """The head of a request. `raw` ends with the blank line; `route` is what `classify` returned.

    A byte of `target`, `path` and `query` is a letter of the same number, so that nothing is lost.
    """

    raw: bytes = field(repr=False)
    method: str
    target: str = field(repr=False)
    path: str
    query: str = field(repr=False)
    headers: Fields = field(repr=False)
    framing: Framing
    length: int
    keep_alive: bool
    expects_continue: bool
    upgrade: bool
    route: Any = None

    def get(self, name: bytes) -> bytes | None:
        """The value of the first field of that name, in lower case."""
        return _get(self.headers, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseHead:
    """The head of a response. An interim one (100, 103, ...) is followed by another; 101 is not interim."""

    raw: bytes = field(repr=False)
    status: int
    reason: str
    headers: Fields = field(repr=False)
    framing: Framing
    length: int
    keep_alive: bool
    interim: bool

    def get(self, name: bytes) -> bytes | None:
        """The value of the first field of that name, in lower case."""
        return _get(self.headers, name)


class Heads:
    """Reads heads. One for all connections: they share the cache and nothing else."""

    def __init__(self, *, limit: int = LIMIT, entries: int = 512, classify: Classify = _no_route) -> None:
        self.limit = limit
        self._classify = classify
        self._requests: HeadCache[bytes, RequestHead] = HeadCache(entries)
        self._responses: HeadCache[tuple[str, bytes], ResponseHead] = HeadCache(entries)
        self._undated: HeadCache[tuple[str, bytes, bytes], ResponseHead] = HeadCache(entries)  # by all but the date

    @property
    def remembered(self) -> int:
        """The number of heads in the cache."""
        return len(self._requests) + len(self._responses) + len(self._undated)

    def known_request(self, raw: bytes) -> RequestHead | None:
        """The head of a request, if these very bytes were read before and are remembered."""
        return self._requests.get(raw) if len(raw) <= _LONGEST_REMEMBERED else None

    def known_response(self, raw: bytes, method: str) -> ResponseHead | None:
        """The head of an answer to a request of that method, if these very bytes are remembered."""
        return self._responses.get((method if method in _KINDS else "", raw))

    def request(self, raw: bytes) -> RequestHead:
        """The head of a request, up to and with its blank line. Raises MalformedError."""
        head = self._requests.get(raw)
        if head is None:
            head = self._read_request(raw)
            if _may_be_remembered(raw, head.headers):
                self._requests.put(raw, head)
        return head

    def response(self, raw: bytes, method: str) -> ResponseHead:
        """The head of an answer to a request of that method. Raises MalformedError with status 502."""
        key = (method if method in _KINDS else "", raw)
        head = self._responses.get(key)
        if head is None:
            dated = _DATE.search(raw)
            head = self._dated(raw, method, key[0], dated) if dated else self._read_response(raw, method)
            if _may_be_remembered(raw, head.headers):
                self._responses.put(key, head)
        return head

    def _dated(self, raw: bytes, method: str, kind: str, dated: re.Match[bytes]) -> ResponseHead:
        """The head of a response that differs in its date only, if there was one."""
        key = (kind, raw[: dated.start(1)], raw[dated.end(1) :])
        head = self._undated.get(key)
        if head is None:
            head = self._read_response(raw, method)
            if _may_be_remembered(raw, head.headers):
                self._undated.put(key, head)
            return head
        number = raw.count(b"\r\n", 0, dated.start(1)) - 1
        headers = (*head.headers[:number], (b"date", dated[1]), *head.headers[number + 1 :])
        return replace(head, raw=raw, headers=headers)

    def _read_request(self, raw: bytes) -> RequestHead:
        lines = self._lines(raw, REQUESTS)
        line = REQUESTS.parse_line(lines[0])
        fields = REQUESTS.parse_fields(lines[1:])
        REQUESTS.check_hosts(fields, line.version)
        declared = REQUESTS.parse_body(fields, line.version)
        method, target = line.method.decode("ascii"), line.target.decode("latin-1")
        path, query = read_target(method, target)
        h11_check.check_request(raw, self.limit)
        tokens = _tokens(fields, b"connection")
        framing, length = _framing(declared, Framing.NONE)
        return RequestHead(
            raw=raw,
            method=method,
            target=target,
            path=path,
            query=query,
            headers=fields,
            framing=framing,
            length=length,
            keep_alive=_keeps_alive(line.version, tokens),
            expects_continue=line.version == b"1.1" and b"100-continue" in _tokens(fields, b"expect"),
            upgrade=b"upgrade" in tokens and _get(fields, b"upgrade") is not None,
            route=self._classify(method, path, query),
        )

    def _read_response(self, raw: bytes, method: str) -> ResponseHead:
        lines = self._lines(raw, RESPONSES)
        line = RESPONSES.parse_line(lines[0])
        fields = RESPONSES.parse_fields(lines[1:])
        declared = RESPONSES.parse_body(fields, line.version)
        h11_check.check_response(raw, method if method in _KINDS else "GET", line.status, self.limit)
        framing, length = _answer_framing(declared, line.status, method)
        return ResponseHead(
            raw=raw,
            status=line.status,
            reason=line.reason.decode("latin-1"),
            headers=fields,
            framing=framing,
            length=length,
            keep_alive=framing is not Framing.UNTIL_CLOSE
            and _keeps_alive(line.version, _tokens(fields, b"connection")),
            interim=line.status < 200 and line.status != 101,
        )

    def _lines(self, raw: bytes, grammar: Grammar) -> list[bytes]:
        """The lines of a complete head, after the checks of `check_beginning`."""
        if raw:
            grammar.check_beginning(raw, 0, self.limit)
        if raw.find(BLANK, 0, self.limit) != len(raw) - len(BLANK):
            raise grammar.too_long_error(self.limit) if len(raw) > self.limit else grammar.not_one_head_error()
        return raw[: -len(BLANK)].split(b"\r\n")


def _framing(declared: DeclaredBody, otherwise: Framing) -> tuple[Framing, int]:
    if declared.chunked:
        return Framing.CHUNKED, 0
    if declared.length is None:
        return otherwise, 0
    return (Framing.LENGTH, declared.length) if declared.length else (Framing.NONE, 0)


def _answer_framing(declared: DeclaredBody, status: int, method: str) -> tuple[Framing, int]:
    """RFC 9112, 6.3. An answer that has no body by its kind may not claim one, but for those that say what GET has."""
    if method == "HEAD" or status == 304:
        return Framing.NONE, 0
    if status < 200 or status == 204 or (method == "CONNECT" and status < 300):
        if declared.chunked or declared.length:
            raise MalformedError(502, f"an answer with status {status} has no body, but this one claims one")
        return Framing.NONE, 0
    return _framing(declared, Framing.UNTIL_CLOSE)


def _keeps_alive(version: bytes, tokens: frozenset[bytes]) -> bool:
    return b"close" not in tokens and (version == b"1.1" or b"keep-alive" in tokens)


def _tokens(fields: Fields, name: bytes) -> frozenset[bytes]:
    """The words of a field that is a list, in lower case."""
    values = [value for found, value in fields if found == name]
    return frozenset(word.strip(b" \t").lower() for value in values for word in value.split(b","))


def _get(fields: Fields, name: bytes) -> bytes | None:
    for found, value in fields:
        if found == name:
            return value
    return None


def _may_be_remembered(raw: bytes, fields: Fields) -> bool:
    return len(raw) <= _LONGEST_REMEMBERED and not any(name in _SECRETS for name, _ in fields)


_ABSOLUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://[^/]*(.*)", re.DOTALL)
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ESCAPE: Final = re.compile(r"%([0-9A-Fa-f]{2})")


class RequestTarget(NamedTuple):
    """`path` has no query, scheme or host; a byte of it is a letter of the same number, so that nothing is lost."""

    path: str
    query: str


def read_target(method: str, target: str) -> RequestTarget:
    """Take a target apart. It has no white space and no control characters. Raises MalformedError."""
    if method == "CONNECT" and not target.startswith("/"):
        return RequestTarget("", "")
    if target == "*":
        return RequestTarget("*", "")
    rest, _, query = target.partition("?")
    if not rest.startswith("/"):
        match = _ABSOLUTE.fullmatch(rest)
        if match is None:
            raise MalformedError(400, f"the target of the request is {format_value(target.encode('latin-1'))}")
        rest = match[1]
    if "%" in rest:
        if _BAD_ESCAPE.search(rest) is not None:
            raise MalformedError(
                400, f"the target of the request has a % that escapes nothing: {format_value(target.encode('latin-1'))}"
            )
        rest = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), rest)
    return RequestTarget(rest, query)
