"""The watch sees what must not be, and nothing else."""

from collections.abc import AsyncIterator

import pytest

from interpose._pb import cri_pb2 as cri
from tests.support.policy.cpu_watch import CpuWatch
from tests.support.policy.node import PolicyNode, running


@pytest.fixture
async def node() -> AsyncIterator[PolicyNode]:
    """One container with CPUs 2 and 3 alone, one that shares the others."""
    async with running(("db", 2000, "guaranteed"), ("web", 100, "burstable")) as node:
        yield node


def of(node: PolicyNode, name: str) -> str:
    """The container of a pod."""
    return next(held.id for held in node.tracker.allocations.by_key.values() if held.request.pod == name)


async def test_nothing_is_wrong_as_long_as_nothing_is(node: PolicyNode) -> None:
    """Nor is anything seen before it follows somebody."""
    watch = CpuWatch()
    watch.look()
    assert watch.looks == 0
    watch.follow(node.runtime, lambda: node.tracker)
    watch.changed(cri.CONTAINER_CREATED_EVENT, "x", None)
    assert (watch.looks, watch.overlaps) == (1, [])


async def test_an_update_that_overlaps_is_seen_before_it_is_done(node: PolicyNode) -> None:
    """Of either of the two; one that is excused may."""
    watch = CpuWatch()
    watch.follow(node.runtime, lambda: node.tracker)
    web = node.runtime.containers[of(node, "web")]
    watch.updating(web, cri.LinuxContainerResources(cpu_shares=2))
    assert watch.overlaps == []
    watch.updating(web, cri.LinuxContainerResources(cpuset_cpus="0-2"))
    watch.updating(node.runtime.containers[of(node, "db")], cri.LinuxContainerResources(cpuset_cpus="3-4"))
    assert watch.overlaps == ["CPUs 2 of db are those of web too", "CPUs 4 of db are those of web too"]
    watch.excused.add(web.id)
    watch.updating(web, cri.LinuxContainerResources(cpuset_cpus="0-2"))
    assert len(watch.overlaps) == 2


async def test_one_without_a_cpu_set_may_run_anywhere(node: PolicyNode) -> None:
    """Until it has ended."""
    watch = CpuWatch()
    watch.follow(node.runtime, lambda: node.tracker)
    stray = node.add("stray", 100, "burstable")
    watch.look()
    assert watch.overlaps == ["CPUs 2-3 of db are those of stray too"]
    node.runtime.exit_container(stray)
    watch.look()
    assert len(watch.overlaps) == 1
