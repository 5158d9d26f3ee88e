"""Rules of plugins: made together, kept apart, replaced whole."""

from dataclasses import dataclass
from typing import ClassVar

from interpose.hooks.server.node.nodeslo import NodeSLO
from interpose.hooks.server.node.rules import PluginRules, changed_plugins, make_rules
from interpose.hooks.server.plugin import NodeInputs, PartialRuleError, Plugin


@dataclass(frozen=True)
class Ratio:
    """A rule with one value."""

    value: str


class Reading(Plugin[Ratio]):
    """Its rule is an annotation of the node."""

    name: ClassVar[str] = "reading"

    def rule(self, node: NodeInputs, previous: Ratio | None) -> Ratio:
        """Refuses what is not a number, and breaks on what it never thought of."""
        text = node.annotations.get("ratio", "1")
        if text == "zero":
            raise ZeroDivisionError("by hand")
        if not text.isdigit():
            raise ValueError(f"annotation ratio: expected a number, found {text!r}")
        return Ratio(text)


class Lazy(Plugin[int]):
    """Its rule follows small steps only when they add up."""

    name: ClassVar[str] = "lazy"

    def rule(self, node: NodeInputs, previous: int | None) -> int:
        """The number of labels, or the rule before if it is only one more."""
        count = len(node.labels)
        return previous if previous is not None and count - previous < 2 else count


class Policy(Plugin[bool]):
    """Its rule is whether there is a policy."""

    name: ClassVar[str] = "policy"

    def rule(self, node: NodeInputs, previous: bool | None) -> bool:
        """False is a rule like any other."""
        return node.slo is not None


class Careful(Plugin[tuple[str, int]]):
    """Its rule is an annotation of the node and a count of labels, each good for itself."""

    name: ClassVar[str] = "careful"

    def rule(self, node: NodeInputs, previous: tuple[str, int] | None) -> tuple[str, int]:
        """A bad annotation leaves the text before."""
        text = node.annotations.get("ratio", "1")
        if text.isdigit():
            return text, len(node.labels)
        raise PartialRuleError(
            (previous[0] if previous is not None else "", len(node.labels)), f"annotation ratio: {text!r}"
        )


def of(ratio: str) -> NodeInputs:
    """Inputs with this annotation."""
    return NodeInputs(annotations={"ratio": ratio})


def test_each_plugin_gets_its_rule() -> None:
    """All of the same inputs."""
    rules = make_rules([Reading(), Policy()], NodeInputs(annotations={"ratio": "7"}, slo=NodeSLO()), PluginRules())
    assert rules == PluginRules(by_plugin={"reading": Ratio("7"), "policy": True})


def test_a_rule_that_cannot_be_made_leaves_the_last_good_one() -> None:
    """With the reason; the others are made."""
    before = make_rules([Reading(), Policy()], of("7"), PluginRules())
    after = make_rules([Reading(), Policy()], NodeInputs(annotations={"ratio": "x"}, slo=NodeSLO()), before)
    assert after.by_plugin == {"reading": Ratio("7"), "policy": True}
    assert after.problems == {"reading": "annotation ratio: expected a number, found 'x'"}


def test_a_plugin_without_a_good_rule_has_none() -> None:
    """It does not run, and the reason is known."""
    rules = make_rules([Reading(), Policy()], of("x"), PluginRules())
    assert rules.by_plugin == {"policy": False}
    assert list(rules.problems) == ["reading"]


def test_a_rule_that_can_be_made_in_part_is_in_force() -> None:
    """With what was left out as a problem; the rest of the inputs is followed."""
    before = make_rules([Careful(), Policy()], of("7"), PluginRules())
    after = make_rules([Careful(), Policy()], NodeInputs(annotations={"ratio": "x"}, labels={"a": ""}), before)
    assert after.by_plugin == {"careful": ("7", 1), "policy": False}
    assert after.problems == {"careful": "annotation ratio: 'x'"}
    assert make_rules([Careful()], of("x"), PluginRules()).by_plugin["careful"] == ("", 0)


def test_a_partial_rule_that_is_the_same_stays_the_same_object() -> None:
    """Nothing is done again because of a problem."""
    before = make_rules([Careful()], of("7"), PluginRules())
    after = make_rules([Careful()], of("x"), before)
    assert after.by_plugin["careful"] is before.by_plugin["careful"]
    assert changed_plugins(before, after) == frozenset()
    assert make_rules([Careful()], of("7"), after).problems == {}


def test_a_mistake_of_a_plugin_is_its_own() -> None:
    """Whatever it raises, it keeps its rule and the others get theirs."""
    before = make_rules([Reading(), Policy()], of("7"), PluginRules())
    after = make_rules([Reading(), Policy()], of("zero"), before)
    assert after.by_plugin == before.by_plugin
    assert after.problems == {"reading": "ZeroDivisionError: by hand"}


def test_a_problem_ends_with_its_cause() -> None:
    """The next good inputs are enough."""
    bad = make_rules([Reading()], of("x"), make_rules([Reading()], of("7"), PluginRules()))
    good = make_rules([Reading()], of("7"), bad)
    assert good.problems == {}
    assert changed_plugins(bad, good) == frozenset()


def test_the_rule_in_force_is_handed_on() -> None:
    """For those who ignore small changes."""
    first = make_rules([Lazy()], NodeInputs(labels={"a": ""}), PluginRules())
    second = make_rules([Lazy()], NodeInputs(labels={"a": "", "b": ""}), first)
    third = make_rules([Lazy()], NodeInputs(labels={"a": "", "b": "", "c": ""}), second)
    assert [rules.by_plugin["lazy"] for rules in (first, second, third)] == [1, 1, 3]


def test_an_unchanged_rule_stays_the_same_object() -> None:
    """So that nobody has to compare it again."""
    before = make_rules([Reading()], of("7"), PluginRules())
    after = make_rules([Reading()], of("7"), before)
    assert after.by_plugin["reading"] is before.by_plugin["reading"]
    assert changed_plugins(before, after) == frozenset()


def test_rules_that_came_changed_or_went_are_named() -> None:
    """And no others."""
    before = make_rules([Reading(), Policy()], of("7"), PluginRules())
    after = make_rules([Reading(), Lazy()], of("8"), before)
    assert changed_plugins(before, after) == {"reading", "policy", "lazy"}
    assert changed_plugins(before, make_rules([Reading(), Policy()], of("8"), before)) == {"reading"}


def test_the_snapshot_before_is_not_touched() -> None:
    """Whoever holds it has a consistent set."""
    before = make_rules([Reading()], of("7"), PluginRules())
    make_rules([Reading()], of("8"), before)
    assert before == PluginRules(by_plugin={"reading": Ratio("7")})


class Incomparable:
    """A rule like an array's: == is not a truth."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("which element?")

    __hash__ = None  # type: ignore[assignment]


class Arrays(Plugin[Incomparable]):
    """Makes such rules."""

    name: ClassVar[str] = "arrays"

    def rule(self, node: NodeInputs, previous: Incomparable | None) -> Incomparable:
        """A new one each time."""
        return Incomparable()


def test_a_rule_that_cannot_be_compared_costs_its_plugin_only() -> None:
    """The others get theirs."""
    rules = make_rules((Arrays(), Policy()), NodeInputs(), PluginRules())
    assert rules.by_plugin == {"policy": False}
    assert rules.problems == {"arrays": "RuntimeError: which element?"}


class Shut:
    """A watch that lets nobody in but one, and writes down who leaves."""

    def __init__(self) -> None:
        self.left: list[tuple[str, str]] = []

    def enter(self, plugin: str) -> bool:
        """Only those."""
        return plugin != "policy"

    def leave(self, plugin: str, failure: str) -> None:
        """With what went wrong."""
        self.left.append((plugin, failure))


def test_a_plugin_that_is_left_out_keeps_its_rule() -> None:
    """Its function is not called, and the reason is told. Inputs that cannot be used are no failure of a plugin."""
    watch = Shut()
    before = PluginRules(by_plugin={"policy": True})
    inputs = NodeInputs(annotations={"ratio": "many"})
    rules = make_rules((Policy(), Reading(), Arrays()), inputs, before, watch)
    assert rules.by_plugin == {"policy": True}
    assert rules.problems["policy"] == "left out, it did not return in time before"
    assert watch.left == [("reading", ""), ("arrays", "RuntimeError: which element?")]
