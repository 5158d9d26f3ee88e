"""Expressions about containers: keys, operators, globs and templates, by the rules that Go's programs have."""

import pytest

from interpose.core.model.cgroup import KubeQos
from interpose.core.policy.expressions import (
    Expression,
    Operator,
    expand_template,
    expression_problem,
    glob_problem,
    matches_glob,
    resolve,
)
from interpose.core.policy.request import Key, Request

REQUEST = Request(
    key=Key("sandbox-1", "app"),
    namespace="shop",
    pod="web",
    qos=KubeQos.BURSTABLE,
    pod_labels={"tier": "front", "example.com/team": "blue", "io.kubernetes.pod.uid": "u-1", "empty": ""},
)
BARE = Request(key=Key("sandbox-1", "app"))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", "app"),
        ("namespace", "shop"),
        ("qosclass", "Burstable"),
        ("uid", "u-1"),
        ("id", None),
        ("labels/io.kubernetes.container.name", "app"),
        ("labels/io.kubernetes.pod.name", "web"),
        ("labels/io.kubernetes.pod.namespace", "shop"),
        ("labels/io.kubernetes.pod.uid", "u-1"),
        ("io.kubernetes.container.name", "app"),
        ("labels/tier", None),
        ("tags/avx512", None),
        ("pod/name", "web"),
        ("pod/namespace", "shop"),
        ("pod/qosclass", "Burstable"),
        ("pod/id", "sandbox-1"),
        ("pod/uid", "u-1"),
        ("pod/labels/tier", "front"),
        ("pod/labels/example.com/team", "blue"),
        ("pod/labels/empty", ""),
        ("pod/labels/none", None),
        ("/pod/name", "web"),
        ("color", None),
        (":namespace:name", "shop:app"),
        (":namespace:pod/name:name", "shop:web:app"),
        (":,-namespace,name", "shop-app"),
        (":  namespace name", "shop app"),
        (":;;pod/labels/none;name", ";app"),
        (":id:id", None),
        (":id", None),
    ],
)
def test_a_key_resolves_to_what_is_known_of_a_container(key: str, value: str | None) -> None:
    """A joint key has the values of its parts, with what does not resolve left empty."""
    assert resolve(key, REQUEST) == value


def test_a_pod_without_labels_has_no_uid() -> None:
    """Nothing else says it."""
    assert resolve("uid", BARE) is None
    assert resolve("labels/io.kubernetes.pod.uid", BARE) is None


@pytest.mark.parametrize(
    ("key", "operator", "values", "true"),
    [
        ("name", "Equals", ("app",), True),
        ("name", "Equals", ("web",), False),
        ("name", "Equals", ("*",), True),
        ("name", "Equals", ("a*",), False),
        ("id", "Equals", ("*",), False),
        ("name", "NotEqual", ("app",), False),
        ("name", "NotEqual", ("web",), True),
        ("id", "NotEqual", ("app",), True),
        ("name", "In", ("web", "app"), True),
        ("name", "In", ("web", "*"), True),
        ("name", "In", (), False),
        ("id", "In", ("*",), False),
        ("name", "NotIn", ("web", "app"), False),
        ("name", "NotIn", ("web",), True),
        ("id", "NotIn", ("app",), True),
        ("name", "Exists", (), True),
        ("id", "Exists", (), False),
        ("pod/labels/empty", "Exists", (), True),
        ("name", "NotExist", (), False),
        ("id", "NotExist", (), True),
        ("id", "AlwaysTrue", (), True),
        ("name", "Matches", ("a*",), True),
        ("name", "Matches", ("b*",), False),
        ("id", "Matches", ("*",), False),
        ("name", "MatchesNot", ("a*",), False),
        ("name", "MatchesNot", ("b*",), True),
        ("id", "MatchesNot", ("*",), True),
        ("name", "MatchesAny", ("b*", "?pp"), True),
        ("name", "MatchesAny", ("b*", "c*"), False),
        ("id", "MatchesAny", ("*",), False),
        ("name", "MatchesNone", ("b*", "?pp"), False),
        ("name", "MatchesNone", ("b*",), True),
        ("id", "MatchesNone", ("*",), True),
        ("pod/qosclass", "Equals", ("Burstable",), True),
    ],
)
def test_an_expression_compares(key: str, operator: str, values: tuple[str, ...], true: bool) -> None:
    """What does not resolve makes an operator false, and its negation true."""
    assert Expression(key, Operator(operator), values).matches(REQUEST) is true


@pytest.mark.parametrize(
    ("key", "operator", "values", "problem"),
    [
        ("name", "Equals", ("app",), ""),
        ("name", "In", (), ""),
        ("pod/labels/a", "Exists", (), ""),
        ("tags/a", "NotExist", (), ""),
        ("id", "AlwaysTrue", (), ""),
        (":,-namespace,pod/uid", "MatchesAny", ("a*", "b?"), ""),
        ("io.kubernetes.container.name", "Equals", ("app",), ""),
        ("color", "Exists", (), "key 'color' is none of id, uid, name, namespace, qosclass, labels/LABEL"),
        ("pod", "Exists", (), "key 'pod' is none of"),
        ("labels/", "Exists", (), "key 'labels/' is none of"),
        ("name/x", "Exists", (), "key 'name/x' is none of"),
        (":name:color", "Exists", (), "key 'color' is none of"),
        ("name", "Equals", (), "operator Equals takes one value, found 0"),
        ("name", "MatchesNot", ("a", "b"), "operator MatchesNot takes one value, found 2"),
        ("name", "Exists", ("a", "b"), "operator Exists takes no values, found 'a', 'b'"),
        ("name", "MatchesNone", ("a", "[b"), "pattern '[b': a class of characters has no end"),
    ],
)
def test_a_wrong_expression_is_named(key: str, operator: str, values: tuple[str, ...], problem: str) -> None:
    """A key that there is not, another number of values than its operator takes, a pattern that is none."""
    found = expression_problem(Expression(key, Operator(operator), values))
    assert found.startswith(problem)
    assert bool(found) is bool(problem)


def test_an_expression_is_shown_in_a_line() -> None:
    """As people would say it."""
    assert str(Expression("name", Operator.IN, ("a", "b"))) == "name In a, b"
    assert str(Expression("name", Operator.EXISTS)) == "name Exists"


@pytest.mark.parametrize(
    ("pattern", "text", "true"),
    [
        ("", "", True),
        ("", "a", False),
        ("abc", "abc", True),
        ("ABC", "abc", False),
        ("*", "", True),
        ("*", "abc", True),
        ("*", "a/c", False),
        ("*c", "abc", True),
        ("a*", "abc", True),
        ("a*/b", "abc/b", True),
        ("a*/b", "a/c/b", False),
        ("a*b*c*d*e*/f", "axbxcxdxe/f", True),
        ("a*b*c*d*e*/f", "axbxcxdxe/xxx/f", False),
        ("a*b?c*x", "abxbbxdbxebxczzx", True),
        ("a*b?c*x", "abxbbxdbxebxczzy", False),
        ("a**c", "abc", True),
        ("**", "a/b", False),
        ("ab[c]", "abc", True),
        ("ab[b-d]", "abc", True),
        ("ab[e-g]", "abc", False),
        ("ab[^c]", "abc", False),
        ("ab[^e-g]", "abc", True),
        ("ab[x-yc]", "abc", True),
        ("[z-a]", "b", False),
        ("[^z-a]", "b", True),
        ("a[/]b", "a/b", True),
        ("a?b", "a/b", False),
        ("a?b", "a☺b", True),
        ("a\\*b", "a*b", True),
        ("a\\*b", "ab", False),
        ("[\\]a]", "]", True),
        ("[a\\-z]x", "-x", True),
        ("[!a]", "b", False),
        ("a.c", "abc", False),
        ("*x", "xxx", True),
        ("a\nb", "a\nb", True),
        ("*", "a\nb", True),
        ("[", "a", False),
    ],
)
def test_globs_are_those_of_path_match(pattern: str, text: str, true: bool) -> None:
    """A star does not match a slash, two are as good as one, and case counts."""
    assert matches_glob(pattern, text) is true


def test_many_stars_take_no_time_worth_naming() -> None:
    """Where a chunk is found first is final, so a pattern of an author cannot hold the relay."""
    assert not matches_glob("a*" * 500 + "b", "a" * 5000)


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("a*[b-c]?", ""),
        ("[a", "has no end"),
        ("[", "has no end"),
        ("[^", "has no end"),
        ("[]a]", "cannot have ] there"),
        ("[-x]", "cannot have - there"),
        ("[x-]", "a range of characters has no end"),
        ("[a-", "a range of characters has no end"),
        ("a\\", "nothing is behind its last backslash"),
        ("[a\\", "nothing is behind its last backslash"),
    ],
)
def test_what_is_no_pattern_is_named(pattern: str, problem: str) -> None:
    """For readers of configurations; matched, it matches nothing."""
    found = glob_problem(pattern)
    assert problem in found
    assert bool(found) is bool(problem)


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("", ""),
        ("plain", "plain"),
        ("${namespace}", "shop"),
        ("$namespace", "shop"),
        ("x-${pod/labels/tier}-y", "x-front-y"),
        ("$namespace$$$name", "shop$app"),
        ("$$", "$"),
        ("{}", "{}"),
        ("${:namespace:name}", "shop:app"),
        ("${pod/labels/none}", None),
        ("$", None),
        ("a$", None),
        ("${", None),
        ("${}", None),
        ("${name", None),
        ("$name}", None),
        ("$name{", None),
        ("${na$me}", None),
    ],
)
def test_a_template_has_values_of_keys(text: str, expanded: str | None) -> None:
    """All of them have to resolve, and what is no template expands to nothing."""
    assert expand_template(text, REQUEST) == expanded
