"""What a container wants of the policy balloons: by its annotations, else by the types in their order.

A value that cannot be read is a ValueError that names annotation and value.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from interpose.core.model.text import did_you_mean
from interpose.core.policy.annotations import find_annotation
from interpose.core.policy.balloons.options import DEFAULT, BalloonsOptions, BalloonType
from interpose.core.policy.expressions import expand_template, matches_glob
from interpose.core.policy.request import Request
from interpose.core.topology.topology import MemoryKind

TYPE: Final = "balloon.balloons"
_HIDE: Final = "hide-hyperthreads"
_MEMORY_TYPE: Final = "memory-type"
_KEEP_CPU: Final = "cpu.preserve"
_KEEP_MEMORY: Final = "memory.preserve"
_KINDS: Final = tuple(kind.value for kind in MemoryKind if kind is not MemoryKind.NONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerWishes:
    """What is known of a container before there is a balloon for it."""

    kind: BalloonType
    why: str  # it is that type
    hides_hyperthreads: bool
    pins_memory: bool
    keeps_memory: bool  # its memory nodes are not touched, whatever they are
    memory_kinds: frozenset[MemoryKind]  # none: any
    group: str | None  # containers of one group go together; None: of no group


def is_preserved(request: Request, options: BalloonsOptions) -> str:
    """Why a container is left alone; empty if it is not."""
    annotation = find_annotation(request, _KEEP_CPU)
    if annotation is not None and annotation.flag():
        return f"annotation {annotation.key}"
    matching = next((expression for expression in options.preserve if expression.matches(request)), None)
    return "" if matching is None else f"preserve.matchExpressions: {matching}"


def read_wishes(request: Request, options: BalloonsOptions, kinds: Mapping[str, BalloonType]) -> ContainerWishes:
    """The type of a container's balloon, and what it wants besides."""
    kind, why = _find_type(request, kinds)
    hide = find_annotation(request, _HIDE)
    memory = find_annotation(request, _MEMORY_TYPE)
    keep = find_annotation(request, _KEEP_MEMORY)
    keeps = keep is not None and keep.flag()
    pins = options.pin_memory if kind.pin_memory is None else kind.pin_memory
    return ContainerWishes(
        kind=kind,
        why=why,
        hides_hyperthreads=kind.hide_hyperthreads if hide is None else hide.flag(),
        pins_memory=pins and not keeps,
        keeps_memory=keeps,
        memory_kinds=kind.memory_types
        if memory is None
        else frozenset(MemoryKind(name) for name in memory.choices(_KINDS)),
        group=expand_template(kind.group_by, request) if kind.group_by else None,
    )


def _find_type(request: Request, kinds: Mapping[str, BalloonType]) -> tuple[BalloonType, str]:
    if (annotation := find_annotation(request, TYPE)) is not None:
        name = annotation.text.strip()
        if name not in kinds:
            known = ", ".join(kinds)
            raise annotation.error(f"is no type of balloons, there are {known}{did_you_mean(name, kinds)}")
        return kinds[name], f"annotation {annotation.key}"
    for kind in kinds.values():
        for expression in kind.match_expressions:
            if expression.matches(request):
                return kind, f"it matches {expression}"
        for pattern in kind.namespaces:
            if matches_glob(pattern, request.namespace):
                return kind, f"namespace {request.namespace}" + ("" if "*" not in pattern else f" is one of {pattern}")
    return kinds[DEFAULT], f"no type is for namespace {request.namespace}"
