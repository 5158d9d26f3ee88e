"""Plugins of installed packages, found by their entry points and imported only when they are enabled.

A plugin that cannot be loaded is replaced by one without a rule, so it is treated like any plugin that cannot decide:
values it set before stay, under `Fail` calls are refused, and status and metrics name the reason. Others are not
affected.
"""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final, NoReturn

from interpose.core.model.cgroup import Level, Parameter
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.server.plugin import AnyPlugin, Input, NodeInputs, Plugin
from interpose.host.entry_points import (
    LOADING_LIMIT,
    EntryPointError,
    InstalledEntryPoint,
    choose_entry_point,
    load_entry_point,
)

GROUP: Final = "interpose.hook_plugins"


class UnusablePlugin(Plugin[None]):
    """Placeholder for a plugin that could not be loaded: its rule always fails with the reason."""

    summary = "could not be loaded"
    stages = frozenset(
        (HookPoint.PRE_RUN_POD_SANDBOX, HookPoint.PRE_CREATE_CONTAINER, HookPoint.PRE_UPDATE_CONTAINER_RESOURCES)
    )
    # What the plugin would have set is not known, so the placeholder serves everything.
    serves: ClassVar[Mapping[Level, frozenset[Parameter]]] = MappingProxyType(
        dict.fromkeys(Level, frozenset(Parameter))
    )

    def __init__(self, name: str, problem: str) -> None:
        self.name = name  # type: ignore[misc]  # of all others a class is one plugin
        self.problem = problem

    def rule(self, node: NodeInputs, previous: None) -> NoReturn:
        """Raises ValueError with the reason."""
        raise ValueError(self.problem)


def load_plugins(
    wanted: Sequence[str],
    points: Sequence[InstalledEntryPoint],
    reserved: Collection[str],
    *,
    timeout: float = LOADING_LIMIT,
) -> tuple[AnyPlugin, ...]:
    """The plugins of these names in this order, an UnusablePlugin for each that cannot be loaded."""
    return tuple(_load(name, points, reserved, timeout) for name in wanted)


def _load(name: str, points: Sequence[InstalledEntryPoint], reserved: Collection[str], timeout: float) -> AnyPlugin:
    if name.casefold() in {known.casefold() for known in reserved}:
        text = "the name is that of one of interpose's own plugins, which have switches of their own"
        return UnusablePlugin(name, "; ".join([*(str(point) for point in points if point.name == name), text]))
    try:
        point = choose_entry_point(name, points, GROUP)
        plugin: AnyPlugin = load_entry_point(point, lambda made: made(), timeout=timeout)
    except EntryPointError as error:
        return UnusablePlugin(name, str(error))
    if problem := _problem(name, plugin):
        return UnusablePlugin(name, f"{point}: {problem}")
    return plugin


def _problem(name: str, plugin: Any) -> str:
    """Why an object cannot be used as a plugin; empty if it can."""
    if not isinstance(plugin, Plugin):
        return f"made a {type(plugin).__name__}, which is not a Plugin"
    if getattr(plugin, "name", None) != name:
        return f"its plugin calls itself {getattr(plugin, 'name', None)!r}"
    if not isinstance(getattr(plugin, "summary", None), str):
        return "summary is not a text"
    serves: object = plugin.serves
    if not isinstance(serves, Mapping) or not all(isinstance(level, Level) for level in serves):
        return "serves is not a mapping of levels to sets of parameters"
    sets: list[tuple[str, object, type]] = [("inputs", plugin.inputs, Input), ("stages", plugin.stages, HookPoint)]
    sets += [(f"serves[{level.name}]", parameters, Parameter) for level, parameters in serves.items()]
    for attribute, values, kind in sets:
        if not isinstance(values, frozenset) or not all(isinstance(value, kind) for value in values):
            return f"{attribute} is not a frozenset of {kind.__name__}"
    if Parameter.CPU_IDLE in plugin.serves.get(Level.CONTAINER, ()):
        return f"serves[CONTAINER]: {Parameter.CPU_IDLE} cannot be set on containers"
    return "" if plugin.serves or plugin.envs else "serves nothing and sets no variables"
