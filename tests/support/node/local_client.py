"""A client of a local runtime in the same process: the calls of a kubelet, one line each."""

from collections.abc import Awaitable
from typing import Any

from interpose.cri.caller import Caller
from interpose.cri.messages import cri
from interpose.net.grpc.status import Code, RpcError
from interpose.testing.pods import container_config, pod_config
from tests.support.node.local_parts import IMAGE


class LocalClient:
    """Calls of a kubelet."""

    def __init__(self, runtime: Caller) -> None:
        self.runtime = runtime

    async def call(self, method: str, **fields: Any) -> Any:
        """Any call."""
        return await self.runtime.call(method, getattr(cri, f"{method}Request")(**fields))

    async def run(self, name: str = "web", **options: Any) -> str:
        """A sandbox."""
        answer = await self.call("RunPodSandbox", config=pod_config(name, **options))
        return str(answer.pod_sandbox_id)

    async def create(self, sandbox_id: str, name: str = "main", pod: str = "web", attempt: int = 0) -> str:
        """A container."""
        sandbox = pod_config(pod)
        config = container_config(sandbox, name)
        config.metadata.attempt = attempt
        config.image.image = IMAGE
        answer = await self.call("CreateContainer", pod_sandbox_id=sandbox_id, config=config, sandbox_config=sandbox)
        return str(answer.container_id)

    async def start(self, sandbox_id: str, name: str = "main", pod: str = "web") -> str:
        """A container that runs."""
        container_id = await self.create(sandbox_id, name, pod)
        await self.call("StartContainer", container_id=container_id)
        return container_id

    async def status(self, container_id: str) -> cri.ContainerStatus:
        """Of a container."""
        status: cri.ContainerStatus = (await self.call("ContainerStatus", container_id=container_id)).status
        return status

    async def sandbox_status(self, sandbox_id: str) -> cri.PodSandboxStatus:
        """Of a sandbox."""
        status: cri.PodSandboxStatus = (await self.call("PodSandboxStatus", pod_sandbox_id=sandbox_id)).status
        return status


async def code_of(call: Awaitable[object]) -> Code:
    """The status that a call ends with."""
    try:
        await call
    except RpcError as error:
        return error.code
    return Code.OK
