"""What policies look like to Prometheus."""

from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest

from interpose.core.policy.balloons.options import BalloonsOptions, BalloonType, ShareLevel
from interpose.core.policy.topology_aware.options import TopologyAwareOptions
from interpose.host.cgroup.tree import CgroupTree
from interpose.metrics import Buckets, Family
from interpose.net.grpc.status import Code
from interpose.net.grpc.transport import Hub
from interpose.resmgr.config.configuration import Configuration
from interpose.resmgr.config.server import ConfigOutcome, ConfigServer
from interpose.resmgr.control.cold_starts import ColdStarts
from interpose.resmgr.control.memory_watch import MemoryWatch, WideningCause
from interpose.resmgr.metrics import load_collector, policy_collector, publishing_collector, state_collector
from interpose.resmgr.pool_balancer import PoolBalancer
from interpose.resmgr.publish.agent_client import AgentClient
from interpose.resmgr.publish.publisher import Publisher, PublishResult
from interpose.resmgr.state.checkpoint import Checkpoint
from interpose.testing.kernel.cgroup import FakeKernel
from tests.support.policy.node import PolicyNode, running


@pytest.fixture
async def node() -> AsyncIterator[PolicyNode]:
    """A node with one container that has CPUs of its own, and one that shares."""
    async with running(("db", 2000, "guaranteed"), ("web", 100, "burstable")) as node:
        yield node


def values(families: Iterable[Family]) -> dict[str, float]:
    """All samples by name and labels."""
    found = {}
    for family in families:
        for one in family.samples:
            if isinstance(one, Buckets):
                found[f"{family.name.removeprefix('interpose_policy_')}_sum{{}}"] = one.sum
                continue
            labels = ",".join(f"{key}={value}" for key, value in one.labels.items())
            found[f"{family.name.removeprefix('interpose_policy_')}{{{labels}}}"] = one.value
    return found


async def test_balloons_in_numbers() -> None:
    """Each by its name with what is in it, also those who have one thread of each core; none that is gone."""
    kind = BalloonType(name="own", namespaces=("*",), hide_hyperthreads=True, share_idle=ShareLevel.CORE)
    balloons = Configuration(policy="balloons", reserved=1000, options=BalloonsOptions(types=(kind,)), origin="test")
    async with running(("db", 2000, "burstable"), configuration=balloons) as node:
        found = values(policy_collector(node.interceptor)())
        assert (found["pool_cpus{pool=own[0]}"], found["pool_containers{pool=own[0]}"]) == (2, 1)
        assert (found["pool_requested_cpus{pool=own[0]}"], found["pool_containers{pool=idle}"]) == (2, 0)
        node.tracker.release(tuple(node.tracker.allocations.by_key))
        assert "pool_cpus{pool=own[0]}" not in values(policy_collector(node.interceptor)())


@pytest.mark.parametrize(("milli", "requested"), [(500, 0.5), (1000, 0)])
async def test_pools_of_a_tree_in_numbers(milli: int, requested: float) -> None:
    """Who has only CPUs of its own in a pool is there, too; in the pools above it is not counted again."""
    chosen = Configuration(policy="topology-aware", reserved=1000, options=TopologyAwareOptions(), origin="test")
    async with running(("db", milli, "guaranteed"), configuration=chosen) as node:
        found = values(policy_collector(node.interceptor)())
        containers = {name: value for name, value in found.items() if name.startswith("pool_containers{")}
        pool = next(name for name, value in containers.items() if value).removeprefix("pool_containers")
        assert (sum(containers.values()), found[f"pool_requested_cpus{pool}"]) == (1, requested)


async def test_books_in_numbers(node: PolicyNode) -> None:
    """Read when somebody scrapes."""
    collect = policy_collector(node.interceptor)
    found = values(collect())
    assert found["info{policy=static}"] == 1
    assert found["decisions_total{action=allocate,outcome=granted}"] == 2
    assert found["updates_total{result=ok}"] == 2
    assert found["pool_cpus{pool=shared}"] == 14
    assert (found["pool_containers{pool=shared}"], found["pool_requested_cpus{pool=shared}"]) == (1, 0.1)
    assert (found["containers{}"], found["exclusive_cpus{}"], found["ready{}"]) == (2, 2, 1)
    assert (found["late_total{}"], found["failing_containers{}"], found["without_place{}"]) == (0, 0, 0)
    repairs = [found[f"repairs_total{{shown_by={where}}}"] for where in ("start", "runtime", "cgroup")]
    assert (repairs, found["overlap_seconds_sum{}"]) == ([0, 0, 0], 0)
    assert (found["confirmed_containers{}"], found["contested_containers{}"]) == (0, 0)
    assert {found[f"failures_total{{method={method}}}"] for method in node.interceptor.methods} == {0}
    node.interceptor.counters.late += 1
    node.interceptor.counters.failures["CreateContainer"] += 1
    node.interceptor.counters.overrides["cpuset_cpus", "a hook"] += 2
    node.runtime.fail("UpdateContainerResources", Code.INTERNAL, "no")
    node.tracker.release(
        [key for key, grant in node.tracker.allocations.policy.state.grants.items() if grant.exclusive]
    )
    await node.tracker.updaters.apply(tuple(node.tracker.allocations.by_key), 1)
    found = values(collect())
    assert found["late_total{}"] == 1
    assert found["failures_total{method=CreateContainer}"] == 1
    assert found["overrides_total{field=cpuset_cpus,wanted_by=a hook}"] == 2
    assert found["updates_total{result=failed}"] == 1
    assert (found["failing_containers{}"], found["exclusive_cpus{}"]) == (1, 0)


async def test_state_file_and_agent(tmp_path: Path) -> None:
    """All outcomes are there from the start, with and without a socket for agents."""

    async def apply(*_: object) -> None:
        """Take anything."""

    checkpoint = Checkpoint(str(tmp_path / "state.json"), now=lambda: 0.0)
    found = values(state_collector(checkpoint, None)())
    assert found["state_writes_total{result=ok}"] == 0
    assert found["state_dirty{}"] == 0
    outcomes = {key: value for key, value in found.items() if key.startswith("configurations_total")}
    assert outcomes
    assert not any(outcomes.values())
    server = ConfigServer(apply)
    server.outcomes[next(iter(ConfigOutcome))] += 1
    assert 1 in values(state_collector(checkpoint, server)()).values()


async def test_what_is_published() -> None:
    """All results are there from the start."""
    publisher = Publisher(AgentClient("/run/a.sock", hub=Hub()))
    found = values(publishing_collector(publisher)())
    assert found["published{}"] == 0
    assert sum(key.startswith("publishing_total") for key in found) == len(PublishResult)
    publisher.published = True
    publisher.results[PublishResult.UNCHANGED] += 2
    found = values(publishing_collector(publisher)())
    assert (found["published{}"], found["publishing_total{result=unchanged}"]) == (1, 2)


def test_what_load_has_changed() -> None:
    """Both causes are there before the first event, so that increase() sees it."""
    kernel = FakeKernel()
    memory = MemoryWatch(dict, lambda: CgroupTree(kernel, kernel.root, version=kernel.version))
    balancer = PoolBalancer(Path("/proc"), 0)
    memory.widened[WideningCause.SHORT] += 2
    balancer.moves = 3
    starts = ColdStarts()
    starts.ended = 4
    assert values(load_collector(balancer, memory, starts)()) == {
        "load_moves_total{}": 3,
        "memory_widened_total{cause=short}": 2,
        "memory_widened_total{cause=killed}": 0,
        "cold_starts_total{}": 4,
    }
