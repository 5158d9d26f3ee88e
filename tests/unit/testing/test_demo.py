"""The demo does not claim what is not so: each check notices a difference."""

from collections import Counter

from interpose.api import cri_pb2 as cri
from interpose.relay.interceptor import Direction
from interpose.relay.methods import METHODS
from interpose.rpc.client import Client
from interpose.testing.demo import CLAIMS, Kubelet, wrong_container, wrong_metrics, wrong_traffic
from interpose.testing.demoparts import Seen
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.pods import pod_config, run_request

LINE = 'interpose_cri_requests_total{code="OK",method="Version",service="runtime.v1.RuntimeService"} 2.0'


class Silent(Kubelet):
    """A kubelet that only counts."""

    def __init__(self, client: Client | None = None) -> None:
        self.calls = Counter()


def test_a_container_without_its_changes_is_reported() -> None:
    """Every value the hook and the policy promise is named when it is missing."""
    problems = wrong_container(CLAIMS[0], cri.ContainerConfig())

    assert [problem.split(" is ")[0] for problem in problems] == [
        "checkout: cpuset_cpus",
        "checkout: cpu_shares",
        "checkout: NODE_ZONE",
    ]


def test_metrics_that_miscount_are_reported() -> None:
    """A counter that differs from the calls sent is shown with both lines."""
    assert wrong_metrics(LINE, Counter(Version=2)) == []
    assert len(wrong_metrics(LINE, Counter(Version=3))) == 2


async def test_traffic_that_differs_is_reported() -> None:
    """A request that reached the runtime unchanged, or was never sent, does not pass for a changed one."""
    runtime = FakeRuntime()
    request = run_request(pod_config("web"))
    await runtime.call("RunPodSandbox", request)
    seen = Seen(METHODS["RunPodSandbox"], 0.0, 1.0, 0, {Direction.REQUEST: request.SerializeToString()})

    problems = wrong_traffic([seen], runtime, Silent())

    assert [problem.split()[0] for problem in problems] == ["sent", "RunPodSandbox", "annotations"]
