"""What the caller requested, where it was changed on the way: how that survives a restart of the relay.

The create request carries an annotation with the caller's values of the changed fields, and only of those. Read back, a
value counts as long as the runtime still has what it was created with; a field updated since then reports what it is.
Nothing here fails: an annotation that is damaged, or that is not ours, is as good as none.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from interpose.core.model.resources import FIELDS, INT64, NO_RESOURCES, LinuxResources

ANNOTATION: Final = "interpose/requested"
# Metadata of an update that is not a request of the kubelet: a hook server restores its own values.
NOT_REQUESTED: Final = (b"interpose-requested", b"no")
_PARENT: Final = "cgroup_parent"


def resources_note(sent: LinuxResources, asked: LinuxResources) -> str:
    """The annotation of a container that gets other resources than its caller asked for; empty if it does not."""
    values = {name: _plain(getattr(asked, name)) for name in sent.differing(asked)}
    return _compact(values) if values else ""


def parent_note(sent: str, asked: str) -> str:
    """The annotation of a pod that goes to another cgroup than its caller asked for; empty if it does not."""
    return _compact({_PARENT: asked}) if sent != asked else ""


def requested_resources(note: str, current: LinuxResources, created: LinuxResources | None) -> LinuxResources:
    """What was requested of a container that has `current` and was created with `created` (None: unknown)."""
    asked = {
        name: value
        for name, value in ((name, _read(name, raw)) for name, raw in _values(note).items())
        if value is not None and (created is None or getattr(created, name) == getattr(current, name))
    }
    return replace(current, **asked) if asked else current


def requested_parent(note: str, current: str) -> str:
    """The cgroup that was requested for a pod; it cannot have changed since."""
    value = _values(note).get(_PARENT)
    return value if isinstance(value, str) else current


def refreshed(requested: LinuxResources, old: LinuxResources, new: LinuxResources) -> LinuxResources:
    """What is requested of a container that turns out to have `new` instead of `old`.

    Where it had what was requested it still does: it was not we who made the difference.
    """
    agreed = {name: getattr(new, name) for name in FIELDS if getattr(old, name) == getattr(requested, name)}
    return replace(requested, **agreed)


def _values(note: str) -> Mapping[str, Any]:
    if not note:
        return {}
    try:
        values = json.loads(note)
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def _read(name: str, raw: Any) -> Any:
    """The value of a field, or None if it cannot be one."""
    if name not in FIELDS:
        return None
    kind = getattr(NO_RESOURCES, name)
    if isinstance(kind, int):
        return raw if type(raw) is int and raw in INT64 else None
    if isinstance(kind, str):
        return raw if isinstance(raw, str) else None
    if isinstance(kind, tuple):
        return _pairs(raw)
    texts = isinstance(raw, dict) and all(isinstance(value, str) for value in raw.values())
    return raw if texts else None


def _pairs(raw: Any) -> tuple[tuple[str, int], ...] | None:
    if not isinstance(raw, list):
        return None
    pairs = tuple(tuple(item) if isinstance(item, list) else () for item in raw)
    return pairs if all([type(part) for part in pair] == [str, int] for pair in pairs) else None


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def _compact(values: Mapping[str, Any]) -> str:
    return json.dumps(values, separators=(",", ":"), sort_keys=True)
