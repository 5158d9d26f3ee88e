"""Containers get all their memory when they have run long enough."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from interpose.core.model.pod import Container, ContainerState
from interpose.core.policy.api import Setup
from interpose.core.policy.none import NonePolicy
from interpose.core.policy.request import Key, Request
from interpose.resmgr.allocations import Allocation
from interpose.resmgr.control.cold_starts import ColdStarts
from tests.support.policy.machines import machine

KEY, OTHER = Key("pod", "app"), Key("pod", "other")
SETUP = Setup(topology=machine("laptop"))


class Waiting(NonePolicy):
    """A policy with containers that start cold."""

    def __init__(self) -> None:
        super().__init__(SETUP)
        self.starts: dict[Key, float] = {KEY: 10}
        self.error: Exception | None = None

    def cold_starts(self) -> Mapping[Key, float]:
        return self.starts

    def end_cold_start(self, key: Key) -> tuple[Key, ...]:
        if self.error is not None:
            raise self.error
        del self.starts[key]
        return (key, OTHER)


class Node:
    """Cold starts at a tracker with such a policy, and a container that runs."""

    def __init__(self, policy: NonePolicy) -> None:
        allocation = Allocation(Request(key=KEY))
        allocation.id = "c1"
        self.enforced: list[tuple[Key, ...]] = []
        self.changes = 0
        self.containers = {"c1": Container(id="c1", state=ContainerState.RUNNING)}
        self.tracker: Any = SimpleNamespace(
            allocations=SimpleNamespace(policy=policy, by_key={KEY: allocation}),
            store=SimpleNamespace(containers=self.containers),
            at_rest=True,
            enforce_soon=self.enforced.append,
            on_change=self._count,
        )
        self.starts = ColdStarts()

    def _count(self) -> None:
        self.changes += 1

    def tick(self, *times: float) -> None:
        """Look at these times."""
        for now in times:
            self.starts.tick(self.tracker, now)


def test_a_container_that_has_run_long_enough_gets_its_memory() -> None:
    """Not before, and once; everybody whose memory changes is updated, and that is saved."""
    node = Node(Waiting())
    node.tick(100, 109)
    assert node.enforced == []
    node.tick(110, 111)
    assert node.enforced == [(KEY, OTHER)]
    assert (node.changes, node.starts.ended) == (1, 1)


def test_time_before_the_start_does_not_count() -> None:
    """A container that is created only, or not known to the store yet."""
    node = Node(Waiting())
    node.containers["c1"] = Container(id="c1", state=ContainerState.CREATED)
    node.tick(100, 105)
    node.containers.clear()
    node.tick(106)
    node.containers["c1"] = Container(id="c1", state=ContainerState.RUNNING)
    node.tick(110, 119)
    assert node.enforced == []
    node.tick(120)
    assert node.enforced == [(KEY, OTHER)]


def test_one_that_nobody_tracks_is_left_out() -> None:
    """It has just gone, or has no allocation in another configuration."""
    node = Node(Waiting())
    node.tracker.allocations.by_key.clear()
    node.tick(100, 200)
    assert node.enforced == []


def test_nothing_ends_while_other_allocations_are_made() -> None:
    """It ends afterwards, and no time is lost by that."""
    node = Node(Waiting())
    node.tick(100)
    node.tracker.at_rest = False
    node.tick(110)
    assert node.enforced == []
    node.tracker.at_rest = True
    node.tick(111)
    assert node.enforced == [(KEY, OTHER)]


def test_other_policies_are_not_asked() -> None:
    """They have no such containers."""
    node = Node(NonePolicy(SETUP))
    node.tick(100, 200)
    assert node.enforced == []


def test_a_policy_that_fails_is_asked_again() -> None:
    """It is a bug of its own, and nobody else's."""
    policy = Waiting()
    node = Node(policy)
    policy.error = RuntimeError("no")
    node.tick(100, 110)
    assert (node.enforced, node.starts.ended) == ([], 0)
    policy.error = None
    node.tick(111)
    assert node.enforced == [(KEY, OTHER)]
