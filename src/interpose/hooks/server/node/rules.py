"""Rules of all plugins at one moment: an immutable snapshot that is replaced whole.

Each plugin's rule is made of the node's inputs. One that cannot be made leaves the rule in force that was, and says
why; one that can be made in part is in force, and says what is missing. The others are not affected.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from interpose.hooks.server.plugin import SUSPENDED, AnyPlugin, NodeInputs, NoWatch, PartialRuleError, Watch


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginRules:
    """A rule per plugin, and per plugin whose inputs cannot all be used the reason. Without a rule none runs."""

    by_plugin: Mapping[str, Any] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)


def make_rules(
    plugins: Sequence[AnyPlugin], inputs: NodeInputs, previous: PluginRules, watch: Watch | None = None
) -> PluginRules:
    """The rules for these inputs. An unchanged rule stays the same object."""
    rules: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for plugin in plugins:
        old = previous.by_plugin.get(plugin.name)
        new, problem = _make_rule(plugin, inputs, old, watch if watch is not None else NoWatch())
        if new is not None:
            rules[plugin.name] = new
        if problem:
            problems[plugin.name] = problem
    return PluginRules(by_plugin=rules, problems=problems)


def _make_rule(plugin: AnyPlugin, inputs: NodeInputs, old: Any, watch: Watch) -> tuple[Any, str]:
    """The rule, and what is wrong with the inputs or with the plugin."""
    if not watch.enter(plugin.name):
        return old, SUSPENDED
    problem = failure = ""
    try:
        try:
            new = plugin.rule(inputs, old)
        except PartialRuleError as error:
            new, problem = error.rule, str(error)
        unchanged = bool(new == old)
    except ValueError as error:
        problem, unchanged = str(error), True
    except Exception as error:  # a mistake of this plugin is no reason to lose the others
        problem = failure = f"{type(error).__name__}: {error}"
        unchanged = True
    finally:
        watch.leave(plugin.name, failure)
    return (old if unchanged else new), problem


def changed_plugins(before: PluginRules, after: PluginRules) -> frozenset[str]:
    """Names of the plugins whose rule came, changed or went."""
    names = {*before.by_plugin, *after.by_plugin}
    return frozenset(name for name in names if before.by_plugin.get(name) is not after.by_plugin.get(name))
