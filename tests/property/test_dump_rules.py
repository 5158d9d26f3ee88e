"""What holds for all rules of the dump."""

import re

from hypothesis import given
from hypothesis import strategies as st

from interpose.config.dump_rules import RESET, SWITCHES, TARGETS, DumpTarget, parse_rules
from interpose.cri.methods import METHODS
from interpose.errors import ConfigError

NAMES = st.sampled_from(sorted(METHODS))
EXPRESSIONS = st.sampled_from([".*", ".*List.*", "Container.", "(Start|Stop).*", "*", "[A-M].+", "Status?"])
WORDS = st.sampled_from(sorted(TARGETS))
RULES = st.builds(lambda word, method: f"{word}:{method}", WORDS, NAMES | EXPRESSIONS)
ITEMS = RULES | NAMES | EXPRESSIONS | st.sampled_from([RESET, *SWITCHES])
SPECS = st.lists(ITEMS, max_size=6).map(",".join)


@given(st.lists(SPECS, min_size=1, max_size=4), WORDS, NAMES)
def test_a_name_said_last_counts(specs: list[str], word: str, name: str) -> None:
    """Whatever was said before, if dumping is not turned off."""
    assert parse_rules([*specs, "on", f"{word}:{name}"]).target(name) is TARGETS[word]


@given(st.lists(SPECS, min_size=1, max_size=4), SPECS)
def test_nothing_is_left_of_what_was_before_a_reset(before: list[str], spec: str) -> None:
    """Rules depend only on what follows, once the switch is on."""
    anew, fresh = parse_rules([*before, "on,reset", spec]), parse_rules(["reset", spec])
    assert [anew.target(name) for name in METHODS] == [fresh.target(name) for name in METHODS]


@given(SPECS, SPECS)
def test_a_target_said_everywhere_makes_one_spec_of_two(first: str, second: str) -> None:
    """Two SPECs differ from one only in what sticks."""
    one, two = parse_rules([f"{first},full:Nobody,{second}"]), parse_rules([first, second])
    assert [one.target(name) for name in METHODS] == [two.target(name) for name in METHODS]


@given(st.lists(SPECS, max_size=4))
def test_what_is_selected_is_what_is_not_off(specs: list[str]) -> None:
    """No more and no less."""
    rules = parse_rules(specs)
    selected = rules.selected(METHODS)
    assert all(selected.get(name, DumpTarget.OFF) is rules.target(name) for name in METHODS)
    assert DumpTarget.OFF not in selected.values()


@given(st.lists(st.text(alphabet="on:.*?+()[]|,{}^$\\ fulcert-12")))
def test_any_text_gives_rules_or_an_error_that_names_it(specs: list[str]) -> None:
    """Never anything else."""
    problems: list[str] = []
    rules = None
    try:
        rules = parse_rules(specs, "here")
    except ConfigError as error:
        problems = error.problems
    assert (rules is None) is bool(problems)
    assert all(problem.startswith("here: ") for problem in problems)
    assert rules is None or rules.target("CreateContainer") in DumpTarget


_PARTS = st.sampled_from([".*", "List", "a", "|", "b", "(x|y)", "[lL]", "$", "^", "?", "+", "\\.", "\\", "(", ")"])


@given(st.lists(_PARTS, min_size=1, max_size=6).map("".join), st.text("Listabxy.", max_size=8))
def test_an_expression_means_what_it_says(method: str, name: str) -> None:
    """However it is compiled: it is found in the same names as the expression as it was written."""
    try:
        expected = re.compile(method)
        rules = parse_rules([f"reset,full:{method}"])
    except (re.error, ConfigError):
        return
    if method == "*" or not set(method) & set(".*?+()[]|"):
        return
    assert (rules.target(name) is DumpTarget.FULL) == bool(expected.search(name))
