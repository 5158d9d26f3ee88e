"""Dots in keys are groups."""

from typing import Any

import pytest

from interpose.config.documents.fields import Report
from interpose.config.documents.policy import unfold
from interpose.config.documents.yaml import DocumentNode, parse_document
from interpose.errors import ConfigError


def plain(node: DocumentNode) -> Any:
    """A node as Python has it."""
    return {name: plain(child) for name, child in node.entries} if node.tag == "map" else node.text or None


def unfolded(text: str, depth: int = 3) -> Any:
    """What a document says."""
    report = Report("file f")
    found = unfold(parse_document(text, "file f"), "", depth, report)
    report.settle()
    return plain(found)


@pytest.mark.parametrize(
    "text", ["a: {b: {c: x, d: y}}", "a.b.c: x\na.b.d: y", "a.b: {c: x}\na: {b.d: y}", "a:\n  b.c: x\na.b: {d: y}"]
)
def test_all_ways_to_write_a_group_are_the_same(text: str) -> None:
    """Nested, dotted, and both."""
    assert unfolded(text) == {"a": {"b": {"c": "x", "d": "y"}}}


def test_names_below_the_known_levels_keep_their_dots() -> None:
    """A pool may be called like a file."""
    assert unfolded("a.b.c.d.e: x") == {"a": {"b": {"c": {"d.e": "x"}}}}
    assert unfolded("a: {b.c: x}", depth=1) == {"a": {"b.c": "x"}}


def test_dots_at_the_ends_are_part_of_the_name() -> None:
    """There is no group without a name."""
    assert unfolded("a.: x\n.b: y\n.: z") == {"a.": "x", ".b": "y", ".": "z"}


def test_null_is_as_good_as_absent() -> None:
    """A group whose keys are all commented out does not contradict the dotted ones, nor does a second one."""
    assert unfolded("a:\na.b: x") == {"a": {"b": "x"}}
    assert unfolded("a:\n") == {"a": None}
    assert unfolded("- x\n") is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\na: 2", "file f line 2: a: is given twice, first in line 1"),
        ("a.b: 1\na: {b: 2}", "file f line 2: a.b: is given twice, first in line 1"),
        ("a: word\na.b: 2", "file f line 1: a: is given as a value and as a group of keys"),
        ('"a\\a": 1\n"a\\a": 1', "file f line 2: 'a\\x07': is given twice, first in line 1"),
    ],
)
def test_what_is_said_twice_is_a_problem(text: str, problem: str) -> None:
    """With the line of the second, and of the first where there is one."""
    with pytest.raises(ConfigError) as caught:
        unfolded(text)
    assert caught.value.problems == [problem]


def test_nodes_without_lines_have_problems_without_lines() -> None:
    """As those that were made and not read."""
    report = Report("file f")
    node = DocumentNode(tag="str", text="x")
    unfold(DocumentNode(tag="map", entries=(("a", node), ("a", DocumentNode(tag="str", text="x")))), "top", 1, report)
    with pytest.raises(ConfigError) as caught:
        report.settle()
    assert caught.value.problems == ["file f: top.a: is given twice"]
