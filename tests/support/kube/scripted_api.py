"""A client of the API server, and a server whose answers a test writes down byte by byte."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

from interpose.kube.client.access import Access, ClientIdentity
from interpose.kube.client.client import KubeClient
from interpose.net.http.address import parse_server
from tests.support.net.scripted_server import Asked, Peer, Script, ScriptedServer

NODE = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}}


@asynccontextmanager
async def serving(
    script: Script, user: ClientIdentity | None = None, **options: Any
) -> AsyncIterator[tuple[Any, KubeClient]]:
    """A server with a script, and a client of it."""
    async with ScriptedServer(script) as server:
        access = Access(
            server=parse_server(server.url + "/k8s"), source="test", user=user or ClientIdentity(token="secret")
        )
        client = KubeClient(access, user_agent="interpose-agent/1", **options)
        try:
            yield server, client
        finally:
            await client.close()


def answering(*answers: object, status: int = 200) -> Script:
    """Answers requests one by one."""

    async def script(peer: Peer) -> None:
        for value in answers:
            await peer.request()
            await peer.answer(value, status)

    return script


def streaming(*chunks: object, clean: bool = True) -> Script:
    """Answers a watch with these chunks."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.begin()
        for chunk in chunks:
            await peer.chunk(chunk)
        if clean:
            await peer.end()
            await peer.gone()

    return script


def query_of(asked: Asked) -> dict[str, str]:
    """The query of a request."""
    return {key: value[0] for key, value in parse_qs(urlsplit(asked.target).query, keep_blank_values=True).items()}
