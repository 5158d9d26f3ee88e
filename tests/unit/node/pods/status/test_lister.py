"""Asking a runtime what it has."""

import asyncio
from pathlib import Path

import pytest

from interpose.net.grpc.status import Code, RpcError
from interpose.node.pods.spec import TerminationMessagePolicy
from tests.support.node.managed_node import ManagedNode, amounts, container, pod


@pytest.fixture
def node(tmp_path: Path) -> ManagedNode:
    return ManagedNode(tmp_path)


async def test_pods_that_run_and_pods_that_are_left(node: ManagedNode) -> None:
    """The lists are filtered by the runtime."""
    await node.sync(pod(container("a"), container("b")))
    [first, *_] = node.runtime.containers
    node.runtime.exit_container(first)
    [running] = await node.manager.get_pods()
    [everything] = await node.manager.get_pods(all=True)
    assert (len(running.containers), running.complete) == (1, False)
    assert (len(everything.containers), everything.complete) == (2, True)
    assert node.runtime.requests_of("ListContainers")[-2].filter.HasField("state")


async def test_a_status_from_an_incomplete_list_is_complete(node: ManagedNode) -> None:
    """What has ended counts, too."""
    await node.sync(pod(container("a"), container("b")))
    [first, *_] = node.runtime.containers
    node.runtime.exit_container(first)
    [running] = await node.manager.get_pods()
    assert len((await node.manager.get_pod_status(running)).containers) == 2
    node.forget_calls()
    [everything] = await node.manager.get_pods(all=True)
    assert len((await node.manager.get_pod_status(everything)).containers) == 2
    assert node.runtime.calls["ListContainers"] == 1


async def test_a_pod_that_is_not_there_has_an_empty_status(node: ManagedNode) -> None:
    """That is what a first sync begins with."""
    status = await node.status("nobody")
    assert (status.uid, status.sandboxes, status.containers) == ("nobody", (), ())


@pytest.mark.parametrize("method", ["PodSandboxStatus", "ContainerStatus"])
async def test_what_vanishes_meanwhile_is_not_there(node: ManagedNode, method: str) -> None:
    """Only that: any other failure fails the whole."""
    await node.sync(pod())
    node.runtime.fail(method, Code.NOT_FOUND, "gone")
    status = await node.status(pod())
    assert (len(status.sandboxes), len(status.containers)) == ((0, 1) if method == "PodSandboxStatus" else (1, 0))
    node.runtime.fail(method, Code.UNAVAILABLE, "away")
    with pytest.raises(RpcError, match="away"):
        await node.status(pod())


async def test_last_words_are_read(node: ManagedNode) -> None:
    """From the file that is mounted, and with the policy for it from the log."""
    policy = TerminationMessagePolicy.FALLBACK_TO_LOGS
    await node.sync(pod(container("file"), container("log", termination_message_policy=policy)))
    for one in list(node.runtime.containers.values()):
        node.runtime.exit_container(one.id, 1, message="runtime says")
        if one.config.metadata.name == "file":
            [mount] = [m for m in one.config.mounts if m.container_path == "/dev/termination-log"]
            await asyncio.to_thread(Path(mount.host_path).write_text, "out of cheese")
        else:
            line = "2026-01-02T03:04:05.000000006Z stderr F no luck\n"
            await asyncio.to_thread(Path(one.log_path).write_text, line)
    messages = {one.name: one.message for one in (await node.status(pod())).containers}
    assert messages == {"file": "runtime says: out of cheese", "log": "runtime says: no luck\n"}


async def test_resources_and_hash_come_from_the_annotations(node: ManagedNode) -> None:
    """A manager that knows nothing finds them."""
    one = container(resources=amounts(cpu="1/2", memory=1 << 20))
    await node.sync(pod(one))
    node.restart()
    [found] = (await node.status(pod())).containers
    assert found.resources == one.resources
    assert found.hash
