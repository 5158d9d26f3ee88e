"""Resources in both languages."""

from typing import Any

import pytest

from interpose._pb.cri_pb2 import LinuxContainerResources
from interpose.core.model.resources import FIELDS
from interpose.relay.docker.translate.hostconfig import (
    KEYS,
    UNKNOWN,
    changes,
    fill,
    filled_in,
    raw_values,
    read_resources,
    values_to_cri,
)
from interpose.relay.docker.translate.json_edit import Pairs, UnreadableBodyError, read_root

MIB = 1 << 20


def differing(raw: dict[str, Any], update: bool = False, **wanted: Any) -> tuple[dict[str, Any], list[str]]:
    """What is written to a body that has `raw`, if the chain makes it `wanted`."""
    before, after = LinuxContainerResources(), LinuxContainerResources()
    fill(before, values_to_cri(raw))
    fill(after, {**values_to_cri(raw), **wanted})
    return changes(raw, before, after, update=update)


def pairs(text: str) -> Pairs:
    """The members of an object, as a body has them."""
    return tuple((item.key, item.value) for item in read_root(text).items)


def test_every_field_of_cri_has_its_place() -> None:
    """A word of Docker's, or the fact that there is none."""
    assert {*KEYS, *UNKNOWN} == set(FIELDS)


def test_values_of_a_body() -> None:
    """By Docker's keys; null is not set, other keys are nobody's business."""
    text = '{"cpushares":2,"Memory":null,"CpusetCpus":"\\ud800","NanoCpus":1,"CpusetMems":null,"x":1,"cgroupparent":""}'
    assert raw_values(pairs(text)) == {
        "CpuShares": 2,
        "NanoCpus": 1,
        "CpusetCpus": "\ufffd",
        "CgroupParent": "",
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"Memory":"1 SECRET"}', "Memory is not a whole number but a text"),
        ('{"Memory":1.0}', "Memory is not a whole number but a number with a point or an exponent"),
        ('{"Memory":true}', "Memory is not a whole number but true or false"),
        ('{"Memory":9223372036854775808}', "Memory is a number of more than 64 bits"),
        ('{"Memory":99999999999999999999999}', "Memory is a number of more than 64 bits"),
        ('{"CpusetCpus":0}', "CpusetCpus has a value that is not text but a number"),
        ('{"CgroupParent":["SECRET"]}', "CgroupParent has a value that is not text but a list"),
        ('{"Memory":1,"memory":2}', "the key 'Memory' is there 2 times"),
    ],
)
def test_wrong_types_are_unreadable_as_they_are_to_dockerd(text: str, why: str) -> None:
    """The key is named, and the kind of what is there; never the value."""
    with pytest.raises(UnreadableBodyError) as caught:
        raw_values(pairs(text))
    assert str(caught.value) == why


def test_what_is_set_is_shown() -> None:
    """Zero and empty are not set."""
    raw = {"CpuShares": 2, "CpuQuota": -1, "CpusetCpus": "1", "CpusetMems": "", "Memory": 0, "OomScoreAdj": -998}
    assert values_to_cri(raw) == {"cpu_shares": 2, "cpu_quota": -1, "cpuset_cpus": "1", "oom_score_adj": -998}


def test_nano_cpus_are_shown_as_quota_and_period() -> None:
    """Unless those are there; dockerd refuses both."""
    assert values_to_cri({"NanoCpus": 1_500_000_000}) == {"cpu_quota": 150_000, "cpu_period": 100_000}
    assert values_to_cri({"NanoCpus": 1, "CpuPeriod": 5}) == {"cpu_period": 5}


@pytest.mark.parametrize(
    ("memory", "swap", "found"),
    [
        (MIB, MIB, None),
        (MIB, 0, None),
        (MIB, 2 * MIB, 2 * MIB),
        (MIB, 3 * MIB, 3 * MIB),
        (MIB, -1, -1),
        (0, -1, -1),
        (0, MIB, MIB),
    ],
)
def test_swap_that_a_body_asks_for(memory: int, swap: int, found: int | None) -> None:
    """As much as memory is none, and what dockershim always says; everything else is shown as it is."""
    assert values_to_cri({"Memory": memory, "MemorySwap": swap}).get("memory_swap_limit_in_bytes") == found


UNKNOWN_CREATE = None
SAID_NOTHING = {"memory_limit_in_bytes": MIB}
SAID_DOUBLE = {"memory_limit_in_bytes": MIB, "memory_swap_limit_in_bytes": 2 * MIB}
SAID_UNLIMITED = {"memory_limit_in_bytes": MIB, "memory_swap_limit_in_bytes": -1}


@pytest.mark.parametrize(
    ("sent", "memory", "swap", "found"),
    [
        (UNKNOWN_CREATE, MIB, MIB, None),
        (UNKNOWN_CREATE, MIB, 2 * MIB, 2 * MIB),
        (UNKNOWN_CREATE, MIB, -1, None),
        (UNKNOWN_CREATE, 0, -1, -1),
        (SAID_NOTHING, MIB, MIB, None),
        (SAID_NOTHING, MIB, 2 * MIB, None),
        (SAID_NOTHING, MIB, -1, None),
        (SAID_NOTHING, 3 * MIB, 6 * MIB, 6 * MIB),
        (SAID_DOUBLE, MIB, 2 * MIB, 2 * MIB),
        (SAID_DOUBLE, MIB, -1, -1),
        (SAID_UNLIMITED, MIB, -1, -1),
        ({}, MIB, 2 * MIB, 2 * MIB),
        ({"memory_limit_in_bytes": "odd"}, MIB, 2 * MIB, 2 * MIB),
        ({}, MIB, -1, None),
    ],
)
def test_swap_that_dockerd_shows(sent: dict[str, int] | None, memory: int, swap: int, found: int | None) -> None:
    """What it filled in itself says nothing, as far as that can be told from what a create is known to have said."""
    raw = {"Memory": memory, "MemorySwap": swap}
    assert values_to_cri(raw, filled=filled_in(sent)).get("memory_swap_limit_in_bytes") == found


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
    assert read_resources(after) == {"oom_score_adj": 5}
