"""The client of the API server: what it asks for, and what it makes of answers, byte by byte."""

import json
from types import MappingProxyType
from typing import Any

import pytest

from interpose.kube.client.access import Access
from interpose.kube.client.api import CONFIG_MAPS, EVENTS, NODE_SLOS, NODES, ApiError, PatchKind, Resource
from interpose.kube.client.client import KubeClient
from interpose.net.http.address import parse_server
from interpose.net.http.errors import UnreachableError
from tests.support.kube.scripted_api import NODE, answering, query_of, serving
from tests.support.net.scripted_server import Asked, Peer

GONE = {"kind": "Status", "code": 404, "reason": "NotFound", "message": "it is not there"}


def listing(kind: str, *names: str, api_version: str = "v1", **metadata: str) -> dict[str, Any]:
    """A list as servers answer it."""
    items = [{"metadata": {"name": name}} for name in names]
    metadata = {"resourceVersion": "7", **metadata}
    return {"kind": f"{kind}List", "apiVersion": api_version, "metadata": metadata, "items": items}


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
    monkeypatch.setattr("interpose.kube.client.client._MAX_PAGES", 3)
    page = listing("Node", **{"continue": "more"})
    async with serving(answering(page, page, page)) as (_server, client):
        with pytest.raises(UnreachableError, match="does not end"):
            await client.list(NODES)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("<html>", "not JSON: <html>"),
        ("[]", "not a JSON object"),
        ("{}", "not a list of nodes"),
        (listing("Node") | {"items": [1]}, "something else than objects"),
        ({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}, "not a list of nodes"),
        (listing("Pod"), "not a list of nodes"),
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
    """What is not an object of the kind is not taken for one."""
    async with serving(answering({"kind": "Status", "apiVersion": "v1", "metadata": {}})) as (_server, client):
        with pytest.raises(UnreachableError, match="the answer is not a valid Node"):
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
