"""Names in PromQL expressions."""

import pytest

from tests.support.kube.promql import ScanError, Use, expressions_of, metric_of, named, over_time


def use(metric: str, *labels: str) -> Use:
    return Use(metric=metric, labels=frozenset(labels))


@pytest.mark.parametrize(
    ("expression", "uses", "grouping"),
    [
        ("up == 0", [use("up")], set()),
        ('up{job="a{b}", node=~"$node"} == 0', [use("up", "job", "node")], set()),
        ('sum by (node, le) (rate(a_bucket{x!=""}[5m]))', [use("a_bucket", "x")], {"node", "le"}),
        ("histogram_quantile(0.99, sum(rate(a_bucket[$__rate_interval])) by (le))", [use("a_bucket")], {"le"}),
        ("a / on (x) group_left b", [use("a"), use("b")], {"x"}),
        ("a - time() < 14 * 86400 # not a name", [use("a")], set()),
        ("absent(up == 1) or vector(0) unless a:b:rate5m", [use("up"), use("a:b:rate5m")], set()),
        ("count(a{} == bool 1)", [use("a")], set()),
        ("sum without (x) (a)", [use("a")], {"x"}),
    ],
)
def test_metrics_and_labels_are_found(expression: str, uses: list[Use], grouping: set[str]) -> None:
    """Functions, operators, numbers, texts, ranges and comments are none."""
    found = named(expression)

    assert (list(found.uses), set(found.grouping)) == (uses, grouping)


@pytest.mark.parametrize(
    ("expression", "metrics"),
    [
        ("up == 0", set()),
        ("increase(a[15m]) > 0 or b == 1 or rate(c[5m]) > d", {"a", "c"}),
        ('sum by (x) (rate(a_bucket{le="1",y=~"z"}[$__rate_interval])) / b', {"a_bucket"}),
    ],
)
def test_metrics_that_are_looked_at_over_time_are_found(expression: str, metrics: set[str]) -> None:
    """Whatever they are selected by."""
    assert over_time(expression) == metrics


@pytest.mark.parametrize("expression", ["a{", "sum(a", "a)", "sum(a}", "a ; b", "sum by (x", "§"])
def test_what_is_no_expression_is_refused(expression: str) -> None:
    """Brackets must match, and every sign be known."""
    with pytest.raises(ScanError):
        named(expression)


def test_a_series_belongs_to_a_family() -> None:
    """Histograms have three, others are themselves."""
    kinds = {"a": "gauge", "b": "histogram", "c_count": "counter"}

    assert metric_of("a", kinds) == "a"
    assert metric_of("b_bucket", kinds) == metric_of("b_sum", kinds) == metric_of("b_count", kinds) == "b"
    assert metric_of("c_count", kinds) == "c_count"
    assert metric_of("b", kinds) is None
    assert metric_of("a_bucket", kinds) is None


def test_rules_have_expressions() -> None:
    """Alerts and records alike."""
    rules = {"groups": [{"rules": [{"alert": "A", "expr": "a"}, {"record": "b:c", "expr": "b"}]}]}

    assert list(expressions_of(rules)) == [("A", "a"), ("b:c", "b")]
