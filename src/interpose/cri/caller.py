"""The interface between users of a runtime and the runtime: a method by name, a request, an answer.

A runtime in the same process, one behind a socket, one that is only pretended, and wrappers that count are all
`Caller`s. `cri.methods` has the names with their classes.
"""

from collections.abc import AsyncGenerator
from typing import Any, Protocol

from google.protobuf.message import Message


class Caller(Protocol):
    """Answers CRI calls. Every failure is an `net.grpc.status.RpcError` with the code CRI asks for.

    `timeout` is in seconds, None for as long as it takes. Cancelling the caller's task ends the call, not necessarily
    what it has set going.
    """

    async def call(self, method: str, request: Message, *, timeout: float | None = None) -> Any:
        """A unary call: `RunPodSandbox` takes a RunPodSandboxRequest and gives a RunPodSandboxResponse."""

    def stream(self, method: str, request: Message, *, timeout: float | None = None) -> AsyncGenerator[Any, None]:
        """Make a server-streaming call; iterates over its replies."""
