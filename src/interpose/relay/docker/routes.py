"""Which call of Docker's API a request is, as dockerd itself would route it.

Paths are matched decoded, with any version before them or none, and a container may be named by anything its pattern
takes, slashes included. What parameters make of a call counts too: a kill with a harmless signal is no stop, logs
without `follow` end by themselves. dockerd takes parameters from a form in the body before those of the query, so does
whoever asks `parameters`. A request that no row knows is `OTHER`: it passes, and dockerd says what it thinks of it.

Pure. Names of rows are labels of metrics: a fixed set, and every variant of a row has the name of the row.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple
from urllib.parse import quote, unquote_to_bytes

from interpose.net.h1.heads import Framing, RequestHead


class DockerOperation(StrEnum):
    """What is done to a container."""

    CREATE = "create"
    START = "start"
    RESET = "reset"  # a start with a body: to old versions of the API that is what the container is to have
    STOP = "stop"
    KILL = "kill"
    RESTART = "restart"
    UPDATE = "update"
    REMOVE = "remove"


# The CRI methods that an operation may become.
METHODS_OF: Final[Mapping[DockerOperation, tuple[str, ...]]] = MappingProxyType(
    {
        DockerOperation.CREATE: ("RunPodSandbox", "CreateContainer"),
        DockerOperation.START: ("StartContainer",),
        DockerOperation.RESET: ("RunPodSandbox", "CreateContainer", "UpdateContainerResources", "StartContainer"),
        DockerOperation.STOP: ("StopPodSandbox", "StopContainer"),
        DockerOperation.KILL: ("StopPodSandbox", "StopContainer"),
        DockerOperation.RESTART: ("StartContainer",),
        DockerOperation.UPDATE: ("UpdateContainerResources",),
        DockerOperation.REMOVE: ("RemovePodSandbox", "RemoveContainer"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerEndpoint:
    """A row, or a variant of one that a query makes: the name is the same then."""

    name: str
    operation: DockerOperation | None = None  # None: never intercepted
    hijack: bool = False  # a 200 with a raw stream makes the connection a tunnel
    endless: bool = False  # the answer goes on until one side closes


class RoutedRequest(NamedTuple):
    """A request: what it is, whom it is about, and how."""

    endpoint: DockerEndpoint
    ref: str  # id, part of it, or name; empty where the path has none
    params: Mapping[str, str]  # the first value of each


Params = Mapping[str, str]
# Whether the query makes the row what it says; where it does not, the operation does not happen and the answer ends.
_Condition = Callable[[Params], bool]


class _Row(NamedTuple):
    methods: tuple[str, ...]
    pattern: re.Pattern[str]
    endpoint: DockerEndpoint
    variant: DockerEndpoint
    condition: _Condition | None


_NO: Final = frozenset(("", "0", "no", "false", "none"))
_FORM: Final = "application/x-www-form-urlencoded"
# A start with no more than this many bytes is one without a body to dockerd.
_NO_BODY: Final = 7
_NO_PARAMS: Final[Params] = MappingProxyType({})


def _truth(value: str) -> bool:
    return value.strip().lower() not in _NO


def _follows(params: Params) -> bool:
    return _truth(params.get("follow", ""))


def _streams(params: Params) -> bool:
    return _truth(params.get("stream", "1"))


def kills(params: Params) -> bool:
    """Whether a kill with these parameters ends the container for sure."""
    signal = params.get("signal", "")
    return signal.removeprefix("+").lstrip("0") == "9" or signal.upper().removeprefix("SIG") in ("", "KILL")


def _whole(params: Params) -> bool:
    """With `link` only a name of the container goes."""
    return not _truth(params.get("link", ""))


def _pattern(template: str) -> re.Pattern[str]:
    parts = [r"(.+)" if part.startswith("{") else re.escape(part) for part in template.split("/")]
    # One capture at most: where there are two places to fill, neither is needed.
    return re.compile("/".join(parts))


def _row(
    methods: str,
    template: str,
    operation: DockerOperation | None = None,
    *,
    hijack: bool = False,
    endless: bool = False,
    condition: _Condition | None = None,
) -> _Row:
    endpoint = DockerEndpoint(name=f"{methods} {template}", operation=operation, hijack=hijack, endless=endless)
    variant = replace(endpoint, operation=None, endless=False)
    return _Row(tuple(methods.split("|")), _pattern(template), endpoint, variant, condition)


_ID: Final = "/containers/{id}"

# Where two patterns take a path, the one with more of it written out comes first.
_TABLE: Final[tuple[_Row, ...]] = (
    _row("POST", "/containers/create", DockerOperation.CREATE),
    _row("POST", f"{_ID}/start", DockerOperation.START),
    _row("POST", f"{_ID}/stop", DockerOperation.STOP),
    _row("POST", f"{_ID}/kill", DockerOperation.KILL),
    _row("POST", f"{_ID}/restart", DockerOperation.RESTART),
    _row("POST", f"{_ID}/update", DockerOperation.UPDATE),
    _row("DELETE", _ID, DockerOperation.REMOVE, condition=_whole),
    _row("POST", f"{_ID}/attach", hijack=True),
    _row("POST", "/exec/{id}/start", hijack=True),
    _row("GET", "/containers/json"),
    _row("GET", f"{_ID}/json"),
    _row("GET", f"{_ID}/logs", endless=True, condition=_follows),
    _row("GET", f"{_ID}/stats", endless=True, condition=_streams),
    _row("GET", f"{_ID}/top"),
    _row("GET", f"{_ID}/changes"),
    _row("GET", f"{_ID}/export"),
    _row("GET", f"{_ID}/attach/ws"),
    _row("GET|HEAD|PUT", f"{_ID}/archive"),
    _row("POST", f"{_ID}/wait"),
    _row("POST", f"{_ID}/resize"),
    _row("POST", f"{_ID}/pause"),
    _row("POST", f"{_ID}/unpause"),
    _row("POST", f"{_ID}/rename"),
    _row("POST", f"{_ID}/exec"),
    _row("POST", "/containers/prune"),
    _row("GET", "/exec/{id}/json"),
    _row("POST", "/exec/{id}/resize"),
    _row("GET", "/images/json"),
    _row("POST", "/images/create"),
    _row("POST", "/images/load"),
    _row("GET", "/images/get"),
    _row("GET", "/images/{name}/get"),
    _row("GET", "/images/{name}/json"),
    _row("POST", "/images/{name}/push"),
    _row("POST", "/images/{name}/tag"),
    _row("DELETE", "/images/{name}"),
    _row("POST", "/build"),
    _row("POST", "/session"),
    _row("POST", "/grpc"),
    _row("POST", "/commit"),
    _row("GET|HEAD", "/_ping"),
    _row("GET", "/version"),
    _row("GET", "/info"),
    _row("GET", "/events", endless=True),
    _row("GET", "/system/df"),
)
OTHER: Final = DockerEndpoint(name="other")
# All labels there are.
NAMES: Final[tuple[str, ...]] = (*(row.endpoint.name for row in _TABLE), OTHER.name)

_VERSION: Final = re.compile(r"/v[0-9.]+(?=/)")
_BY_METHOD: Final[Mapping[str, tuple[_Row, ...]]] = MappingProxyType(
    {
        method: tuple(row for row in _TABLE if method in row.methods)
        for method in ("GET", "HEAD", "POST", "PUT", "DELETE")
    }
)


def classify(method: str, path: str, query: str) -> RoutedRequest:
    """Route a request by its method, its decoded path and its query as it came."""
    params = _params(query) if query else _NO_PARAMS
    version = _VERSION.match(path)
    tried = path[version.end() :] if version else path
    for row in _BY_METHOD.get(method, ()):
        found = row.pattern.fullmatch(tried)
        if found is not None:
            endpoint = row.endpoint if row.condition is None or row.condition(params) else row.variant
            return RoutedRequest(endpoint, found.group(1) if found.re.groups else "", params)
    return RoutedRequest(OTHER, "", params)


def operation_of(head: RequestHead) -> DockerOperation | None:
    """What a request may be, by its head; with its body it may still turn out to be nothing of consequence."""
    routed: RoutedRequest = head.route
    operation = routed.endpoint.operation
    if operation is DockerOperation.START and (head.framing is Framing.CHUNKED or head.length > _NO_BODY):
        return DockerOperation.RESET
    if operation is DockerOperation.KILL and not kills(routed.params) and _media_type(head)[0] != _FORM:
        return None
    return operation


def parameters(head: RequestHead, body: bytes) -> tuple[Params, ...]:
    """The parameters of a POST as dockerd takes them. More than one reading: it is not sure which of them it takes."""
    params: Params = head.route.params
    kind, has_more = _media_type(head)
    if kind != _FORM or not body:
        return (params,)
    both = MappingProxyType({**params, **_params(body.decode("latin-1"))})
    # Go gives up on some of what may follow, and then it does not read the form.
    return (both, params) if has_more else (both,)


def renamed(head: RequestHead, object_id: str) -> str:
    """The target that names the container of a request by this id, and is the same in everything else."""
    before, after = head.path.split("/containers/", 1)
    query = f"?{head.query}" if head.query else ""
    return f"{before}/containers/{quote(object_id, safe='')}{after.removeprefix(head.route.ref)}{query}"


def _media_type(head: RequestHead) -> tuple[str, bool]:
    """What kind of body it is, and whether more is said about that."""
    kind, more, _ = (head.get(b"content-type") or b"").decode("latin-1").partition(";")
    return kind.strip().lower(), bool(more)


def _params(query: str) -> Params:
    """The first value of each key; letters of the query stand for bytes.

    Older dockerds also split at a semicolon; younger ones refuse the request.
    """
    found: dict[str, str] = {}
    for pair in re.split("[&;]", query):
        if pair:
            key, _, value = pair.partition("=")
            found.setdefault(_unquoted(key), _unquoted(value))
    return MappingProxyType(found)


def _unquoted(text: str) -> str:
    return unquote_to_bytes(text.replace("+", " ").encode("latin-1", "replace")).decode("utf-8", "replace")
