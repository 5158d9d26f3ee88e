"""The test API server over real sockets: watches, faults, TLS, tokens, webhooks, and as a process."""

import asyncio
import base64
import json
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, aclosing
from pathlib import Path
from typing import Any

import pytest

from interpose.kube.client.api import (
    CONFIG_MAPS,
    MUTATING_WEBHOOKS,
    NODE_SLOS,
    NODES,
    ApiError,
    PatchKind,
    WatchChange,
    WatchEvent,
)
from interpose.kube.client.client import KubeClient
from interpose.kube.client.kubeconfig import find_access
from interpose.net.http.errors import UnreachableError
from interpose.testing.eventually import WAIT_LIMIT
from tests.support.apiserver.background import background
from tests.support.apiserver.connection import HttpConnection
from tests.support.apiserver.resources import PODS
from tests.support.apiserver.server import ApiServer
from tests.support.lab.processes import Child
from tests.support.net.certificates import Authority, write_pair


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    """With a token and a node."""
    async with ApiServer(tokens={"secret": "agent"}, nodes=["n"]) as running:
        yield running


@pytest.fixture
async def client(server: ApiServer, scratch: Path) -> AsyncIterator[KubeClient]:
    """Of the agent."""
    connected = KubeClient(find_access(str(server.kubeconfig(scratch / "config")), {}), user_agent="test")
    yield connected
    await connected.close()


async def _next(events: Any) -> WatchEvent:
    async with asyncio.timeout(WAIT_LIMIT):
        event: WatchEvent = await anext(events)
        return event


async def _watching(server: ApiServer, count: int = 1) -> None:
    async with asyncio.timeout(WAIT_LIMIT):
        await server.changes.until(lambda: len(server.watches) == count)


async def _watch(client: KubeClient, server: ApiServer) -> Any:
    """A watch of our node that has begun: it has told of one change."""
    events = client.watch(NODES, version=str(server.store.version), name="n")
    server.put(NODES, {"metadata": {"name": "n", "labels": {"begun": str(server.store.version)}}})
    assert (await _next(events)).change is WatchChange.MODIFIED
    return events


async def test_the_log_of_requests(server: ApiServer, client: KubeClient) -> None:
    """Who asked what, and the code of the answer."""
    await client.patch(NODES, "n", {"metadata": {"labels": {"a": "b"}}}, kind=PatchKind.MERGE)
    logged = server.requests[-1]
    assert (logged.method, logged.path, logged.code) == ("PATCH", "/api/v1/nodes/n", 200)
    assert (logged.user, logged.agent, logged.content_type) == ("agent", "test", PatchKind.MERGE)
    assert logged.body == {"metadata": {"labels": {"a": "b"}}}


async def test_a_watch_tells_changes_as_they_come(server: ApiServer, client: KubeClient) -> None:
    """Until the one who watches leaves, which the server notices."""
    async with aclosing(await _watch(client, server)) as events:
        server.put(NODES, {"metadata": {"name": "n", "labels": {"a": "b"}}})
        assert (await _next(events)).object["metadata"]["labels"] == {"a": "b"}
        server.remove(NODES, "n")
        assert (await _next(events)).change is WatchChange.DELETED
        await _watching(server)
    await _watching(server, 0)


async def test_bookmarks_come_when_a_test_wants_it(server: ApiServer, client: KubeClient) -> None:
    """To clients that asked for them, as ours does."""
    async with aclosing(await _watch(client, server)) as events:
        server.put(CONFIG_MAPS, {"metadata": {"name": "m"}})
        server.faults.bookmark()
        event = await _next(events)
        assert (event.change, event.object["metadata"]["resourceVersion"]) == (
            WatchChange.BOOKMARK,
            str(server.store.version),
        )


async def test_a_watch_ends_cleanly(server: ApiServer, client: KubeClient) -> None:
    """As servers end them once in a while: no error, and the next request works."""
    async with aclosing(await _watch(client, server)) as events:
        server.faults.end_watches()
        with pytest.raises(StopAsyncIteration):
            await _next(events)
    assert (await client.get(NODES, "n"))["metadata"]["name"] == "n"


async def test_timeout_seconds_end_a_watch(server: ApiServer) -> None:
    """Without any help."""
    raw = await _raw(server, "/api/v1/nodes?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Dnone")
    assert raw.endswith(b"0\r\n\r\n")
    await _watching(server, 0)


@pytest.mark.parametrize("mid_line", [False, True])
async def test_a_watch_is_cut(server: ApiServer, client: KubeClient, mid_line: bool) -> None:
    """The client tells it from a clean end."""
    async with aclosing(await _watch(client, server)) as events:
        server.faults.cut_watches(mid_line=mid_line)
        with pytest.raises(UnreachableError):
            await _next(events)
    await _watching(server, 0)


async def test_a_line_that_is_no_event(server: ApiServer, client: KubeClient) -> None:
    """Is no event for the client either."""
    async with aclosing(await _watch(client, server)) as events:
        server.faults.garble_watches()
        with pytest.raises(UnreachableError):
            await _next(events)


async def test_a_history_that_is_lost(server: ApiServer, client: KubeClient) -> None:
    """Watches that run go on; one that begins at an older version is told that it is too late."""
    version = str(server.store.version)
    async with aclosing(await _watch(client, server)) as running:
        server.faults.expire_history()
        async with aclosing(client.watch(NODES, version=version)) as late:  # type: ignore[type-var]
            with pytest.raises(ApiError) as caught:
                await _next(late)
        assert caught.value.expired
        server.remove(NODES, "n")
        assert (await _next(running)).change is WatchChange.DELETED


@pytest.mark.parametrize("code", [429, 500, 503])
async def test_answers_a_test_wants(server: ApiServer, client: KubeClient, code: int) -> None:
    """So many, with the time to wait; nothing is done meanwhile."""
    server.faults.answer(code, times=2, retry_after=3)
    for _ in range(2):
        with pytest.raises(ApiError) as caught:
            await client.patch(NODES, "n", {"spec": {"x": 1}}, kind=PatchKind.MERGE)
        assert (caught.value.code, caught.value.retry_after) == (code, 3)
    assert "spec" not in await client.get(NODES, "n")


async def test_a_stall_holds_requests(server: ApiServer, client: KubeClient) -> None:
    """Until it is released."""
    stall = server.faults.stall(lambda logged: logged.method == "GET")
    asking = asyncio.create_task(client.get(NODES, "n"))
    async with asyncio.timeout(WAIT_LIMIT):
        await stall.entered.wait()
        assert not asking.done()
        stall.release()
        assert (await asking)["metadata"]["name"] == "n"


async def test_half_an_answer(server: ApiServer, client: KubeClient) -> None:
    """Is none, though it was done."""
    server.faults.truncate(when=lambda logged: logged.method == "PATCH")
    with pytest.raises(UnreachableError):
        await client.patch(NODES, "n", {"spec": {"x": 1}}, kind=PatchKind.MERGE)
    assert (await client.get(NODES, "n"))["spec"] == {"x": 1}


async def test_dropped_connections(server: ApiServer, client: KubeClient) -> None:
    """One instead of an answer, or all at once; then everything works again."""
    server.faults.drop(when=lambda logged: logged.method == "PATCH")
    with pytest.raises(UnreachableError):
        await client.patch(NODES, "n", {"spec": {"x": 1}}, kind=PatchKind.MERGE)
    async with aclosing(await _watch(client, server)) as events:
        server.faults.drop_connections()
        with pytest.raises(UnreachableError):
            await _next(events)
    assert "spec" not in await client.get(NODES, "n")


async def test_a_restart_keeps_port_and_objects(server: ApiServer, client: KubeClient) -> None:
    """And the history, unless it is to be lost."""
    version, url = str(server.store.version), server.url
    await server.faults.stop()
    with pytest.raises(UnreachableError):
        await client.get(NODES, "n")
    await server.faults.start()
    server.put(NODES, {"metadata": {"name": "n", "labels": {"a": "b"}}})
    assert server.url == url
    async with aclosing(client.watch(NODES, version=version)) as events:  # type: ignore[type-var]
        assert (await _next(events)).change is WatchChange.MODIFIED
    await server.faults.restart(lose_history=True)
    async with aclosing(client.watch(NODES, version=version)) as events:  # type: ignore[type-var]
        with pytest.raises(ApiError) as caught:
            await _next(events)
    assert caught.value.expired


async def test_a_token_is_rotated(server: ApiServer, client: KubeClient, scratch: Path) -> None:
    """The old one is refused, the new one is the same user."""
    server.faults.rotate_token("secret", "fresh")
    with pytest.raises(ApiError) as caught:
        await client.get(NODES, "n")
    assert caught.value.code == 401
    newer = KubeClient(find_access(str(server.kubeconfig(scratch / "new")), {}))
    await newer.get(NODES, "n")
    await newer.close()
    assert server.requests[-1].user == "agent"


async def test_rules_of_access(server: ApiServer, client: KubeClient) -> None:
    """By name, also for lists and watches of one name."""
    rule = {"apiGroups": [""], "resources": ["nodes"], "resourceNames": ["n"], "verbs": ["list", "watch"]}
    server.access.restrict("agent", [rule])
    assert len((await client.list(NODES, name="n")).items) == 1
    async with aclosing(await _watch(client, server)):
        pass
    with pytest.raises(ApiError) as caught:
        await client.list(NODES)
    assert (caught.value.code, caught.value.reason) == (403, "Forbidden")


async def test_a_kind_that_is_not_installed(server: ApiServer, client: KubeClient) -> None:
    """Answers 404 without a Status, until its definition comes."""
    server.hidden.add(NODE_SLOS)
    raw = await _raw(server, NODE_SLOS.path())
    assert raw.startswith(b"HTTP/1.1 404")
    assert raw.endswith(b"404 page not found\n")
    server.hidden.clear()
    assert (await client.list(NODE_SLOS)).items == ()


async def test_tls_with_certificates_of_clients(scratch: Path) -> None:
    """A user is known by the certificate; another certificate of the server is taken, another authority is not."""
    async with ApiServer(tls=True, tokens={"secret": "agent"}, nodes=["n"]) as server:
        config = server.kubeconfig(scratch / "config", client="admin")
        for new_ca, good in ((False, True), (True, False)):
            client = KubeClient(find_access(str(config), {}))
            await client.get(NODES, "n")
            assert server.requests[-1].user == "admin"
            await client.close()
            server.faults.swap_certificate(new_ca=new_ca)
            client = KubeClient(find_access(str(config), {}))
            if good:
                await client.get(NODES, "n")
            else:
                with pytest.raises(UnreachableError):
                    await client.get(NODES, "n")
            await client.close()


async def test_what_a_pod_finds_of_its_account(scratch: Path) -> None:
    """Is enough for the client."""
    async with ApiServer(tls=True, tokens={"secret": "agent"}, nodes=["n"]) as server:
        env = server.service_account(scratch / "var/run/secrets/kubernetes.io/serviceaccount")
        client = KubeClient(find_access("", env, root=str(scratch)))
        await client.get(NODES, "n")
        await client.close()
        assert server.requests[-1].user == "agent"


async def test_a_certificate_needs_tls(server: ApiServer) -> None:
    """A mistake of a test is told."""
    with pytest.raises(ValueError, match="no TLS"):
        server.faults.swap_certificate()


async def test_requests_that_are_none(server: ApiServer) -> None:
    """Cost their own connection and nothing else; what is no HTTP is 400, and so is what is not JSON."""
    reader, writer = await asyncio.open_connection(server.host, server.port)
    writer.write(b"no http\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 400")
    writer.close()
    raw = await _raw(server, "/api/v1/nodes", method="POST", body=b"{")
    assert raw.startswith(b"HTTP/1.1 400")


async def test_clients_that_ask_before_they_send(server: ApiServer) -> None:
    """Expect: 100-continue, as curl does with large bodies."""
    reader, writer = await asyncio.open_connection(server.host, server.port)
    head = "POST /api/v1/nodes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\nConnection: close\r\n"
    writer.write(f"{head}Content-Length: 27\r\nExpect: 100-continue\r\n\r\n".encode())
    assert b"100" in await reader.readline()
    writer.write(b'{"metadata": {"name": "m"}}')
    assert b"201" in await reader.read()
    writer.close()


async def _raw(server: ApiServer, target: str, *, method: str = "GET", body: bytes = b"") -> bytes:
    reader, writer = await asyncio.open_connection(server.host, server.port)
    head = f"{method} {target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\nContent-Length: {len(body)}\r\n"
    writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
    async with asyncio.timeout(WAIT_LIMIT):
        data = await reader.read()
    writer.close()
    return data


class _Webhook:
    """An admission webhook over TLS that sets an annotation."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self.reviews: list[Any] = []
        self.stalled = False
        self.code = 200
        self.port = 0

    async def start(self) -> asyncio.Server:
        """Listen anywhere."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = HttpConnection(reader, writer)
        try:
            request = await connection.next_request()
            assert request is not None
            review = json.loads(request.body)
            self.reviews.append((request.path, dict(request.query), review))
            if self.stalled:
                await connection.gone()
                return
            patch = [{"op": "add", "path": "/metadata/annotations", "value": {"seen": "yes"}}]
            response = {"uid": review["request"]["uid"], "allowed": True, "patchType": "JSONPatch"}
            response["patch"] = base64.b64encode(json.dumps(patch).encode()).decode()
            await connection.answer(self.code, {**review, "request": None, "response": response})
        finally:
            connection.close()


@pytest.fixture
async def webhook(server: ApiServer, scratch: Path) -> AsyncIterator[_Webhook]:
    """Configured as a service that the server knows the place of."""
    authority = Authority()
    write_pair(scratch, authority.issue("hook.default.svc"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(scratch / "tls.crt", scratch / "tls.key")
    made = _Webhook(context)
    listening = await made.start()
    server.webhooks.services["default", "hook"] = ("127.0.0.1", made.port)
    server.put(MUTATING_WEBHOOKS, _configuration(authority.pem))
    yield made
    listening.close()
    await listening.wait_closed()


def _configuration(ca: str, **changes: Any) -> dict[str, Any]:
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    config = {
        "service": {"namespace": "default", "name": "hook", "path": "/mutate"},
        "caBundle": base64.b64encode(ca.encode()).decode(),
    }
    webhook = {"name": "w.example.org", "rules": [rule], "clientConfig": config, "timeoutSeconds": 1, **changes}
    return {"metadata": {"name": "w"}, "webhooks": [webhook]}


async def test_a_pod_passes_a_webhook(server: ApiServer, client: KubeClient, webhook: _Webhook) -> None:
    """What it changes is stored and answered."""
    pod = await client.create(PODS, {"metadata": {"name": "p"}, "spec": {"containers": []}}, namespace="default")
    assert pod["metadata"]["annotations"] == {"seen": "yes"}
    path, query, review = webhook.reviews[0]
    assert (path, query, review["request"]["userInfo"]["username"]) == ("/mutate", {"timeout": "1s"}, "agent")


@pytest.mark.parametrize("fault", ["stalled", "code", "authority", "service"])
async def test_a_webhook_that_does_not_answer(
    server: ApiServer, client: KubeClient, webhook: _Webhook, fault: str
) -> None:
    """In time, with 200, with a certificate of the caBundle, at all: what happens then is the policy's choice."""
    configuration = dict(server.get(MUTATING_WEBHOOKS, "w"))
    ca = base64.b64decode(configuration["webhooks"][0]["clientConfig"]["caBundle"]).decode()
    webhook.stalled = fault == "stalled"
    webhook.code = 500 if fault == "code" else 200
    if fault == "authority":
        ca = Authority("another").pem
    if fault == "service":
        server.webhooks.services.clear()
    server.put(MUTATING_WEBHOOKS, _configuration(ca))
    with pytest.raises(ApiError, match="failed calling webhook"):
        await client.create(PODS, {"metadata": {"name": "p"}}, namespace="default")
    server.put(MUTATING_WEBHOOKS, _configuration(ca, failurePolicy="Ignore"))
    pod = await client.create(PODS, {"metadata": {"name": "p"}}, namespace="default")
    assert "annotations" not in pod["metadata"]


async def test_a_webhook_by_url(server: ApiServer, client: KubeClient, scratch: Path) -> None:
    """The name in the certificate is that of the URL."""
    authority = Authority()
    write_pair(scratch, authority.issue("127.0.0.1"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(scratch / "tls.crt", scratch / "tls.key")
    webhook = _Webhook(context)
    listening = await webhook.start()
    configuration = _configuration(authority.pem)
    bundle = configuration["webhooks"][0]["clientConfig"]["caBundle"]
    url = f"https://127.0.0.1:{webhook.port}/pods"
    configuration["webhooks"][0]["clientConfig"] = {"url": url, "caBundle": bundle}
    server.put(MUTATING_WEBHOOKS, configuration)
    pod = await client.create(PODS, {"metadata": {"name": "p"}}, namespace="default")
    assert pod["metadata"]["annotations"] == {"seen": "yes"}
    listening.close()
    await listening.wait_closed()


def test_in_a_thread_of_its_own(scratch: Path) -> None:
    """For tests that wait for programs instead of having a loop."""
    with background(ApiServer(nodes=["n"])) as running:
        config = running.do(lambda server: server.kubeconfig(scratch / "config"))
        assert running.url in config.read_text()
        assert asyncio.run(_labels(config)) == {"kubernetes.io/hostname": "n"}
        running.run(lambda server: server.faults.restart())
        running.do(lambda server: server.put(NODES, {"metadata": {"name": "n", "labels": {"a": "b"}}}))
        assert asyncio.run(_labels(config)) == {"a": "b"}


async def _labels(config: Path) -> Any:
    client = KubeClient(find_access(str(config), {}))
    try:
        return (await client.get(NODES, "n"))["metadata"]["labels"]
    finally:
        await client.close()


@pytest.fixture
def start(scratch: Path) -> Iterator[Callable[..., Child]]:
    """Starts the server as a process and waits until it says where it is."""
    with ExitStack() as stack:

        def starting(*options: str) -> Child:
            argv = [sys.executable, "-m", "tests.support.apiserver", *options]
            child = stack.enter_context(Child(argv, log=scratch / "apiserver.log"))
            child.wait_until(lambda: "://" in child.log_tail(), what="an address")
            return child

        yield starting


@pytest.mark.parametrize("options", [(), ("--tls", "--token", "secret")])
def test_as_a_process(scratch: Path, start: Callable[..., Child], options: tuple[str, ...]) -> None:
    """It says where it is, writes a kubeconfig, has the nodes, and leaves at SIGTERM."""
    config = scratch / "config"
    child = start("--listen", "127.0.0.1:0", "--kubeconfig", str(config), "--node", "m", "--node", "n", *options)
    assert asyncio.run(_labels(config)) == {"kubernetes.io/hostname": "n"}
    assert child.log_tail().strip() in config.read_text()
    assert child.stop() == 0
