"""Calls that only look."""

import asyncio
import json
from typing import Any

import pytest
from google.protobuf.message import Message

from interpose._pb import cri_pb2 as cri
from interpose.net.grpc.status import Code, RpcError
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.pods import pod_config, run_request
from interpose.testing.runtime.queries import FakeIdentity
from tests.support.clock import ManualClock


async def test_version_is_what_the_kubelet_insists_on(runtime: FakeRuntime) -> None:
    """`version` is 0.1.0 and no field is empty."""
    answer = await runtime.call("Version", cri.VersionRequest(version="0.1.0"))
    assert answer == cri.VersionResponse(
        version="0.1.0", runtime_name="containerd", runtime_version="2.3.0", runtime_api_version="v1"
    )


async def test_status_has_two_conditions(runtime: FakeRuntime) -> None:
    """Both true at first; each switch turns its own condition and gives a reason."""

    async def conditions() -> dict[str, tuple[bool, bool]]:
        answer = await runtime.call("Status", cri.StatusRequest())
        assert not answer.info
        return {one.type: (one.status, bool(one.reason and one.message)) for one in answer.status.conditions}

    assert await conditions() == {"RuntimeReady": (True, False), "NetworkReady": (True, False)}
    runtime.health.network_ready = False
    assert await conditions() == {"RuntimeReady": (True, False), "NetworkReady": (False, True)}
    runtime.health.runtime_ready = False
    assert (await conditions())["RuntimeReady"] == (False, True)


@pytest.mark.parametrize("systemd", [False, True])
async def test_the_cgroup_driver_is_told(systemd: bool) -> None:
    """By RuntimeConfig and by the verbose status."""
    runtime = FakeRuntime(identity=FakeIdentity(systemd_cgroups=systemd))
    config = await runtime.call("RuntimeConfig", cri.RuntimeConfigRequest())
    assert config.linux.cgroup_driver == (cri.SYSTEMD if systemd else cri.CGROUPFS)
    status = await runtime.call("Status", cri.StatusRequest(verbose=True))
    assert json.loads(status.info["config"]) == {"systemdCgroup": systemd}
    assert [handler.name for handler in status.runtime_handlers] == ["", "runc"]


async def test_the_announced_pod_network_is_used(runtime: FakeRuntime) -> None:
    """The first of several networks counts; an empty announcement changes nothing."""
    for cidr in ("10.7.0.0/24,fd00::/64", ""):
        config = cri.RuntimeConfig(network_config=cri.NetworkConfig(pod_cidr=cidr))
        await runtime.call("UpdateRuntimeConfig", cri.UpdateRuntimeConfigRequest(runtime_config=config))
    sandbox_id = (await runtime.call("RunPodSandbox", run_request(pod_config("web")))).pod_sandbox_id
    status = await runtime.call("PodSandboxStatus", cri.PodSandboxStatusRequest(pod_sandbox_id=sandbox_id))
    assert status.status.network.ip == "10.7.0.2"


async def test_a_pod_status_carries_its_containers(runtime: FakeRuntime, clock: ManualClock) -> None:
    """The same container statuses as ContainerStatus gives, with the time they were taken; info only if verbose."""
    sandbox = runtime.populate(1, 2)[0]
    clock.advance(3)
    answer = await runtime.call("PodSandboxStatus", cri.PodSandboxStatusRequest(pod_sandbox_id=sandbox.id))
    assert answer.timestamp == clock()
    assert not answer.info
    assert len(answer.containers_statuses) == 2
    for status in answer.containers_statuses:
        alone = await runtime.call("ContainerStatus", cri.ContainerStatusRequest(container_id=status.id))
        assert alone.status == status
    verbose = cri.PodSandboxStatusRequest(pod_sandbox_id=sandbox.id, verbose=True)
    assert json.loads((await runtime.call("PodSandboxStatus", verbose)).info["info"])["config"]["metadata"]


async def test_a_verbose_container_status_has_info(runtime: FakeRuntime) -> None:
    """Only when asked for."""
    container_id = runtime.populate(1)[0].containers[0]
    request = cri.ContainerStatusRequest(container_id=container_id)
    assert not (await runtime.call("ContainerStatus", request)).info
    request.verbose = True
    info = json.loads((await runtime.call("ContainerStatus", request)).info["info"])
    assert info["config"]["metadata"]["name"] == "load-0000-container-0"


@pytest.mark.parametrize(
    ("method", "request_message"),
    [
        ("PodSandboxStatus", cri.PodSandboxStatusRequest(pod_sandbox_id="x")),
        ("ContainerStatus", cri.ContainerStatusRequest(container_id="x")),
        ("PodSandboxStats", cri.PodSandboxStatsRequest(pod_sandbox_id="x")),
        ("ContainerStats", cri.ContainerStatsRequest(container_id="x")),
    ],
)
async def test_something_absent_is_not_found(runtime: FakeRuntime, method: str, request_message: Message) -> None:
    """The kubelet tells a removed object from a failing runtime by this code."""
    with pytest.raises(RpcError) as caught:
        await runtime.call(method, request_message)
    assert caught.value.code is Code.NOT_FOUND


@pytest.mark.parametrize(
    ("unary", "unary_type", "unary_field", "stream", "stream_type", "stream_field"),
    [
        ("ListPodSandbox", cri.ListPodSandboxRequest, "items",
         "StreamPodSandboxes", cri.StreamPodSandboxesRequest, "pod_sandboxes"),
        ("ListContainers", cri.ListContainersRequest, "containers",
         "StreamContainers", cri.StreamContainersRequest, "containers"),
        ("ListContainerStats", cri.ListContainerStatsRequest, "stats",
         "StreamContainerStats", cri.StreamContainerStatsRequest, "container_stats"),
        ("ListPodSandboxStats", cri.ListPodSandboxStatsRequest, "stats",
         "StreamPodSandboxStats", cri.StreamPodSandboxStatsRequest, "pod_sandbox_stats"),
        ("ListPodSandboxMetrics", cri.ListPodSandboxMetricsRequest, "pod_metrics",
         "StreamPodSandboxMetrics", cri.StreamPodSandboxMetricsRequest, "pod_sandbox_metrics"),
    ],
)  # fmt: skip
async def test_a_streamed_list_is_the_list_in_batches(
    clock: ManualClock,
    unary: str,
    unary_type: type[Message],
    unary_field: str,
    stream: str,
    stream_type: type[Message],
    stream_field: str,
) -> None:
    """Both variants give the same items."""
    runtime = FakeRuntime(clock=clock, stream_batch=2)
    runtime.populate(3)
    listed = list(getattr(await runtime.call(unary, unary_type()), unary_field))
    parts: list[list[Any]] = [list(getattr(part, stream_field)) async for part in runtime.stream(stream, stream_type())]
    assert [len(part) for part in parts] == [2, 1]
    assert [item for part in parts for item in part] == listed


async def test_single_stats_agree_with_the_list(runtime: FakeRuntime) -> None:
    """ContainerStats and PodSandboxStats show what the lists show."""
    sandbox = runtime.populate(2)[1]
    one = await runtime.call("ContainerStats", cri.ContainerStatsRequest(container_id=sandbox.containers[0]))
    listed = await runtime.call("ListContainerStats", cri.ListContainerStatsRequest())
    assert one.stats == listed.stats[1]
    pod = await runtime.call("PodSandboxStats", cri.PodSandboxStatsRequest(pod_sandbox_id=sandbox.id))
    assert pod.stats == (await runtime.call("ListPodSandboxStats", cri.ListPodSandboxStatsRequest())).stats[1]


async def test_metric_descriptors_are_listed(runtime: FakeRuntime) -> None:
    """Every descriptor has a name and a help text."""
    answer = await runtime.call("ListMetricDescriptors", cri.ListMetricDescriptorsRequest())
    assert answer.descriptors
    assert all(one.name and one.help for one in answer.descriptors)


async def test_events_reach_every_subscriber(runtime: FakeRuntime) -> None:
    """Two subscribers both see a pod come up, and the stream stays open."""

    async def read(count: int) -> list[str]:
        seen = []
        async for event in runtime.stream("GetContainerEvents", cri.GetEventsRequest()):
            seen.append(cri.ContainerEventType.Name(event.container_event_type))
            if len(seen) == count:
                break
        return seen

    readers = [asyncio.create_task(read(4)) for _ in range(2)]
    await runtime.events.wait_for_subscribers(2)
    runtime.populate(1)
    expected = ["CONTAINER_CREATED_EVENT", "CONTAINER_STARTED_EVENT"] * 2
    assert await asyncio.gather(*readers) == [expected, expected]
