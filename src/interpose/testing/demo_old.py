"""`python -m interpose.testing.demo`: three pods live and die behind the relay, and the terminal shows what happened.

Everything is real but the runtime: sockets, HTTP/2, the relay, a hook server that registers with a file and is asked by
the dispatcher, a policy after it, and a tap. What is printed is also checked against what the runtime got; exit code 1
if anything differs.
"""

import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvloop
from google.protobuf.message import Message

from interpose.api import cri_pb2 as cri
from interpose.cli.hooks_text import list_text
from interpose.cli.relay_interceptors import Interceptors
from interpose.config.settings import HookSettings, RelaySettings
from interpose.dispatcher.registrations import Registrations
from interpose.h2.limits import Limits
from interpose.instrumentation.metrics import render
from interpose.relay.methods import METHODS
from interpose.relay.metrics import call_collector
from interpose.rpc.client import Client
from interpose.rpc.transport import Hub
from interpose.rpc.upstream import Upstream
from interpose.testing.demop_old import HOOKS, PLUGIN, Policy
from interpose.testing.demor_old import (
    CLAIMS,
    Claim,
    Node,
    report,
    wrong_container,
    wrong_hooks,
    wrong_metrics,
    wrong_status,
    wrong_traffic,
)
from interpose.testing.eventually import eventually
from interpose.testing.hookserver import register, serve_hooks
from interpose.testing.pods import container_config, create_request, linux_resources, pod_config, run_request
from interpose.testing.serve import serve_runtime
from interpose.testing.stack import relay_stack


class Kubelet:
    """Calls as a kubelet makes them, over the relay's socket."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.calls: Counter[str] = Counter()

    async def call(self, name: str, request: Message) -> Any:
        """One unary call."""
        method = METHODS[name]
        self.calls[name] += 1
        reply = await self._client.unary(method.paths[0].encode(), request.SerializeToString(), timeout=10)
        return getattr(cri, method.response).FromString(reply)

    async def run_pod(self, claim: Claim) -> tuple[str, cri.ContainerStatus]:
        """Start a pod with one container; its id, and the status of the container."""
        pod = pod_config(claim.pod, "shop", labels={"tier": claim.tier})
        sandbox = (await self.call("RunPodSandbox", run_request(pod))).pod_sandbox_id
        resources = linux_resources(cpu_request=claim.asked * 1000 // 1024)
        container = container_config(pod, resources=resources)
        created = await self.call("CreateContainer", create_request(sandbox, pod, container))
        await self.call("StartContainer", cri.StartContainerRequest(container_id=created.container_id))
        status = await self.call("ContainerStatus", cri.ContainerStatusRequest(container_id=created.container_id))
        return sandbox, status.status

    async def end_pod(self, sandbox: str, container: str) -> None:
        """Stop and remove it."""
        await self.call("StopContainer", cri.StopContainerRequest(container_id=container, timeout=1))
        await self.call("RemoveContainer", cri.RemoveContainerRequest(container_id=container))
        await self.call("StopPodSandbox", cri.StopPodSandboxRequest(pod_sandbox_id=sandbox))
        await self.call("RemovePodSandbox", cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox))


@asynccontextmanager
async def relaying(folder: Path, node: Node) -> AsyncIterator[None]:
    """The node's runtime, its hook server, and a relay between them and `cri.sock`."""
    directory = folder / "hookserver.d"
    directory.mkdir(mode=0o755)
    settings = RelaySettings(hooks=HookSettings(dir=str(directory)))
    async with (
        serve_runtime(folder / "runtime.sock", node.runtime),
        serve_hooks(folder / "zone.sock", node.plugin),
        relay_stack(folder / "cri.sock", folder / "runtime.sock") as stack,
    ):
        register(directory, PLUGIN, folder / "zone.sock", hooks=HOOKS, failure_policy="Fail")
        registrations = Registrations(settings.hooks.dir)
        registrations.load()
        parts = Interceptors(
            settings,
            stack.relay,
            stack.hub,
            stack.runtime,
            policies=[node.after_hooks, Policy(), node.after_policy],
            taps=[node.tap],
        )
        parts.update(registrations.servers)
        parts.start()
        try:
            await eventually(lambda: parts.sync.in_step, "the store to know the runtime")
            yield
            node.metrics = render([call_collector(stack.relay)])[1].decode()
            node.hooks = list_text({"directory": "hookserver.d", **parts.view()})
        finally:
            await parts.close()


@asynccontextmanager
async def connected(path: Path) -> AsyncIterator[Kubelet]:
    """A kubelet at this socket."""
    hub = Hub()
    upstream = Upstream(str(path), hub=hub, limits=Limits(), wait=1.0)
    upstream.start()
    try:
        yield Kubelet(Client(upstream, hub))
    finally:
        await upstream.close()


async def story(folder: Path) -> int:
    """Run the pods, show what was seen, check it."""
    node = Node()
    problems: list[str] = []
    async with relaying(folder, node), connected(folder / "cri.sock") as kubelet:
        await kubelet.call("Version", cri.VersionRequest())
        pods = [await kubelet.run_pod(claim) for claim in CLAIMS]
        node.statuses = [status for _, status in pods]
        for claim, (_, status) in zip(CLAIMS, pods, strict=True):
            problems += wrong_container(claim, node.runtime.containers[status.id].config)
            problems += wrong_status(claim, status)
        await kubelet.call("ListContainers", cri.ListContainersRequest())
        for sandbox, status in pods:
            await kubelet.end_pod(sandbox, status.id)
        left = (await kubelet.call("ListPodSandbox", cri.ListPodSandboxRequest())).items
        problems += [f"pod {item.metadata.name} was not removed" for item in left]
    problems += wrong_traffic(node) + wrong_hooks(node.plugin) + wrong_metrics(node.metrics, kubelet.calls)
    print("\n".join(report(node)))
    for problem in problems:
        print(f"WRONG: {problem}")
    print(f"\n{'Something is wrong, see above.' if problems else 'All of this was checked against the runtime.'}")
    return 1 if problems else 0


def main() -> int:
    """Run in a scratch folder of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="interpose-") as folder,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        return runner.run(story(Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
