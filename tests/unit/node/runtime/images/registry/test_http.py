"""Answers of registries do not keep us waiting for ever."""

from typing import Any, cast

import pytest

from interpose.net.http.address import parse_server
from interpose.net.http.client import HttpResponse
from interpose.net.http.errors import UnreachableError
from interpose.node.runtime.images.registry.endpoints import RegistryEndpoint
from interpose.node.runtime.images.registry.http import RegistryReply, RegistryTimeouts, RegistryTransport


class Dripping:
    """An answer that gives some bytes at a time, and a clock that says how long each took."""

    status = 200
    headers: dict[str, str] = {}  # noqa: RUF012 - nobody writes to it

    def __init__(self, size: int, seconds: float) -> None:
        self._size = size
        self._seconds = seconds
        self.now = 0.0

    async def read(self) -> bytes:
        self.now += self._seconds
        return b"x" * self._size


def reply(answer: Dripping) -> RegistryReply:
    """What reads from it: 600 bytes in a minute are the least."""
    patience = RegistryTimeouts(stall=60, least=600)
    return RegistryReply(cast("HttpResponse", answer), patience, "http://r", clock=lambda: answer.now)


async def test_an_answer_that_comes_too_slowly_is_given_up() -> None:
    """Although it never stalls."""
    slow = reply(Dripping(1, 1.0))
    for _ in range(59):
        assert await slow.read() == b"x"
    with pytest.raises(UnreachableError, match="http://r: too little came for 60 s"):
        await slow.read()


async def test_an_answer_that_comes_just_fast_enough_is_read() -> None:
    """However long it takes."""
    fast = reply(Dripping(10, 1.0))
    for _ in range(1000):
        assert await fast.read()


async def test_only_so_many_servers_are_remembered() -> None:
    """Connections and contexts of those that were asked last."""
    exchange = RegistryTransport(timeouts=RegistryTimeouts(), env={})
    made: Any = exchange
    for number in range(100):
        server = parse_server(f"https://r{number}.example")
        await made._client(server)
        made._context(RegistryEndpoint(server=server), server)
    assert (len(made._clients), len(made._contexts)) == (64, 64)
    await exchange.close()
