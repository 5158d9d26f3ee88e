"""Runs plugins for one target, in the order of the list, and merges their results.

A plugin that fails contributes nothing and does not affect others. A value that it does not serve is dropped and counts
as a failure. Where two plugins set different values the later one wins, and the conflict is part of the results.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar, cast

from interpose.core.model.cgroup import Level, Parameter, Special
from interpose.hooks.server.context import ContainerContext, GroupContext, PodContext, Response, Wish
from interpose.hooks.server.node.rules import PluginRules
from interpose.hooks.server.plugin import SUSPENDED, AnyPlugin, NoWatch, Watch

C = TypeVar("C", GroupContext, PodContext, ContainerContext)


class PluginFailure(NamedTuple):
    """A plugin that failed, and the error."""

    plugin: str
    text: str


class ParameterConflict(NamedTuple):
    """Two plugins that set different values of one parameter."""

    parameter: Parameter
    loser: str
    winner: str


@dataclass(slots=True)
class PluginResults:
    """The merged results of all plugins for one target."""

    values: dict[Parameter, tuple[str, Wish]] = field(default_factory=dict)  # with the plugin that set it
    envs: dict[str, tuple[str, str, str]] = field(default_factory=dict)  # variable -> (plugin, value, why)
    failures: list[PluginFailure] = field(default_factory=list)
    conflicts: list[ParameterConflict] = field(default_factory=list)

    def drop(self, parameters: Collection[Parameter]) -> None:
        """Remove values that a policy of the relay decides."""
        for parameter in parameters:
            self.values.pop(parameter, None)


class PluginChain:
    """The enabled plugins in their order, with the rules in force."""

    def __init__(self, plugins: Sequence[AnyPlugin], rules: PluginRules, watch: Watch | None = None) -> None:
        self._plugins = tuple(plugins)
        self._rules = rules
        self._watch: Watch = watch if watch is not None else NoWatch()

    def group(self, context: GroupContext) -> PluginResults:
        """Results for the node, the cgroup of a QoS class or a host application."""
        return self._run(context, context.level, lambda plugin, rule, own: plugin.group(rule, own))

    def pod(self, context: PodContext) -> PluginResults:
        """Results for the cgroup of a pod."""
        return self._run(context, Level.POD, lambda plugin, rule, own: plugin.pod(rule, own))

    def container(self, context: ContainerContext) -> PluginResults:
        """Results for a container, or for the sandbox container of a pod."""
        return self._run(context, context.level, lambda plugin, rule, own: plugin.container(rule, own))

    def _run(self, context: C, level: Level, run: Callable[[AnyPlugin, Any, C], None]) -> PluginResults:
        results = PluginResults()
        for plugin in self._plugins:
            allowed = plugin.serves.get(level, frozenset())
            if not allowed and not plugin.envs:
                continue
            if plugin.name not in self._rules.by_plugin:
                if (problem := self._rules.problems.get(plugin.name)) is not None:
                    results.failures.append(PluginFailure(plugin.name, f"has no rule: {problem}"))
                continue
            if not self._watch.enter(plugin.name):
                results.failures.append(PluginFailure(plugin.name, SUSPENDED))
                continue
            own = replace(context, response=Response())
            failure = ""
            try:
                run(plugin, self._rules.by_plugin[plugin.name], own)
                _merge(results, plugin, allowed, own.response)
            except Exception as error:  # a failure of this plugin only
                failure = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
                results.failures.append(PluginFailure(plugin.name, failure))
            finally:
                self._watch.leave(plugin.name, failure)
        return results


def _merge(results: PluginResults, plugin: AnyPlugin, allowed: frozenset[Parameter], response: Response) -> None:
    for parameter, wish in response.wishes.items():
        if parameter not in allowed:
            results.failures.append(PluginFailure(plugin.name, f"sets {parameter}, which it does not serve there"))
            continue
        value, why = cast("tuple[object, object]", wish)  # external plugins may not be type-checked
        if not isinstance(value, int | str | Special) or not isinstance(why, str):
            text = f"sets {parameter} to {value!r} because of {why!r}: a value is int, str, UNLIMITED or CLEAR"
            results.failures.append(PluginFailure(plugin.name, f"{text}, a reason is str"))
            continue
        before = results.values.get(parameter)
        if before is not None and before[1].value != wish.value:
            results.conflicts.append(ParameterConflict(parameter, before[0], plugin.name))
        results.values[parameter] = (plugin.name, wish)
    if response.envs and not plugin.envs:
        results.failures.append(PluginFailure(plugin.name, "sets environment variables, which it does not serve"))
        return
    for name, (value, why) in response.envs.items():
        if not all(isinstance(text, str) for text in (name, value, why)):
            results.failures.append(
                PluginFailure(plugin.name, f"sets variable {name!r}: name, value and reason are str")
            )
            continue
        results.envs[name] = (plugin.name, value, why)
