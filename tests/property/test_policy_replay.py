"""Looking back at a node gives what the resource manager decided when it happened."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interpose._pb import cri_pb2 as cri
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.balloons.options import BalloonsOptions, BalloonType
from interpose.core.policy.dynamic_pools.options import DynamicPoolsOptions, DynamicPoolType
from interpose.core.policy.podpools.options import PodPool, PodPoolsOptions
from interpose.core.policy.static.options import StaticOptions, StaticPlusOptions
from interpose.core.policy.static_pools.options import Pool, PoolCpuList, PoolsOptions
from interpose.core.policy.topology_aware.options import TopologyAwareOptions
from interpose.net.grpc.status import Code
from interpose.resmgr.config.configuration import Configuration
from interpose.resmgr.service import make_policy
from interpose.resmgr.whatif.compare import ComparisonResult
from interpose.resmgr.whatif.replay import PolicyReplay, replay_calls
from interpose.resmgr.whatif.timeline import TimelineOutcome, TimelineStepKind
from interpose.testing.pods import QosClass
from tests.support.policy.machines import machine
from tests.support.policy.manager_caller import resize
from tests.support.policy.recalled_node import RecalledNode, Story

QOS: tuple[QosClass, ...] = ("guaranteed", "guaranteed", "burstable", "besteffort")
RESERVED = CpuSet.parse("0")


def pools() -> PoolsOptions:
    """Two lists that are shared, some that are not."""

    def lists(*texts: str) -> tuple[PoolCpuList, ...]:
        return tuple(PoolCpuList(cpus=CpuSet.parse(text), text=text, socket=0) for text in texts)

    return PoolsOptions(
        pools={
            "exclusive": Pool(exclusive=True, lists=lists("8,9", "10,11", "12,13")),
            "shared": Pool(exclusive=False, lists=lists("2-4", "5-7")),
            "infra": Pool(exclusive=False, lists=lists("0-1")),
        }
    )


CONFIGURATIONS: Mapping[str, Configuration] = {
    "static": Configuration(policy="static", reserved=RESERVED, options=StaticOptions()),
    "pin memory": Configuration(policy="static", reserved=RESERVED, options=StaticOptions(pin_memory=True)),
    "static-plus": Configuration(policy="static-plus", reserved=1000, options=StaticPlusOptions()),
    "static-pools": Configuration(policy="static-pools", options=pools()),
    "dynamic-pools": Configuration(
        policy="dynamic-pools",
        reserved=RESERVED,
        options=DynamicPoolsOptions(types=(DynamicPoolType(name="all", namespaces=("*",)),)),
    ),
    "balloons": Configuration(
        policy="balloons",
        reserved=RESERVED,
        options=BalloonsOptions(types=(BalloonType(name="some", namespaces=("*",), max_cpus=4, prefer_new=True),)),
    ),
    "topology-aware": Configuration(policy="topology-aware", reserved=RESERVED, options=TopologyAwareOptions()),
    "colocated pods": Configuration(
        policy="topology-aware",
        reserved=1000,
        options=TopologyAwareOptions(prefer_isolated=False, colocate_pods=True, lift_quota=True),
    ),
    "podpools": Configuration(
        policy="podpools", reserved=RESERVED, options=PodPoolsOptions(pools=(PodPool(name="default", max_pods=3),))
    ),
}
acts = st.lists(
    st.tuples(
        st.sampled_from(
            (
                "run",
                "run",
                "run",
                "second",
                "again",
                "stop",
                "remove",
                "stop pod",
                "remove pod",
                "exit",
                "resize",
                "broken",
                "list",
            )
        ),
        st.integers(0, 7),
        st.sampled_from((100, 1000, 2000, 3000, 4000, 9000)),
    ),
    max_size=16,
)


class Day:
    """Acts of a kubelet on a node."""

    def __init__(self, configuration: Configuration) -> None:
        self.recalled = RecalledNode("n4c16", configuration)
        self.pods: list[tuple[str, cri.PodSandboxConfig]] = []
        self.containers: list[str] = []
        self._count = 0

    async def act(self, what: str, which: int, milli: int) -> None:
        """One of them; nothing if there is nobody to whom it could be done."""
        call = self.recalled.call
        if what in ("run", "broken"):
            self._count += 1
            self.pods.append(await self.recalled.pod(f"pod-{self._count}", QOS[which % len(QOS)]))
            if what == "broken":
                self.recalled.node.runtime.fail("CreateContainer", Code.INTERNAL, "no", times=1)
            await self.create(self.pods[-1], milli, "app")
            self.recalled.node.runtime.clear()
        elif what == "second" and self.pods:
            await self.create(self.pods[which % len(self.pods)], milli, f"more-{which}")
        elif what == "again" and self.pods:  # the name of a container that is perhaps still there
            await self.create(self.pods[which % len(self.pods)], milli, "app")
        elif what in ("stop pod", "remove pod") and self.pods:
            pod = self.pods.pop(which % len(self.pods))[0]
            await call(cri.StopPodSandboxRequest(pod_sandbox_id=pod))
            if what == "remove pod":
                await call(cri.RemovePodSandboxRequest(pod_sandbox_id=pod))
        elif what == "list":
            await call(cri.ListContainersRequest())
        elif self.containers:
            await self.to_container(what, self.containers[which % len(self.containers)], milli)
        await self.recalled.node.in_step()

    async def create(self, pod: tuple[str, cri.PodSandboxConfig], milli: int, name: str) -> None:
        """A container that runs, if it is not refused."""
        made = await self.recalled.create(pod, milli, name)
        if made:
            await self.recalled.call(cri.StartContainerRequest(container_id=made))
            self.containers.append(made)

    async def to_container(self, what: str, container_id: str, milli: int) -> None:
        """Something happens to one."""
        call, runtime = self.recalled.call, self.recalled.node.runtime
        if what == "stop":
            await call(cri.StopContainerRequest(container_id=container_id))
        elif what == "remove":
            await call(cri.RemoveContainerRequest(container_id=container_id))
        elif what == "exit" and container_id in runtime.containers:
            runtime.state.exit_container(runtime.containers[container_id], 0)
            await call(cri.ListContainersRequest())
        elif what == "resize":
            await call(resize(container_id, max(milli // 1000, 1)))


def books_of(allocations: Any) -> dict[str, tuple[str, str]]:
    """Who has what."""
    return {
        held.request.title: (str(allocations.assignment(key)), str(allocations.policy.state.grants[key].exclusive))
        for key, held in allocations.by_key.items()
    }


async def compare(configuration: Configuration, day: list[tuple[str, int, int]]) -> TimelineOutcome:
    """After every act, both have the same books."""
    kubelet = Day(configuration)
    node, story = kubelet.recalled.node, kubelet.recalled.story
    replay = PolicyReplay(make_policy(configuration, node.tracker.topology), capacity=node.tracker.capacity)
    fed = 0
    try:
        await node.start()
        for act in day:
            await kubelet.act(*act)
            for happening in story.happenings[fed:]:
                replay.feed(happening)
            fed = len(story.happenings)
            assert books_of(replay._allocations) == books_of(node.tracker.allocations), act
    finally:
        await kubelet.recalled.close()
    return replay.outcome()


@pytest.mark.parametrize("name", CONFIGURATIONS)
@given(day=acts)
@settings(max_examples=20)
def test_the_same_policy_decides_the_same(name: str, day: list[tuple[str, int, int]]) -> None:
    """Container for container; and where the policy wrote what it decided, nothing differs."""
    outcome = asyncio.run(compare(CONFIGURATIONS[name], day))
    assert set(outcome.summary.results) <= {ComparisonResult.SAME, ComparisonResult.REFUSED_BOTH}
    assert outcome.summary.failures == outcome.summary.unreadable == outcome.summary.strangers == 0


METHODS = (
    "RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "CreateContainer", "StartContainer", "StopContainer",
    "RemoveContainer", "UpdateContainerResources", "ListPodSandbox", "ListContainers", "StreamContainers",
    "PodSandboxStatus", "ContainerStatus", "GetContainerEvents", "Version",
)  # fmt: skip


@pytest.mark.parametrize("name", [*CONFIGURATIONS, "none"])
@given(
    calls=st.lists(
        st.tuples(st.sampled_from(METHODS), st.binary(max_size=40), st.binary(max_size=40), st.integers(0, 16)),
        max_size=20,
    )
)
def test_no_bytes_make_it_fail(name: str, calls: list[tuple[str, bytes, bytes, int]]) -> None:
    """They are passed over and counted, and what is known stays."""
    story = Story()
    story.run("web", 1000)
    for method, request, reply, code in calls:
        story.call(method, request, reply, code=code, forwarded=reply if code % 2 else None)
    configuration = CONFIGURATIONS.get(name, Configuration(policy="none"))
    outcome = replay_calls(make_policy(configuration, machine("n4c16")), story.happenings)
    assert outcome.steps[0].kind is TimelineStepKind.CREATE
    assert outcome.summary.calls == 3 + len(calls)
