"""Calls of a FakeRuntime, written down."""

from itertools import pairwise

from interpose._pb import cri_pb2 as cri
from tests.support.dump.recorded_node import RecordedNode, flows_of


async def test_a_pod_is_written_down() -> None:
    """Each call began when the one before had ended."""
    node = RecordedNode()
    sandbox, (container,) = await node.start_pod("web", "app")
    await node.remove_pod(sandbox)
    flows = flows_of(node.script.frames)
    assert [flow.name for flow in flows] == [
        "RunPodSandbox",
        "CreateContainer",
        "StartContainer",
        "StopPodSandbox",
        "RemovePodSandbox",
    ]
    assert flows[2].subject.container_id == container
    for before, after in pairwise(flows):
        assert before.time + (before.duration or 0) < after.time


async def test_failures_are_written_down() -> None:
    """And give nothing."""
    node = RecordedNode()
    assert await node.call("StartContainer", cri.StartContainerRequest(container_id="unheard")) is None
    (flow,) = flows_of(node.script.frames)
    assert flow.end is not None
    assert flow.end.code == 5


async def test_calls_in_flight_come_last() -> None:
    """They have no end."""
    node = RecordedNode()
    node.script.begin("Version", b"")
    await node.call("Version", cri.VersionRequest())
    assert [flow.end is None for flow in flows_of(node.script.frames)] == [False, True]
