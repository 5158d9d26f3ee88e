"""Amounts of pods as a whole: what the kubelet makes of them, and what containers count for."""

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.decision import Grant
from interpose.core.policy.pod_amounts import (
    PodTotals,
    exclusive_room,
    have_pod_amounts,
    limited_by_pod,
    own_amounts,
    sent_requests,
)
from interpose.core.policy.request import Amounts, Key, Request

GIB = 1 << 30
POD = Amounts(milli=4000, limit_milli=4000, memory=GIB, memory_limit=GIB)
NOTHING = Amounts()
A, B, C = (Key("pod", name) for name in "abc")


def request(key: Key, milli: int = 0, pod: Amounts | None = POD) -> Request:
    return Request(key=key, amounts=Amounts(milli=milli), pod_amounts=pod)


def test_limits_that_a_container_does_not_have_are_those_of_its_pod() -> None:
    """Each of them by itself; a pod without amounts of its own changes nothing."""
    own = Amounts(milli=1000, limit_milli=2000, memory=5)
    assert limited_by_pod(own, None) == own
    assert limited_by_pod(own, POD) == Amounts(milli=1000, limit_milli=2000, memory=5, memory_limit=GIB)
    assert limited_by_pod(NOTHING, POD) == Amounts(limit_milli=4000, memory_limit=GIB)


def test_a_request_that_a_container_does_not_have_may_be_the_limit_of_its_pod() -> None:
    """The kubelet sends that; a request of zero that is written down stays zero."""
    assert sent_requests(Amounts(milli=500), POD) == (500,)
    assert sent_requests(NOTHING, POD) == (0, 4000)
    assert sent_requests(NOTHING, Amounts(milli=4000)) == (0,)
    assert sent_requests(NOTHING, None) == (0,)


@pytest.mark.parametrize(
    ("sent", "own"),
    [
        (POD, Amounts(limit_milli=4000, memory_limit=GIB)),
        (Amounts(milli=4000), NOTHING),
        (Amounts(milli=1000, limit_milli=4000), Amounts(milli=1000, limit_milli=4000)),
        (Amounts(milli=4000, limit_milli=5000), Amounts(milli=4000, limit_milli=5000)),
        (Amounts(milli=1000, memory=5, memory_limit=GIB), Amounts(milli=1000, memory=5, memory_limit=GIB)),
    ],
)
def test_what_is_the_pods_is_not_a_containers_own(sent: Amounts, own: Amounts) -> None:
    """Request and limit have to be those of the pod; without a CFS quota no limit is known."""
    assert own_amounts(sent, POD) == own


def test_a_pod_without_a_limit_is_known_by_its_request() -> None:
    """The limit is not sent by kubelets that set no CFS quota."""
    assert own_amounts(Amounts(milli=4000), Amounts(milli=4000)).milli == 0


def test_containers_that_ask_for_more_than_their_pod_show_amounts_of_its_own() -> None:
    """By themselves they could not; one that is known is enough. One that was resized has other amounts."""
    plain = [request(key, 2000, None) for key in (A, B)]
    whole = request(C, 4000, None)
    assert not have_pod_amounts(plain, POD)
    assert not have_pod_amounts([whole], POD)
    assert have_pod_amounts([*plain, whole], POD)
    assert not have_pod_amounts([request(A, 5000, None)], POD)
    assert have_pod_amounts([request(A, 0)], POD)


def test_a_pod_has_no_more_exclusive_cpus_than_it_asks_for() -> None:
    """All its containers together; a pod that asks for nothing as a whole has no such bound."""
    grants = {A: Grant(exclusive=CpuSet.parse("1-3")), Key("other", "x"): Grant(exclusive=CpuSet.parse("4-9"))}
    assert exclusive_room(request(B, pod=None), grants) is None
    assert exclusive_room(request(B), grants) == 1
    assert exclusive_room(request(A), grants) == 4
    assert exclusive_room(request(B, pod=Amounts(milli=2500)), grants) == 0


def test_containers_of_a_pod_count_for_it_together() -> None:
    """The first for all of it, others for what it asks for since."""
    totals = PodTotals()
    assert totals.count(request(A, 500, None), {}) == 500
    assert totals.count(request(A, 500), {}) == 4000
    grants = {A: Grant(milli=4000), Key("other", "x"): Grant(milli=9000)}
    assert totals.count(request(B), grants) == 0
    assert totals.count(request(B, pod=Amounts(milli=6000)), grants) == 2000
    assert totals.count(request(A, pod=Amounts(milli=1000)), grants) == 1000


def test_what_a_released_container_counted_for_is_counted_by_another_one() -> None:
    """Of the same pod in the same pool; of a pod without amounts of its own by none."""
    totals = PodTotals()
    grant = Grant(pools=("x",), milli=4000)
    others = {B: Grant(pools=("y",)), C: Grant(pools=("x",)), Key("other", "x"): Grant(pools=("x",))}
    assert totals.heir(A, grant, others) is None
    totals.add(request(A, pod=None))
    assert totals.heir(A, grant, others) is None
    totals.add(request(A))
    assert totals.heir(A, grant, others) == C
    assert totals.heir(A, grant, {B: others[B]}) is None
    assert totals.heir(A, grant, {}) is None
    assert totals.heir(A, grant, others) is None
