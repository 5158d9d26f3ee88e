"""Rules of the dump: which calls, and how much of them."""

import pytest

from interpose.config.dump_rules import DEFAULTS, NOTHING, TARGETS, DumpTarget, parse_rules
from interpose.cri.methods import METHODS
from interpose.errors import ConfigError

CHANGING = "RunPodSandbox StopPodSandbox RemovePodSandbox CreateContainer StartContainer StopContainer RemoveContainer"
QUIET = "Version ListContainers ListPodSandbox ContainerStatus Status ImageFsInfo ReopenContainerLog"


def targets(*specs: str, names: str) -> str:
    """What the rules say about methods, as text."""
    rules = parse_rules(specs)
    return " ".join(rules.target(name) for name in names.split())


def test_without_a_spec_nothing_is_dumped() -> None:
    """A relay is silent unless it was told otherwise."""
    assert parse_rules(()) is NOTHING
    assert NOTHING.target("CreateContainer") is DumpTarget.OFF
    assert NOTHING.selected(METHODS) == {}


@pytest.mark.parametrize("spec", ["on", "enable", "", DEFAULTS])
def test_the_defaults_show_what_changes_something(spec: str) -> None:
    """And leave out what a kubelet asks all the time."""
    assert set(targets(spec, names=CHANGING).split()) == {"full"}
    assert set(targets(spec, names=QUIET).split()) == {"off"}


def test_the_defaults_leave_out_calls_of_docker_that_change_nothing() -> None:
    """They are named by method and path."""
    rules = parse_rules(("on",))
    assert rules.target("GET /containers/json") is DumpTarget.OFF
    assert rules.target("HEAD /_ping") is DumpTarget.OFF
    assert rules.target("POST /containers/prune") is DumpTarget.FULL


@pytest.mark.parametrize(("word", "target"), TARGETS.items())
def test_every_word_for_a_target_works(word: str, target: DumpTarget) -> None:
    """Those of all releases."""
    assert parse_rules((f"{word}:Version",)).target("Version") is target


def test_a_target_sticks_within_its_spec() -> None:
    """It holds for the items behind it, and a SPEC begins with full."""
    assert targets("Version,short:Status,Attach,off:Exec", names="Version Status Attach Exec") == "full short short off"
    assert targets("short:Status", "Version", names="Status Version") == "short full"


def test_a_name_comes_before_everything_and_the_star_before_expressions() -> None:
    """Wherever they stand."""
    assert targets("short:Attach,off:.*", names="Attach Exec") == "short off"
    assert targets("short:*,off:.*", names="Exec Version") == "short off"


def test_a_repeated_name_overwrites() -> None:
    """The last one counts."""
    assert targets("short:Exec", "count:Exec", names="Exec") == "count"


def test_of_expressions_the_last_that_is_found_counts() -> None:
    """Anywhere in the name."""
    assert targets("off:.*,short:Container.,full:(Start|Stop)Container", names="ContainerStats StopContainer Exec") == (
        "short full off"
    )
    assert targets("off:.*,full:Stop.*,off:.*", names="StopContainer") == "off"


def test_without_a_rule_that_fits_nothing_is_dumped() -> None:
    """After a reset there are no defaults."""
    assert targets("reset,short:Exec", names="Exec CreateContainer Version") == "short off off"


def test_a_reset_forgets_what_came_before_it_only() -> None:
    """Rules of earlier SPECs among them; the target in force stays."""
    assert targets("full:Exec", "short:Attach,reset,Status", names="Exec Attach Status") == "off off short"


def test_the_switch_turns_everything_off_and_on_again() -> None:
    """As a word alone; with a method it is a target."""
    assert parse_rules(("full:.*,off",)).enabled is False
    assert targets("full:.*,off", names="Exec") == "off"
    assert targets("disable", "full:.*", names="Exec") == "off"
    assert targets("disable", "full:.*,enable", names="Exec") == "full"
    assert parse_rules(("off:.*",)).enabled is True


def test_words_behind_a_target_are_methods() -> None:
    """Also if they would mean something alone."""
    rules = parse_rules(("short:reset,full:on",))
    assert (rules.target("reset"), rules.target("on"), rules.target("Exec")) == ("short", "full", "full")


def test_blanks_around_items_and_empty_items_do_not_count() -> None:
    """People write lists as they like."""
    assert targets(" short: Exec , Attach,,", names="Exec Attach") == "short short"


def test_what_is_special_makes_an_expression() -> None:
    """A caret alone does not, as it never did."""
    assert targets("reset,full:^Exec$,short:Att.ch", names="Exec ^Exec$ Attach") == "off full short"


def test_the_methods_that_are_dumped_can_be_listed() -> None:
    """With what is dumped of them."""
    rules = parse_rules(("reset,full:Create.*,count:Version",))
    assert rules.selected(METHODS) == {"Version": DumpTarget.COUNT, "CreateContainer": DumpTarget.FULL}


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("full:a:b", "'full:a:b' has more than one colon, it is target:method"),
        ("ful:Exec", "'ful:Exec' names 'ful', targets are off, suppress, name, short, full, long, verbose, count"),
        (":Exec", "':Exec' names '', targets are off"),
        ("full:", "'full:' names no method"),
        ("full:Ex(ec", "'full:Ex(ec' is not a regular expression: missing )"),
        ("*Exec", "'*Exec' is not a regular expression: nothing to repeat"),
        ("a.{99999999999999999999}", "is not a regular expression: "),
    ],
)
def test_a_wrong_item_is_named(spec: str, problem: str) -> None:
    """With the place it comes from and what is allowed."""
    with pytest.raises(ConfigError) as caught:
        parse_rules((f"on,{spec},short:Exec",), "flag --dump")
    assert len(caught.value.problems) == 1
    assert caught.value.problems[0].startswith("flag --dump: ")
    assert problem in caught.value.problems[0]


def test_all_wrong_items_are_named() -> None:
    """Nobody wants to find them one by one."""
    with pytest.raises(ConfigError) as caught:
        parse_rules(("x:a,(", "y:b"))
    assert [problem.split("'")[1] for problem in caught.value.problems] == ["x:a", "(", "y:b"]


def test_an_expression_that_python_wonders_about_is_taken_without_a_word() -> None:
    """Its warnings are for programmers."""
    assert targets("reset,full:[[]a", names="[a") == "full"
