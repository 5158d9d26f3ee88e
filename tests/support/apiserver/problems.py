"""What the API server says when it says no: Status objects, with the words of a real one. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tests.support.apiserver.resources import Kind

SUPPORTED_PATCHES = ("application/json-patch+json", "application/merge-patch+json")
STRATEGIC = "application/strategic-merge-patch+json"


class Cause(NamedTuple):
    """One thing that is wrong with an object; `reason` is a word of Kubernetes, such as FieldValueInvalid."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"


class RefusedError(Exception):
    """A request that is not done; becomes a Status with this code."""

    def __init__(self, code: int, reason: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = dict(details or {})

    @property
    def retry_after(self) -> int | None:
        """Seconds the client is asked to wait: also a header of the answer."""
        seconds = self.details.get("retryAfterSeconds")
        return int(seconds) if seconds else None

    def body(self) -> dict[str, Any]:
        """The Status."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "details": self.details,
            "code": self.code,
        }
        return {key: value for key, value in status.items() if value or key == "metadata"}


def _about(kind: Kind, name: str) -> dict[str, Any]:
    about = {"name": name, "group": kind.resource.group, "kind": kind.resource.plural}
    return {key: value for key, value in about.items() if value}


def not_found(kind: Kind, name: str) -> RefusedError:
    """There is no such object."""
    return RefusedError(404, "NotFound", f'{kind.qualified} "{name}" not found', _about(kind, name))


def no_such_path() -> RefusedError:
    """Nothing is served there."""
    return RefusedError(404, "NotFound", "the server could not find the requested resource")


def already_exists(kind: Kind, name: str) -> RefusedError:
    """There is one already."""
    return RefusedError(409, "AlreadyExists", f'{kind.qualified} "{name}" already exists', _about(kind, name))


def conflict(kind: Kind, name: str, why: str = "") -> RefusedError:
    """Somebody else was first."""
    why = why or ("the object has been modified; please apply your changes to the latest version and try again")
    message = f'Operation cannot be fulfilled on {kind.qualified} "{name}": {why}'
    return RefusedError(409, "Conflict", message, _about(kind, name))


def invalid(kind: Kind, name: str, causes: Sequence[Cause]) -> RefusedError:
    """The object is not what it may be."""
    texts = [f"{cause.field}: {cause.message}" for cause in causes]
    said = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    qualified = f"{kind.resource.kind}.{kind.resource.group}" if kind.resource.group else kind.resource.kind
    details = _about(kind, name) | {
        "kind": kind.resource.kind,
        "causes": [{"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes],
    }
    return RefusedError(422, "Invalid", f'{qualified} "{name}" is invalid: {said}', details)


def unprocessable() -> RefusedError:
    """A JSON patch that cannot be carried out: a real server does not say why."""
    return RefusedError(422, "Invalid", "the server rejected our request due to an error in our request")


def bad_request(message: str) -> RefusedError:
    """Nothing that can be understood."""
    return RefusedError(400, "BadRequest", message)


def expired(message: str = "too old resource version") -> RefusedError:
    """That version is no longer remembered."""
    return RefusedError(410, "Expired", message)


def too_new(asked: int, current: int) -> RefusedError:
    """That version is not there yet."""
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    return RefusedError(504, "Timeout", f"Timeout: Too large resource version: {asked}, current: {current}", details)


def unsupported_media(accepted: Sequence[str]) -> RefusedError:
    """A body of a type nobody reads here."""
    message = "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted)
    return RefusedError(415, "UnsupportedMediaType", message)


def unauthorized() -> RefusedError:
    """Nobody we know."""
    return RefusedError(401, "Unauthorized", "Unauthorized")


def method_not_allowed() -> RefusedError:
    """Nothing to do there with this verb."""
    return RefusedError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
