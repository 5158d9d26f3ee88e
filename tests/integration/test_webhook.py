"""The webhook as API servers meet it: real TLS on the product's loop, with all that goes wrong on a network."""

import asyncio
import base64
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

from interpose.kube.webhook.certificates import Certificates, TlsFiles
from interpose.kube.webhook.review import AnnotationRules
from interpose.kube.webhook.server import PATHS, ServerLimits, WebhookServer
from interpose.net.httpd.limits import HttpServerLimits
from interpose.testing.eventually import eventually
from tests.support.net.certificates import CERTIFICATE, KEY, Authority, Pair, publish_secret

AUTHORITY = Authority()
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
TEXT = '{"containers":{"c":{"requests":{"cpu":"1"}}}}'
REVIEW = {
    "kind": "AdmissionReview",
    "apiVersion": "admission.k8s.io/v1",
    "request": {
        "uid": "u",
        "operation": "CREATE",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "object": POD,
    },
}
BODY = json.dumps(REVIEW).encode()
HTTP = HttpServerLimits(body=100_000, request_timeout=5.0, idle_timeout=30.0)

T = TypeVar("T")


def request(body: bytes = BODY, *, path: str = "/mutate?timeout=10s", kind: str = "application/json") -> bytes:
    """A whole request, as Go writes it."""
    head = f"POST {path} HTTP/1.1\r\nHost: x.svc:443\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def get(path: str) -> bytes:
    """The same without a body."""
    return f"GET {path} HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n".encode()


def trusting(authority: Authority = AUTHORITY) -> ssl.SSLContext:
    """What a client goes by."""
    context = ssl.create_default_context(cadata=authority.pem)
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def ask(self, data: bytes) -> tuple[int, dict[str, str], bytes]:
        """Send, and read one answer: status, headers, body."""
        self.writer.write(data)
        return await self.answer()

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Read one answer."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        return int(head[0].split()[1]), headers, await self.reader.readexactly(int(headers["content-length"]))

    def close(self) -> None:
        """Go without a word."""
        self.writer.transport.abort()


class Running:
    """A webhook in this process and clients of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clients: list[Client] = []
        self.closers: list[Callable[[], Any]] = []
        self.publish(AUTHORITY.issue())

    def publish(self, pair: Pair) -> None:
        """Replace the files, as a kubelet does."""
        publish_secret(self.folder, {CERTIFICATE: pair.certificate, KEY: pair.key})

    def start(self, *, limits: ServerLimits | None = None, client_ca: str = "", plain: bool = False) -> None:
        """Serve."""
        files = TlsFiles(certificate=str(self.folder / CERTIFICATE), key=str(self.folder / KEY), client_ca=client_ca)
        self.certificates = Certificates(files, settle=0.01)
        self.certificates.start()
        listener = socket.create_server(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        about = socket.create_server(("127.0.0.1", 0)) if plain else None
        self.plain_port = about.getsockname()[1] if about is not None else 0
        self.server = WebhookServer(
            listener,
            self.certificates,
            AnnotationRules(),
            limits=limits or ServerLimits(http=HTTP),
            needs_certificate=bool(client_ca),
            plain=about,
        )
        self.server.start()

    async def connect(self, context: ssl.SSLContext | None = None, *, plain: int = 0) -> Client:
        """A new client; with TLS unless a plain port is given."""
        if plain:
            streams = await asyncio.open_connection("127.0.0.1", plain)
        else:
            streams = await asyncio.open_connection("127.0.0.1", self.port, ssl=context or trusting())
        self.clients.append(Client(*streams))
        return self.clients[-1]

    async def close(self) -> None:
        """End everything."""
        for client in self.clients:
            client.close()
        await self.server.close()
        await self.certificates.close()


@pytest.fixture
async def webhook(scratch: Path) -> AsyncIterator[Running]:
    """Not started yet."""
    running = Running(scratch / "tls")
    yield running
    await running.close()


async def test_a_pod_is_annotated(webhook: Running) -> None:
    """On each path, several on one connection, in HTTP/1.1 although the client would like more."""
    webhook.start()
    client = await webhook.connect()
    assert client.writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
    for path in PATHS:
        status, headers, body = await client.ask(request(path=path, kind="application/json; charset=utf-8"))
        response = json.loads(body)["response"]
        assert (status, headers["content-type"], response["uid"]) == (200, "application/json", "u")
        assert json.loads(base64.b64decode(response["patch"]))[1]["value"] == TEXT


@pytest.mark.parametrize(
    ("data", "status", "word"),
    [
        (get("/mutate"), 405, b"only POST"),
        (get("/elsewhere"), 404, b"nothing at"),
        (request(kind="text/plain"), 415, b"expected application/json"),
        (request(b"{}"), 400, b"no request"),
        (request(b"[" * 90_000), 400, b"nested too deeply"),
        (request(b"x" * 100_001), 413, b"larger than 100000 bytes"),
        (b"NONSENSE\r\n\r\n", 400, b""),
    ],
    ids=["get", "path", "type", "no review", "deep", "large", "nonsense"],
)
async def test_what_is_no_review_gets_a_reason(webhook: Running, data: bytes, status: int, word: bytes) -> None:
    """And the next one, on another connection, is served."""
    webhook.start()
    client = await webhook.connect()
    found, _, body = await client.ask(data)
    assert (found, word in body) == (status, True)
    assert (await (await webhook.connect()).ask(request()))[0] == 200


async def test_health_and_metrics_are_there_on_both_ports(webhook: Running) -> None:
    """The plain one has nothing else."""
    webhook.start(plain=True)
    await (await webhook.connect()).ask(request())
    for client in (await webhook.connect(), await webhook.connect(plain=webhook.plain_port)):
        assert (await client.ask(get("/livez")))[0] == 200
        assert (await client.ask(get("/readyz")))[::2] == (200, b"ok")
        assert b"[+]certificate ok, valid until 20" in (await client.ask(get("/readyz?verbose")))[2]
        _, _, text = await client.ask(get("/metrics"))
        rows = dict(line.rsplit(" ", 1) for line in text.decode().splitlines() if not line.startswith("#"))
        assert (
            rows['interpose_webhook_requests_total{dry_run="false",operation="CREATE",result="patched"}'],
            rows["interpose_webhook_request_seconds_count"],
            float(rows["interpose_webhook_certificate_not_after_timestamp_seconds"]),
        ) == ("1.0", "1.0", webhook.certificates.validity.not_after)
    assert (await client.ask(request()))[0] == 404


async def test_an_expired_certificate_is_not_ready(webhook: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubernetes then asks another replica."""
    webhook.start(plain=True)
    monkeypatch.setattr(webhook.certificates, "_wall", lambda: webhook.certificates.validity.not_after + 1)
    client = await webhook.connect(plain=webhook.plain_port)
    status, _, body = await client.ask(get("/readyz"))
    assert (status, b"[-]certificate failed: the certificate expired at" in body) == (503, True)


async def test_certificates_are_swapped_under_load_without_a_failed_request(webhook: Running) -> None:
    """Twenty times, with broken pairs in between; connections that are open stay so."""
    webhook.start()
    asked = {"kept": 0, "new": 0}
    ended = asyncio.Event()

    async def keep() -> None:
        client = await webhook.connect()
        while not ended.is_set():
            assert (await client.ask(request()))[0] == 200
            asked["kept"] += 1

    async def renew() -> None:
        while not ended.is_set():
            client = await webhook.connect()
            assert (await client.ask(request()))[0] == 200
            client.close()
            webhook.clients.remove(client)
            asked["new"] += 1

    async def swap() -> None:
        before = AUTHORITY.issue()
        try:
            for number in range(20):
                if number % 4 == 3:
                    failed = webhook.certificates.reloads["failed"]
                    webhook.publish(Pair(certificate=AUTHORITY.issue().certificate, key=before.key))
                    await eventually(lambda: webhook.certificates.reloads["failed"] > failed, "trouble")  # noqa: B023
                count, new = webhook.certificates.reloads["loaded"], asked["new"]
                webhook.publish(before := AUTHORITY.issue(rsa=number % 5 == 4))
                await eventually(lambda: webhook.certificates.reloads["loaded"] > count, "the new pair")  # noqa: B023
                await eventually(lambda: asked["new"] > new + 1, "clients that see it")  # noqa: B023
        finally:
            ended.set()

    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(keep())
            group.create_task(renew())
        group.create_task(swap())
    assert webhook.certificates.reloads == {"loaded": 20, "failed": 5}
    assert webhook.server.stats.handshake_failures == 0
    assert sum(webhook.server.stats.requests.values()) == sum(asked.values())
    assert asked["kept"] > 20


async def test_a_client_sees_the_new_certificate(webhook: Running) -> None:
    """One that trusts only the new authority gets in, where it did not before."""
    webhook.start()
    another = Authority("another")
    with pytest.raises(ssl.SSLError):
        await webhook.connect(trusting(another))
    await eventually(lambda: webhook.server.stats.handshake_failures == 1, "the failure to be counted")
    webhook.publish(another.issue())
    await eventually(lambda: webhook.certificates.reloads["loaded"], "the new pair")
    assert (await (await webhook.connect(trusting(another))).ask(request()))[0] == 200


async def test_slow_clients_are_cut_and_others_served(webhook: Running) -> None:
    """No handshake, no request, half a head, half a body: each has its time and no more."""
    http = HttpServerLimits(request_timeout=1.0, first_timeout=1.0)
    webhook.start(limits=ServerLimits(http=http, handshake_timeout=1.0))
    silent = await webhook.connect(plain=webhook.port)
    others = [await _in_the_end(webhook.connect) for _ in range(3)]
    others[1].writer.write(b"POST /mutate HT")
    others[2].writer.write(request()[:-5])

    async def answer() -> int:
        return (await (await webhook.connect()).ask(request()))[0]

    assert await _in_the_end(answer) == 200
    for client in (silent, *others):
        with suppress(ConnectionError):
            assert await client.reader.read() == b""
    await eventually(lambda: webhook.server.stats.handshake_failures, "the handshake to be counted")


async def _in_the_end(attempt: Callable[[], Awaitable[T]]) -> T:
    """What a client that is not slow achieves; on a busy machine it may be cut a few times like one."""
    while True:
        with suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            return await attempt()


async def test_plain_http_on_the_tls_port_is_cut(webhook: Running) -> None:
    """And counted."""
    webhook.start()
    client = await webhook.connect(plain=webhook.port)
    client.writer.write(get("/livez"))
    with suppress(ConnectionError):
        await client.reader.read()
    await eventually(lambda: webhook.server.stats.handshake_failures == 1, "the failure to be counted")
    assert (await (await webhook.connect()).ask(request()))[0] == 200


async def test_one_client_too_many_takes_the_place_of_an_idle_one(webhook: Running) -> None:
    """Whoever holds connections for nothing keeps nobody out; one with a request under way is not cut."""
    webhook.start(limits=ServerLimits(http=HTTP, max_connections=2))
    busy, idle = await webhook.connect(), await webhook.connect()
    for client in (busy, idle):
        assert (await client.ask(request()))[0] == 200
    busy.writer.write(request()[:-5])
    await eventually(lambda: webhook.server._server.busy == 1, "one to be busy")
    assert (await (await webhook.connect()).ask(request()))[0] == 200
    assert await idle.reader.read() == b""
    assert (await busy.ask(request()[-5:]))[0] == 200


@pytest.mark.parametrize("spoken", ["nothing", "handshake", "one byte", "a part"])
async def test_who_connects_for_nothing_locks_nobody_out(webhook: Running, spoken: str) -> None:
    """However many they are, and however far they go: an API server keeps its connection and opens others."""
    webhook.start(limits=ServerLimits(http=HTTP, max_connections=4))
    kept = await webhook.connect()
    assert (await kept.ask(request()))[0] == 200
    for _ in range(3):
        for _ in range(4):
            client = await webhook.connect(plain=webhook.port if spoken == "nothing" else 0)
            client.writer.write({"one byte": b"P", "a part": request()[:-5]}.get(spoken, b""))
        assert (await (await webhook.connect()).ask(request()))[0] == 200
    assert (await kept.ask(request()))[0] == 200
    assert (webhook.server._server.refused, webhook.server._server.cut > 0) == (0, True)


async def test_who_does_not_read_answers_locks_nobody_out(webhook: Running) -> None:
    """They have been answered before, and take no more; there is room all the same."""
    webhook.start(limits=ServerLimits(http=HTTP, max_connections=2))
    for _ in range(2):
        stuck = await webhook.connect()
        stuck.writer.transport.pause_reading()  # type: ignore[attr-defined]
        stuck.writer.write(get("/readyz?verbose") * 20_000)
    await eventually(lambda: webhook.server._server.busy == 2, "both to be stuck")
    assert (await (await webhook.connect()).ask(request()))[0] == 200


async def test_clients_on_the_plain_port_lock_no_probe_out(webhook: Running) -> None:
    """A kubelet that cannot ask would end a webhook that works."""
    webhook.start(plain=True)
    for _ in range(70):
        await webhook.connect(plain=webhook.plain_port)
    assert (await (await webhook.connect(plain=webhook.plain_port)).ask(get("/livez")))[0] == 200


async def test_all_bodies_together_are_bounded(webhook: Running) -> None:
    """Whoever comes when the room is taken is told to come again; then there is room."""
    webhook.start(limits=ServerLimits(http=HTTP, buffered=100_000))
    large = request(BODY + b" " * 80_000)
    first = await webhook.connect()
    first.writer.write(large[:-1000])
    await eventually(lambda: webhook.server._server._budget.used > 50_000, "the first to hold its body")  # type: ignore[union-attr]
    status, headers, _ = await (await webhook.connect()).ask(large)
    assert (status, headers["retry-after"]) == (503, "1")
    assert (await first.ask(large[-1000:]))[0] == 200
    assert (await (await webhook.connect()).ask(large))[0] == 200


async def test_reviews_can_be_for_clients_with_a_certificate_only(webhook: Running, tmp_path: Path) -> None:
    """Health is for everybody: kubelets have none."""
    clients = Authority("clients")
    (tmp_path / "ca.crt").write_text(clients.pem)
    webhook.start(client_ca=str(tmp_path / "ca.crt"))

    def showing(authority: Authority) -> ssl.SSLContext:
        pair = authority.issue("apiserver", client=True)
        (tmp_path / "c.crt").write_text(pair.certificate + pair.key)
        context = trusting()
        context.load_cert_chain(tmp_path / "c.crt")
        return context

    nobody = await webhook.connect()
    assert (await nobody.ask(get("/readyz")))[0] == 200
    assert (await nobody.ask(request()))[::2] == (403, b'{"error": "a client certificate is needed"}\n')
    assert (await (await webhook.connect(showing(clients))).ask(request()))[0] == 200
    with pytest.raises((OSError, asyncio.IncompleteReadError)):
        await (await webhook.connect(showing(Authority("strangers")))).ask(request())


async def test_leaving_serves_until_nobody_comes(webhook: Running) -> None:
    """Not ready, and each connection ends with its next answer; new ones are still taken."""
    webhook.start(plain=True)
    kept = await webhook.connect()
    assert "connection" not in (await kept.ask(request()))[1]
    webhook.server.begin_leaving()
    status, headers, _ = await kept.ask(request())
    assert (status, headers["connection"]) == (200, "close")
    assert await kept.reader.read() == b""
    assert (await (await webhook.connect()).ask(request()))[0] == 200
    about = await webhook.connect(plain=webhook.plain_port)
    status, _, body = await about.ask(get("/readyz"))
    assert (status, b"[-]shutdown failed: the webhook is shutting down" in body) == (503, True)


async def test_a_request_under_way_is_finished_at_the_end(webhook: Running) -> None:
    """Idle clients go at once, new ones are refused, and the one that still sends gets its answer."""
    webhook.start()
    idle, busy = await webhook.connect(), await webhook.connect()
    await idle.ask(request())
    busy.writer.write(request()[:-5])
    await eventually(lambda: webhook.server._server.busy == 1, "the request to begin")
    ending = asyncio.create_task(webhook.server.finish(20.0))
    assert await idle.reader.read() == b""
    with pytest.raises(ConnectionRefusedError):
        await webhook.connect()
    status, headers, _ = await busy.ask(request()[-5:])
    assert (status, headers["connection"]) == (200, "close")
    await ending


async def test_the_end_does_not_wait_for_ever(webhook: Running) -> None:
    """A client that does not go on is cut."""
    webhook.start()
    stuck = await webhook.connect()
    stuck.writer.write(request()[:-5])
    await eventually(lambda: webhook.server._server.busy == 1, "the request to begin")
    await webhook.server.finish(0.05)
    await webhook.server.close()
    assert await stuck.reader.read() == b""
    assert webhook.server._server.connections == 0
