"""Writes changes into CRI requests.

Edits the parsed original in place, so unknown fields, the order of variables and their bytes stay as they came. Pure.
Invariants: a submessage is made only to write something into it; no request makes this fail, whatever it lacks.

A request to create says all there is, so taking a value away is leaving it out. UpdateContainerResources is a patch in
which runtimes ignore what is zero or empty; there a value is taken away by writing one that means it (`Field.lifted`).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import reduce
from types import MappingProxyType
from typing import Any

from interpose.dispatcher.fields import (
    CONTAINER_FIELDS,
    POD_FIELDS,
    Allowed,
    Field,
    Key,
    Kind,
    Value,
    split,
)
from interpose.dispatcher.merge import Change, read, write

# All CPUs and all memory nodes a container may have, as lists.
AllowedSets = Callable[[], tuple[str, str]]

_UPDATE = "UpdateContainerResources"

# Where a field of an answer is in the request; a submessage of an answer stands for all that is in it.
TARGETS: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "RunPodSandbox": {
            "labels": ("config", "labels"),
            "annotations": ("config", "annotations"),
            "cgroup_parent": ("config", "linux", "cgroup_parent"),
            "resources": ("config", "linux", "resources"),
        },
        "CreateContainer": {
            "container_annotations": ("config", "annotations"),
            "container_envs": ("config", "envs"),
            "pod_cgroup_parent": ("sandbox_config", "linux", "cgroup_parent"),
            "container_resources": ("config", "linux", "resources"),
        },
        _UPDATE: {
            "container_annotations": ("annotations",),
            "container_resources": ("linux",),
        },
    }
)


def apply(method: str, request: Any, changes: Iterable[Change], allowed: AllowedSets) -> tuple[str, ...]:
    """Make the changes in the request of this method; returns the paths that have no effect there.

    The changes may be those of several answers, one after the other. `allowed` is asked at most once, and only when an
    update takes a CPU set away.
    """
    sets: list[tuple[str, str]] = []

    def lifted(field: Field) -> Value | None:
        if not isinstance(field.lifted, Allowed):
            return field.lifted
        if not sets:
            sets.append(allowed())
        return sets[0][field.lifted.value] or None

    return tuple(change.path for change in _folded(changes) if not _apply(method, request, change, lifted))


def _folded(changes: Iterable[Change]) -> list[Change]:
    """One change per path, from what was there first to what is wanted last; none if that is the same.

    Without this, an update could not take back what an earlier answer added and a later one cleared.
    """
    found: dict[str, Change] = {}
    for change in changes:
        first = found.get(change.path, change)
        found[change.path] = Change(change.path, first.before, change.after)
    return [change for change in found.values() if change.before != change.after]


def _apply(method: str, request: Any, change: Change, lifted: Callable[[Field], Value | None]) -> bool:
    path, key = split(change.path)
    field = CONTAINER_FIELDS.get(path) or POD_FIELDS.get(path)
    steps = None if field is None else TARGETS.get(method, {}).get(field.owner or field.name)
    if field is None or steps is None:
        return False
    if not field.owner:
        steps, field = steps[:-1], replace(field, name=steps[-1])
    value = change.after
    if value is None and field.owner and method == _UPDATE:
        value = lifted(field)
        if value is None:
            return False
    # To look into a submessage that is absent is harmless; it comes into being when something is done in it.
    target = reduce(getattr, steps, request)
    if field.kind is Kind.ENVS:
        return _write_variable(getattr(target, field.name), key, value)
    if value is None and key not in read(target, field):
        return False
    write(target, field, key, value)
    return True


def _write_variable(held: Any, key: Key, value: Value | None) -> bool:
    """Set or remove a variable in a list that may name it more than once: the last one is the one that counts."""
    places = [place for place, entry in enumerate(held) if entry.key == key]
    if value is None:
        for place in reversed(places):
            del held[place]
        return bool(places)
    if places:
        held[places[-1]].value = str(value).encode()
    else:
        held.add(key=key, value=str(value).encode())
    return True
