"""The QoS class, by the rule of Kubernetes."""

from fractions import Fraction
from typing import TypeAlias

import pytest

from interpose.core.model.cgroup import KubeQos
from interpose.core.model.qos import kube_qos

Amounts: TypeAlias = dict[str, int]

G, B, N = KubeQos.GUARANTEED, KubeQos.BURSTABLE, KubeQos.BEST_EFFORT
BOTH = {"cpu": 1, "memory": 2}

CASES: list[tuple[str, list[tuple[Amounts, Amounts]], KubeQos]] = [
    ("nothing asked for", [({}, {})], N),
    ("no containers", [], N),
    ("zeros are nothing", [({"cpu": 0}, {"memory": 0})], N),
    ("other resources do not count", [({"hugepages-2Mi": 4}, {"hugepages-2Mi": 4, "a.b/c": 1})], N),
    ("equal for both", [(BOTH, BOTH)], G),
    ("a missing request is the limit", [({}, BOTH)], G),
    ("a missing request of one", [({"cpu": 1}, BOTH)], G),
    ("limit of one only", [({}, {"cpu": 1})], B),
    ("equal for one only", [({"cpu": 1}, {"cpu": 1})], B),
    ("requests only", [(BOTH, {})], B),
    ("a request below the limit", [({"cpu": 1, "memory": 1}, BOTH)], B),
    ("two equal ones", [(BOTH, BOTH), ({}, BOTH)], G),
    ("one of two without anything", [(BOTH, BOTH), ({}, {})], B),
    ("one of two with less", [(BOTH, BOTH), ({"cpu": 1}, {})], B),
    ("a request of zero below a limit", [({"cpu": 0, "memory": 2}, BOTH)], B),
]


def exact(amounts: Amounts) -> dict[str, Fraction]:
    """As amounts are kept."""
    return {name: Fraction(value) for name, value in amounts.items()}


@pytest.mark.parametrize(("each", "expected"), [row[1:] for row in CASES], ids=[row[0] for row in CASES])
def test_the_class_follows_from_requests_and_limits(each: list[tuple[Amounts, Amounts]], expected: KubeQos) -> None:
    """Every row of the rule."""
    assert kube_qos((exact(requests), exact(limits)) for requests, limits in each) is expected
