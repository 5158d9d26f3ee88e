"""What is wrong with options of the policy balloons whatever machine they are for, and what of them does nothing."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from interpose.core.model.text import quoted
from interpose.core.policy.balloons.options import (
    NONE_FIT,
    POD_RESOURCES,
    RESERVED,
    UNLIMITED,
    BalloonsOptions,
    BalloonType,
)
from interpose.core.policy.expressions import glob_problem

# What a composite cannot say, as it is said of its components.
_OF_COMPONENTS: Final[Mapping[str, str]] = {
    "cpu_class": "cpuClass",
    "spread_on_cores": "preferSpreadOnPhysicalCores",
    "balance": "allocatorTopologyBalancing",
    "close_to_devices": "preferCloseToDevices",
    "prefer_isolated": "preferIsolCpus",
    "core_type": "preferCoreType",
}
_PLAIN: Final = BalloonType(name="")  # of which nothing is said
# What nothing here acts on, by what would.
_CONTROLLED: Final[Mapping[str, tuple[str, str]]] = {
    "cpu_class": ("cpuClass", "classes of CPUs"),
    "scheduling_class": ("schedulingClass", "scheduling classes"),
    "irq_claim": ("irqClaim", "interrupts"),
    "irq_mode": ("irqMode", "interrupts"),
    "show_containers": ("showContainersInNrt", "NodeResourceTopology objects"),
}
_CONTROLLED_OPTIONS: Final[Mapping[str, tuple[str, str]]] = {
    "idle_cpu_class": ("idleCPUClass", "classes of CPUs"),
    "cpu_classes": ("cpuClasses", "classes of CPUs"),
    "turbo_domain": ("turboDomain", "classes of CPUs"),
    "scheduling_classes": ("schedulingClasses", "scheduling classes"),
    "controllable_interrupts": ("controllableInterrupts", "interrupts"),
    "show_containers": ("showContainersInNrt", "NodeResourceTopology objects"),
}


def option_problems(options: BalloonsOptions) -> list[str]:
    """Everything that is wrong with options; each problem names the key and the value."""
    found = []
    names = Counter(kind.name for kind in options.types)
    for name, number in names.items():
        if not name or not name.isprintable() or set(name) & set("[]/ "):
            found.append(f"balloonTypes: name: {quoted(name)} is no name of a type")
        if number > 1:
            found.append(f"balloonTypes: name: {quoted(name)} is defined {number} times")
    for kind in options.types:
        where = f"balloonTypes: type {quoted(kind.name)}: "
        found += [where + problem for problem in (*_type_problems(kind), *_reference_problems(kind, options, names))]
    found += [f"balloonTypes: {problem}" for problem in _cycles({kind.name: kind for kind in options.types})]
    found += [
        f"reservedPoolNamespaces: {problem}"
        for pattern in options.reserved_namespaces
        if (problem := glob_problem(pattern))
    ]
    for name, number in Counter(load.name for load in options.load_classes).items():
        if not name:
            found.append("loadClasses: name is missing")
        if number > 1:
            found.append(f"loadClasses: name: {quoted(name)} is defined {number} times")
    return found


def _type_problems(kind: BalloonType) -> Iterator[str]:
    for key, least, most in (
        ("CPUs", kind.min_cpus, kind.max_cpus),
        ("Balloons", kind.min_balloons, kind.max_balloons),
    ):
        if UNLIMITED < most < least or (most == NONE_FIT and least > 0 and key == "CPUs"):
            yield f"min{key}: {least} is more than max{key}: {most}"
    yield from (f"namespaces: {problem}" for pattern in kind.namespaces if (problem := glob_problem(pattern)))
    for device in kind.close_to_devices:
        if not device.startswith(("/", POD_RESOURCES)):
            yield f"preferCloseToDevices: {quoted(device)} is neither an absolute path nor {POD_RESOURCES}NAME"
    if kind.name == RESERVED and (kind.min_balloons > 1 or kind.max_balloons > 1):
        key, number = (
            ("minBalloons", kind.min_balloons) if kind.min_balloons > 1 else ("maxBalloons", kind.max_balloons)
        )
        yield f"{key}: {number} cannot be, there is one balloon of this type"
    if kind.component_creation is not None and not kind.components:
        yield f"componentCreation: {kind.component_creation} without components"
    if kind.components:
        for field, key in _OF_COMPONENTS.items():
            if (value := getattr(kind, field)) != getattr(_PLAIN, field):
                yield f"{key}: {_shown(value)} has no meaning for a type with components, say it of these"


def _reference_problems(kind: BalloonType, options: BalloonsOptions, names: Iterable[str]) -> Iterator[str]:
    for component in kind.components:
        if component not in names:
            yield f"components: balloonType: {quoted(component)} is not defined"
    loads = {load.name for load in options.load_classes}
    for load in kind.loads:
        if load not in loads:
            yield f"loads: {quoted(load)} is not in loadClasses"
    if kind.scheduling_class and kind.scheduling_class not in options.scheduling_classes:
        yield f"schedulingClass: {quoted(kind.scheduling_class)} is not in schedulingClasses"


def _cycles(types: Mapping[str, BalloonType]) -> Iterator[str]:
    """Types that are components of themselves, each cycle once."""
    closed: set[str] = set()
    for start in types:
        path: list[str] = []
        yield from _walk(start, path, types, closed)


def _walk(name: str, path: list[str], types: Mapping[str, BalloonType], closed: set[str]) -> Iterator[str]:
    if name in path:
        cycle = [*path[path.index(name) :], name]
        yield f"components: {' has '.join(map(quoted, cycle))}"
        return
    if name in closed or name not in types:
        return
    path.append(name)
    for component in types[name].components:
        yield from _walk(component, path, types, closed)
    path.pop()
    closed.add(name)


# -- remarks


def option_notes(options: BalloonsOptions) -> Iterator[str]:
    """What of these options does nothing here, and what is hardly meant."""
    for field, (key, what) in _CONTROLLED_OPTIONS.items():
        if value := getattr(options, field):
            yield f"{key}: {_shown(value)} has no effect, {what} are not acted on"
    for kind in options.types:
        where = f"balloon type {kind.name}: "
        for field, (key, what) in _CONTROLLED.items():
            if value := getattr(kind, field):
                yield f"{where}{key}: {_shown(value)} has no effect, {what} are not acted on"
        if kind.cpu_class and kind.cpu_class not in options.cpu_classes:
            yield f"{where}cpuClass: {quoted(kind.cpu_class)} is not in cpuClasses"
        if kind.prefer_isolated and kind.share_idle is not None:
            yield f"{where}preferIsolCpus with shareIdleCPUsInSame: threads do not move from isolated CPUs to idle ones"
        yield from (where + note for note in _device_notes(kind, options))


def _device_notes(kind: BalloonType, options: BalloonsOptions) -> Iterator[str]:
    for device in kind.close_to_devices:
        if device.startswith(POD_RESOURCES):
            yield (
                f"preferCloseToDevices: {device} has no effect: which devices a container has is known to the kubelet "
                "only, and its pod resources are not read"
            )
            if not (kind.prefer_new and kind.spread_pods):
                yield (
                    f"preferCloseToDevices: {device} without preferNewBalloons and preferSpreadingPods: a balloon "
                    "has containers with other devices, too"
                )
        elif device not in options.devices:
            yield f"preferCloseToDevices: {device} has no effect: no such device is here, or nothing says where it is"


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
