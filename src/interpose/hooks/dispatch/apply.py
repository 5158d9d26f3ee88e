"""Writes changes into CRI requests.

Edits the parsed original in place, so unknown fields, the order of variables and their bytes stay as they came. Pure.
Invariants: a submessage is made only to write something into it; no request makes this fail, whatever it lacks.

A request to create says all there is, so taking a value away is leaving it out. UpdateContainerResources is a patch in
which runtimes ignore what is zero or empty; there a value is taken away by writing one that means it
(`HookField.lifted`).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import reduce
from types import MappingProxyType
from typing import Any

from interpose.hooks.dispatch.fields import (
    CONTAINER_FIELDS,
    POD_FIELDS,
    Allowed,
    FieldKind,
    HookField,
    Key,
    Value,
    split,
)
from interpose.hooks.dispatch.merge import FieldChange, read, write

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


def apply(method: str, request: Any, changes: Iterable[FieldChange], allowed: AllowedSets) -> tuple[str, ...]:
    """Make the changes in the request of this method; returns the paths that have no effect there.

    The changes may be those of several answers, one after the other. `allowed` is asked at most once, and only when an
    update takes a CPU set away.
    """
    sets: list[tuple[str, str]] = []

    def lifted(field: HookField) -> Value | None:
        if not isinstance(field.lifted, Allowed):
            return field.lifted
        if not sets:
            sets.append(allowed())
        return sets[0][field.lifted.value] or None

    variables: dict[str, FieldChange] = {}
    without_effect = []
    for change in _folded(changes):
        path, key = split(change.path)
        field = CONTAINER_FIELDS.get(path) or POD_FIELDS.get(path)
        steps = None if field is None else TARGETS.get(method, {}).get(field.owner or field.name)
        if field is None or steps is None:
            without_effect.append(change.path)
        elif field.kind is FieldKind.ENVS:
            variables[str(key)] = change  # all in one go: finding each in the list would take its length each time
        elif not _apply(method, request, change, field, key, steps, lifted):
            without_effect.append(change.path)
    if variables:
        held = reduce(getattr, TARGETS[method]["container_envs"], request)
        without_effect += [variables[key].path for key in _write_variables(held, variables)]
    return tuple(without_effect)


def _folded(changes: Iterable[FieldChange]) -> list[FieldChange]:
    """One change per path, from what was there first to what is wanted last; none if that is the same.

    Without this, an update could not take back what an earlier answer added and a later one cleared.
    """
    found: dict[str, FieldChange] = {}
    for change in changes:
        first = found.get(change.path, change)
        found[change.path] = FieldChange(change.path, first.before, change.after)
    return [change for change in found.values() if change.before != change.after]


def _apply(
    method: str,
    request: Any,
    change: FieldChange,
    field: HookField,
    key: Key,
    steps: tuple[str, ...],
    lifted: Callable[[HookField], Value | None],
) -> bool:
    if not field.owner:
        steps, field = steps[:-1], replace(field, name=steps[-1])
    value = change.after
    if value is None and field.owner and method == _UPDATE:
        value = lifted(field)
        if value is None:
            return False
    # To look into a submessage that is absent is harmless; it comes into being when something is done in it.
    target = reduce(getattr, steps, request)
    if value is None and key not in read(target, field):
        return False
    write(target, field, key, value)
    return True


def _write_variables(held: Any, wanted: Mapping[str, FieldChange]) -> list[str]:
    """Set or remove variables in a list that may name one more than once: the last one is the one that counts.

    Returns the keys that were to go and are not there.
    """
    places: dict[str, list[int]] = {}
    for place, entry in enumerate(held):
        if entry.key in wanted:
            places.setdefault(entry.key, []).append(place)
    gone: list[int] = []
    missing: list[str] = []
    for key, change in wanted.items():
        there = places.get(key)
        if change.after is None:
            gone += there or ()
            if there is None:
                missing.append(key)
        elif there is not None:
            held[there[-1]].value = str(change.after).encode()
        else:
            held.add(key=key, value=str(change.after).encode())
    for place in sorted(gone, reverse=True):
        del held[place]
    return missing
