"""CFS quotas of pods through any sequence of events: what a kubelet wrote last is never lost.

A kubelet writes quotas, containers with CPUs of their own come and go, the relay is killed before or after any write of
it to the disk or to the kernel, and starts again with the policy or without.
"""

import asyncio
import contextlib

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from interpose.core.model.cgroup import UNLIMITED, Parameter, Value
from interpose.host.cgroup.tree import CgroupTree
from interpose.resmgr.control.pod_quotas import PodQuotas
from interpose.testing.kernel.cgroup import FakeKernel

PODS = ("kubepods/pod1", "kubepods/pod2-3", "kubepods/burstable/pod4")
QUOTAS = (100_000, 200_000, 350_000)
pytestmark = pytest.mark.timeout(1800)  # of the deep profile; the usual one takes seconds


class KilledError(BaseException):
    """The relay ends here."""


class QuotaKernel(FakeKernel):
    """Kills its writer before or after a write, if told so."""

    def __init__(self, version: int) -> None:
        super().__init__(version)
        self.left: int | None = None  # steps until the kill; each write has two of them

    def step(self) -> None:
        """One step nearer to the kill."""
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise KilledError

    def write(self, path: str, text: str) -> None:
        self.step()
        super().write(path, text)
        self.step()


class Pods(RuleBasedStateMachine):
    """What the kubelet wrote last, what is on the disk, and a relay in between."""

    @initialize(version=st.sampled_from((1, 2)))
    def begin(self, version: int) -> None:
        """A node with pods that have quotas."""
        self.kernel = QuotaKernel(version)
        self.tree = CgroupTree(self.kernel, self.kernel.root, version=version)
        self.asked: dict[str, Value] = {}
        self.disk: dict[str, int] = {}
        self.wanted: frozenset[str] = frozenset()
        for pod in PODS:
            self.kernel.make(f"{pod}/app")
            self._ask(pod, QUOTAS[0])
        self._start()

    @rule(pod=st.sampled_from(PODS), quota=st.sampled_from(QUOTAS))
    def kubelet_writes(self, pod: str, quota: int) -> None:
        """It resizes the pod."""
        self._ask(pod, quota)

    @rule(pod=st.sampled_from(PODS))
    def somebody_comes_or_goes(self, pod: str) -> None:
        """A container with CPUs of its own."""
        self.wanted ^= {pod}

    @rule()
    def seconds_pass(self) -> None:
        """As long as it takes to look at all pods."""
        self._run(3)

    @rule(left=st.integers(0, 8), policy=st.booleans())
    def is_killed(self, left: int, policy: bool) -> None:
        """At any moment; then there is the policy again, or no more."""
        self.kernel.left = left
        with contextlib.suppress(KilledError):
            self._run(3)
        self.kernel.left = None
        if not policy:
            self.wanted = frozenset()
        self._start()

    @invariant()
    def what_is_lifted_is_on_the_disk(self) -> None:
        """Or it would be lost with the process."""
        for pod, quota in self.asked.items():
            assert self._read(pod) == quota or (self._read(pod) is UNLIMITED and pod in self.disk)

    @rule()
    def all_is_settled(self) -> None:
        """Quotas are lifted where that is wanted, and everywhere else as the kubelet wrote them last."""
        self._run(62)
        for pod, quota in self.asked.items():
            assert self._read(pod) == (UNLIMITED if pod in self.wanted else quota)
            assert self.disk.get(pod) == (quota if pod in self.wanted else None)

    def teardown(self) -> None:
        """The policy ends: all is as the kubelet wrote it."""
        if hasattr(self, "asked"):
            self.wanted = frozenset()
            self.all_is_settled()

    # -- how

    def _ask(self, pod: str, quota: int) -> None:
        self.tree.write(pod, Parameter.CPU_QUOTA, quota)
        self.asked[pod] = quota

    def _read(self, pod: str) -> Value:
        return self.tree.read(pod, Parameter.CPU_QUOTA)

    def _start(self) -> None:
        self.quotas = PodQuotas(lambda: self.tree, lambda: dict.fromkeys(self.wanted, 0))
        self.quotas.restore(self.disk)
        self.quotas.save = self._save

    async def _save(self) -> bool:
        self.kernel.step()
        self.disk = dict(self.quotas.originals)
        self.kernel.step()
        return True

    def _run(self, ticks: int) -> None:
        async def run() -> None:
            for _ in range(ticks):
                self.quotas.tick()
                if (task := self.quotas._task) is not None:
                    await task

        asyncio.run(run())


TestPods = Pods.TestCase
TestPods.settings = settings(stateful_step_count=25, deadline=None)
