"""Writes changes into CRI requests.

Edits the parsed original in place, so unknown fields, the order of variables and their bytes stay as they came. Pure.
Invariants: a submessage is made only to write something into it; no request makes this fail, whatever it lacks.

A request to create is complete, so a value is removed by leaving it out. UpdateContainerResources is a patch in which
runtimes ignore zero and empty values; there a value is removed by writing one that means it (`HookField.unset_value`).
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
    HookField,
    HookFieldKind,
    Key,
    Value,
    split_path,
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

    The changes may be those of several answers, one after the other. `allowed` is called at most once, and only when an
    update removes a CPU set.
    """
    sets: list[tuple[str, str]] = []

    def unset_value(field: HookField) -> Value | None:
        if not isinstance(field.unset_value, Allowed):
            return field.unset_value
        if not sets:
            sets.append(allowed())
        return sets[0][field.unset_value.value] or None

    variables: dict[str, FieldChange] = {}
    without_effect = []
    for change in _fold_changes(changes):
        path, key = split_path(change.path)
        field = CONTAINER_FIELDS.get(path) or POD_FIELDS.get(path)
        steps = None if field is None else TARGETS.get(method, {}).get(field.owner or field.name)
        if field is None or steps is None:
            without_effect.append(change.path)
        elif field.kind is HookFieldKind.ENVS:
            variables[str(key)] = change  # all in one go: finding each in the list would take its length each time
        elif not _apply(method, request, change, field, key, steps, unset_value):
            without_effect.append(change.path)
    if variables:
        envs = reduce(getattr, TARGETS[method]["container_envs"], request)
        without_effect += [variables[key].path for key in _write_variables(envs, variables)]
    return tuple(without_effect)


def _fold_changes(changes: Iterable[FieldChange]) -> list[FieldChange]:
    """One change per path, from the first `before` to the last `after`; none if the two are equal.

    Without this, an update could not undo what an earlier answer added and a later one cleared.
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
    unset_value: Callable[[HookField], Value | None],
) -> bool:
    if not field.owner:
        steps, field = steps[:-1], replace(field, name=steps[-1])
    value = change.after
    if value is None and field.owner and method == _UPDATE:
        value = unset_value(field)
        if value is None:
            return False
    # Reading from an absent submessage does not create it; writing to it does.
    target = reduce(getattr, steps, request)
    if value is None and key not in read(target, field):
        return False
    write(target, field, key, value)
    return True


def _write_variables(envs: Any, changes: Mapping[str, FieldChange]) -> list[str]:
    """Set or remove variables in a list that may have a key more than once: the last entry counts.

    Returns the keys to be removed that the list does not have.
    """
    positions: dict[str, list[int]] = {}
    for position, entry in enumerate(envs):
        if entry.key in changes:
            positions.setdefault(entry.key, []).append(position)
    removed: list[int] = []
    missing: list[str] = []
    for key, change in changes.items():
        found = positions.get(key)
        if change.after is None:
            removed += found or ()
            if found is None:
                missing.append(key)
        elif found is not None:
            envs[found[-1]].value = str(change.after).encode()
        else:
            envs.add(key=key, value=str(change.after).encode())
    for position in sorted(removed, reverse=True):
        del envs[position]
    return missing
