"""Calls of our own to the runtime, for parts that ask it things and keep their own opinion of the answer.

They enter the chain below their originator and pass every tap, as all calls of ours do. Which of the two API versions
the runtime has is found out by the first call and remembered until somebody says that the runtime may be another one.
"""

from interpose.cri.methods import METHODS
from interpose.cri.store.api_version import TIMEOUT, EitherVersion
from interpose.net.grpc.status import Code, RpcError
from interpose.relay.api import Interceptor
from interpose.relay.subscriptions import Switchboard


class OwnCalls:
    """Calls named `origin` that enter the chain of `relay` below an interceptor, or at its top."""

    def __init__(self, relay: Switchboard, origin: str, below: Interceptor | None = None) -> None:
        self._relay = relay
        self._origin = origin
        self.below = below
        self._versions = EitherVersion(self._call)

    async def __call__(self, method: str, message: bytes, timeout: float = TIMEOUT) -> bytes:
        """The reply message. Raises RpcError for every other outcome."""
        return await self._versions.call(METHODS[method].paths, message, timeout)

    def forget_version(self) -> None:
        """The runtime may be another one now."""
        self._versions.forget()

    async def _call(self, path: str, message: bytes, timeout: float) -> bytes:
        reply = await self._relay.call(path.encode(), message, origin=self._origin, below=self.below, timeout=timeout)
        if reply.code or reply.body is None:
            raise RpcError(Code(reply.code) if reply.code else Code.INTERNAL, reply.message)
        if not reply.body.readable:
            raise RpcError(Code.INTERNAL, "the reply has an unknown encoding")
        return reply.body.data()
