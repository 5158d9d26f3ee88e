"""Reserved CPUs that are offline."""

from dataclasses import replace

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.core.topology.text import parse_text
from interpose.resmgr.config.configuration import Configuration
from interpose.resmgr.config.unplugged import reserved_now, unplugged

MACHINE = parse_text("1 sockets x 8 cores x 1 threads; offline 6-7")


def reserving(reserved: CpuSet | int | None) -> Configuration:
    """A configuration that says this."""
    return Configuration(policy="static", reserved=reserved)


@pytest.mark.parametrize(
    ("named", "said"),
    [("7", "reserved CPUs 7 are offline, another CPU is"), ("6-7", "reserved CPUs 6-7 are offline, 2 others are")],
)
def test_as_many_others_are_reserved(named: str, said: str) -> None:
    """As were named, and it is told."""
    configuration = reserving(CpuSet.parse(named))
    assert reserved_now(configuration, MACHINE) == 1000 * len(CpuSet.parse(named))
    assert unplugged(configuration, MACHINE) == f"{said} reserved until they return"


@pytest.mark.parametrize("reserved", [CpuSet.parse("5,7"), CpuSet.parse("7,99"), CpuSet.parse(""), 1500, None])
def test_anything_else_is_as_it_was_said(reserved: CpuSet | int | None) -> None:
    """One of them is there, one never was, or none was named."""
    configuration = reserving(reserved)
    assert reserved_now(configuration, MACHINE) == reserved
    assert unplugged(configuration, MACHINE) == ""


def test_without_a_policy_nothing_is_missing() -> None:
    """Nobody reserves anything."""
    assert unplugged(replace(reserving(CpuSet.parse("7")), policy="none"), MACHINE) == ""
