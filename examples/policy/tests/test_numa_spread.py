"""A policy is tested without a node: a machine and requests in, decisions out."""

import pytest
from numa_spread import NumaSpread

from interpose.policyplugin import Amounts, ConfigError, CpuSet, Key, Request, Setup, parse_machine

TWO_NODES = Setup(topology=parse_machine("1 socket x 2 numa x 2 cores"), reserved=CpuSet.parse("0"))


def request(pod: str, name: str = "main", milli: int = 1000) -> Request:
    """A container of a pod that asks for so much."""
    return Request(key=Key(pod, name), amounts=Amounts(milli=milli))


def test_pods_go_to_the_node_with_the_least_requested() -> None:
    """Their other containers follow them."""
    policy = NumaSpread(TWO_NODES, {})
    pools = [
        policy.allocate(request("a", milli=500)).grant,
        policy.allocate(request("b")).grant,
        policy.allocate(request("c")).grant,
        policy.allocate(request("b", "sidecar")).grant,
    ]
    assert [grant and grant.pools for grant in pools] == [("node0",), ("node1",), ("node0",), ("node1",)]
    assert policy.state.assignment(Key("a", "main")).cpus == CpuSet.parse("1")
    assert policy.state.assignment(Key("b", "main")).mems == CpuSet.parse("1")


def test_who_runs_stays() -> None:
    """After a restart, whatever is requested elsewhere."""
    first = NumaSpread(TWO_NODES, {})
    first.allocate(request("a"))
    held = first.allocate(request("b")).grant
    again = NumaSpread(TWO_NODES, {})
    decision = again.allocate(request("b"), held)
    assert decision.grant == held
    assert again.resize(request("b", milli=9000)).grant.pools == ("node1",)
    again.release(Key("b", "main"))
    assert not again.state.grants


@pytest.mark.parametrize("options", [{"avoidNodes": [0, 1]}, {"avoidNodes": 0}, {"avoidnodes": [0]}])
def test_mistakes_are_named(options: dict[str, object]) -> None:
    """With the option and its value."""
    with pytest.raises(ConfigError, match="avoid"):
        NumaSpread(TWO_NODES, options)
