"""Trees as YAML."""

import re
from typing import Any

import pytest
import yaml

from interpose.dump.decode.yaml import MAX_DEPTH, TOO_DEEP, scalar, yaml_lines, yaml_text


def test_it_looks_as_go_programs_write_it() -> None:
    """Sorted keys, lists below their key, maps in lists behind their dash."""
    tree = {
        "metadata": {"uid": "u1", "name": "web"},
        "envs": [{"value": "1", "key": "A"}, {"key": "B"}],
        "args": ["-c", "sleep 1"],
        "linux": {},
        "mounts": [],
        "nested": [[1, [2]], [{"a": [True]}]],
        "ratio": 0.5,
    }
    assert yaml_text(tree) == (
        """\
args:
- -c
- sleep 1
envs:
- key: A
  value: "1"
- key: B
linux: {}
metadata:
  name: web
  uid: u1
mounts: []
nested:
- - 1
  - - 2
- - a:
    - true
ratio: 0.5
"""
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({}, "{}"),
        ([], "[]"),
        ((), "[]"),
        ("", '""'),
        (None, "null"),
        (False, "false"),
        (-3, "-3"),
        (1e16, "1.0e+16"),
        (1e-7, "1.0e-07"),
        (float("inf"), ".inf"),
        (float("-inf"), "-.inf"),
        (float("nan"), ".nan"),
        (b"x", "b'x'"),
    ],
)
def test_single_values(value: object, text: str) -> None:
    """Also alone."""
    assert yaml_text(value) == text + "\n"


@pytest.mark.parametrize(
    "text",
    [
        "web-0",
        "registry.k8s.io/pause:3.10",
        "/var/lib/kubelet",
        "1f3d5c7a9b",
        "0-3,8",
        "a b",
        "a#b",
        "-c",
        "?x",
        ":x",
        "1.2.3",
        "10.0.0.1",
        "100m",
        "sha256:00ff",
        "größe",
        "it's",
        'say "x"',
        "$(HOME)",
        "a, b",
        "==",
    ],
)
def test_what_needs_no_quotes_has_none(text: str) -> None:
    """Names, ids, images and command lines stay readable."""
    assert scalar(text) == text


@pytest.mark.parametrize(
    "text", ["yes", "Off", "NULL", "~", "12", "0x1f", "1e3", "1:30", "1_0", "2026-11-16", ".5", "="]
)
def test_what_would_be_something_else_has_double_quotes(text: str) -> None:
    """In either version of YAML."""
    assert scalar(text) == f'"{text}"'


@pytest.mark.parametrize(
    "text",
    [" a", "a ", "a: b", "a #b", "a:", "- a", "[a]", "{a: b}", "*a", "&a", "!a", "@a", "%a", "--- a", "'a'", "|"],
)
def test_what_would_be_read_wrongly_has_single_quotes(text: str) -> None:
    """JSON inside keeps its own quotes that way."""
    assert scalar(text) == "'" + text.replace("'", "''") + "'"


@pytest.mark.parametrize(
    ("text", "written"),
    [("a\tb", r'"a\tb"'), ("\x1b[2J", r'"\x1b[2J"'), ("\u2028\\", r'"\u2028\\"'), ("\U000e0001", r'"\U000e0001"')],
)
def test_what_cannot_be_shown_is_escaped(text: str, written: str) -> None:
    """No terminal obeys a dump."""
    assert scalar(text) == written


def test_clean_texts_of_several_lines_are_blocks() -> None:
    """With a mark if the last line has no end."""
    tree = {"a": "x\n\n  y\n", "b": ["p\nq"], "c": {"d": "r\n\ts\n"}}
    assert yaml_lines(tree) == [
        "a: |",
        "  x",
        "",
        "    y",
        "b:",
        "- |-",
        "  p",
        "  q",
        "c:",
        "  d: |",
        "    r",
        "    \ts",
    ]
    assert yaml_text("x\ny") == "|-\n  x\n  y\n"


@pytest.mark.parametrize("text", [" x\ny", "\nx", "x \ny", "x\n\n", "x\r\ny", "\n", "x\n\x1b"])
def test_other_texts_of_several_lines_are_escaped(text: str) -> None:
    """Where a block would hide something."""
    assert "|" not in yaml_text({"a": text})
    assert yaml.safe_load(yaml_text({"a": text})) == {"a": text}


def test_a_very_long_key_is_announced() -> None:
    """YAML looks for the colon of a key only so far."""
    tree = {"k" * 2000: {"a": [1]}, "l" * 2000: [1, 2], "m" * 2000: "x"}
    text = yaml_text([tree])
    assert text.startswith("- ? kkk")
    assert yaml.safe_load(text) == [tree]


def test_what_is_nested_too_deeply_is_left_out() -> None:
    """And the text does not grow without end."""
    tree: Any = 1
    for _ in range(10_000):
        tree = {"a": [tree]}
    text = yaml_text(tree)
    assert TOO_DEEP in text
    assert len(text) < 100_000
    depth = len(re.findall("a:", text))
    assert depth == MAX_DEPTH // 2


def test_what_comes_behind_something_too_deep_is_there() -> None:
    """Only the depth is cut."""
    tree: Any = [1]
    for _ in range(MAX_DEPTH):
        tree = {"a": tree, "b": 2}
    assert yaml_lines(tree)[-1] == "b: 2"
    assert yaml_lines(tree).count("b: 2") == 1
