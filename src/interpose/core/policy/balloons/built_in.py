"""The types `reserved` and `default`, which there always are, and options that are complete by them."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from interpose.core.cpuallocator.priority import CpuPriority
from interpose.core.model.cpuset import CpuSet
from interpose.core.model.text import quoted
from interpose.core.policy.balloons.balloon import make_balloon
from interpose.core.policy.balloons.options import (
    DEFAULT,
    RESERVED,
    SYSTEM_NAMESPACE,
    UNLIMITED,
    BalloonsOptions,
    BalloonType,
)
from interpose.core.policy.balloons.problems import option_problems
from interpose.errors import ConfigError


def complete_options(options: BalloonsOptions, reserved: CpuSet | int) -> BalloonsOptions:
    """Options with all types; ConfigError with everything that is wrong with them.

    `reserved`: CPUs, or how many.
    """
    problems = option_problems(options)
    named = {kind.name: kind for kind in options.types}
    usual = CpuPriority.LOW if isinstance(reserved, int) else CpuPriority.NORMAL
    own = named.get(RESERVED, BalloonType(name=RESERVED, priority=usual))
    problems += _amount_problems(own, reserved)
    types = [kind if kind.name != RESERVED else _reserved_type(own, options, reserved) for kind in options.types]
    if RESERVED not in named:
        types.insert(0, _reserved_type(own, options, reserved))
    if DEFAULT not in named:
        types.append(BalloonType(name=DEFAULT, min_balloons=1, max_balloons=1, priority=CpuPriority.LOW))
    if not problems:
        problems += _part_problems({kind.name: kind for kind in types})
    if problems:
        raise ConfigError([f"policy.balloons.{problem}" for problem in problems])
    return replace(options, types=tuple(types))


def _reserved_type(kind: BalloonType, options: BalloonsOptions, reserved: CpuSet | int) -> BalloonType:
    if isinstance(reserved, int):
        least = reserved
    else:
        least = kind.min_cpus or (len(reserved) if kind.max_cpus == UNLIMITED else min(len(reserved), kind.max_cpus))
    namespaces = dict.fromkeys((*kind.namespaces, SYSTEM_NAMESPACE, *options.reserved_namespaces))
    return replace(kind, namespaces=tuple(namespaces), min_cpus=max(0, least), min_balloons=1, max_balloons=1)


def _amount_problems(kind: BalloonType, reserved: CpuSet | int) -> Iterator[str]:
    """What is wrong with type `reserved` if so many CPUs are reserved."""
    if not isinstance(reserved, int):
        return
    where = f"balloonTypes: type {quoted(RESERVED)}: "
    if kind.min_cpus not in (0, reserved):
        yield f"{where}minCPUs: {kind.min_cpus} cannot be, {reserved} CPUs are reserved"
    if kind.max_cpus != UNLIMITED and kind.max_cpus < reserved:
        yield f"{where}maxCPUs: {kind.max_cpus} cannot be, {reserved} CPUs are reserved"


def _part_problems(types: Mapping[str, BalloonType]) -> Iterator[str]:
    """Composites whose limits are not those of their components."""
    for kind in types.values():
        for number in range(len(kind.components)):

            def pick(composite: BalloonType, number: int = number) -> str:
                return composite.components[min(number, len(composite.components) - 1)]

            balloon = make_balloon(types, kind, 0, pick)
            wrong = next((part for part in balloon.parts if part.most is not None and part.least > part.most), None)
            if wrong is not None:
                yield (
                    f"balloonTypes: type {quoted(kind.name)}: components: balloonType: {wrong.kind.name} would have at "
                    f"least {wrong.least} CPUs and at most {wrong.most}"
                )
                break
