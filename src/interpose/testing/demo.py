"""`python -m interpose.testing.demo`: three pods live and die behind the relay, and the terminal shows what happened.

Everything is real but the runtime: sockets, HTTP/2, the relay with a hook, a policy and a tap. What is printed is also
checked against what the runtime got; exit code 1 if anything differs.
"""

import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import uvloop
from google.protobuf.message import Message

from interpose import __version__
from interpose.api import cri_pb2 as cri
from interpose.h2.limits import Limits
from interpose.host.sockets import bind_unix
from interpose.instrumentation.metrics import render
from interpose.relay.interceptor import Direction
from interpose.relay.methods import METHODS
from interpose.relay.metrics import call_collector
from interpose.relay.passthrough import Ledger
from interpose.relay.relay import Relay
from interpose.relay.routes import Routes
from interpose.rpc.client import Client
from interpose.rpc.listener import Admission, Listener
from interpose.rpc.status import Code
from interpose.rpc.transport import Hub
from interpose.rpc.upstream import Upstream
from interpose.testing.demoparts import (
    CRITICAL_CPUS,
    IDLE_SHARES,
    SEEN,
    SHARED_CPUS,
    ZONE,
    Hook,
    Policy,
    Recorder,
    Seen,
    changes,
)
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.pods import container_config, create_request, linux_resources, pod_config, run_request
from interpose.testing.serve import serve_runtime

MESSAGE_LIMIT = 32 << 20


class Claim(NamedTuple):
    """A pod of the demo, and what its container must have in the end."""

    pod: str
    tier: str
    cpus: str
    shares: int


CLAIMS = (
    Claim("checkout", "critical", CRITICAL_CPUS, 2048),
    Claim("reports", "batch", SHARED_CPUS, IDLE_SHARES),
    Claim("blog", "standard", SHARED_CPUS, 512),
)
_COUNTER = "interpose_cri_requests_total{"
_REQUESTS = {"checkout": 2000, "reports": 1000, "blog": 500}  # thousandths of a CPU


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

    async def run_pod(self, claim: Claim) -> tuple[str, str]:
        """Start a pod with one container; their ids."""
        pod = pod_config(claim.pod, "shop", labels={"tier": claim.tier})
        sandbox = (await self.call("RunPodSandbox", run_request(pod))).pod_sandbox_id
        container = container_config(pod, resources=linux_resources(cpu_request=_REQUESTS[claim.pod]))
        created = await self.call("CreateContainer", create_request(sandbox, pod, container))
        await self.call("StartContainer", cri.StartContainerRequest(container_id=created.container_id))
        await self.call("ContainerStatus", cri.ContainerStatusRequest(container_id=created.container_id))
        return sandbox, created.container_id

    async def end_pod(self, sandbox: str, container: str) -> None:
        """Stop and remove it."""
        await self.call("StopContainer", cri.StopContainerRequest(container_id=container, timeout=1))
        await self.call("RemoveContainer", cri.RemoveContainerRequest(container_id=container))
        await self.call("StopPodSandbox", cri.StopPodSandboxRequest(pod_sandbox_id=sandbox))
        await self.call("RemovePodSandbox", cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox))


@asynccontextmanager
async def relaying(listen: Path, runtime: Path, tap: Recorder) -> AsyncIterator[Relay]:
    """A relay with the demo's parts, in this process."""
    hub = Hub()
    upstream = Upstream(str(runtime), hub=hub, limits=Limits(), wait=1.0)
    relay = Relay(Routes(upstream, upstream), Ledger(time.monotonic), header_list=Limits().header_list)
    clock = asyncio.get_running_loop().time
    relay.subscribe([Hook(), Policy()], [tap], hub=hub, message_limit=MESSAGE_LIMIT, now=clock)
    listener = Listener(hub=hub, limits=Limits(), admission=Admission(), accept=relay.accept)
    bound = bind_unix(str(listen))
    await listener.start(bound.sock)
    upstream.start()
    try:
        yield relay
    finally:
        listener.stop_accepting()
        listener.abort()
        bound.close()
        await upstream.close()


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
    tap = Recorder(time.perf_counter)
    fake = FakeRuntime()
    problems: list[str] = []
    async with (
        serve_runtime(folder / "runtime.sock", fake),
        relaying(folder / "cri.sock", folder / "runtime.sock", tap) as relay,
        connected(folder / "cri.sock") as kubelet,
    ):
        await kubelet.call("Version", cri.VersionRequest())
        pods = [await kubelet.run_pod(claim) for claim in CLAIMS]
        for claim, (_, container) in zip(CLAIMS, pods, strict=True):
            problems += wrong_container(claim, fake.containers[container].config)
        await kubelet.call("ListContainers", cri.ListContainersRequest())
        for sandbox, container in pods:
            await kubelet.end_pod(sandbox, container)
        left = (await kubelet.call("ListPodSandbox", cri.ListPodSandboxRequest())).items
        problems += [f"pod {item.metadata.name} was not removed" for item in left]
        metrics = render([call_collector(relay)])[1].decode()
    problems += wrong_traffic(list(tap.calls.values()), fake, kubelet)
    problems += wrong_metrics(metrics, kubelet.calls)
    print(f"interpose {__version__}: three pods through the relay\n")
    print("  kubelet --> relay [hook, policy; a tap looks on] --> runtime (a fake one)\n")
    print("\n".join(report(list(tap.calls.values()), metrics)))
    for problem in problems:
        print(f"WRONG: {problem}")
    print(f"\n{'Something is wrong, see above.' if problems else 'All of this was checked against the runtime.'}")
    return 1 if problems else 0


def wrong_container(claim: Claim, config: cri.ContainerConfig) -> list[str]:
    """Where the runtime's container differs from what the hook and the policy promise."""
    resources = config.linux.resources
    zones = [env.value.decode() for env in config.envs if env.key == "NODE_ZONE"]
    facts = (
        ("cpuset_cpus", resources.cpuset_cpus, claim.cpus),
        ("cpu_shares", resources.cpu_shares, claim.shares),
        ("NODE_ZONE", zones, [ZONE]),
    )
    return [f"{claim.pod}: {name} is {found!r}, not {wanted!r}" for name, found, wanted in facts if found != wanted]


def wrong_traffic(seen: list[Seen], fake: FakeRuntime, kubelet: Kubelet) -> list[str]:
    """Where what the tap saw differs from what the runtime got."""
    problems = []
    if fake.calls != kubelet.calls:
        problems.append(f"sent {dict(kubelet.calls)}, the runtime got {dict(fake.calls)}")
    if len(seen) != len(fake.requests):
        problems.append(f"the tap saw {len(seen)} calls, the runtime {len(fake.requests)}")
    for call, (method, request) in zip(seen, fake.requests, strict=False):
        last = call.messages.get(Direction.FORWARDED, call.messages.get(Direction.REQUEST, b""))
        if call.method.name != method or type(request).FromString(last) != request:
            problems.append(f"{method}: the runtime got something else than the tap saw")
        if call.code != Code.OK:
            problems.append(f"{method} ended with {call.code}")
        if (method in Hook.methods) != bool(changes(call)):
            problems.append(f"{method} should {'' if method in Hook.methods else 'not '}have been changed")
    marked = [request.config.annotations.get(SEEN) for request in fake.requests_of("RunPodSandbox")]
    return problems + ([] if marked == ["yes"] * len(CLAIMS) else [f"annotations {SEEN} are {marked}"])


def wrong_metrics(text: str, sent: Counter[str]) -> list[str]:
    """Where /metrics would not say what was sent."""
    wanted = set()
    for name, count in sent.items():
        service = f"runtime.v1.{METHODS[name].service}"
        wanted.add(f'{_COUNTER}code="OK",method="{name}",service="{service}"}} {float(count)}')
    return [f"metrics differ: {line}" for line in sorted(set(counters(text)) ^ wanted)]


def counters(text: str) -> list[str]:
    """The lines of the exposition that count calls."""
    return [line for line in text.splitlines() if line.startswith(_COUNTER)]


def report(seen: list[Seen], metrics: str) -> Iterator[str]:
    """The text for the terminal."""
    yield "What passed (time as the relay saw it, runtime included):"
    for number, call in enumerate(seen, 1):
        changed = "changed" if changes(call) else "passed untouched"
        code = "-" if call.code is None else Code(call.code).name
        yield f"  {number:3}  {call.method.name:<18}{code:<4}{(call.ended - call.began) * 1000:7.2f} ms   {changed}"
    yield "\nWhat was changed on the way (before -> after):"
    for number, call in enumerate(seen, 1):
        for change in changes(call):
            before, after = change.before or "(none)", change.after or "(none)"
            yield f"  {number:3}  {change.path:<41}{before} -> {after}"
    yield "\nWhat /metrics says:"
    yield from (f"  {line}" for line in counters(metrics))


def main() -> int:
    """Run in a scratch folder of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="interpose-") as folder,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        return runner.run(story(Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
