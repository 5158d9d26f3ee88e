"""Configurations as values, and reserved CPUs that are offline."""

from dataclasses import replace
from types import MappingProxyType

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.core.topology.synthetic import parse_text
from interpose.resmgr.config.configuration import (
    AgentConfig,
    Configuration,
    describe_offline_reserved,
    effective_reserved,
)

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
    assert effective_reserved(configuration, MACHINE) == 1000 * len(CpuSet.parse(named))
    assert describe_offline_reserved(configuration, MACHINE) == f"{said} reserved until they return"


@pytest.mark.parametrize("reserved", [CpuSet.parse("5,7"), CpuSet.parse("7,99"), CpuSet.parse(""), 1500, None])
def test_anything_else_is_as_it_was_said(reserved: CpuSet | int | None) -> None:
    """One of them is there, one never was, or none was named."""
    configuration = reserving(reserved)
    assert effective_reserved(configuration, MACHINE) == reserved
    assert describe_offline_reserved(configuration, MACHINE) == ""


def test_without_a_policy_nothing_is_missing() -> None:
    """Policy none needs no reserved CPUs."""
    assert describe_offline_reserved(replace(reserving(CpuSet.parse("7")), policy="none"), MACHINE) == ""


def test_the_same_data_for_the_same_node_is_the_same() -> None:
    """Whatever kind of mapping it came in, and in whatever order."""
    one = AgentConfig(node_name="n", data={"a": "1", "b": "2"})
    assert one == AgentConfig(node_name="n", data=MappingProxyType({"b": "2", "a": "1"}))
    assert one != AgentConfig(node_name="m", data=one.data)
    assert one != AgentConfig(node_name="n", data={"a": "1"})
    assert AgentConfig() == AgentConfig(node_name="", data={})
