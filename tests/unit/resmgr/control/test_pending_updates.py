"""Updates whose outcome is not known: what the record of their container tells about them."""

from dataclasses import replace
from typing import Any

import pytest

from interpose.core.model.cgroup import KubeQos
from interpose.core.model.resources import NO_RESOURCES, LinuxResources
from interpose.core.policy.request import Amounts, Key, Request
from interpose.resmgr.container_request import resize_amounts
from interpose.resmgr.control.pending_updates import PendingUpdate, PendingUpdates, evidence_fields

KEY = Key("pod", "app")
TWO = LinuxResources(cpu_shares=2048, cpu_quota=200_000, cpu_period=100_000, memory_limit_in_bytes=1 << 30)
FOUR = replace(TWO, cpu_shares=4096, cpu_quota=400_000)
SIX = replace(TWO, cpu_shares=6144, cpu_quota=600_000)
BEFORE = Request(key=KEY, qos=KubeQos.GUARANTEED, amounts=Amounts(milli=2000, limit_milli=2000, memory_limit=1 << 30))


def unsettled(asked: LinuxResources = FOUR, sent: LinuxResources | None = None, **more: Any) -> PendingUpdate:
    """An update of a container with two CPUs."""
    fields = evidence_fields(asked, sent or asked, TWO, more.pop("ours", ()))
    return PendingUpdate(before=BEFORE, requested_before=TWO, resources_before=TWO, update=asked, evidence=fields)


@pytest.mark.parametrize(
    ("sent", "ours", "fields"),
    [
        (FOUR, (), {"cpu_shares", "cpu_quota"}),
        (replace(FOUR, cpu_shares=512), (), {"cpu_quota"}),
        (FOUR, ("cpu_shares",), {"cpu_quota"}),
        (replace(FOUR, cpu_shares=512, cpu_quota=-1), (), set()),
    ],
)
def test_what_tells_whether_an_update_arrived(sent: LinuxResources, ours: tuple[str, ...], fields: set[str]) -> None:
    """What was to change, and what nobody else writes."""
    assert evidence_fields(FOUR, sent, TWO, ours) == fields


def test_an_update_that_did_not_arrive_changes_nothing() -> None:
    """The container has what it had."""
    assert unsettled().amounts(TWO) is BEFORE.amounts


def test_an_update_that_arrived_counts_as_a_whole() -> None:
    """Exactly as it was decided, with what the record cannot tell."""
    decided = resize_amounts(BEFORE, FOUR, TWO)
    assert unsettled().amounts(FOUR) == decided
    policys = replace(FOUR, cpu_shares=512)
    assert unsettled(sent=policys).amounts(policys) == decided


def test_half_an_update_is_half_an_update() -> None:
    """Each field for itself."""
    half = unsettled(replace(FOUR, memory_limit_in_bytes=1 << 31)).amounts(replace(TWO, memory_limit_in_bytes=1 << 31))
    assert (half.milli, half.memory_limit) == (2000, 1 << 31)


def test_a_value_that_runtimes_do_not_show_is_what_was_asked_for() -> None:
    """No quota at all, for one."""
    asked = LinuxResources(cpu_quota=-1)
    assert unsettled(asked).amounts(replace(TWO, cpu_quota=0)) == resize_amounts(BEFORE, asked, TWO)


def test_of_several_updates_the_record_tells_which_was_the_last() -> None:
    """None, the first or the second."""
    both = unsettled().merge(unsettled(SIX))
    assert both.amounts(TWO) is BEFORE.amounts
    assert [both.amounts(one).milli for one in (FOUR, SIX)] == [4000, 6000]


def test_nothing_is_told_before_the_runtime_was_asked() -> None:
    """The record may be older than the update; nor while another update is being carried out."""
    updates = PendingUpdates()
    assert updates.amounts(KEY, TWO) is None
    updates.mark_refreshed(KEY)
    updates.add(unsettled())
    assert updates.amounts(KEY, TWO) is None
    updates.mark_refreshed(KEY)
    assert updates.amounts(KEY, TWO) is BEFORE.amounts
    with updates.track(KEY), updates.track(KEY):
        assert updates.amounts(KEY, TWO) is None
    assert updates.amounts(KEY, TWO) is BEFORE.amounts
    updates.add(unsettled(SIX))
    assert updates.amounts(KEY, TWO) is None


def test_an_update_that_leaves_no_trace_is_believed() -> None:
    """There is nothing to find out."""
    updates = PendingUpdates()
    updates.add(unsettled(NO_RESOURCES))
    assert KEY not in updates


def test_the_runtime_is_asked_now_and_then_and_not_for_ever() -> None:
    """An update may arrive late; one that is known is not asked about."""
    updates = PendingUpdates()
    updates.add(unsettled())
    asked = [tick for tick in range(1, 130) if updates.tick()]
    assert asked == [1, 3, 12, 30, 60, 120]
    assert KEY not in updates
    updates.add(unsettled())
    updates.drop(KEY)
    assert updates.tick() == []
