"""Watches of the client: lines cut anywhere, and everything that can break."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from interpose.kube.client.api import CONFIG_MAPS, NODES, ApiError, WatchChange, WatchEvent
from interpose.kube.client.client import KubeClient
from interpose.net.http.client import HttpClientLimits
from interpose.net.http.errors import UnreachableError
from interpose.testing.eventually import WAIT_LIMIT
from tests.support.kube.scripted_api import NODE, answering, query_of, serving, streaming
from tests.support.net.scripted_server import Peer


def event(change: str, name: str, version: str) -> dict[str, Any]:
    """A line of a watch."""
    return {"type": change, "object": {"metadata": {"name": name, "resourceVersion": version}}}


async def watched(client: KubeClient) -> list[WatchEvent]:
    """All events of a watch."""
    return [event async for event in client.watch(CONFIG_MAPS, version="5", namespace="kube-system", name="cm")]


async def test_watch() -> None:
    """What is asked for, and each event in its order; a clean end ends it, and the connection is used again."""
    chunks = (event("ADDED", "cm", "6"), event("BOOKMARK", "", "8"))

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.begin()
        for chunk in chunks:
            await peer.chunk(chunk)
        await peer.end()
        await answering(NODE)(peer)

    async with serving(script, chance=lambda: 0.5) as (server, client):
        events = await watched(client)
        await client.get(NODES, "n1")
    assert [(event.change, event.object["metadata"]["resourceVersion"]) for event in events] == [
        (WatchChange.ADDED, "6"),
        (WatchChange.BOOKMARK, "8"),
    ]
    assert query_of(server.asked[0]) == {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "resourceVersion": "5",
        "timeoutSeconds": "450",
        "fieldSelector": "metadata.name=cm",
    }
    assert server.connections == 1


async def test_watch_lines_are_cut_anywhere() -> None:
    """Chunks and lines have nothing to do with each other; empty lines are nothing."""
    wire = b"\n".join(json.dumps(event("MODIFIED", "é" * 50, str(n))).encode() for n in range(5)) + b"\n\n\r\n"
    pieces = [wire[at : at + 7] for at in range(0, len(wire), 7)]
    async with serving(streaming(*pieces)) as (_server, client):
        events = await watched(client)
    assert [event.object["metadata"]["resourceVersion"] for event in events] == list("01234")


@pytest.mark.parametrize(
    ("chunks", "clean", "said"),
    [
        ([b'{"type": "ADDED", "obj'], True, "cut in the middle of a line"),
        ([b'{"type": "ADDED", "obj'], False, "closed in the middle of an answer"),
        ([b"garbage\n"], True, "not JSON: garbage"),
        ([b'{"type": "ADDED"}\n'], True, "has no object"),
        ([b'{"type": "NEWS", "object": {}}\n'], True, "unknown type 'NEWS'"),
        ([b"x" * 3000], True, "longer than 2000 bytes"),
    ],
    ids=["cut", "broken", "garbage", "no object", "unknown", "huge"],
)
async def test_watches_that_break(chunks: list[bytes], clean: bool, said: str) -> None:
    """Events before the trouble count; then it is told with the address."""
    script = streaming(event("ADDED", "cm", "6"), *chunks, clean=clean)
    async with serving(script, limits=HttpClientLimits(body=2000)) as (server, client):
        events = client.watch(NODES, version="5")
        assert (await anext(events)).change is WatchChange.ADDED
        with pytest.raises(UnreachableError) as caught:
            await anext(events)
    assert str(caught.value).startswith(server.url)
    assert said in str(caught.value)


async def test_watch_error_event() -> None:
    """A version that is too old is told inside the watch."""
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    async with serving(streaming({"type": "ERROR", "object": status})) as (_server, client):
        with pytest.raises(ApiError) as caught:
            await watched(client)
    assert caught.value.expired


async def test_watch_that_is_refused() -> None:
    """The answer to the request itself may be an error."""
    async with serving(answering({"kind": "Status", "code": 403, "reason": "Forbidden"}, status=403)) as (_, client):
        with pytest.raises(ApiError, match=r"the server gave no reason \(403 Forbidden\)"):
            await watched(client)
    assert client.requests == {("watch", "403"): 1}


async def test_watch_that_does_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that accepts and is silent is given up."""
    monkeypatch.setattr("interpose.kube.client.client._WATCH_HEAD", 0.05)

    async def script(peer: Peer) -> None:
        await peer.gone()

    async with serving(script) as (server, client):
        with pytest.raises(UnreachableError, match=r"no answer within 0\.05 s"):
            await watched(client)
    assert client.last_error == f"{server.url}/k8s: no answer within 0.05 s"


async def test_watch_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that forgets to end a watch, or is gone without a word, is given up."""
    for name, value in {"_WATCH_FROM": 0.0, "_WATCH_TO": 0.0, "_WATCH_MARGIN": 0.05}.items():
        monkeypatch.setattr(f"interpose.kube.client.client.{name}", value)

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.begin()
        await peer.gone()

    async with serving(script) as (_server, client):
        with pytest.raises(UnreachableError, match="no answer within"):
            await watched(client)


async def test_watch_that_nobody_wants_any_more() -> None:
    """Closing the iterator closes the connection."""
    gone = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.begin()
        await peer.chunk(event("ADDED", "cm", "6"))
        await peer.gone()
        gone.set()

    async with serving(script) as (_server, client):
        events = cast(AsyncGenerator[WatchEvent, None], client.watch(NODES, version="5"))
        await anext(events)
        await events.aclose()
        await asyncio.wait_for(gone.wait(), WAIT_LIMIT)
