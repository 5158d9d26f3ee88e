"""Objects of Kubernetes in documents and lists, and amounts of resources."""

from fractions import Fraction

import pytest

from interpose.config.documents.fields import Report
from interpose.config.documents.objects import Quantities, amount, find_objects
from interpose.config.documents.yaml import parse_document
from interpose.errors import ConfigError


def found(text: str, *kinds: str) -> list[tuple[str, str]]:
    """Kinds and keys of the objects."""
    report = Report("x")
    objects = [(kind, key) for kind, _, key in find_objects(parse_document(text, "x"), "", report, kinds)]
    report.settle()
    return objects


def test_lists_are_opened_however_deep() -> None:
    """Those of one kind and those of any."""
    text = "{kind: List, items: [{kind: Pod}, {kind: PodList, items: [{kind: Pod}]}, {kind: Secret}]}"
    assert found(text, "Pod", "Secret") == [("Pod", "items[0]"), ("Pod", "items[1].items[0]"), ("Secret", "items[2]")]


def test_a_list_without_items_is_empty() -> None:
    """That is no mistake."""
    assert found("kind: PodList", "Pod") == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1", "x line 1: kind: is missing, expected Pod or List"),
        ("kind: Node", "x line 1: kind: expected Pod or List, found 'Node'"),
        ("kind: NodeList", "x line 1: kind: expected Pod or List, found 'NodeList'"),
        ("{kind: List, items: {}}", "x line 1: items: expected a list, found a group of keys"),
        ("{kind: List, items: [{kind: Node}]}", "x line 1: items[0].kind: expected Pod or List, found 'Node'"),
    ],
)
def test_what_is_something_else(text: str, problem: str) -> None:
    """Is told with its place."""
    with pytest.raises(ConfigError) as caught:
        found(text, "Pod")
    assert caught.value.problems == [problem]


def test_amounts_are_exact() -> None:
    """However they are written."""
    report = Report("x")
    found = Quantities().read(parse_document("{cpu: 100m, memory: 1e3}", "x"), "k", report)
    report.settle()
    assert found == {"cpu": Fraction(1, 10), "memory": Fraction(1000)}


def test_amounts_that_are_none() -> None:
    """All of them are told."""
    report = Report("x")
    Quantities().read(parse_document('{a: x, b: 1, b: 2, "c\\n": y}', "x"), "k", report)
    Quantities().read(parse_document("[]", "x"), "k", report)
    with pytest.raises(ConfigError) as caught:
        report.settle()
    assert caught.value.problems == [
        "x line 1: k.a: 'x' is not a quantity such as 500m, 1.5 or 1Gi",
        "x line 1: k.b: is given twice",
        "x line 1: k.'c\\n': 'y' is not a quantity such as 500m, 1.5 or 1Gi",
        "x line 1: k: expected a group of keys, found a list",
    ]


def test_amounts_for_people_are_short() -> None:
    """No fractions."""
    assert (amount(Fraction(1, 2)), amount(Fraction(3))) == ("0.5", "3")
