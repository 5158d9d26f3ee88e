"""Leaving out of a list what a filter does not ask for, as a runtime would. Pure."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final


def _container(wanted: Any, one: Any) -> bool:
    return (
        one.id.startswith(wanted.id)
        and (not wanted.HasField("state") or one.state == wanted.state.state)
        and one.pod_sandbox_id.startswith(wanted.pod_sandbox_id)
        and _labelled(wanted, one)
    )


def _pod(wanted: Any, one: Any) -> bool:
    return (
        one.id.startswith(wanted.id)
        and (not wanted.HasField("state") or one.state == wanted.state.state)
        and _labelled(wanted, one)
    )


def _image(wanted: Any, one: Any) -> bool:
    name = wanted.image.image
    return not name or name == one.id or name in one.repo_tags or name in one.repo_digests


def _labelled(wanted: Any, one: Any) -> bool:
    return all(one.labels.get(key) == value for key, value in wanted.label_selector.items())


# Where the list is in a reply, and who may stay.
NARROWED: Final[Mapping[str, tuple[str, Callable[[Any, Any], bool]]]] = MappingProxyType(
    {
        "ListContainers": ("containers", _container),
        "ListPodSandbox": ("items", _pod),
        "ListImages": ("images", _image),
    }
)


def narrow(name: str, request: Any, reply: Any) -> None:
    """Take out of a reply what the filter of the request does not let pass."""
    field, fits = NARROWED[name]
    items = getattr(reply, field)
    for one in [one for one in items if not fits(request.filter, one)]:
        items.remove(one)
