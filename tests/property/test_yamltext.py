"""What is written as YAML is read back by a YAML parser."""

import string
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from interpose.dump.decode.diff import BETWEEN, line_diff
from interpose.dump.decode.yaml import yaml_text

AWKWARD = (
    *(
        "1:30",
        "0x1f",
        "1e3",
        "1_000",
        "0o7",
        "0b1",
        ".5",
        "+.inf",
        "12e03",
        "1.",
        "-0",
        "2019-01-01",
        "2019-1-1 10:00:00",
    ),
    *(
        "yes",
        "Off",
        "~",
        "null",
        "<<",
        "=",
        "...",
        "---",
        "--- a",
        "-",
        "- a",
        "? b",
        "?",
        "a: b",
        "a #b",
        "#",
        "a:",
        " a",
    ),
)
TEXTS = st.text() | st.text(alphabet=" \n\t:#-?'\"ab01.~,[]{}|>&*!%@`=\r\x85\u2028\\") | st.sampled_from(AWKWARD)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS
KEYS = TEXTS | st.text(alphabet=string.printable, min_size=980, max_size=1100)
TREES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=20
)
LINES = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=60)


@pytest.mark.parametrize("loader", [yaml.SafeLoader, yaml.CSafeLoader])
@given(tree=TREES)
def test_a_parser_reads_the_same_tree(loader: Any, tree: Any) -> None:
    """Types and all characters of texts."""
    read = yaml.load(yaml_text(tree), loader)
    assert read == tree
    assert repr(read) == repr(tree) or isinstance(tree, dict | list)


@given(TREES)
def test_every_line_can_be_shown(tree: Any) -> None:
    """Nothing in a message moves a cursor."""
    lines = yaml_text(tree).split("\n")
    assert all(line.replace("\t", "").isprintable() for line in lines)


@given(LINES, LINES)
def test_a_difference_tells_old_from_new(old: list[str], new: list[str]) -> None:
    """Without what was added, and with what was left out put back, it is the old lines; the other way the new ones."""
    diff = line_diff(old, new)
    assert (diff == []) is (old == new)
    for sign, lines in (("- ", old), ("+ ", new)):
        shown = [line for line in diff if line == BETWEEN or line[:2] in (sign, "  ")]
        assert _fits([line if line == BETWEEN else line[2:] for line in shown], lines)


def _fits(shown: list[str], lines: list[str]) -> bool:
    """Whether the parts between marks follow each other in the lines."""
    at = 0
    for part in " ".join(shown).split(BETWEEN):
        words = part.split()
        found = next((n for n in range(at, len(lines) + 1) if lines[n : n + len(words)] == words), None)
        if found is None:
            return False
        at = found + len(words)
    return True
