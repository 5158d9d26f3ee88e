"""From differences to steps: what has to be written, in an order that the kernel accepts at every moment.

A parent never has less than its children: what grows is written from the top of the tree down, then what shrinks from
the leaves up. A set of CPUs that does both is widened to the union first. The order depends on the items alone, not on
how they were listed.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from math import inf
from operator import itemgetter
from types import MappingProxyType
from typing import Final

from interpose.core.model.cgroup import CLEAR, CRI_FIELDS, Level, Parameter, Value
from interpose.core.model.cpuset import CpuSet
from interpose.hooks.server.targets import ActuatorTarget


class PlanAction(StrEnum):
    """What is to be done about one value."""

    KEEP = "keep"  # it is as wanted
    SET = "set"
    RESTORE = "restore"  # no plugin sets it any more: back to what was found
    GONE = "gone"  # the target is not there (any more)
    UNSUPPORTED = "unsupported"  # this kernel has no such thing
    HELD = "held"  # it differs, but now is not the time
    LEFT = "left"  # a policy of the relay decides about it


class WriteRoute(StrEnum):
    """How a value reaches the kernel."""

    FILE = "file"
    CRI = "cri"


class ChangeDirection(StrEnum):
    """What a change does to what a group may have."""

    GROW = "grow"
    SHRINK = "shrink"
    MIXED = "mixed"
    FREE = "free"  # levels do not limit each other


class StepPhase(IntEnum):
    """When a step is taken."""

    NODE = 0
    GROW = 1  # from the top down
    SHRINK = 2  # from the leaves up
    SETTLE = 3  # from the top down: children that take over what their parent has by now


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanItem:
    """One value on one target: what is there, what shall be, and what is to be done about it."""

    target: ActuatorTarget
    parameter: Parameter
    now: Value | None
    wanted: Value | None  # None: nothing of one's own
    plugin: str
    reason: str
    action: PlanAction
    note: str = ""  # for people: what went wrong, or why it is held

    @property
    def final(self) -> Value:
        """What is there when everything is done."""
        return CLEAR if self.wanted is None else self.wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStep:
    """One value to be written; an item has one or two of them."""

    item: PlanItem
    value: Value
    phase: StepPhase


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBatch:
    """Steps to be taken one after the other, by writing files."""

    steps: tuple[WriteStep, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CriBatch:
    """Steps by container: one update each, several containers at a time. A later step of a parameter counts."""

    containers: Mapping[str, tuple[WriteStep, ...]]


Batch = FileBatch | CriBatch

CHANGES: Final = frozenset((PlanAction.SET, PlanAction.RESTORE))
# Limits that a child may not have more of than its parent; nothing set is no limit.
BOUNDED: Final = frozenset((Parameter.CPU_QUOTA, Parameter.MEMORY_LIMIT))
SETS: Final = frozenset((Parameter.CPUSET_CPUS, Parameter.CPUSET_MEMS))
# Writing the first makes the kernel replace the second, when it is switched on and again when it is switched off; in
# between it refuses to have the second written.
SPOILS: Final[Mapping[Parameter, Parameter]] = MappingProxyType({Parameter.CPU_IDLE: Parameter.CPU_SHARES})
# Values that many processes, threads or groups have: where they differ, somebody was born or one was not reached, not
# somebody else at work.
COLLECTIVE: Final = frozenset((Parameter.OOM_SCORE_ADJ, Parameter.CORE_SCHED, Parameter.RESCTRL, Parameter.CPU_BVT))

_OFF: Final = (0, "0", CLEAR)
_RANK: Final = {level: rank for rank, level in enumerate(Level)}
_PARAMETER_RANK: Final = {parameter: rank for rank, parameter in enumerate(Parameter)}
_AFTER_ALL: Final = len(_PARAMETER_RANK)
# Nothing below them is ours: between growing and shrinking they can have any value in one step.
_LEAVES: Final = frozenset((Level.SANDBOX, Level.CONTAINER))
_PHASES: Final = {ChangeDirection.GROW: StepPhase.GROW, ChangeDirection.FREE: StepPhase.GROW}

_SortKey = tuple[int | str, ...]
_Ceilings = Mapping[tuple[Parameter, str], PlanItem]


def is_off(value: Value | None) -> bool:
    """Whether a switch is off with this value."""
    return value is None or value in _OFF


def route_of(item: PlanItem) -> WriteRoute:
    """How an item is carried out."""
    return route(item.target, item.parameter)


def route(target: ActuatorTarget, parameter: Parameter) -> WriteRoute:
    """Runtimes keep their own record of what CRI carries and write it again: around them nothing would last."""
    return WriteRoute.CRI if target.level is Level.CONTAINER and parameter in CRI_FIELDS else WriteRoute.FILE


def direction(parameter: Parameter, now: Value | None, wanted: Value | None) -> ChangeDirection:
    """What changing a parameter from one value to another does; FREE if nothing does."""
    if parameter in BOUNDED:
        before, after = _amount(now), _amount(wanted)
        if before == after:
            return ChangeDirection.FREE
        return ChangeDirection.GROW if after > before else ChangeDirection.SHRINK
    return _direction_of_sets(now, wanted) if parameter in SETS else ChangeDirection.FREE


def order_steps(items: Iterable[PlanItem]) -> tuple[WriteStep, ...]:
    """The steps for all items that are to be set or restored."""
    changes = [item for item in items if item.action in CHANGES]
    ending = {
        (item.target.level, item.target.key, SPOILS[item.parameter])
        for item in changes
        if item.parameter in SPOILS and is_off(item.final)
    }
    ceilings = {(item.parameter, item.target.directory): item for item in changes if item.parameter in SETS}
    keyed_steps = [(_sort_key(step, ending), step) for item in changes for step in _steps(item, ceilings)]
    return tuple(step for _, step in sorted(keyed_steps, key=itemgetter(0)))


def direction_of(item: PlanItem) -> ChangeDirection:
    """What carrying out an item does."""
    return direction(item.parameter, item.now, item.final)


def make_batches(steps: Iterable[WriteStep]) -> list[Batch]:
    """Ordered steps in batches; carrying out one batch after the other keeps the order.

    Growing and shrinking containers are neighbours in the order, so one update of a container has both.
    """
    batches: list[Batch] = []
    files: list[WriteStep] = []
    containers: dict[str, list[WriteStep]] = {}

    def close() -> None:
        if files:
            batches.append(FileBatch(steps=tuple(files)))
            files.clear()
        if containers:
            batches.append(CriBatch(containers={key: tuple(updates) for key, updates in containers.items()}))
            containers.clear()

    for step in steps:
        if route_of(step.item) is WriteRoute.FILE:
            if containers:
                close()
            files.append(step)
        else:
            if files:
                close()
            containers.setdefault(step.item.target.key, []).append(step)
    close()
    return batches


def _amount(value: Value | None) -> float:
    return value if isinstance(value, int) else inf


def _is_text(value: Value | None) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _direction_of_sets(now: Value | None, wanted: Value | None) -> ChangeDirection:
    try:
        # A group whose list is empty has no CPUs on cgroup v1; on v2 it has its parent's, and order does not matter.
        before = CpuSet.parse(now) if isinstance(now, str) else None
        after = CpuSet.parse(str(wanted)) if _is_text(wanted) else None
    except ValueError:
        return ChangeDirection.FREE  # whoever writes it says what is wrong with it
    if before == after:
        return ChangeDirection.FREE
    if after is None:
        return ChangeDirection.GROW
    if before is None or after <= before:
        return ChangeDirection.SHRINK
    return ChangeDirection.GROW if before <= after else ChangeDirection.MIXED


def _steps(item: PlanItem, ceilings: _Ceilings) -> Iterator[WriteStep]:
    value, change = item.final, direction_of(item)
    if item.target.level is Level.NODE:
        yield WriteStep(item=item, value=value, phase=StepPhase.NODE)
        return
    leaf = item.target.level in _LEAVES
    narrowed = None if change is ChangeDirection.FREE else _narrowed_above(item, ceilings)
    if narrowed is not None:
        # The parent cannot lose what this one has, so this one gets the parent's new set beforehand.
        if not leaf:
            yield WriteStep(item=item, value=_union(item.now, narrowed), phase=StepPhase.GROW)
        yield WriteStep(item=item, value=narrowed, phase=StepPhase.SHRINK)
        yield WriteStep(item=item, value=value, phase=StepPhase.SETTLE)
        return
    if change is ChangeDirection.MIXED and not leaf:
        yield WriteStep(item=item, value=_union(item.now, value), phase=StepPhase.GROW)
    yield WriteStep(item=item, value=value, phase=_PHASES.get(change, StepPhase.SHRINK))


def _narrowed_above(item: PlanItem, ceilings: _Ceilings) -> str | None:
    """For a group that is to have what its parent has: the parent's new set, if the parent loses something."""
    while item.parameter in SETS and not _is_text(item.final):
        above = ceilings.get((item.parameter, item.target.directory.rpartition("/")[0]))
        if above is None:
            return None
        if _is_text(above.final):
            loses = direction_of(above) in (ChangeDirection.SHRINK, ChangeDirection.MIXED)
            return str(above.final) if loses else None
        item = above
    return None


def _union(first: Value | None, second: Value) -> str:
    return str(CpuSet.parse(first if isinstance(first, str) else "") | CpuSet.parse(str(second)))


def _sort_key(step: WriteStep, ending: set[tuple[Level, str, Parameter]]) -> _SortKey:
    """Where a step comes in the order."""
    item, target = step.item, step.item.target
    parameter = _PARAMETER_RANK[item.parameter]
    if step.phase is StepPhase.NODE:  # two features that exclude each other: one off, then the other on
        return (step.phase, int(not is_off(step.value)), 0, 0, target.key, parameter)
    if (target.level, target.key, item.parameter) in ending:
        parameter += _AFTER_ALL
    rank, depth, by_cri = _RANK[target.level], target.directory.count("/"), int(route_of(item) is WriteRoute.CRI)
    if step.phase is StepPhase.SHRINK:
        return (step.phase, -rank, -by_cri, -depth, target.key, parameter)
    return (step.phase, rank, by_cri, depth, target.key, parameter)
