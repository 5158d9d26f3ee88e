"""The client of the API server: what it asks for, and what it makes of answers, byte by byte."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest

from interpose.kube.access import Access, ExecPlugin, User
from interpose.kube.address import parse_server
from interpose.kube.api import (
    CONFIG_MAPS,
    EVENTS,
    NODE_SLOS,
    NODES,
    ApiError,
    Change,
    PatchKind,
    Resource,
    UnreachableError,
    WatchEvent,
)
from interpose.kube.client import KubeClient
from interpose.kube.http import HttpLimits
from interpose.testing.eventually import eventually
from interpose.testing.scriptedserver import Asked, Peer, Script, ScriptedServer

NODE = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}}
GONE = {"kind": "Status", "code": 404, "reason": "NotFound", "message": "it is not there"}


def listing(kind: str, *names: str, api_version: str = "v1", **metadata: str) -> dict[str, Any]:
    """A list as servers answer it."""
    items = [{"metadata": {"name": name}} for name in names]
    metadata = {"resourceVersion": "7", **metadata}
    return {"kind": f"{kind}List", "apiVersion": api_version, "metadata": metadata, "items": items}


@asynccontextmanager
async def serving(script: Script, user: User | None = None, **options: Any) -> AsyncIterator[tuple[Any, KubeClient]]:
    """A server with a script, and a client of it."""
    async with ScriptedServer(script) as server:
        access = Access(server=parse_server(server.url + "/k8s"), source="test", user=user or User(token="secret"))
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


def event(change: str, name: str, version: str) -> dict[str, Any]:
    """A line of a watch."""
    return {"type": change, "object": {"metadata": {"name": name, "resourceVersion": version}}}


async def watched(client: KubeClient) -> list[WatchEvent]:
    """All events of a watch."""
    return [event async for event in client.watch(CONFIG_MAPS, version="5", namespace="kube-system", name="cm")]


async def test_get() -> None:
    """Path below the server's prefix, our name, our token; no compression."""
    async with serving(answering(NODE)) as (server, client):
        assert await client.get(NODES, "n1") == NODE
    [asked] = server.asked
    assert (asked.method, asked.target) == ("GET", "/k8s/api/v1/nodes/n1")
    assert asked.headers == {
        "host": f"127.0.0.1:{server.port}",
        "user-agent": "interpose-agent/1",
        "accept": "application/json",
        "accept-encoding": "identity",
        "authorization": "Bearer secret",
    }
    assert client.requests == {("get", "200"): 1}
    assert client.last_answer is not None


async def test_list_goes_through_all_pages() -> None:
    """Objects of all pages, with their kind; the version of the last one."""
    version = NODE_SLOS.api_version
    pages = [
        listing("NodeSLO", name, api_version=version, **{"continue": more}) for name, more in (("x", "a/b="), ("y", ""))
    ]
    async with serving(answering(*pages)) as (server, client):
        listed = await client.list(NODE_SLOS)
    assert listed.version == "7"
    assert listed.items == tuple(
        {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO", "metadata": {"name": name}} for name in "xy"
    )
    assert [query_of(asked) for asked in server.asked] == [{"limit": "500"}, {"limit": "500", "continue": "a/b="}]


async def test_list_by_name_is_a_selection() -> None:
    """RBAC by name allows only this."""
    async with serving(answering(listing("ConfigMap") | {"items": None})) as (server, client):
        assert await client.list(CONFIG_MAPS, namespace="kube-system", name="a,b=c\\") == ((), "7")
    assert query_of(server.asked[0])["fieldSelector"] == "metadata.name=a\\,b\\=c\\\\"


async def test_list_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that always has one more page is given up."""
    monkeypatch.setattr("interpose.kube.client._MAX_PAGES", 3)
    page = listing("Node", **{"continue": "more"})
    async with serving(answering(page, page, page)) as (_server, client):
        with pytest.raises(UnreachableError, match="does not end"):
            await client.list(NODES)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("<html>", "not JSON: <html>"),
        ("[]", "not a JSON object"),
        ("{}", "no list of nodes"),
        (listing("Node") | {"items": [1]}, "something else than objects"),
        ({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}, "no list of nodes"),
        (listing("Pod"), "no list of nodes"),
    ],
)
async def test_lists_that_are_none(body: object, said: str) -> None:
    """Somebody else has answered: nothing is known then, and it does not count as an answer."""
    async with serving(answering(body)) as (server, client):
        with pytest.raises(UnreachableError) as caught:
            await client.list(NODES)
    assert str(caught.value).startswith(server.url)
    assert said in str(caught.value)
    assert client.requests == {("list", "unreachable"): 1}
    assert client.last_error == str(caught.value)
    assert client.last_answer is None


async def test_object_that_is_none() -> None:
    """What is no object of the kind is not taken for one."""
    async with serving(answering({"kind": "Status", "apiVersion": "v1", "metadata": {}})) as (_server, client):
        with pytest.raises(UnreachableError, match="the answer is no Node"):
            await client.get(NODES, "n1")


async def test_answer_that_breaks_off() -> None:
    """The head alone is no answer."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.begin()
        await peer.chunk(b"{")

    async with serving(script) as (_server, client):
        with pytest.raises(UnreachableError, match="closed in the middle of an answer"):
            await client.get(NODES, "n1")
    assert client.requests == {("get", "unreachable"): 1}
    assert "closed in the middle" in client.last_error


async def test_object_that_is_missing() -> None:
    """A 404 that names it is the word of an API server."""
    async with serving(answering(GONE | {"details": {"name": "n1", "kind": "nodes"}}, status=404)) as (_, client):
        with pytest.raises(ApiError) as caught:
            await client.get(NODES, "n1")
    assert (caught.value.code, caught.value.name) == (404, "n1")


def without(asked: Asked, groups: dict[str, list[str]], *, others: object = "404 page not found") -> tuple[object, int]:
    """What a server answers that has nothing but these versions of groups, each with some kinds."""
    path = asked.target.removeprefix("/k8s")
    if path == "/apis":
        versions = [{"name": group.partition("/")[0], "versions": [{"groupVersion": group}]} for group in groups]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": versions}, 200
    if (plurals := groups.get(path.removeprefix("/apis/"))) is not None:
        resources = [{"name": plural} for plural in plurals]
        return {"kind": "APIResourceList", "apiVersion": "v1", "resources": resources}, 200
    return others, 404


@pytest.mark.parametrize(
    "groups",
    [{}, {"slo.koordinator.sh/v1": ["nodeslos"]}, {"slo.koordinator.sh/v1alpha1": ["nodemetrics"]}],
    ids=["no group", "other version", "other kinds"],
)
async def test_kind_that_is_missing(groups: dict[str, list[str]]) -> None:
    """A server that says what it has, and does not have this, is believed."""

    async def script(peer: Peer) -> None:
        while True:
            await peer.answer(*without(await peer.request(), groups))

    async with serving(script) as (_server, client):
        with pytest.raises(ApiError, match=r"404 page not found \(404\)"):
            await client.list(NODE_SLOS, name="n1")
        with pytest.raises(ApiError, match=r"404 page not found \(404\)"):
            await client.get(NODE_SLOS, "n1")


@pytest.mark.parametrize("resource", [NODE_SLOS, NODES], ids=lambda resource: resource.plural)
@pytest.mark.parametrize("others", ["default backend - 404", GONE], ids=["text", "status"])
async def test_404_of_somebody_else(resource: Resource, others: object) -> None:
    """Whatever stands before an API server, or one that has the kind, has said nothing about objects."""
    groups = {resource.api_version: [resource.plural]}

    async def script(peer: Peer) -> None:
        while True:
            await peer.answer(*without(await peer.request(), groups, others=others))

    async with serving(script) as (_server, client):
        for asked in (client.list(resource, name="n1"), client.get(resource, "n1")):
            with pytest.raises(UnreachableError, match=f"no answer of an API server that has {resource.plural}"):
                await asked
        assert "404" in client.last_error


async def test_404_for_everything() -> None:
    """A load balancer without a server behind it knows nothing of groups either: its 404 is not that of a kind."""
    async with serving(answering("default backend - 404", "default backend - 404", status=404)) as (_server, client):
        with pytest.raises(UnreachableError, match="default backend - 404"):
            await client.list(NODE_SLOS, name="n1")


async def test_writes() -> None:
    """Method, path, content type and body of each; who writes is said."""
    async with serving(answering({}, {}, {}, {})) as (server, client):
        await client.create(EVENTS, {"a": MappingProxyType({"b": 1})}, namespace="default")
        await client.replace(CONFIG_MAPS, "x", {"data": {}}, namespace="ns")
        await client.patch(NODES, "n1", {"status": {}}, kind=PatchKind.STRATEGIC, subresource="status")
        await client.patch(NODES, "n1", [{"op": "remove"}], kind=PatchKind.JSON)
    assert [(asked.method, asked.target.removeprefix("/k8s/api/v1")) for asked in server.asked] == [
        ("POST", "/namespaces/default/events?fieldManager=interpose"),
        ("PUT", "/namespaces/ns/configmaps/x?fieldManager=interpose"),
        ("PATCH", "/nodes/n1/status?fieldManager=interpose"),
        ("PATCH", "/nodes/n1?fieldManager=interpose"),
    ]
    assert [asked.headers["content-type"] for asked in server.asked] == [
        "application/json",
        "application/json",
        "application/strategic-merge-patch+json",
        "application/json-patch+json",
    ]
    assert json.loads(server.asked[0].body) == {"a": {"b": 1}}
    assert client.requests == {("create", "200"): 1, ("update", "200"): 1, ("patch", "200"): 2}


async def test_what_is_not_json_is_not_sent() -> None:
    """A mistake of ours is told as one, and costs no request."""
    async with serving(answering()) as (server, client):
        with pytest.raises(TypeError, match="set is not JSON"):
            await client.create(EVENTS, {"a": {1}}, namespace="default")
    assert server.asked == []


async def test_status_becomes_an_error() -> None:
    """Code, reason and message are those of the server, and when to come again."""
    status = {"kind": "Status", "code": 409, "reason": "Conflict", "message": "it was changed"}

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.answer(status, 409, retry_after="3")

    async with serving(script) as (_server, client):
        with pytest.raises(ApiError) as caught:
            await client.replace(NODES, "n1", {})
    assert (caught.value.code, caught.value.reason, caught.value.message) == (409, "Conflict", "it was changed")
    assert caught.value.retry_after == 3.0
    assert client.requests == {("update", "409"): 1}
    assert client.last_error == ""


async def test_credentials_that_are_not_accepted_are_no_answer() -> None:
    """Nothing can be learned or told with them: whoever asks how it goes is told so."""
    status = {"kind": "Status", "code": 401, "reason": "Unauthorized", "message": "Unauthorized"}

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.answer(status, 401)

    async with serving(script) as (server, client):
        with pytest.raises(ApiError):
            await client.get(NODES, "n1")
    assert client.last_answer is None
    assert client.last_error == f"{server.url}/k8s: our credentials are not accepted (401 Unauthorized)"


async def test_error_of_somebody_else() -> None:
    """A load balancer has no Status."""
    async with serving(answering("<h1>503</h1>\n no server", status=503)) as (_server, client):
        with pytest.raises(ApiError) as caught:
            await client.get(NODES, "n1")
    assert str(caught.value) == "<h1>503</h1> no server (503)"


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
        (Change.ADDED, "6"),
        (Change.BOOKMARK, "8"),
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
    async with serving(script, limits=HttpLimits(body=2000)) as (server, client):
        events = client.watch(NODES, version="5")
        assert (await anext(events)).change is Change.ADDED
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
    monkeypatch.setattr("interpose.kube.client._WATCH_HEAD", 0.05)

    async def script(peer: Peer) -> None:
        await peer.gone()

    async with serving(script) as (server, client):
        with pytest.raises(UnreachableError, match=r"no answer within 0\.05 s"):
            await watched(client)
    assert client.last_error == f"{server.url}/k8s: no answer within 0.05 s"


async def test_watch_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that forgets to end a watch, or is gone without a word, is given up."""
    for name, value in {"_WATCH_FROM": 0.0, "_WATCH_TO": 0.0, "_WATCH_MARGIN": 0.05}.items():
        monkeypatch.setattr(f"interpose.kube.client.{name}", value)

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
        await asyncio.wait_for(gone.wait(), 5)


async def test_slow_answer() -> None:
    """The time of a call is for all of it, also if bytes trickle."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.begin()
        await peer.chunk(b"{")
        await peer.gone()

    async with serving(script, timeout=0.1) as (_server, client):
        with pytest.raises(UnreachableError, match=r"no answer within 0\.1 s"):
            await client.get(NODES, "n1")


async def test_nobody_listens() -> None:
    """Refused connections are told so."""
    async with serving(answering()) as (server, client):
        pass
    with pytest.raises(UnreachableError, match=f"{server.url}/k8s: connection refused"):
        await client.get(NODES, "n1")
    assert client.requests == {("get", "unreachable"): 1}
    await client.close()


async def test_name_that_does_not_exist() -> None:
    """A mistyped host is told so. This one is too long for anybody to be asked about it."""
    host = ".".join(["a" * 60] * 5)
    access = Access(server=parse_server(f"http://{host}:1"), source="test")
    client = KubeClient(access)
    with pytest.raises(UnreachableError, match=f"http://{host}:1: the name cannot be resolved"):
        await client.get(NODES, "n1")
    await client.close()


def keeper(valid: list[str]) -> Script:
    """Lets in who has the token in `valid`."""

    async def script(peer: Peer) -> None:
        while True:
            asked = await peer.request()
            good = asked.headers.get("authorization") == f"Bearer {valid[0]}"
            status = {"kind": "Status", "code": 401, "reason": "Unauthorized", "message": "no"}
            await (peer.answer(NODE) if good else peer.answer(status, 401))

    return script


async def test_rotated_token_file(tmp_path: Path) -> None:
    """A token that was replaced is used for the next request; nobody is asked twice."""
    valid = ["one"]
    file = tmp_path / "token"
    file.write_text("one\n")
    async with serving(keeper(valid), User(token_file=str(file))) as (server, client):
        await client.get(NODES, "n1")
        valid[0] = "second"
        file.write_text("second\n")
        await client.get(NODES, "n1")
    assert len(server.asked) == 2


async def test_token_file_that_looks_the_same(tmp_path: Path) -> None:
    """After a 401 the file is read in any case, and a write is sent again: it was not carried out."""
    valid = ["one"]
    file = tmp_path / "token"
    file.write_text("one")
    async with serving(keeper(valid), User(token_file=str(file))) as (server, client):
        await client.get(NODES, "n1")
        valid[0] = "two"
        file.write_text("two")
        client._credentials._token_seen = (file.stat().st_ino, file.stat().st_mtime_ns, 3)
        await client.create(EVENTS, {}, namespace="default")
    assert [asked.method for asked in server.asked] == ["GET", "POST", "POST"]
    assert client.requests == {("get", "200"): 1, ("create", "401"): 1, ("create", "200"): 1}


async def test_token_that_is_refused(tmp_path: Path) -> None:
    """Without a newer one there is nothing to try again."""
    file = tmp_path / "token"
    file.write_text("old")
    async with serving(keeper(["new"]), User(token_file=str(file))) as (server, client):
        with pytest.raises(ApiError, match=r"no \(401 Unauthorized\)"):
            await client.get(NODES, "n1")
    assert len(server.asked) == 1


async def test_token_file_that_is_missing(tmp_path: Path) -> None:
    """It may come later: that is no reason to end."""
    file = tmp_path / "token"
    async with serving(keeper(["new"]), User(token_file=str(file))) as (server, client):
        with pytest.raises(UnreachableError, match=f"file {file}: cannot be read: No such file"):
            await client.get(NODES, "n1")
        file.write_text("new")
        await client.get(NODES, "n1")
    assert len(server.asked) == 1


async def test_credential_program(tmp_path: Path) -> None:
    """It is run once, and again after a 401; a watch is begun with the new token too."""
    program = tmp_path / "plugin"
    program.write_text(
        "#!/bin/sh\n"
        f"echo run >>{tmp_path}/runs\n"
        f'echo "{{\\"kind\\":\\"ExecCredential\\",\\"apiVersion\\":\\"client.authentication.k8s.io/v1\\",'
        f'\\"status\\":{{\\"token\\":\\"$(cat {tmp_path}/token)\\"}}}}"\n'
    )
    program.chmod(0o755)
    plugin = ExecPlugin(
        api_version="client.authentication.k8s.io/v1", command=str(program), environment=(("PATH", "/usr/bin:/bin"),)
    )
    valid = ["one"]
    (tmp_path / "token").write_text("one")
    async with serving(keeper(valid), User(plugin=plugin)) as (_server, client):
        await client.get(NODES, "n1")
        await client.get(NODES, "n1")
        assert (tmp_path / "runs").read_text() == "run\n"
        valid[0] = "two"
        (tmp_path / "token").write_text("two")
        await asyncio.gather(client.get(NODES, "n1"), client.get(NODES, "n1"))
        assert (tmp_path / "runs").read_text() == "run\nrun\n"


async def test_credential_program_that_is_slow(tmp_path: Path) -> None:
    """It takes of the request's time, and one run serves all; what it gives at last is there for the next."""
    os.mkfifo(tmp_path / "gate")
    printed = '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"one"}}'
    script = f"echo run >>{tmp_path}/runs; cat {tmp_path}/gate; echo '{printed}'"
    environment = (("PATH", "/usr/bin:/bin"),)
    plugin = ExecPlugin(
        api_version="client.authentication.k8s.io/v1", command="sh", args=("-c", script), environment=environment
    )
    async with serving(keeper(["one"]), User(plugin=plugin), timeout=0.3) as (server, client):
        asked = await asyncio.gather(*(client.get(NODES, "n1") for _ in range(5)), return_exceptions=True)
        assert {str(error) for error in asked} == {f"{server.url}/k8s: no credentials within 0.3 s"}
        assert client.requests == {("get", "unreachable"): 5}
        await asyncio.to_thread((tmp_path / "gate").write_text, "")
        runner = client._credentials._runner
        await eventually(lambda: runner is not None and runner.held is not None, "the end of the program")
        assert await client.get(NODES, "n1") == NODE
    assert (tmp_path / "runs").read_text() == "run\n"
