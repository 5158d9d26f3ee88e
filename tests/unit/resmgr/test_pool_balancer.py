"""How busy CPUs are, and that policies are told."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from interpose.core.policy.api import Setup
from interpose.core.policy.none import NonePolicy
from interpose.core.policy.request import Key
from interpose.resmgr.pool_balancer import CpuTimes, PoolBalancer, cpu_loads, parse_cpu_times
from interpose.tasks import TaskBag
from tests.support.policy.machines import machine

# CPU 1 is offline; the guest time of the last columns is in user and nice already.
STAT = """\
cpu  30 0 30 200 20 0 0 0 10 0
cpu0 10 5 10 60 10 3 2 0 4 4
cpu2 10 0 10 140 10 0 0 30 0 0
intr 1 2 3
cpus 4
"""


def stat(busy: Mapping[int, int], idle: int = 100) -> str:
    """A file with these times."""
    return "".join(f"cpu{cpu} {time} 0 0 {idle} 0 0 0 0 0 0\n" for cpu, time in busy.items())


def test_times_are_by_the_number_of_the_cpu() -> None:
    """Not by the line, which is another one as soon as a CPU is offline."""
    assert parse_cpu_times(STAT) == {0: CpuTimes(30, 100), 2: CpuTimes(50, 200)}


@pytest.mark.parametrize("text", ["", "intr 1\n\n", "cpu0 1 x\n"])
def test_text_without_times_is_an_error(text: str) -> None:
    """It is no /proc/stat."""
    with pytest.raises(ValueError, match=r"no CPU has times|invalid literal"):
        parse_cpu_times(text)


def test_load_is_what_happened_between_two_looks() -> None:
    """CPUs that came meanwhile, or did not count, are left out."""
    before = {0: CpuTimes(10, 100), 1: CpuTimes(10, 100), 2: CpuTimes(10, 100), 3: CpuTimes(50, 100)}
    after = {0: CpuTimes(35, 200), 1: CpuTimes(10, 100), 3: CpuTimes(40, 150), 4: CpuTimes(1, 2), 2: CpuTimes(120, 200)}
    assert cpu_loads(before, after) == {0: 0.25, 3: 0.0, 2: 1.0}


# -- the balancer


class Following(NonePolicy):
    """A policy that follows the load."""

    def __init__(self) -> None:
        super().__init__(Setup(topology=machine("laptop")))
        self.seen: list[Mapping[int, float]] = []
        self.changed: tuple[Key, ...] = (Key("p", "c"),)
        self.error: Exception | None = None

    def rebalance(self, load: Mapping[int, float]) -> tuple[Key, ...]:
        if self.error is not None:
            raise self.error
        self.seen.append(load)
        return self.changed


class Node:
    """A balancer at a tracker with such a policy, and the file."""

    def __init__(self, tmp_path: Path, period: int = 2) -> None:
        self.file = tmp_path / "stat"
        self.file.write_text(stat({0: 0, 1: 0}, 0))
        self.policy = Following()
        self.enforced: list[tuple[Key, ...]] = []
        self.changes = 0
        self.tracker: Any = SimpleNamespace(
            allocations=SimpleNamespace(policy=self.policy),
            tasks=TaskBag(),
            at_rest=True,
            enforce_soon=self.enforced.append,
            on_change=self._count,
        )
        self.balancer = PoolBalancer(tmp_path, period)

    def _count(self) -> None:
        self.changes += 1

    async def tick(self) -> None:
        """One second, and what is done in it."""
        self.balancer.tick(self.tracker)
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    made = Node(tmp_path)
    yield made
    await made.tracker.tasks.cancel()


async def test_the_policy_is_told_what_happened_since_the_last_look(node: Node) -> None:
    """Who has other CPUs now gets them, and that is saved."""
    await node.tick()
    assert node.policy.seen == []
    node.file.write_text(stat({0: 50, 1: 0}, 50))
    await node.tick()
    assert node.policy.seen == [{0: 0.5, 1: 0.0}]
    assert node.enforced == [node.policy.changed]
    assert (node.changes, node.balancer.moves) == (1, 1)
    node.file.write_text(stat({0: 50, 1: 100}, 150))
    await node.tick()
    assert len(node.policy.seen) == 1  # not due
    node.policy.changed = ()
    await node.tick()
    assert node.policy.seen[1] == {0: 0.0, 1: 0.5}
    assert (node.changes, node.balancer.moves) == (1, 1)


async def test_two_looks_at_once_tell_nothing(node: Node) -> None:
    """That would be a load of zero."""
    await node.tick()
    await node.tick()
    assert node.policy.seen == []


async def test_nothing_is_decided_while_other_allocations_are_made(node: Node) -> None:
    """The next look is in time."""
    await node.tick()
    node.tracker.at_rest = False
    node.file.write_text(stat({0: 50, 1: 0}, 50))
    await node.tick()
    assert node.policy.seen == []


async def test_a_policy_that_does_not_follow_the_load_is_left_alone(node: Node) -> None:
    """Also one that came while the file was read; later, loads begin anew."""
    await node.tick()
    node.file.write_text(stat({0: 50, 1: 0}, 50))
    await node.tick()
    assert len(node.policy.seen) == 1
    node.file.write_text(stat({0: 90, 1: 0}, 90))
    node.balancer.tick(node.tracker)
    node.balancer.tick(node.tracker)
    node.tracker.allocations.policy = object()
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)
    await node.tick()
    node.tracker.allocations.policy = node.policy
    node.file.write_text(stat({0: 90, 1: 90}, 190))
    await node.tick()
    assert len(node.policy.seen) == 1


async def test_with_a_period_of_zero_nobody_looks(tmp_path: Path) -> None:
    """Requests alone count."""
    node = Node(tmp_path, period=0)
    node.file.unlink()
    await node.tick()
    assert node.balancer.problem == ""


async def test_what_cannot_be_read_is_a_problem_until_it_can(node: Node) -> None:
    """And no load is made of two looks with that between them."""
    await node.tick()
    text = node.file.read_text()
    node.file.unlink()
    await node.tick()
    assert node.balancer.problem.startswith("the load of CPUs cannot be read: ")
    assert node.balancer.problem.endswith("; pools follow requests only")
    node.file.write_text(text)
    await node.tick()
    assert node.balancer.problem == ""
    assert node.policy.seen == []


async def test_a_policy_that_fails_is_asked_again(node: Node) -> None:
    """It is a bug of its own, and nobody else's."""
    node.policy.error = RuntimeError("no")
    node.file.write_text(stat({0: 0, 1: 0}))
    await node.tick()
    await node.tick()
    assert node.enforced == []
    node.policy.error = None
    node.file.write_text(stat({0: 10, 1: 10}))
    await node.tick()
    await node.tick()
    assert len(node.enforced) == 1
