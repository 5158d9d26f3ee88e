"""Running plugins over one subject: order, isolation, and what they may set."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import pytest

from interpose.core.model.cgroup import Level, Parameter
from interpose.core.model.pod import Container, Pod
from interpose.hooks.server.context import ContainerContext, GroupContext, PodContext, Wish
from interpose.hooks.server.evaluate import ParameterConflict, PluginChain, PluginFailure
from interpose.hooks.server.node.rules import PluginRules
from interpose.hooks.server.plugin import Plugin

SHARES, QUOTA = Parameter.CPU_SHARES, Parameter.CPU_QUOTA
POD = Pod(id="p")
Act = Callable[[Any, Any], None]


class Toy(Plugin[int]):
    """Does what it is told, at every level it serves."""

    serves: ClassVar[Mapping[Level, frozenset[Parameter]]] = MappingProxyType(
        {level: frozenset((SHARES, QUOTA)) for level in (Level.POD, Level.CONTAINER, Level.QOS)}
    )

    def __init__(self, name: str, act: Act, *, envs: bool = False, serves: Any = None) -> None:
        self.name = name  # type: ignore[misc]
        self.envs = envs  # type: ignore[misc]
        if serves is not None:
            self.serves = serves  # type: ignore[misc]
        self.act = act

    def group(self, rule: int, context: GroupContext) -> None:
        """A directory."""
        self.act(rule, context)

    def pod(self, rule: int, context: PodContext) -> None:
        """A pod."""
        self.act(rule, context)

    def container(self, rule: int, context: ContainerContext) -> None:
        """A container."""
        self.act(rule, context)


def sets(value: int, parameter: Parameter = SHARES) -> Act:
    """Want a value."""
    return lambda rule, context: context.response.set(parameter, value, f"rule {rule}")


def raises(error: BaseException) -> Act:
    """Fail, when half of the work is done."""

    def act(_rule: Any, context: Any) -> None:
        context.response.set(SHARES, 99, "half done")
        raise error

    return act


def hooks(*plugins: Toy, watch: Any = None, without_rule: str = "") -> PluginChain:
    """Each has a rule: its place in the list."""
    rules = {one.name: place for place, one in enumerate(plugins) if one.name != without_rule}
    return PluginChain(plugins, PluginRules(by_plugin=rules), watch)


class Recorder:
    """A watch that remembers, and refuses one plugin."""

    def __init__(self, refused: str = "") -> None:
        self.refused = refused
        self.seen: list[tuple[str, ...]] = []

    def enter(self, plugin: str) -> bool:
        """Note it."""
        self.seen.append(("enter", plugin))
        return plugin != self.refused

    def leave(self, plugin: str, failure: str) -> None:
        """Note it."""
        self.seen.append(("leave", plugin, failure))


@pytest.mark.parametrize("kind", ["pod", "container", "group"])
def test_plugins_get_their_rule_and_are_named(kind: str) -> None:
    """The same for every kind of subject."""
    run = hooks(Toy("A", sets(1, QUOTA)), Toy("B", sets(2)))
    verdict = {
        "pod": lambda: run.pod(PodContext(request=POD)),
        "container": lambda: run.container(ContainerContext(pod=POD, request=Container(id="c"))),
        "group": lambda: run.group(GroupContext(level=Level.QOS)),
    }[kind]()
    assert verdict.values == {QUOTA: ("A", Wish(1, "rule 0")), SHARES: ("B", Wish(2, "rule 1"))}
    assert not verdict.failures


def test_later_one_wins_and_the_quarrel_is_told() -> None:
    """Equal wishes are no quarrel."""
    verdict = hooks(Toy("A", sets(1)), Toy("B", sets(2)), Toy("C", sets(2))).pod(PodContext(request=POD))
    assert verdict.values[SHARES] == ("C", Wish(2, "rule 2"))
    assert verdict.conflicts == [ParameterConflict(SHARES, "A", "B")]


@pytest.mark.parametrize(
    ("error", "text"), [(ValueError("annotation x: 'y'"), "annotation x: 'y'"), (KeyError("k"), "KeyError: 'k'")]
)
def test_failing_plugin_contributes_nothing(error: Exception, text: str) -> None:
    """What it had set before goes with it; the others count."""
    verdict = hooks(Toy("A", sets(1)), Toy("bad", raises(error)), Toy("C", sets(3, QUOTA))).pod(PodContext(request=POD))
    assert {parameter: wish[0] for parameter, wish in verdict.values.items()} == {SHARES: "A", QUOTA: "C"}
    assert verdict.failures == [PluginFailure("bad", text)]


def test_what_a_plugin_does_not_serve_is_dropped() -> None:
    """Values as well as variables; the rest of what it says counts."""

    def act(_rule: Any, context: Any) -> None:
        context.response.set(Parameter.MEMORY_LIMIT, 1, "not mine")
        context.response.set(SHARES, 2, "mine")
        context.response.set_env("A", "1", "not mine")

    verdict = hooks(Toy("A", act)).container(ContainerContext(pod=POD, request=Container(id="c")))
    assert list(verdict.values) == [SHARES]
    assert not verdict.envs
    assert [one.text for one in verdict.failures] == [
        "sets memory.limit_in_bytes, which it does not serve there",
        "sets environment variables, which it does not serve",
    ]


def test_plugin_of_variables_only() -> None:
    """It serves no parameter and runs all the same."""
    plugin = Toy("E", lambda _, context: context.response.set_env("A", "1", "why"), envs=True, serves={})
    verdict = hooks(plugin).container(ContainerContext(pod=POD, request=Container(id="c")))
    assert verdict.envs == {"A": ("E", "1", "why")}


def test_plugin_that_serves_nothing_there_or_has_no_rule_does_not_run() -> None:
    """It is not even entered."""
    watch = Recorder()
    elsewhere = Toy("A", raises(ValueError("ran")), serves={Level.NODE: frozenset((SHARES,))})
    verdict = hooks(elsewhere, Toy("B", raises(ValueError("ran"))), watch=watch, without_rule="B").pod(
        PodContext(request=POD)
    )
    assert (verdict.failures, watch.seen) == ([], [])


def test_watch_sees_each_plugin_come_and_go() -> None:
    """With what went wrong; one that it refuses is left out and counts as failed."""
    watch = Recorder(refused="B")
    plugins = Toy("A", sets(1)), Toy("B", sets(2)), Toy("C", raises(ValueError("no")))
    verdict = hooks(*plugins, watch=watch).pod(PodContext(request=POD))
    assert watch.seen == [("enter", "A"), ("leave", "A", ""), ("enter", "B"), ("enter", "C"), ("leave", "C", "no")]
    assert verdict.values[SHARES][0] == "A"
    assert [one.plugin for one in verdict.failures] == ["B", "C"]


def test_watch_is_told_of_one_that_ends_the_program() -> None:
    """SystemExit is nobody's to swallow, but the plugin has left."""
    watch = Recorder()
    with pytest.raises(SystemExit):
        hooks(Toy("A", raises(SystemExit(3))), watch=watch).pod(PodContext(request=POD))
    assert watch.seen == [("enter", "A"), ("leave", "A", "")]


def test_context_given_stays_as_it_was() -> None:
    """Each plugin has a response of its own: none sees what another wants."""
    seen = []

    def look(_rule: Any, context: Any) -> None:
        seen.append(dict(context.response.wishes))

    context = PodContext(request=POD)
    hooks(Toy("A", sets(1)), Toy("B", look)).pod(context)
    assert seen == [{}]
    assert not context.response.wishes


@pytest.mark.parametrize(("value", "why"), [(0.5, "half"), (None, "none"), ([1], "a list"), (5, None)])
def test_a_value_of_another_type_is_the_plugins_mistake(value: Any, why: Any) -> None:
    """It would break whoever carries it to the kernel, and the wishes of the others with it."""
    plugins = (Toy("odd", lambda _rule, context: context.response.set(QUOTA, value, why)), Toy("good", sets(5)))
    verdict = PluginChain(plugins, PluginRules(by_plugin={"odd": 1, "good": 2})).pod(PodContext(request=POD))
    assert verdict.values == {SHARES: ("good", Wish(5, "rule 2"))}
    assert [one.plugin for one in verdict.failures] == ["odd"]
    assert repr(value) in verdict.failures[0].text


def test_a_variable_that_is_no_text_is_the_plugins_mistake() -> None:
    """The other variables count."""

    def act(_rule: Any, context: Any) -> None:
        context.response.set_env("COUNT", 5, "a number")
        context.response.set_env("TEXT", "5", "a text")

    verdict = PluginChain((Toy("odd", act, envs=True),), PluginRules(by_plugin={"odd": 1})).pod(PodContext(request=POD))
    assert verdict.envs == {"TEXT": ("odd", "5", "a text")}
    assert verdict.failures == [PluginFailure("odd", "sets variable 'COUNT': name, value and reason are str")]
