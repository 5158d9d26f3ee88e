"""What a request is about, by its method, path and query. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from tests.support.apiserver.problems import bad_request, method_not_allowed, no_such_path
from tests.support.apiserver.resources import BY_PATH, NAMESPACES, Kind, StatusOnWrite
from tests.support.apiserver.selectors import selected_name

_OF_ONE: Final = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_OF_ALL: Final = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}


@dataclass(slots=True, kw_only=True)
class Logged:
    """A request as the server noted it. `code` is that of the answer, 0 as long as there is none."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    agent: str = ""
    user: str = ""
    content_type: str = ""
    body: Any = None
    code: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A kind of objects, or one of them."""

    kind: Kind
    verb: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def resource_path(self) -> str:
        """As rules of access spell it: nodes/status."""
        plural = self.kind.resource.plural
        return f"{plural}/{self.subresource}" if self.subresource else plural


def split_target(text: str) -> tuple[str, dict[str, str]]:
    """Path and query of a request's first line; of a parameter that appears twice the last one counts."""
    path, _, query = text.partition("?")
    return unquote(path), dict(parse_qsl(query, keep_blank_values=True))


def find_target(method: str, path: str, query: Mapping[str, str]) -> Target:
    """RefusedError 404 if nothing of the table is there, 405 if the method makes no sense."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise no_such_path()
    namespace = ""
    if rest[0] == NAMESPACES.plural and len(rest) > 2 and rest[2] != "status":
        namespace, rest = rest[1], rest[2:]
    kind = BY_PATH.get((group, version, rest[0]))
    if kind is None or len(rest) > 3 or (bool(namespace) and not kind.resource.namespaced):
        raise no_such_path()
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if subresource and (subresource != "status" or kind.status is StatusOnWrite.PLAIN):
        raise no_such_path()
    return Target(
        kind=kind,
        verb=_verb(kind, method, namespace, name, query),
        namespace=namespace,
        name=name,
        subresource=subresource,
    )


def _verb(kind: Kind, method: str, namespace: str, name: str, query: Mapping[str, str]) -> str:
    verb = (_OF_ONE if name else _OF_ALL).get(method)
    across = kind.resource.namespaced and not namespace
    if across and name:
        raise no_such_path()
    if verb is None or (across and verb != "list"):
        raise method_not_allowed()
    if verb == "list" and is_set(query, "watch"):
        return "watch"
    return verb


def is_set(query: Mapping[str, str], key: str) -> bool:
    """A flag of the query."""
    return query.get(key, "false") not in ("false", "0")


def number(query: Mapping[str, str], key: str) -> int:
    """A number of the query, 0 if it is not there."""
    text = query.get(key, "")
    if text and not text.isdecimal():
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text or 0)


def asked_name(target: Target, query: Mapping[str, str]) -> str:
    """The name that rules of access are held against: of the path, or that of a selector by name."""
    return target.name or selected_name(query.get("fieldSelector", ""))
