"""Writing an assignment into CRI requests, in place: fields without a decision stay as they came. Pure.

Invariant: a submessage is made only to write something into it.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.decision import Assignment, Grant


class Override(NamedTuple):
    """A value of the caller or a hook server that the policy replaced."""

    field: str
    requested: str
    written: str


def write_create(request: Any, assignment: Assignment, grant: Grant, annotation: str, note: str) -> list[Override]:
    """Write a grant into a CreateContainerRequest; returns the values that it replaced."""
    config = request.config
    overrides = _write_resources(config.linux.resources, assignment) if _says_something(assignment) else []
    config.annotations[annotation] = note
    _write_envs(config.envs, grant.envs)
    if grant.command is not None:
        del config.command[:]
        del config.args[:]
        config.command.extend(grant.command)
    return overrides


def write_fallback(request: Any, cpus: CpuSet) -> None:
    """Write CPUs without an exclusive owner into a CreateContainerRequest without a decision."""
    if cpus:
        request.config.linux.resources.cpuset_cpus = str(cpus)


def write_update(request: Any, assignment: Assignment) -> list[Override]:
    """Write an assignment into an UpdateContainerResourcesRequest; returns the values that it replaced."""
    return _write_resources(request.linux, assignment) if _says_something(assignment) else []


def _says_something(assignment: Assignment) -> bool:
    return bool(assignment.cpus) or bool(assignment.mems) or bool(assignment.shares) or bool(assignment.quota)


def _write_resources(resources: Any, assignment: Assignment) -> list[Override]:
    overrides = []
    for field, wanted in (("cpuset_cpus", assignment.cpus), ("cpuset_mems", assignment.mems)):
        if not wanted:
            continue
        requested = getattr(resources, field)
        if requested and not _same(requested, wanted):
            overrides.append(Override(field, requested, str(wanted)))
        setattr(resources, field, str(wanted))
    if assignment.shares:
        resources.cpu_shares = assignment.shares
    if assignment.quota:
        resources.cpu_quota = assignment.quota
    return overrides


def _same(text: str, cpus: CpuSet) -> bool:
    try:
        return CpuSet.parse(text) == cpus
    except ValueError:
        return False


def _write_envs(envs: Any, wanted: Mapping[str, str]) -> None:
    known = {entry.key: entry for entry in envs if entry.key in wanted}  # of several, the last one counts
    for key, value in wanted.items():
        if key in known:
            known[key].value = value.encode()
        else:
            envs.add(key=key, value=value.encode())
