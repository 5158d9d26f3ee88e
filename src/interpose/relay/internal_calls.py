"""Calls of our own parts through the chain, and how taps see calls that pass it.

A call that is made here enters the chain below the part that makes it, ends in time whatever the others do, and every
tap sees it from its beginning to its end.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from interpose.cri.api_version import TIMEOUT, VersionFallback
from interpose.cri.methods import METHODS, Method
from interpose.cri.parser import CriParser
from interpose.net.grpc.status import Code, RpcError
from interpose.relay.api import CLIENT, Body, Call, Direction, Interceptor, Reply, Sighting
from interpose.relay.chain import Chain
from interpose.relay.routes import Route
from interpose.relay.taps import CallView, TapRegistry
from interpose.tasks import TaskBag


class CallRunner:
    """Runs calls through the chain and shows them to taps. One per relay.

    `ask` calls the runtime past the chain: a route, the path, the message, and the seconds that are left.
    """

    def __init__(
        self,
        *,
        chain: Chain,
        tap_registry: TapRegistry,
        limit: int,
        now: Callable[[], float],
        ask: Callable[[Route, bytes, bytes, float], Awaitable[Reply]],
    ) -> None:
        self.chain = chain
        self.tap_registry = tap_registry
        self.limit = limit
        self.now = now
        self.tasks = TaskBag()
        self._ask = ask

    def show_reply(self, view: CallView, reply: Reply) -> None:
        """Show a reply to taps: as it came, if it was changed, and as the caller gets it."""
        show_message(view, message_of(reply))

    async def originate(
        self, route: Route, path: bytes, message: bytes, *, origin: str, below: Interceptor | None, timeout: float
    ) -> Reply:
        """A call of one of our own parts: it enters the chain below that part, and every tap sees it."""
        method = method_of(route)
        deadline = self.now() + timeout
        call = Call(
            method=method,
            path=path,
            body=Body(message, CriParser(method.request)),
            deadline=deadline,
            origin=origin,
            watched=bool(route.taps),
        )
        view = self.view(route, path, origin=origin)
        view.show(Direction.REQUEST, message)

        async def last(call: Call) -> Reply:
            body = call.body.data()
            if body != message:
                view.show(Direction.FORWARDED, body)
            reply = await self._ask(route, path, body, max(deadline - self.now(), 0.0))
            view.on_runtime_reply(reply)
            return reply

        try:
            async with asyncio.timeout_at(deadline):
                reply = await self.chain.run(call, last, below=below)
        except TimeoutError:
            reply = Reply(code=Code.DEADLINE_EXCEEDED, message=f"no answer within {timeout:g} s")
        except BaseException:
            view.end(Code.CANCELLED)  # the caller has given up
            raise
        self.show_reply(view, reply)
        view.changed_by = call.changed_by or ()
        view.end(reply.code, reply.message)
        return reply

    def view(
        self, route: Route, path: bytes, *, origin: str = CLIENT, peer: object = None, headers: Any = None
    ) -> CallView:
        """The view of a call for the taps of its route, of which there may be none."""
        number = self.tap_registry.number() if route.taps else 0
        call = Sighting(number, path, route.method, origin=origin, peer=peer, headers=headers, intercepted=True)
        return CallView(self.tap_registry, route.taps, route.readers, call)


def method_of(route: Route) -> Method:
    """The CRI method of a route. LookupError for an unknown one: its messages cannot be parsed."""
    if route.method is None:
        raise LookupError("only known methods can be called or intercepted")
    return route.method


def message_of(reply: Reply) -> bytes | None:
    """The message of a reply, if it has one that can be read."""
    if reply.code or reply.body is None or not reply.body.readable:
        return None
    return reply.body.data()


def show_message(view: CallView, message: bytes | None) -> None:
    """The reply as the caller gets it and, if that differs, as the runtime sent it, if it was asked at all."""
    if view.received is not None and view.received != message:
        view.show(Direction.RECEIVED, view.received)
    if message is not None:
        view.show(Direction.REPLY, message)


class CallOrigin(Protocol):
    """Sends calls of our own parts through the chain: a relay."""

    async def call(
        self, path: bytes, message: bytes, *, origin: str, below: Interceptor | None = None, timeout: float = TIMEOUT
    ) -> Reply: ...


class InternalCalls:
    """Calls named `origin` that enter the chain of `relay` below an interceptor, or at its top."""

    def __init__(self, relay: CallOrigin, origin: str, below: Interceptor | None = None) -> None:
        self._relay = relay
        self._origin = origin
        self.below = below
        self._versions = VersionFallback(self._call)

    async def __call__(self, method: str, message: bytes, timeout: float = TIMEOUT) -> bytes:
        """The reply message. Raises RpcError for every other outcome."""
        return await self._versions.call(METHODS[method].paths, message, timeout)

    def forget_version(self) -> None:
        """Negotiate the API version again: the runtime may be another one now."""
        self._versions.forget()

    async def _call(self, path: str, message: bytes, timeout: float) -> bytes:
        reply = await self._relay.call(path.encode(), message, origin=self._origin, below=self.below, timeout=timeout)
        if reply.code or reply.body is None:
            raise RpcError(Code(reply.code) if reply.code else Code.INTERNAL, reply.message)
        if not reply.body.readable:
            raise RpcError(Code.INTERNAL, "the reply has an unknown encoding")
        return reply.body.data()
