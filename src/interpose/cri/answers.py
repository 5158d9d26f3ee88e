"""What must be in a runtime's answers. A runtime that leaves it out is broken, and it is said at once and by name.

Going on with half an answer would fail later, where nobody sees why: a container without an id, an image of no size.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from interpose.net.grpc.status import Code, RpcError

_CONDITIONS: Final = 2  # RuntimeReady and NetworkReady


def _missing(message: Any, *fields: str) -> list[str]:
    """The fields, written with dots, that are empty or 0."""
    return [field for field in fields if not _value(message, field)]


def _value(message: Any, field: str) -> Any:
    for name in field.split("."):
        message = getattr(message, name)
    return message


def _sandbox_status(answer: Any) -> list[str]:
    if not answer.HasField("status"):
        return ["status"]
    # Not its metadata: that is what whoever made the sandbox gave it, maybe with crictl and none at all.
    return _missing(answer, "status.id", "status.created_at")


def _container_status(answer: Any) -> list[str]:
    if not answer.HasField("status"):
        return ["status"]
    fields = ("status.id", "status.metadata.name", "status.created_at", "status.image.image", "status.image_ref")
    return _missing(answer, *fields)


def _image_status(answer: Any) -> list[str]:
    return _missing(answer, "image.id", "image.size") if answer.HasField("image") else []


def _status(answer: Any) -> list[str]:
    return [] if len(answer.status.conditions) >= _CONDITIONS else ["status.conditions (at least 2)"]


def _needs(*fields: str) -> Callable[[Any], list[str]]:
    return lambda answer: _missing(answer, *fields)


_RULES: Final[Mapping[str, Callable[[Any], list[str]]]] = MappingProxyType(
    {
        "Version": _needs("version", "runtime_name", "runtime_version", "runtime_api_version"),
        "RunPodSandbox": _needs("pod_sandbox_id"),
        "CreateContainer": _needs("container_id"),
        "PodSandboxStatus": _sandbox_status,
        "ContainerStatus": _container_status,
        "ImageStatus": _image_status,
        "PullImage": _needs("image_ref"),
        "Status": _status,
        "Exec": _needs("url"),
        "Attach": _needs("url"),
        "PortForward": _needs("url"),
    }
)


def check_answer(method: str, answer: Any) -> None:
    """RpcError INTERNAL that names what an answer lacks."""
    rule = _RULES.get(method)
    if rule is None:
        return
    missing = rule(answer)
    if missing:
        raise RpcError(Code.INTERNAL, f"the runtime's answer to {method} lacks {', '.join(missing)}")
