"""The demo does not claim what is not so: each check notices a difference."""

from collections import Counter

from interpose.api import cri_pb2 as cri
from interpose.relay.interceptor import Direction
from interpose.relay.methods import METHODS
from interpose.testing.demoparts import Passed, Seen, hook_server
from interpose.testing.demoreport import (
    CLAIMS,
    Node,
    report,
    wrong_container,
    wrong_hooks,
    wrong_metrics,
    wrong_status,
    wrong_traffic,
)
from interpose.testing.pods import pod_config, run_request

LINE = 'interpose_cri_requests_total{code="OK",method="Version",service="runtime.v1.RuntimeService"} 2.0'


async def node_with(*, forwarded: bool = False, told: bytes = b"told") -> Node:
    """A node whose runtime got one RunPodSandbox, changed by the hook server if `forwarded`."""
    node = Node()
    request = run_request(pod_config("web"))
    sent = request.SerializeToString()
    if forwarded:
        request.config.annotations["demo.interpose/seen"] = "yes"
    got = request.SerializeToString()
    await node.runtime.call("RunPodSandbox", request)
    seen = Seen(METHODS["RunPodSandbox"], 0.0, 1.0, 0, messages={Direction.REQUEST: sent, Direction.REPLY: told})
    if forwarded:
        seen.messages[Direction.FORWARDED] = got
    node.tap.calls[1] = seen
    node.after_hooks.notes.append(Passed(got, b"told"))
    node.after_policy.notes.append(Passed(got, b"told"))
    return node


def test_a_container_without_its_changes_is_reported() -> None:
    """Every value the hook server and the policy promise is named when it is missing."""
    problems = wrong_container(CLAIMS[0], cri.ContainerConfig())

    assert [problem.split(" is ")[0] for problem in problems] == [
        "checkout: cpuset_cpus",
        "checkout: cpu_shares",
        "checkout: NODE_ZONE",
    ]


def test_a_status_with_what_the_container_has_is_reported() -> None:
    """The kubelet must see what it asked for."""
    status = cri.ContainerStatus()
    status.resources.linux.cpu_shares = CLAIMS[1].asked
    assert wrong_status(CLAIMS[1], status) == []

    status.resources.linux.cpu_shares = CLAIMS[1].shares
    status.resources.linux.cpuset_cpus = CLAIMS[1].cpus
    assert len(wrong_status(CLAIMS[1], status)) == 2


def test_metrics_that_miscount_are_reported() -> None:
    """A counter that differs from the calls sent is shown with both lines."""
    assert wrong_metrics(LINE, Counter(Version=2)) == []
    assert len(wrong_metrics(LINE, Counter(Version=3))) == 2


def test_a_hook_server_that_was_not_asked_is_reported() -> None:
    """At each of its hook points."""
    assert len(wrong_hooks(hook_server())) == 3


async def test_traffic_that_was_not_changed_is_reported() -> None:
    """A request that reached the runtime unchanged does not pass for a changed one."""
    problems = wrong_traffic(await node_with())

    assert [problem.split()[0] for problem in problems] == ["RunPodSandbox", "annotations"]


async def test_traffic_the_tap_did_not_see_is_reported() -> None:
    """What the runtime got is compared with what was seen, in both directions."""
    node = await node_with(forwarded=True)
    await node.runtime.call("Version", cri.VersionRequest())
    node.tap.calls[2] = Seen(METHODS["Status"], 0.0, 1.0, 0)

    assert sorted(wrong_traffic(node))[:2] == [
        "Status: the tap saw 1 that the runtime did not get",
        "Version: the runtime got 1 that the tap did not see",
    ]


async def test_report_says_who_changed_what() -> None:
    """The hook server is named with the field; a reply that is not the runtime's is told from one that is."""
    node = await node_with(forwarded=True, told=b"something else")
    node.statuses = [cri.ContainerStatus() for _ in CLAIMS]
    text = "\n".join(report(node))

    assert "changed by zone" in text
    assert "zone    config.annotations[demo.interpose/seen]" in text
    assert node.corrected() == {1}
