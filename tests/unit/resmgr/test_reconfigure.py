"""Books that become others: another configuration, another machine."""

import logging

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.static_pools.options import Pool, PoolCpuList, PoolsOptions
from interpose.errors import ConfigError
from interpose.net.grpc.status import Code
from interpose.resmgr.admin_view import policy_report
from interpose.resmgr.config.configuration import Configuration
from tests.support.policy.machines import machine
from tests.support.policy.node import PolicyNode, static

ALL = "0-15"
UPDATE = "UpdateContainerResources"


async def test_back_to_none_everybody_has_what_it_would_have_without_us(bare: PolicyNode) -> None:
    """What the caller asked for, or everything."""
    own, asked = bare.add("db", 2000), bare.add("web", 100, "burstable", cpus="0-7")
    await bare.start()
    await bare.in_step()
    assert bare.cpus(asked) == "0-1,4-15"
    await bare.reconfigurer.apply(Configuration(policy="none"))
    assert (bare.cpus(own), bare.cpus(asked)) == (ALL, "0-7")


async def test_pinned_memory_is_let_go(bare: PolicyNode) -> None:
    """All nodes that have memory, if nobody asked for some."""
    await bare.start()
    own = bare.add("db", 2000)
    await bare.reconfigurer.apply(static(pin_memory=True))
    await bare.sync.resync()
    await bare.in_step()
    assert bare.runtime.containers[own].resources.cpuset_mems == "0"
    await bare.reconfigurer.apply(Configuration(policy="none"))
    assert bare.runtime.containers[own].resources.cpuset_mems == "0-3"


async def test_a_change_that_finds_no_place_is_no_change(bare: PolicyNode) -> None:
    """Unless nobody has a choice."""
    bare.add("db", 4000)
    await bare.start()
    await bare.in_step()
    with pytest.raises(ConfigError) as caught:
        await bare.reconfigurer.apply(static("0-12"))
    assert len(caught.value.problems) == 1
    assert bare.own == ["4-7"]
    await bare.reconfigurer.apply(static("0-12"), forced=True)
    assert len(bare.tracker.allocations.without_place) == 1
    await bare.reconfigurer.apply(static("0-13"))  # it had no place before, so that is no reason
    assert bare.tracker.configuration == static("0-13")


async def test_a_change_the_runtime_refuses_is_taken_back(bare: PolicyNode, caplog: pytest.LogCaptureFixture) -> None:
    """Everybody holds what they held before."""
    own = bare.add("db", 2000)
    await bare.start()
    await bare.in_step()
    bare.runtime.fail(UPDATE, Code.INTERNAL, "no")
    with caplog.at_level(logging.CRITICAL, "interpose"), pytest.raises(ConfigError, match="could not be updated"):
        await bare.reconfigurer.apply(static("0-3"))
    assert bare.tracker.configuration == static()
    assert (bare.own, bare.cpus(own)) == (["2-3"], "2-3")
    assert not any(updater.error for updater in bare.tracker.updaters.by_key.values())  # it has what it should have


async def test_another_machine(bare: PolicyNode) -> None:
    """The topology is part of the books."""
    bare.add("db", 2000)
    await bare.start()
    await bare.reconfigurer.apply(bare.tracker.configuration, machine("laptop"), forced=True)
    assert bare.tracker.topology.name == "laptop"
    assert len(bare.tracker.allocations.without_place) == 1


def pools_configuration(*lists: tuple[str, int]) -> Configuration:
    """static-pools with one pool, of lists with the sockets they are said to be of."""
    given = tuple(PoolCpuList(cpus=CpuSet.parse(text), text=text, socket=socket) for text, socket in lists)
    options = PoolsOptions(pools={"shared": Pool(exclusive=False, lists=given)})
    return Configuration(policy="static-pools", options=options, origin="test")


async def test_notes_of_a_policy_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """When it comes in force: at the start, and after a change those that are new. The report has all of them."""

    def told() -> list[str]:
        found = [record.kv["note"] for record in caplog.records if hasattr(record, "kv") and "note" in record.kv]
        caplog.clear()
        return found

    first = "pool shared: list '0-3': is said to be of socket 1, its CPUs are in package 0"
    second = "pool shared: list '8-9': is said to be of socket 0, its CPUs are in package 1"
    caplog.set_level(logging.WARNING)
    bare = PolicyNode(configuration=pools_configuration(("0-3", 1)))
    assert told() == [first]
    await bare.start()
    await bare.reconfigurer.apply(pools_configuration(("0-3", 1), ("8-9", 0)))
    assert told() == [second]
    report = policy_report(bare.interceptor, problems=[], state_file={})
    assert report["problems"] == [f"note: {first}", f"note: {second}"]
    await bare.reconfigurer.apply(static())
    assert told() == []
    assert policy_report(bare.interceptor, problems=[], state_file={})["problems"] == []
    await bare.close()
