"""Resources in both languages."""

from typing import Any

import pytest

from interpose.api.cri_pb2 import LinuxContainerResources
from interpose.model.resources import FIELDS
from interpose.relay.docker.hostconfig import KEYS, UNKNOWN, changes, fill, raw_values, shown, taken
from interpose.relay.docker.jsontext import UnreadableBody, read_root

MIB = 1 << 20


def differing(raw: dict[str, Any], update: bool = False, **wanted: Any) -> tuple[dict[str, Any], list[str]]:
    """What is written to a body that has `raw`, if the chain makes it `wanted`."""
    before, after = LinuxContainerResources(), LinuxContainerResources()
    fill(before, shown(raw))
    fill(after, {**shown(raw), **wanted})
    return changes(raw, before, after, update=update)


def test_every_field_of_cri_has_its_place() -> None:
    """A word of Docker's, or the fact that there is none."""
    assert {*KEYS, *UNKNOWN} == set(FIELDS)


def test_values_of_a_body() -> None:
    """By Docker's keys; null is not set, other keys are nobody's business."""
    text = '{"cpushares":2,"Memory":null,"CpusetCpus":"0-3\\ud800","NanoCpus":1,"CpusetMems":null,"X":{}}'
    assert raw_values(read_root(text)) == {"CpuShares": 2, "NanoCpus": 1, "CpusetCpus": "0-3\ufffd"}


@pytest.mark.parametrize(
    "text",
    [
        '{"Memory":"1"}',
        '{"Memory":1.0}',
        '{"Memory":true}',
        '{"Memory":9223372036854775808}',
        '{"Memory":99999999999999999999999}',
        '{"CpusetCpus":0}',
    ],
)
def test_wrong_types_are_unreadable_as_they_are_to_dockerd(text: str) -> None:
    """The key is named."""
    with pytest.raises(UnreadableBody, match=r"Memory|CpusetCpus"):
        raw_values(read_root(text))


def test_what_is_set_is_shown() -> None:
    """Zero and empty are not set."""
    raw = {"CpuShares": 2, "CpuQuota": -1, "CpusetCpus": "1", "CpusetMems": "", "Memory": 0, "OomScoreAdj": -998}
    assert shown(raw) == {"cpu_shares": 2, "cpu_quota": -1, "cpuset_cpus": "1", "oom_score_adj": -998}


def test_nano_cpus_are_shown_as_quota_and_period() -> None:
    """Unless those are there; dockerd refuses both."""
    assert shown({"NanoCpus": 1_500_000_000}) == {"cpu_quota": 150_000, "cpu_period": 100_000}
    assert shown({"NanoCpus": 1, "CpuPeriod": 5}) == {"cpu_period": 5}


@pytest.mark.parametrize(
    ("memory", "swap", "asked", "found"),
    [
        (MIB, MIB, None, None),
        (MIB, 2 * MIB, 2 * MIB, None),
        (MIB, -1, -1, None),
        (MIB, 3 * MIB, 3 * MIB, 3 * MIB),
        (0, -1, -1, -1),
        (MIB, 0, None, None),
    ],
)
def test_swap_that_nobody_asked_for_is_not_shown(memory: int, swap: int, asked: int | None, found: int | None) -> None:
    """In a body that is what dockershim always says; later also what dockerd fills in."""
    raw = {"Memory": memory, "MemorySwap": swap}
    assert shown(raw).get("memory_swap_limit_in_bytes") == asked
    assert shown(raw, defaults=True).get("memory_swap_limit_in_bytes") == found


def test_only_what_changed_is_written() -> None:
    """A value taken away is written as zero."""
    raw = {"CpuShares": 512, "CpusetCpus": "0-3", "Memory": MIB, "MemorySwap": MIB}
    assert differing(raw) == ({}, [])
    assert differing(raw, cpu_shares=2, cpuset_cpus="") == ({"CpuShares": 2, "CpusetCpus": ""}, [])


def test_swap_goes_with_the_memory_limit() -> None:
    """dockerd refuses a limit above the swap, and gives swap to whoever says nothing."""
    held = {"Memory": MIB, "MemorySwap": MIB}
    assert differing(held, memory_limit_in_bytes=2 * MIB)[0] == {"Memory": 2 * MIB, "MemorySwap": 2 * MIB}
    assert differing({}, memory_limit_in_bytes=MIB)[0] == {"Memory": MIB, "MemorySwap": MIB}
    assert differing(held, memory_limit_in_bytes=0)[0] == {"Memory": 0, "MemorySwap": 0}
    both = differing(held, memory_limit_in_bytes=2 * MIB, memory_swap_limit_in_bytes=-1)[0]
    assert both == {"Memory": 2 * MIB, "MemorySwap": -1}


def test_swap_taken_away_is_no_swap() -> None:
    """As CRI means it; without a memory limit there is none to be equal to."""
    held = {"Memory": MIB, "MemorySwap": 3 * MIB}
    assert differing(held, memory_swap_limit_in_bytes=0)[0] == {"MemorySwap": MIB}
    assert differing({"MemorySwap": -1}, memory_swap_limit_in_bytes=0)[0] == {"MemorySwap": 0}


def test_nano_cpus_give_way_to_a_quota() -> None:
    """Only if it is changed."""
    raw = {"NanoCpus": 10**9}
    assert differing(raw, cpu_quota=50_000)[0] == {"CpuQuota": 50_000, "CpuPeriod": 100_000, "NanoCpus": 0}
    assert differing(raw, cpu_shares=3)[0] == {"CpuShares": 3}


def test_no_memory_limit_in_both_kinds_of_calls() -> None:
    """A create says zero; an update has no word for it."""
    held = {"Memory": MIB, "MemorySwap": MIB}
    assert differing(held, memory_limit_in_bytes=-1) == ({"Memory": 0, "MemorySwap": 0}, [])
    assert differing(held, update=True, memory_limit_in_bytes=-1) == ({}, ["memory_limit_in_bytes"])


def test_what_docker_cannot_carry_is_named() -> None:
    """An update has no score, neither has huge pages or files."""
    before, after = LinuxContainerResources(), LinuxContainerResources(oom_score_adj=5, unified={"memory.high": "1"})
    after.hugepage_limits.add(page_size="2MB", limit=0)
    assert changes({}, before, after, update=False) == ({"OomScoreAdj": 5}, ["hugepage_limits", "unified"])
    assert changes({}, before, after, update=True) == ({}, ["hugepage_limits", "unified", "oom_score_adj"])
    assert taken(after) == {"oom_score_adj": 5}
