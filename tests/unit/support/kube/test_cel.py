"""The part of CEL that admission policies of ours use."""

from typing import Any

import pytest

from tests.support.kube.cel import CelError, Optional, equal, evaluate

NAMES = {"a": {"b": {"c": 1}, "list": [1, {"x": "y"}], "text": "hello", "yes": True}, "v": {"empty": {}}}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1", 1),
        ('"x"', "x"),
        ("[]", []),
        ('[1, "x", null]', [1, "x", None]),
        ("{}", {}),
        ("a.b.c", 1),
        ('a["b"]["c"]', 1),
        ("a.list[1].x", "y"),
        ("dyn(a.b)", {"c": 1}),
        ("a.b.c == 1", True),
        ("a.b != a.b", False),
        ('{} == a.b || "b" in a', True),
        ("1 in a.list && !(2 in a.list)", True),
        ('"c" in a.b', True),
        ("true ? 1 : 2", 1),
        ("false ? 1 : true ? 2 : 3", 2),
        ("true || false && false", True),
        ("!true == false", True),
        ('a.text.matches("^h.*o$")', True),
        ('a.text.startsWith("he") && a.text.endsWith("lo") && a.text.contains("ell")', True),
        ("a.b.all(key, key == key)", True),
        ("a.list.exists(one, one == 1)", True),
        ("[].all(one, false)", True),
        ("[].exists(one, true)", False),
        ("[[1], [2]].all(x, x.exists(y, y in x))", True),
        ("a.?b.orValue({})", {"c": 1}),
        ("a.?nothing.orValue([])", []),
        ("a.?nothing.at.all.orValue(7)", 7),
        ('a.?b[?"d"].orValue(7)', 7),
        ('a.?b[?"c"].orValue(7)', 1),
        ("a.list[?9].orValue(0)", 0),
    ],
)
def test_values(expression: str, value: Any) -> None:
    """Precedence, macros, optional fields."""
    assert equal(evaluate(expression, NAMES), value)


@pytest.mark.parametrize(
    "expression", ["false && a.nothing", "a.nothing && false", "!(true || a.nothing)", "!(a.nothing || true)"]
)
def test_what_is_decided_does_not_mind_errors(expression: str) -> None:
    """On either side, as CEL has it."""
    assert evaluate(expression, NAMES) is False


def test_one_item_decides_for_all() -> None:
    """Errors of the others do not count then."""
    assert evaluate('["x", 1].all(one, one == 1 && one.matches("x"))', {}) is False
    assert evaluate('[1, "x"].exists(one, one.matches("x"))', {}) is True


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "1 +",
        "(1",
        "a.",
        "a b",
        "a.1",
        "size(a)",
        "a.text.lower(1)",
        "{1: 2}",
        "'x'",
        "a.nothing",
        "nothing",
        "a.list[9]",
        "a.text.x",
        "a.text && true",
        "true && a.nothing",
        "false || a.nothing",
        "1 ? 2 : 3",
        "!1",
        "a.text.all(x, true)",
        '"x" in a.text',
        'a.b.matches("x")',
        "a.text.matches(1)",
        "a.b.orValue(1)",
        "a.all(key key)",
    ],
)
def test_what_cannot_be_evaluated_is_an_error(expression: str) -> None:
    """Never an empty value in silence."""
    with pytest.raises(CelError):
        evaluate(expression, NAMES)


def test_equality_is_deep_and_of_the_same_type() -> None:
    """True is not 1; the order of keys does not count, that of items does."""
    assert equal({"a": [1, {"b": None}], "c": 1}, {"c": 1, "a": [1, {"b": None}]})
    assert not equal(1, True)
    assert not equal([1, 2], [2, 1])
    assert not equal({"a": 1}, {"a": 1, "b": 1})
    assert not equal({"a": [True]}, {"a": [1]})
    assert equal(evaluate("a.?b", NAMES), Optional(({"c": 1},)))
