"""The marks that a policy wants on its Node object, and the patch that gets it there. Pure.

What we put there is noted in an annotation, in the same patch. So it can be taken back later, and only that: others may
have set the same things, and theirs stay. Invariant: a node that shows everything wanted needs no operations.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from interpose.core.model.cpuset import CpuSet
from interpose.core.model.jsonpatch import PatchOperation
from interpose.core.model.quantity import parse_quantity
from interpose.core.policy.names import NONE
from interpose.core.policy.static_pools.options import PoolsOptions
from interpose.resmgr.config.configuration import Configuration

ANNOTATION: Final = "interpose/published"
CORES: Final = "cmk.intel.com/exclusive-cores"
LABEL: Final = ("cmk.intel.com/cmk-node", "true")

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_TAINTS: Final = "/spec/taints"


class Taint(NamedTuple):
    """A taint, which keeps pods away that do not tolerate it."""

    key: str
    value: str
    effect: str


TAINT: Final = Taint("cmk", "true", "NoSchedule")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMarks:
    """Extended resources, labels and taints of a Node."""

    capacities: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.capacities or self.labels or self.taints)

    def __str__(self) -> str:
        parts = [f"{name}: {amount}" for name, amount in self.capacities.items()]
        parts += [f"label {key}={value}" for key, value in self.labels.items()]
        parts += [f"taint {taint.key}={taint.value}:{taint.effect}" for taint in self.taints]
        return ", ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePatchPlan:
    """Changes of a Node, in this order.

    What is taken back goes before its note does, what is new comes after its note.
    """

    withdrawn: Mapping[str, str]
    operations: tuple[PatchOperation, ...]
    published: Mapping[str, str]

    def __bool__(self) -> bool:
        return bool(self.withdrawn or self.operations or self.published)


def desired_marks(configuration: Configuration, online: CpuSet) -> NodeMarks | None:
    """What a configuration wants on a machine with these CPUs; None if unknown: then the node is left alone."""
    if configuration.policy == NONE and configuration.fallback_reasons:
        return None
    options = configuration.options
    if not isinstance(options, PoolsOptions):
        return NodeMarks()
    exclusive = [pool for pool in options.pools.values() if pool.exclusive]
    # A list whose CPUs are all offline is not given out.
    cores = sum(1 for pool in exclusive for cpu_list in pool.lists if cpu_list.cpus & online)
    return NodeMarks(
        capacities={CORES: cores} if cores else {},
        labels=dict([LABEL]) if options.label_node else {},
        taints=(TAINT,) if options.taint_node else (),
    )


def plan(node: Mapping[str, Any], wanted: NodeMarks) -> NodePatchPlan:
    """The changes after which a node shows what is wanted and nothing older of ours.

    ValueError if it is no Node object.
    """
    try:
        meta = node.get("metadata") or _NOTHING
        labels, annotations = meta.get("labels") or _NOTHING, meta.get("annotations") or _NOTHING
        taints = (node.get("spec") or _NOTHING).get("taints") or []
        capacity = (node.get("status") or _NOTHING).get("capacity") or _NOTHING
        noted = _read_note(annotations.get(ANNOTATION))
        present = {_read_taint(taint) for taint in taints}
        # What is there as wanted and not noted belongs to others.
        ours = NodeMarks(
            capacities={
                name: amount
                for name, amount in wanted.capacities.items()
                if name in noted.capacities or not _equals(capacity.get(name), amount)
            },
            labels={key: text for key, text in wanted.labels.items() if key in noted.labels or labels.get(key) != text},
            taints=tuple(taint for taint in wanted.taints if taint in noted.taints or taint not in present),
        )
        withdrawn = [name for name in noted.capacities if name not in wanted.capacities and name in capacity]
        return NodePatchPlan(
            withdrawn={name: "0" for name in withdrawn if not _equals(capacity[name], 0)},
            operations=(
                *_entries("labels", labels, _label_changes(labels, noted.labels, wanted.labels)),
                *_taint_operations(taints, noted.taints, wanted.taints),
                *_entries("annotations", annotations, {ANNOTATION: _note(ours)}),
            ),
            published={n: str(amount) for n, amount in ours.capacities.items() if not _equals(capacity.get(n), amount)},
        )
    except (AttributeError, TypeError, KeyError) as error:
        raise ValueError(f"not a Node object: {type(error).__name__}: {error}") from None


def _label_changes(
    labels: Mapping[str, str], noted: Mapping[str, str], wanted: Mapping[str, str]
) -> Mapping[str, str | None]:
    """What is wanted, and what was and is still as we left it."""
    withdrawn = {key: None for key, value in noted.items() if key not in wanted and labels.get(key) == value}
    return {**withdrawn, **wanted}


def _entries(where: str, entries: Mapping[str, str], changes: Mapping[str, str | None]) -> list[PatchOperation]:
    """Entries get a value, or go; what was read has to be there still."""
    operations = []
    for key, value in changes.items():
        before, path = entries.get(key), f"/metadata/{where}/{key.replace('~', '~0').replace('/', '~1')}"
        if before == value:
            continue
        if before is not None:
            operations.append(PatchOperation("test", path, json.dumps(before)))
        operations.append(
            PatchOperation("remove", path) if value is None else PatchOperation("add", path, json.dumps(value))
        )
    if operations and not entries:
        operations.insert(0, PatchOperation("add", f"/metadata/{where}", "{}"))
    return operations


def _taint_operations(
    found: list[Mapping[str, str]], noted: tuple[Taint, ...], wanted: tuple[Taint, ...]
) -> list[PatchOperation]:
    """The list can only be replaced as a whole, so it has to be still the one that was read."""
    taints = [_read_taint(taint) for taint in found]
    new = [taint for taint in wanted if taint not in taints]
    replaced = {(taint.key, taint.effect) for taint in new}
    after = [
        raw
        for raw, taint in zip(found, taints, strict=True)
        if (taint.key, taint.effect) not in replaced and (taint in wanted or taint not in noted)
    ]
    after += [taint._asdict() for taint in new]
    if after == found:
        return []
    test = [PatchOperation("test", _TAINTS, json.dumps(found))] if found else []
    return [*test, PatchOperation("add", _TAINTS, json.dumps(after))]


def _read_taint(taint: Mapping[str, str]) -> Taint:
    return Taint(taint["key"], taint.get("value") or "", taint["effect"])


def _equals(found: str | None, amount: int) -> bool:
    """Whether a quantity is this amount; None and unreadable text are not."""
    try:
        return found is not None and parse_quantity(found) == amount
    except ValueError:
        return False


def _note(ours: NodeMarks) -> str | None:
    if not ours:
        return None
    parts = {
        "capacities": ours.capacities,
        "labels": ours.labels,
        "taints": [f"{taint.key}={taint.value}:{taint.effect}" for taint in ours.taints],
    }
    return json.dumps({key: value for key, value in parts.items() if value}, sort_keys=True, separators=(",", ":"))


def _read_note(text: str | None) -> NodeMarks:
    """The other side of `_note`. What cannot be read is not ours: nothing is taken back then."""
    try:
        found = json.loads(text or "{}")
        return NodeMarks(
            capacities={str(name): int(amount) for name, amount in found.get("capacities", {}).items()},
            labels={str(key): str(value) for key, value in found.get("labels", {}).items()},
            taints=tuple(_parse_taint(str(taint)) for taint in found.get("taints", ())),
        )
    except (ValueError, TypeError, AttributeError, RecursionError):
        return NodeMarks()


def _parse_taint(text: str) -> Taint:
    rest, _, effect = text.rpartition(":")
    key, _, value = rest.partition("=")
    return Taint(key, value, effect)
