"""Calls through a resource manager to a fake runtime, without a relay: as its chain would send them."""

from collections.abc import Callable
from typing import Any

from interpose._pb import cri_pb2 as cri
from interpose.cri.methods import METHODS
from interpose.cri.parser import CriParser
from interpose.net.grpc.status import RpcError
from interpose.relay.api import Body, Call, Reply
from interpose.testing.pods import container_config, linux_resources, pod_config
from tests.support.policy.node import PolicyNode


class ManagerCaller:
    """Sends calls through the manager to the node's runtime."""

    def __init__(self, node: PolicyNode) -> None:
        self.node = node
        self.passed: list[str] = []

    async def __call__(
        self,
        request: Any,
        *,
        raw: bytes | None = None,
        edit: Callable[[Any], object] | None = None,
        unreadable: str = "",
        **more: Any,
    ) -> Reply:
        """The reply; `raw` are the bytes that came, if they are no such message; `edit` is what a hook server does.

        `unreadable` is why only the runtime understands the request.
        """
        name = type(request).__name__.removesuffix("Request")
        method = METHODS[name]
        data = request.SerializeToString() if raw is None else raw
        body = Body(data, CriParser(f"{name}Request"), unreadable=unreadable, understood=bool(unreadable))
        call = Call(method=method, path=b"/", body=body, **more)
        if edit is not None:
            edit(call.request)

        async def proceed() -> Reply:
            self.passed.append(name)
            try:
                answer = await self.node.call(name, body.data())
            except RpcError as error:
                return Reply(code=error.code, message=error.message)
            return Reply(code=0, body=Body(answer, CriParser(f"{name}Response")))

        return await self.node.interceptor.intercept(call, proceed)

    def pod(self, name: str) -> tuple[str, cri.PodSandboxConfig]:
        """A Guaranteed pod at the runtime."""
        config = pod_config(name, qos="guaranteed")
        return self.node.runtime.state.run_sandbox(config, "runc").id, config

    async def create(self, pod: tuple[str, cri.PodSandboxConfig], milli: int, **more: Any) -> Reply:
        """A container in a pod."""
        resources = linux_resources(cpu_request=milli, cpu_limit=milli, memory_limit=1 << 20)
        config = container_config(pod[1], resources=resources)
        request = cri.CreateContainerRequest(pod_sandbox_id=pod[0], config=config, sandbox_config=pod[1])
        return await self(request, **more)


def resize(container_id: str, cpus: int) -> cri.UpdateContainerResourcesRequest:
    """The kubelet wants so many CPUs for a container."""
    linux = cri.LinuxContainerResources(cpu_period=100_000, cpu_quota=cpus * 100_000, cpu_shares=cpus * 1024)
    return cri.UpdateContainerResourcesRequest(container_id=container_id, linux=linux)
