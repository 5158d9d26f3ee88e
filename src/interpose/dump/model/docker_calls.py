"""Calls of Docker's HTTP API among those of CRI: how they are named. Pure.

A relay in front of dockerd shows calls about containers of Kubernetes as the CRI calls they stand for, and all others
by a path of their own: `/docker/GET /v1.41/containers/json`. Only that they came and how they ended is known of them.
"""

import re
from typing import Final, NamedTuple

from interpose.relay.docker.routes import OTHER, classify

SERVICE: Final = "docker"
_PREFIX: Final = f"/{SERVICE}/"
_VERSION: Final = re.compile(r"^/v[0-9][0-9.]*(?=/)")
# An id of a container or image, of which Docker itself shows only the beginning.
_ID: Final = re.compile(r"(?<![0-9a-f])([0-9a-f]{12})[0-9a-f]{52}(?![0-9a-f])")
_SHORT: Final = r"\1"
_STATUS: Final = re.compile(r"HTTP ([1-5][0-9][0-9])(?![0-9])")


class HttpCall(NamedTuple):
    """An HTTP call as it came, without its query."""

    method: str
    path: str


def http_call(path: str) -> HttpCall | None:
    """The HTTP call behind the path of a call; None if it is a call of gRPC."""
    if not path.startswith(_PREFIX):
        return None
    method, space, target = path.removeprefix(_PREFIX).partition(" ")
    return HttpCall(method, target) if space else None


def short_name(call: HttpCall) -> str:
    """`GET /containers/json`: without the version of the API, which is the same for all calls, and with short ids."""
    return f"{call.method} {_ID.sub(_SHORT, _VERSION.sub('', call.path))}"


def method_name(call: HttpCall) -> str:
    """`GET /containers/{id}/json`: what calls about different things have in common."""
    endpoint = classify(call.method, call.path, "").endpoint
    return short_name(call) if endpoint is OTHER else endpoint.name


def http_status(message: str) -> int | None:
    """The HTTP status that the end of a call tells; None if it tells none."""
    found = _STATUS.match(message)
    return int(found[1]) if found else None
