"""Plugins of installed packages, found by their entry points and imported only when they are enabled.

A plugin that cannot be loaded is replaced by one without a rule, so it is treated like any plugin that cannot decide:
values it set before stay, under `Fail` calls are refused, and status and metrics name the reason. Others are not
affected.
"""

import re
import threading
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple, NoReturn

from interpose.core.model.cgroup import Level, Parameter
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.server.plugin import AnyPlugin, Input, NodeInputs, Plugin

GROUP: Final = "interpose.hook_plugins"
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,62}")
_LOADING: Final = 10.0  # seconds; packages that import half of PyPI take two


class PluginEntryPoint(NamedTuple):
    """An entry point of an installed distribution."""

    name: str
    reference: str  # module:attribute
    distribution: str  # name and version
    load: Callable[[], Any]

    def __str__(self) -> str:
        return f"distribution {self.distribution}, entry point {self.name} = {self.reference}"


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


def find_entry_points(
    distributions: Callable[[], Iterable[metadata.Distribution]] = metadata.distributions,
) -> tuple[PluginEntryPoint, ...]:
    """All entry points of the group, by name. Nothing is imported.

    A distribution that is installed twice counts once, as for the import system: the first on the path. One whose
    metadata cannot be read has no entry points.
    """
    by_distribution: dict[str, list[PluginEntryPoint]] = {}
    for distribution in distributions():
        with suppress(Exception):  # metadata of other packages can be broken in any way
            key = re.sub(r"[-_.]+", "-", distribution.name).lower()
            if key not in by_distribution:
                by_distribution[key] = [
                    PluginEntryPoint(point.name, point.value, f"{distribution.name} {distribution.version}", point.load)
                    for point in distribution.entry_points
                    if point.group == GROUP
                ]
    return tuple(sorted(point for points in by_distribution.values() for point in points))


def load_plugins(
    wanted: Sequence[str], points: Sequence[PluginEntryPoint], reserved: Collection[str], *, timeout: float = _LOADING
) -> tuple[AnyPlugin, ...]:
    """The plugins of these names in this order, an UnusablePlugin for each that cannot be loaded."""
    return tuple(
        _load(name, [point for point in points if point.name == name], points, reserved, timeout) for name in wanted
    )


def _load(
    name: str,
    matching: Sequence[PluginEntryPoint],
    points: Sequence[PluginEntryPoint],
    reserved: Collection[str],
    timeout: float,
) -> AnyPlugin:
    if name.casefold() in {known.casefold() for known in reserved}:
        text = "the name is that of one of interpose's own plugins, which have switches of their own"
        return UnusablePlugin(name, "; ".join([*map(str, matching), text]))
    if not matching:
        names = ", ".join(sorted({point.name for point in points})) or "none"
        return UnusablePlugin(name, f"no installed package has an entry point {name!r} in {GROUP}; there are: {names}")
    if len(matching) > 1:
        return UnusablePlugin(name, f"more than one package has a plugin of that name: {'; '.join(map(str, matching))}")
    point = matching[0]
    if not _NAME.fullmatch(name):
        return UnusablePlugin(name, f"{point}: a name is letters, digits, '_', '.' and '-', at most 63")
    outcome = _load_in_time(point, timeout)
    if isinstance(outcome, str):
        return UnusablePlugin(name, f"{point}: {outcome}")
    if problem := _problem(name, outcome):
        return UnusablePlugin(name, f"{point}: {problem}")
    plugin: AnyPlugin = outcome
    return plugin


def _load_in_time(point: PluginEntryPoint, timeout: float) -> Any:
    """The object that the entry point makes, or the error as text. A module that hangs blocks its thread only."""
    outcome: list[Any] = []

    def load() -> None:
        try:
            outcome.append(point.load()())
        except BaseException as error:  # SystemExit, too: it is this plugin's own
            outcome.append(_reason(error))

    thread = threading.Thread(target=load, name=f"load {point.name}", daemon=True)
    thread.start()
    thread.join(timeout)
    return outcome[0] if outcome else f"did not return within {timeout:g} s"


def _reason(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"


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
