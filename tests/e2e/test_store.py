"""Records rebuilt from a real containerd are those that were kept live."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from interpose._pb import cri_pb2
from interpose.core.model.pod import Container, ContainerState, Pod
from interpose.cri.store.store import Store
from interpose.cri.store.sync import Synchronizer
from interpose.relay.internal_calls import InternalCalls
from interpose.relay.store_updater import StoreUpdater
from interpose.testing.stack import relay_stack
from tests.support.lab.cri import CriClient
from tests.support.lab.pods import LabPod
from tests.support.net.byte_seams import Stub

if TYPE_CHECKING:
    from pathlib import Path

    from interpose.relay.api import Call, Proceed, Reply
    from tests.support.lab.containerd import Containerd

pytestmark = pytest.mark.e2e


async def _pin(call: Call, proceed: Proceed) -> Reply:
    """Somebody who gives containers other resources than asked for."""
    call.request.config.linux.resources.cpuset_cpus = "0"
    call.request.config.linux.resources.cpu_shares = 100
    return await proceed()


def _life(pod: LabPod, client: CriClient) -> None:
    """What a kubelet would do, in a thread of its own."""
    pod.run()
    pod.create()
    pod.start()
    update = cri_pb2.UpdateContainerResourcesRequest(container_id=pod.container_id)
    update.linux.memory_limit_in_bytes = 200 << 20
    client.call("UpdateContainerResources", update)


def _same(live: Store, rebuilt: Store) -> None:
    for kind, mine, theirs in ((Pod, live.pods, rebuilt.pods), (Container, live.containers, rebuilt.containers)):
        for object_id in mine:
            for name in kind.__dataclass_fields__:
                assert getattr(mine[object_id], name) == getattr(theirs[object_id], name), name


async def test_rebuilt_records_equal_live_ones(containerd: Containerd, scratch: Path) -> None:
    """Field by field after a whole life through the relay, and a container that is stopped behind our back."""
    store, rebuilt = Store(), Store()

    async def ask(method: str, message: bytes) -> bytes:
        return await calls(method, message)

    sync = Synchronizer(store, ask)
    bookkeeper = StoreUpdater(store, sync)
    pinning = Stub(_pin)
    async with relay_stack(scratch / "r.sock", containerd.socket, interceptors=[pinning, bookkeeper]) as stack:
        calls = InternalCalls(stack.relay, "store", bookkeeper)
        other = Synchronizer(rebuilt, calls)
        with CriClient(stack.socket) as client, CriClient(containerd.socket) as direct:
            pod = LabPod(client, "kept")
            pod.container_config.envs.add(key="B", value=b"1=2")
            pod.container_config.envs.add(key="A", value=b"")
            pod.container_config.linux.resources.memory_limit_in_bytes = 100 << 20
            try:
                await asyncio.to_thread(_life, pod, client)
                container = store.containers[pod.container_id]
                assert (container.resources.cpu_shares, container.requested.cpu_shares) == (100, 512)
                assert (container.resources.cpuset_cpus, container.requested.cpuset_cpus) == ("0", "")
                assert await other.resync()
                _same(store, rebuilt)
                stop = cri_pb2.StopContainerRequest(container_id=pod.container_id)
                await asyncio.to_thread(direct.call, "StopContainer", stop)
                assert await sync.resync()
                assert store.containers[pod.container_id].state is ContainerState.EXITED
            finally:
                await asyncio.to_thread(pod.remove)
        assert pod.container_id not in store.containers
        await sync.close()
        await other.close()
