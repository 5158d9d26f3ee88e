"""A node with a policy whose calls are written down as they happen, so that somebody can look back at them.

Calls pass the resource manager and the bookkeeper, as in a relay; what the policy itself sends is written down, too.
`Story` tells of calls that nobody makes.
"""

from typing import Any

from interpose._pb import cri_pb2 as cri
from interpose.cri.methods import METHODS
from interpose.cri.parser import CriParser
from interpose.cri.store import convert
from interpose.net.grpc.status import RpcError
from interpose.relay.api import CLIENT, Body, Call, Reply
from interpose.relay.store_updater import StoreUpdater
from interpose.resmgr.config.configuration import Configuration
from interpose.resmgr.whatif.events import CallRecord, MessageEvent, ReplyEvent, RequestEvent
from interpose.testing.pods import QosClass, container_config, create_request, linux_resources, pod_config, run_request
from tests.support.policy.node import PolicyNode

SECOND = 1_000_000_000
START = 1_763_283_600 * SECOND  # 2025-11-16T09:00:00Z
MEMORY = 256 << 20


class Story:
    """Writes happenings; between two of them a second passes."""

    def __init__(self) -> None:
        self.happenings: list[CallRecord] = []
        self.now = START
        self._number = 0

    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.now += int(seconds * SECOND)

    def ask(self, method: str, request: Any, *, after: float = 1, **more: Any) -> int:
        """A call comes: its number. Bytes are as good as a message."""
        self._number += 1
        self.wait(after)
        asked = RequestEvent(number=self._number, time_ns=self.now, method=method, request=_bytes(request), **more)
        self.happenings.append(asked)
        return self._number

    def answer(self, number: int, reply: Any = b"", *, forwarded: Any = None, **more: Any) -> None:
        """It is over."""
        sent = None if forwarded is None else _bytes(forwarded)
        self.happenings.append(ReplyEvent(number=number, time_ns=self.now, reply=_bytes(reply), forwarded=sent, **more))

    def tell(self, number: int, reply: Any) -> None:
        """A stream has something to say."""
        self.happenings.append(MessageEvent(number=number, time_ns=self.now, reply=_bytes(reply)))

    def call(self, method: str, request: Any, reply: Any = b"", *, asked: Any = None, **more: Any) -> None:
        """Both at once; `asked` is what else is to be said about the call."""
        self.answer(self.ask(method, request, **(asked or {})), reply, **more)

    # -- the usual ones

    def pod(self, name: str, qos: QosClass = "guaranteed", **more: Any) -> tuple[str, cri.PodSandboxConfig]:
        """A pod: its id, which is its name, and its configuration."""
        config = pod_config(name, qos=qos, **more)
        self.call("RunPodSandbox", run_request(config), cri.RunPodSandboxResponse(pod_sandbox_id=name))
        return name, config

    def create(
        self, pod: tuple[str, cri.PodSandboxConfig], milli: int, name: str = "app", *, cpus: str = "", **more: Any
    ) -> str:
        """A container that was given these CPUs: its id, which is made of the names."""
        container_id = f"{pod[0]}-{name}"
        request = create_of(pod, milli, name)
        sent = cri.CreateContainerRequest.FromString(request.SerializeToString())
        sent.config.linux.resources.cpuset_cpus = cpus
        reply = cri.CreateContainerResponse(container_id=container_id)
        self.call("CreateContainer", request, reply, forwarded=sent if cpus else None, **more)
        return container_id

    def run(self, name: str, milli: int, qos: QosClass = "guaranteed", *, cpus: str = "") -> str:
        """A pod with a container that runs: the container's id."""
        container_id = self.create(self.pod(name, qos), milli, cpus=cpus)
        self.call("StartContainer", cri.StartContainerRequest(container_id=container_id))
        return container_id


class _NotingNode(PolicyNode):
    """Writes down what its policy sends."""

    def __init__(self, story: Story, name: str, configuration: Configuration | None) -> None:
        self.story = story
        super().__init__(name, configuration)

    async def send(self, method: str, message: bytes) -> bytes:
        number = self.story.ask(method, message, after=0, origin="policy")
        try:
            reply = await super().send(method, message)
        except RpcError as error:
            self.story.answer(number, code=int(error.code), message=error.message)
            raise
        self.story.answer(number, reply)
        return reply


class RecalledNode:
    """A node; `story` has what happened."""

    def __init__(self, name: str = "n4c16", configuration: Configuration | None = None) -> None:
        self.story = Story()
        self.node = _NotingNode(self.story, name, configuration)
        self._bookkeeper = StoreUpdater(self.node.store, self.node.sync)

    async def call(self, request: Any) -> Reply:
        """A call of the kubelet."""
        name = type(request).__name__.removesuffix("Request")
        body = Body(request.SerializeToString(), CriParser(f"{name}Request"))
        call = Call(method=METHODS[name], path=b"/", body=body, origin=CLIENT)
        number = self.story.ask(name, body.data())

        async def runtime() -> Reply:
            try:
                answer = await self.node.call(name, body.data())
            except RpcError as error:
                return Reply(code=error.code, message=error.message)
            return Reply(code=0, body=Body(answer, CriParser(METHODS[name].response)))

        async def tracker() -> Reply:
            if name in self._bookkeeper.methods:
                return await self._bookkeeper.intercept(call, runtime)
            return await runtime()

        interceptor = self.node.interceptor
        mark = self.node.store.mark()
        reply = await (interceptor.intercept(call, tracker) if name in interceptor.methods else tracker())
        if name == "ListContainers" and reply.body is not None:
            self.node.sync.apply_container_list(convert.listed_containers(reply.body.data()), mark)
        data = b"" if reply.body is None else reply.body.data()
        changed = body.data() if body.data() != body.received else None
        self.story.answer(number, data, forwarded=changed, code=int(reply.code), message=reply.message)
        return reply

    async def pod(self, name: str, qos: QosClass = "guaranteed") -> tuple[str, cri.PodSandboxConfig]:
        """A pod: its id and configuration."""
        config = pod_config(name, qos=qos)
        return (await self.call(run_request(config))).response.pod_sandbox_id, config

    async def create(self, pod: tuple[str, cri.PodSandboxConfig], milli: int, name: str = "app") -> str:
        """A container in it: its id, empty if there is none."""
        reply = await self.call(create_of(pod, milli, name))
        container_id: str = reply.response.container_id if reply.code == 0 else ""
        return container_id

    async def close(self) -> None:
        """Leave nothing behind."""
        await self.node.close()


def create_of(pod: tuple[str, cri.PodSandboxConfig], milli: int, name: str = "app") -> cri.CreateContainerRequest:
    """The request for a container; in a Guaranteed pod request and limit are the same."""
    guaranteed = "/kubepods/pod" in pod[1].linux.cgroup_parent
    resources = linux_resources(
        cpu_request=milli, cpu_limit=milli if guaranteed else 0, memory_limit=MEMORY if guaranteed else 0
    )
    return create_request(pod[0], pod[1], container_config(pod[1], name, resources=resources))


def _bytes(message: Any) -> bytes:
    data: bytes = message if isinstance(message, bytes) else message.SerializeToString(deterministic=True)
    return data
