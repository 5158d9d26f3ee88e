"""A runtime in the same process, called as one behind a socket is: with deadlines."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from google.protobuf.message import Message

from interpose.cri.caller import Caller
from interpose.net.grpc.status import Code, RpcError


class LocalCaller:
    """Gives a Caller that may know nothing of time the deadlines its user sets."""

    def __init__(self, inner: Caller) -> None:
        self._inner = inner

    async def call(self, method: str, request: Message, *, timeout: float | None = None) -> Any:
        """DEADLINE_EXCEEDED after `timeout` seconds; what the runtime had begun may go on."""
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                return await self._inner.call(method, request)
        except TimeoutError:
            if not limit.expired():
                raise
            raise RpcError(Code.DEADLINE_EXCEEDED, f"{method}: no answer within {timeout:g} s") from None

    async def stream(self, method: str, request: Message, *, timeout: float | None = None) -> AsyncGenerator[Any, None]:
        """The same for a stream as a whole: the time counts while its next answer is waited for."""
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        async with aclosing(self._inner.stream(method, request)) as answers:
            while True:
                try:
                    async with asyncio.timeout_at(deadline):
                        answer = await anext(answers)
                except StopAsyncIteration:
                    return
                except TimeoutError:
                    raise RpcError(Code.DEADLINE_EXCEEDED, f"{method}: not at its end within {timeout:g} s") from None
                yield answer
