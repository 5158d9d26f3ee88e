"""Rules of all plugins at one moment: an immutable snapshot that is replaced whole.

Each plugin's rule is made of the node's inputs. One that cannot be made leaves the rule in force that was, and says
why; one that can be made in part is in force, and says what is missing. The others are not affected.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from interpose.runtimehooks.plugin import AnyPlugin, NodeInputs, Partly


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """A rule per plugin, and per plugin whose inputs cannot all be used the reason. Without a rule none runs."""

    by_plugin: Mapping[str, Any] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)


def make_rules(plugins: Sequence[AnyPlugin], inputs: NodeInputs, previous: Rules) -> Rules:
    """The rules for these inputs. An unchanged rule stays the same object."""
    rules: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for plugin in plugins:
        old = previous.by_plugin.get(plugin.name)
        try:
            new = plugin.rule(inputs, old)
        except Partly as error:
            problems[plugin.name] = str(error)
            new = error.rule
        except ValueError as error:
            problems[plugin.name] = str(error)
            new = old
        except Exception as error:  # a mistake of this plugin is no reason to lose the others
            problems[plugin.name] = f"{type(error).__name__}: {error}"
            new = old
        if new is not None:
            rules[plugin.name] = old if new == old else new
    return Rules(by_plugin=rules, problems=problems)


def changed(before: Rules, after: Rules) -> frozenset[str]:
    """Names of the plugins whose rule came, changed or went."""
    names = {*before.by_plugin, *after.by_plugin}
    return frozenset(name for name in names if before.by_plugin.get(name) is not after.by_plugin.get(name))
