"""Parts of the dispatcher without sockets: plugins made of functions, a look-up made of dictionaries."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from interpose.config.relay.settings import HookSettings
from interpose.core.model.pod import Container, Pod
from interpose.cri.methods import METHODS
from interpose.cri.parser import CriParser
from interpose.hooks.api.hookpoint import FailurePolicy, HookPoint
from interpose.hooks.api.messages import request_class, response_class
from interpose.hooks.api.registration import HookServer, Selector
from interpose.hooks.dispatch.dispatcher import Dispatcher
from interpose.hooks.dispatch.hook_server import Metadata, RegisteredServers
from interpose.net.grpc.status import RpcError
from interpose.relay.api import CLIENT, Body, Call, Reply

Answer = Callable[[HookPoint, Any], Any]


def silent(point: HookPoint, _request: Any) -> Any:
    """An empty answer."""
    return response_class(point)()


class FakeCaller:
    """A plugin as the dispatcher's client sees it. `answer` returns a response, bytes, or raises."""

    def __init__(self, answer: Answer = silent) -> None:
        self.answer = answer
        self.asked: list[tuple[HookPoint, Any]] = []
        self.metadata: list[Metadata] = []
        self.timeouts: list[float] = []
        self.hurried: list[bool] = []
        self.holders = 0
        self.garbage: list[str] = []
        self.gate: asyncio.Event | None = None  # if set, answers wait for it

    def hold(self) -> None:
        """Note who may still call."""
        self.holders += 1

    def release(self) -> None:
        """Note who will not."""
        self.holders -= 1

    async def call(
        self, point: HookPoint, message: bytes, *, metadata: Metadata = (), timeout: float, hurried: bool = False
    ) -> bytes:
        """Note the question and answer it."""
        request = request_class(point).FromString(message)
        self.asked.append((point, request))
        self.metadata.append(metadata)
        self.timeouts.append(timeout)
        self.hurried.append(hurried)
        if self.gate is not None:
            await self.gate.wait()
        answer = self.answer(point, request)
        data: bytes = answer if isinstance(answer, bytes) else answer.SerializeToString()
        return data

    def note_unreadable_answer(self, why: str) -> None:
        """Note that it was not understood."""
        self.garbage.append(why)

    @property
    def points(self) -> list[HookPoint]:
        """Where it was asked, in order."""
        return [point for point, _ in self.asked]


class FakeLookup:
    """Pods and containers by id; an exception instead of a record is raised."""

    def __init__(self, *records: Pod | Container) -> None:
        self.pods: dict[str, Pod] = {one.id: one for one in records if isinstance(one, Pod)}
        self.containers: dict[str, Container] = {one.id: one for one in records if isinstance(one, Container)}
        self.failure: RpcError | None = None

    async def pod(self, ref: str) -> Pod | None:
        """The pod, if there is one."""
        if self.failure is not None:
            raise self.failure
        return self.pods.get(ref)

    async def container(self, ref: str) -> tuple[Container, Pod] | None:
        """The container with its pod, if there is one."""
        if self.failure is not None:
            raise self.failure
        found = self.containers.get(ref)
        return (found, self.pods[found.pod_id]) if found is not None else None


def registration(
    name: str,
    hooks: Iterable[HookPoint] = HookPoint,
    *,
    fail: bool = False,
    timeout: float | None = None,
    selector: Selector | None = None,
) -> HookServer:
    """A hook server, by default for every hook point and under Ignore."""
    return HookServer(
        name=name,
        file=f"/etc/runtime/hookserver.d/{name}.json",
        endpoint=f"/run/{name}.sock",
        hooks=frozenset(hooks),
        failure_policy=FailurePolicy.FAIL if fail else FailurePolicy.IGNORE,
        timeout=timeout,
        selector=selector or Selector(),
    )


class Bench:
    """A dispatcher with plugins of this process and a runtime that is a function."""

    def __init__(
        self,
        *records: Pod | Container,
        settings: HookSettings | None = None,
        allowed: Callable[[str], tuple[str, str]] = lambda _parent: ("0-7", "0-1"),
        retry_pauses: Sequence[float] = (1.0,),
    ) -> None:
        self.callers: dict[str, FakeCaller] = {}
        self.servers: tuple[HookServer, ...] = ()
        self.lookup = FakeLookup(*records)
        self.clock = 100.0
        self.forwarded: list[bytes] = []
        self.reply = Reply(code=0)
        self.gate: asyncio.Event | None = None  # if set, the runtime's answer waits for it
        self.plugins = RegisteredServers(lambda server: self.callers[server.name])
        self.dispatcher = Dispatcher(
            self.plugins,
            self.lookup,
            settings or HookSettings(),
            now=lambda: self.clock,
            allowed=allowed,
            retry_pauses=retry_pauses,
        )

    def plugin(self, server: HookServer, answer: Answer = silent) -> FakeCaller:
        """Register a plugin; order is that of registration."""
        self.callers[server.name] = FakeCaller(answer)
        self.servers += (server,)
        self.plugins.update(self.servers)
        return self.callers[server.name]

    async def call(
        self, request: Any, *, origin: str = CLIENT, deadline: float | None = None, raw: bytes | None = None
    ) -> Reply:
        """A call of a client through the dispatcher. The method follows from the request's class."""
        name = type(request).__name__.removesuffix("Request")
        body = Body(raw if raw is not None else request.SerializeToString(), CriParser(f"{name}Request"))
        call = Call(method=METHODS[name], path=b"", body=body, deadline=deadline, origin=origin)

        async def proceed() -> Reply:
            self.forwarded.append(call.body.data())
            if self.gate is not None:
                await self.gate.wait()
            return self.reply

        return await self.dispatcher.intercept(call, proceed)
