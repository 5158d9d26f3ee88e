"""What was asked for is known as long as the container has what we gave it."""

import json
from typing import Any

import pytest

from interpose.core.model.cgroup import CLEAR, UNLIMITED, Parameter, Value
from interpose.core.model.pod import Container
from interpose.core.model.resources import LinuxResources
from interpose.hooks.server.reconcile.journal_format import JournalEntry
from interpose.hooks.server.reconcile.original_values import (
    ValueRecord,
    note_of,
    read_note,
    record_in_force,
    record_of_entry,
    with_requested,
)

ASKED = LinuxResources(cpu_shares=2, cpu_quota=100_000, cpuset_cpus="0-3", oom_score_adj=1000)


def container(**resources: Any) -> Container:
    """A container that has these."""
    found = LinuxResources(**resources)
    return Container(id="c", resources=found, requested=found)


def test_a_note_tells_what_was_asked_for_and_given() -> None:
    """Of what differs only, and only of what a create request carries."""
    wanted: dict[Parameter, Value] = {
        Parameter.CPU_SHARES: 2,
        Parameter.CPU_QUOTA: 83_334,
        Parameter.CPUSET_CPUS: CLEAR,
        Parameter.MEMORY_LIMIT: UNLIMITED,
        Parameter.OOM_SCORE_ADJ: 0,
        Parameter.CPU_BVT: -1,
    }
    note = note_of(ASKED, wanted, dict.fromkeys(wanted, "P"))
    assert json.loads(note) == {
        "cpu_quota": [100_000, 83_334, "P"],
        "cpuset_cpus": ["0-3", "", "P"],
        "memory_limit_in_bytes": [0, -1, "P"],
        "oom_score_adj": [1000, 0, "P"],
    }
    assert read_note(note) == {
        Parameter.CPU_QUOTA: ValueRecord(100_000, 83_334, plugin="P"),
        Parameter.CPUSET_CPUS: ValueRecord("0-3", CLEAR, plugin="P"),
        Parameter.MEMORY_LIMIT: ValueRecord(None, UNLIMITED, plugin="P"),
        Parameter.OOM_SCORE_ADJ: ValueRecord(1000, 0, plugin="P"),
    }
    assert note_of(ASKED, {Parameter.CPU_SHARES: 2}, {}) == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "[" * 100_000,
        '{"cpu_quota": 5}',
        '{"cpu_quota": [1]}',
        '{"cpu_quota": [1, 2, 3]}',
        '{"cpu_quota": [1, 2, "x", "y"]}',
        '{"cpu_quota": ["1", 2, "x"]}',
        '{"cpu_quota": [true, 2, "x"]}',
        '{"cpu_quota": [1, 99999999999999999999, "x"]}',
        '{"cpuset_cpus": ["0", 1, "x"]}',
        '{"something": [1, 2, "x"]}',
    ],
)
def test_a_damaged_note_is_as_good_as_none(text: str) -> None:
    """Anybody can write annotations."""
    assert read_note(text) == {}


@pytest.mark.parametrize(
    ("pair", "resources", "asked"),
    [
        (ValueRecord(1, 5000), {"cpu_quota": 5000}, 1),
        (ValueRecord(1, 5000), {"cpu_quota": 6000}, "no"),
        (ValueRecord(1, 5000, before=6000), {"cpu_quota": 6000}, 1),
        (ValueRecord(1, 5000, before=6000), {"cpu_quota": 7000}, "no"),
        (ValueRecord(1, 5000, before=6000, requested_before=2, moved=True), {"cpu_quota": 6000}, 2),
        (ValueRecord(1, 5000, before=6000, requested_before=2, moved=True), {"cpu_quota": 5000}, 1),
        (ValueRecord(1, UNLIMITED), {"cpu_quota": -1}, 1),
        (ValueRecord(1, CLEAR), {}, 1),
        (ValueRecord(1, CLEAR), {"cpu_quota": 1}, "no"),
    ],
)
def test_a_note_counts_while_the_container_has_what_it_was_given(
    pair: ValueRecord, resources: dict[str, Any], asked: object
) -> None:
    """Or what it was given before, if the last time may not have come to be: with what was asked for then."""
    found = record_in_force(container(**resources), Parameter.CPU_QUOTA, pair)
    assert ("no" if found is None else found.requested) == asked


@pytest.mark.parametrize(
    ("cpus", "whole", "counts"),
    [
        ("", "0-3", True),
        ("0-3", "0-3", True),
        ("0-7", "0-3", True),
        ("0-2", "0-3", False),
        ("0-3", "", False),
        ("x", "0", False),
    ],
)
def test_a_set_that_was_cleared_is_there_in_full(cpus: str, whole: str, counts: bool) -> None:
    """CRI cannot clear one."""
    found = record_in_force(container(cpuset_cpus=cpus), Parameter.CPUSET_CPUS, ValueRecord("1", CLEAR), whole)
    assert (found is not None) is counts


def test_an_entry_of_the_journal_is_such_a_pair() -> None:
    """With everything it knows."""
    entry = JournalEntry(found=1, written=2, plugin="p", before=3, moved=True, found_before=4)
    assert record_of_entry(entry) == ValueRecord(1, 2, 3, "p", 4, True)


def test_a_note_may_leave_out_by_whom() -> None:
    """It is not needed to know what was asked for."""
    assert read_note('{"cpu_quota": [1, 5000]}') == {Parameter.CPU_QUOTA: ValueRecord(1, 5000)}


def test_a_container_as_it_was_asked_for() -> None:
    """What nobody noted is as it is."""
    found = container(cpu_quota=5000, cpuset_cpus="1", cpu_shares=9)
    notes = {Parameter.CPU_QUOTA: ValueRecord(UNLIMITED, 5000), Parameter.CPUSET_CPUS: ValueRecord(None, "1")}
    asked = with_requested(found, notes).requested
    assert (asked.cpu_quota, asked.cpuset_cpus, asked.cpu_shares) == (-1, "", 9)
    assert with_requested(found, {}) is found


def test_a_number_that_was_not_asked_for_is_zero_again() -> None:
    """As CRI says it."""
    found = container(memory_limit_in_bytes=4096)
    asked = with_requested(found, {Parameter.MEMORY_LIMIT: ValueRecord(None, 4096)}).requested
    assert asked.memory_limit_in_bytes == 0
