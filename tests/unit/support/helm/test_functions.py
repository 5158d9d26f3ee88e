"""Functions of templates, with what Helm is known to make of the same."""

from typing import Any

import pytest

from tests.support.helm.errors import FunctionError
from tests.support.helm.functions import FUNCTIONS, Whole, shown, truth


@pytest.mark.parametrize(
    ("name", "arguments", "result"),
    [
        ("append", (["a"], "b"), ["a", "b"]),
        ("b64enc", ("hi",), "aGk="),
        ("concat", (["a"], ["b"]), ["a", "b"]),
        ("contains", ("a", "cat"), True),
        ("default", ("d", ""), "d"),
        ("default", ("d", 0), "d"),
        ("default", ("d", "v"), "v"),
        ("default", ("d",), "d"),
        ("dict", ("a", 1, "b", 2), {"a": 1, "b": 2}),
        ("empty", ({},), True),
        ("eq", ("a", "b", "a"), True),
        ("eq", (None, "a"), False),
        ("eq", (1, Whole(1)), True),
        ("ge", (2, 2), True),
        ("gt", (2, 1), True),
        ("has", ("a", ["a"]), True),
        ("hasKey", ({"a": None}, "a"), True),
        ("indent", (2, "a\nb"), "  a\n  b"),
        ("index", ({"a": ["x", "y"]}, "a", 1), "y"),
        ("index", ({}, "a"), None),
        ("int", ("5",), 5),
        ("join", (",", ["a", 1]), "a,1"),
        ("keys", ({"a": 1},), ["a"]),
        ("kindIs", ("map", {}), True),
        ("kindIs", ("slice", {}), False),
        ("kindIs", ("string", ""), True),
        ("kindIs", ("bool", 1), False),
        ("kindIs", ("invalid", None), True),
        ("le", (1, 2), True),
        ("len", ("abc",), 3),
        ("list", ("a", 1), ["a", 1]),
        ("lower", ("A",), "a"),
        ("lt", ("a", "b"), True),
        ("ne", ("a", "b"), True),
        ("nindent", (2, "a\nb"), "\n  a\n  b"),
        ("not", ("",), True),
        ("printf", ("%s-%d %v %q 100%%", "a", Whole(2), True, 'x"y'), 'a-2 true "x\\"y" 100%'),
        ("quote", (1,), '"1"'),
        ("quote", (None,), '""'),
        ("replace", ("+", "_", "1+2"), "1_2"),
        ("required", ("why", "x"), "x"),
        ("sortAlpha", (["b", "a"],), ["a", "b"]),
        ("ternary", ("y", "n", False), "n"),
        ("toJson", ({"b": 1, "a": []},), '{"a":[],"b":1}'),
        ("toString", (True,), "true"),
        ("toYaml", ({"b": [1, "x"], "a": {}},), "a: {}\nb:\n- 1\n- x"),
        ("toYaml", (None,), "null"),
        ("toYaml", ([],), "[]"),
        ("fromYaml", ("a: 1\nb: [x]\n",), {"a": 1, "b": ["x"]}),
        ("trim", (" a\n",), "a"),
        ("trimPrefix", ("a", "ab"), "b"),
        ("trimSuffix", ("-", "a-"), "a"),
        ("trunc", (2, "abc"), "ab"),
        ("trunc", (-2, "abc"), "bc"),
        ("uniq", (["a", "b", "a"],), ["a", "b"]),
    ],
)
def test_what_a_function_gives(name: str, arguments: tuple[Any, ...], result: Any) -> None:
    """The order of arguments is Sprig's: what is piped comes last."""
    assert FUNCTIONS[name](*arguments) == result


def test_a_checksum_is_that_of_the_text() -> None:
    """In hexadecimal."""
    assert FUNCTIONS["sha256sum"]("").startswith("e3b0c442")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("dict", ("a",)),
        ("eq", ("a",)),
        ("eq", (1, "1")),
        ("eq", (True, 1)),
        ("eq", ([], [])),
        ("fail", ("no",)),
        ("gt", (1, "1")),
        ("lt", (None, None)),
        ("index", (["a"], 5)),
        ("printf", ("%d", 1)),
        ("printf", ("%s", 1)),
        ("printf", ("%x", 1)),
        ("printf", ("%s",)),
        ("printf", ("a", "b")),
        ("required", ("why", None)),
        ("required", ("why", "")),
        ("quote", ([],)),
        ("fromYaml", ("",)),
        ("fromYaml", ("a: {",)),
    ],
)
def test_what_helm_refuses_or_makes_odd_is_refused(name: str, arguments: tuple[Any, ...]) -> None:
    """Instead of odd text in a manifest."""
    with pytest.raises(FunctionError):
        FUNCTIONS[name](*arguments)


@pytest.mark.parametrize(
    ("value", "text"), [(None, ""), (True, "true"), (False, "false"), (8443, "8443"), ("a", "a"), (1.5, "1.5")]
)
def test_values_are_printed_as_helm_does(value: Any, text: str) -> None:
    """What is missing is nothing."""
    assert shown(value) == text


def test_large_numbers_must_be_made_whole() -> None:
    """Helm prints 1e+06."""
    with pytest.raises(FunctionError, match="use int"):
        shown(1_000_000)

    assert shown(Whole(1_000_000)) == "1000000"


@pytest.mark.parametrize("value", [None, False, 0, "", [], {}])
def test_what_is_empty_is_false(value: Any) -> None:
    """And nothing else is."""
    assert not truth(value)
    assert truth("false")
