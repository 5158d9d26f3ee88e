"""The calls that only look."""

import asyncio
import json

from interpose.cri.messages import cri
from interpose.testing.pods import pod_config
from tests.support.node.local_client import LocalClient
from tests.support.node.local_parts import LocalWorld


async def test_version_status_and_config(client: LocalClient) -> None:
    """What a kubelet asks first."""
    version = await client.call("Version")
    assert (version.version, version.runtime_name, version.runtime_api_version) == ("0.1.0", "interpose", "v1")
    status = await client.call("Status", verbose=True)
    assert [(one.type, one.status) for one in status.status.conditions] == [
        ("RuntimeReady", True),
        ("NetworkReady", True),
    ]
    assert "config" in status.info
    config = await client.call("RuntimeConfig")
    assert config.linux.cgroup_driver == cri.CGROUPFS
    await client.call("UpdateRuntimeConfig")


async def test_verbose_answers(client: LocalClient, world: LocalWorld) -> None:
    """The pid, the request, and the configuration in force."""
    sandbox = await client.run()
    container = await client.start(sandbox)
    info = json.loads((await client.call("ContainerStatus", container_id=container, verbose=True)).info["info"])
    assert info["pid"] > 0
    assert info["sandboxID"] == sandbox
    assert info["config"]["metadata"] == {"name": "main"}
    assert info["runtimeSpec"] == world.bundles[container]
    shown = json.loads((await client.call("PodSandboxStatus", pod_sandbox_id=sandbox, verbose=True)).info["info"])
    parent = pod_config("web").linux.cgroup_parent
    assert shown["config"]["linux"]["cgroup_parent"] == parent
    assert shown["runtimeSpec"]["linux"]["cgroupsPath"] == f"{parent}/{sandbox}"
    assert shown["pid"] == world.shims[sandbox].pause_pid


async def test_events(client: LocalClient, world: LocalWorld) -> None:
    """Every subscriber sees every event, with the whole pod beside it."""
    feeds = [client.runtime.stream("GetContainerEvents", cri.GetEventsRequest()) for _ in range(2)]
    firsts = [asyncio.ensure_future(anext(feed)) for feed in feeds]
    await asyncio.sleep(0)
    sandbox = await client.run()
    container = await client.start(sandbox)
    world.end(container)
    await client.call("RemovePodSandbox", pod_sandbox_id=sandbox)
    for feed, first in zip(feeds, firsts, strict=True):
        seen = [await first, *[await anext(feed) for _ in range(7)]]
        kinds = [(one.container_id, cri.ContainerEventType.Name(one.container_event_type)) for one in seen]
        assert kinds == [
            (sandbox, "CONTAINER_CREATED_EVENT"),
            (sandbox, "CONTAINER_STARTED_EVENT"),
            (container, "CONTAINER_CREATED_EVENT"),
            (container, "CONTAINER_STARTED_EVENT"),
            (container, "CONTAINER_STOPPED_EVENT"),
            (sandbox, "CONTAINER_STOPPED_EVENT"),
            (container, "CONTAINER_DELETED_EVENT"),
            (sandbox, "CONTAINER_DELETED_EVENT"),
        ]
        assert seen[4].containers_statuses[0].state == cri.CONTAINER_EXITED
        assert not seen[7].HasField("pod_sandbox_status")
        await feed.aclose()
