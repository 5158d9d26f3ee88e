"""The policy none: it keeps book and writes nothing."""

from interpose.core.model.cgroup import KubeQos
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.api import Policy, Setup
from interpose.core.policy.decision import Action, Assignment, Grant
from interpose.core.policy.none import NonePolicy
from interpose.core.policy.request import Amounts, Key, Request
from interpose.core.topology.topology import Cpu, Topology

KEY = Key("pod", "app")
REQUEST = Request(key=KEY, qos=KubeQos.GUARANTEED, amounts=Amounts(milli=2000))


def policy() -> Policy:
    return NonePolicy(Setup(topology=Topology(cpus=(Cpu(id=0), Cpu(id=1, core=1)), nodes=())))


def test_a_container_is_known_and_nothing_is_written() -> None:
    """Whatever it asks for, and whatever it held."""
    one = policy()
    decision = one.allocate(REQUEST, Grant(exclusive=CpuSet.parse("1")))
    assert (decision.action, decision.grant) == (Action.ALLOCATE, Grant(pinned=False))
    assert decision.reason
    assert one.state.assignment(KEY) == Assignment()
    assert list(one.state.grants) == [KEY]


def test_who_comes_again_or_wants_more_keeps_what_it_has() -> None:
    """Grants of policy none say nothing, whatever is asked for."""
    one = policy()
    assert one.resize(REQUEST).action is Action.RESIZE
    assert one.resize(REQUEST).action is Action.KEEP
    assert one.allocate(REQUEST).action is Action.KEEP


def test_who_goes_is_forgotten() -> None:
    """Also who never came."""
    one = policy()
    one.allocate(REQUEST)
    assert one.release(KEY).action is Action.RELEASE
    assert one.release(KEY).grant is None
    assert not one.state.grants


def test_there_are_no_pools_and_all_cpus_are_for_everybody() -> None:
    """So that there is always something to fall back on."""
    one = policy()
    assert one.name == "none"
    assert dict(one.pools()) == {}
    assert one.fallback == CpuSet.parse("0-1")
