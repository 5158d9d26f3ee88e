"""The kubelet of the demo: the calls that real ones make, in their order, counted."""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from google.protobuf.message import Message

from interpose.api import cri_pb2 as cri
from interpose.h2.limits import Limits
from interpose.relay.methods import METHODS
from interpose.rpc.client import Client
from interpose.rpc.transport import Hub
from interpose.rpc.upstream import Upstream
from interpose.testing.demoparts import DemoPod
from interpose.testing.demoreport import Running
from interpose.testing.fakenode import FakeNode
from interpose.testing.pods import create_request, run_request


class Kubelet:
    """Calls as a kubelet makes them. The cgroup of a pod is its own work, before the runtime hears of the pod."""

    def __init__(self, client: Client, make_cgroup: Callable[[cri.PodSandboxConfig], object]) -> None:
        self._client = client
        self._make_cgroup = make_cgroup
        self.calls: Counter[str] = Counter()

    async def call(self, name: str, request: Message) -> Any:
        """One unary call."""
        method = METHODS[name]
        self.calls[name] += 1
        reply = await self._client.unary(method.paths[0].encode(), request.SerializeToString(), timeout=10)
        return getattr(cri, method.response).FromString(reply)

    async def run_pod(self, pod: DemoPod) -> Running:
        """Start a pod with its container."""
        config, container = pod.configs()
        self._make_cgroup(config)
        sandbox = (await self.call("RunPodSandbox", run_request(config))).pod_sandbox_id
        created = (await self.call("CreateContainer", create_request(sandbox, config, container))).container_id
        await self.call("StartContainer", cri.StartContainerRequest(container_id=created))
        return Running(pod, sandbox, created)

    async def status(self, container: str) -> cri.ContainerStatus:
        """What it sees of a container."""
        reply = await self.call("ContainerStatus", cri.ContainerStatusRequest(container_id=container))
        status: cri.ContainerStatus = reply.status
        return status

    async def stop_container(self, one: Running) -> None:
        """Stop what runs in a pod."""
        await self.call("StopContainer", cri.StopContainerRequest(container_id=one.container, timeout=1))

    async def end_pod(self, one: Running) -> None:
        """Stop and remove it."""
        await self.stop_container(one)
        await self.call("RemoveContainer", cri.RemoveContainerRequest(container_id=one.container))
        await self.call("StopPodSandbox", cri.StopPodSandboxRequest(pod_sandbox_id=one.sandbox))
        await self.call("RemovePodSandbox", cri.RemovePodSandboxRequest(pod_sandbox_id=one.sandbox))


@asynccontextmanager
async def connected(path: Path, node: FakeNode) -> AsyncIterator[Kubelet]:
    """A kubelet at this socket."""
    hub = Hub()
    upstream = Upstream(str(path), hub=hub, limits=Limits(), wait=1.0)
    upstream.start()
    try:
        yield Kubelet(Client(upstream, hub), node.make_pod)
    finally:
        await upstream.close()
