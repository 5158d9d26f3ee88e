"""TLS, proxies and certificates that rotate, between the client and real sockets."""

import asyncio
import base64
import datetime as dt
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from interpose.kube.client import client as client_module
from interpose.kube.client.access import Access, ClientIdentity
from interpose.kube.client.api import NODES
from interpose.kube.client.client import KubeClient
from interpose.kube.client.kubeconfig import find_access
from interpose.net.http.address import Proxy, parse_server
from interpose.net.http.errors import UnreachableError
from interpose.net.http.tls import Pem
from interpose.testing.eventually import WAIT_LIMIT
from tests.support.net.certificates import Authority, Pair
from tests.support.net.scripted_server import Peer, Script, ScriptedServer


@pytest.fixture(scope="module")
def authority() -> Authority:
    """Whom the client is told to trust."""
    return Authority()


def server_context(folder: Path, pair: Pair, clients: Authority | None = None) -> ssl.SSLContext:
    """What the server shows, and whose clients it takes."""
    (folder / "server.crt").write_text(pair.certificate)
    (folder / "server.key").write_text(pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    if clients is not None:
        context.load_verify_locations(cadata=clients.pem)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


async def who(peer: Peer) -> None:
    """Answers with the connection's number and the client's name."""
    while True:
        await peer.request()
        subject = (peer.certificate or {}).get("subject", ())
        found = {"connection": peer.number, "subject": dict(pair[0] for pair in subject)}
        await peer.answer({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "a"}, **found})


@asynccontextmanager
async def asking(server: ScriptedServer, **access: Any) -> AsyncIterator[KubeClient]:
    """A client of the server."""
    client = KubeClient(Access(server=parse_server(server.url), source="test", **access), timeout=WAIT_LIMIT)
    try:
        yield client
    finally:
        await client.close()


async def test_trusted_server(tmp_path: Path, authority: Authority) -> None:
    """With the authority as text or as a file; connections are kept."""
    (tmp_path / "ca.crt").write_text(authority.pem)
    async with ScriptedServer(who, tls=server_context(tmp_path, authority.issue())) as server:
        for pem in (Pem(text=authority.pem), Pem(file=str(tmp_path / "ca.crt"))):
            async with asking(server, authorities=pem) as client:
                first, second = await client.get(NODES, "a"), await client.get(NODES, "a")
                assert first == second


@pytest.mark.parametrize(
    ("names", "ends", "trusts", "said"),
    [
        (("localhost",), 1, True, "IP address mismatch"),
        (("127.0.0.1",), -1, True, "certificate has expired"),
        (("127.0.0.1",), 1, False, "unable to get local issuer certificate"),
    ],
    ids=["name", "expired", "authority"],
)
async def test_server_that_cannot_be_trusted(
    tmp_path: Path, authority: Authority, names: tuple[str, ...], ends: int, trusts: bool, said: str
) -> None:
    """The error says why."""
    now = dt.datetime.now(dt.UTC)
    pair = authority.issue(*names, not_before=now - dt.timedelta(days=9), not_after=now + dt.timedelta(days=ends))
    trusted = authority if trusts else Authority("another CA")
    async with (
        ScriptedServer(who, tls=server_context(tmp_path, pair)) as server,
        asking(server, authorities=Pem(text=trusted.pem)) as client,
    ):
        with pytest.raises(UnreachableError) as caught:
            await client.get(NODES, "a")
    assert str(caught.value).startswith(f"{server.url}: the certificate of the server cannot be trusted: ")
    assert said in str(caught.value)


async def test_authorities_of_the_system_do_not_know_us(tmp_path: Path, authority: Authority) -> None:
    """Without an authority those of the system count."""
    async with ScriptedServer(who, tls=server_context(tmp_path, authority.issue())) as server, asking(server) as client:
        with pytest.raises(UnreachableError, match="cannot be trusted"):
            await client.get(NODES, "a")


async def test_any_server_if_that_is_wanted(tmp_path: Path, authority: Authority) -> None:
    """insecure-skip-tls-verify."""
    async with (
        ScriptedServer(who, tls=server_context(tmp_path, authority.issue("elsewhere"))) as server,
        asking(server, insecure=True) as client,
    ):
        assert (await client.get(NODES, "a"))["connection"] == 1


async def test_another_name_for_the_certificate(tmp_path: Path, authority: Authority) -> None:
    """tls-server-name is what the certificate has to be for."""
    async with (
        ScriptedServer(who, tls=server_context(tmp_path, authority.issue("kubernetes.default"))) as server,
        asking(server, authorities=Pem(text=authority.pem), server_name="kubernetes.default") as client,
    ):
        assert (await client.get(NODES, "a"))["connection"] == 1


async def test_certificate_of_ours(tmp_path: Path, authority: Authority) -> None:
    """As text it is shown without ever being a file."""
    pair = authority.issue(common_name="system:node:n1", client=True)
    user = ClientIdentity(certificate=Pem(text=pair.certificate), key=Pem(text=pair.key))
    async with (
        ScriptedServer(who, tls=server_context(tmp_path, authority.issue(), authority)) as server,
        asking(server, authorities=Pem(text=authority.pem), user=user) as client,
    ):
        assert (await client.get(NODES, "a"))["subject"] == {"commonName": "system:node:n1"}


async def test_certificate_that_is_missing(tmp_path: Path, authority: Authority) -> None:
    """A server that wants one says so after the handshake; it is told as TLS's."""
    async with (
        ScriptedServer(who, tls=server_context(tmp_path, authority.issue(), authority)) as server,
        asking(server, authorities=Pem(text=authority.pem)) as client,
    ):
        with pytest.raises(UnreachableError) as caught:
            await client.get(NODES, "a")
    assert "TLS failed" in str(caught.value) or "connection was" in str(caught.value)


async def test_certificate_that_rotates(tmp_path: Path, authority: Authority) -> None:
    """One file for both, replaced as the kubelet does: the next request is made with the new one."""
    current = tmp_path / "kubelet-client-current.pem"

    def rotate(name: str) -> None:
        pair = authority.issue(common_name=name, client=True)
        (tmp_path / f"{name}.pem").write_text(pair.certificate + pair.key)
        (tmp_path / "new").symlink_to(f"{name}.pem")
        (tmp_path / "new").rename(current)

    rotate("one")
    user = ClientIdentity(certificate=Pem(file=str(current)), key=Pem(file=str(current)))
    async with (
        ScriptedServer(who, tls=server_context(tmp_path, authority.issue(), authority)) as server,
        asking(server, authorities=Pem(text=authority.pem), user=user) as client,
    ):
        first = await client.get(NODES, "a")
        rotate("two")
        second = await client.get(NODES, "a")
        current.write_text("half of it")
        third = await client.get(NODES, "a")
    assert [answer["subject"]["commonName"] for answer in (first, second, third)] == ["one", "two", "two"]
    assert [answer["connection"] for answer in (first, second, third)] == [1, 2, 2]


async def test_authority_that_rotates(tmp_path: Path, authority: Authority) -> None:
    """A CA file with another authority in it counts for new connections."""
    file = tmp_path / "ca.crt"
    file.write_text(Authority("old").pem)
    async with (
        ScriptedServer(who, tls=server_context(tmp_path, authority.issue())) as server,
        asking(server, authorities=Pem(file=str(file))) as client,
    ):
        with pytest.raises(UnreachableError):
            await client.get(NODES, "a")
        file.write_text(authority.pem)
        assert (await client.get(NODES, "a"))["subject"] == {}


async def test_server_without_tls(authority: Authority) -> None:
    """https towards a server that speaks http is told as what it is."""

    async def script(peer: Peer) -> None:
        await peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await peer.gone()

    async with ScriptedServer(script) as server:
        access = Access(server=parse_server(server.url.replace("http:", "https:")), source="test")
        client = KubeClient(access)
        with pytest.raises(UnreachableError, match="TLS failed: "):
            await client.get(NODES, "a")
        await client.close()


async def test_server_that_hangs_in_the_handshake(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the connection: it has a share of the request's time, so small here that it always ends first."""
    monkeypatch.setattr(client_module, "_CONNECT_SHARE", 0.001)

    async def script(peer: Peer) -> None:
        await peer.gone()

    async with ScriptedServer(script) as server:
        access = Access(server=parse_server(server.url.replace("http:", "https:")), source="test")
        client = KubeClient(access, timeout=WAIT_LIMIT)
        with pytest.raises(UnreachableError, match=f"no connection within {WAIT_LIMIT / 1000:g} s"):
            await client.get(NODES, "a")
        await client.close()


def proxy_to(server: ScriptedServer, answer: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n") -> Script:
    """A proxy that does what CONNECT asks for, if its answer says so."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer)
        if b" 200 " not in answer:
            return
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        await asyncio.gather(copy(peer._reader, writer), copy(reader, peer._writer), return_exceptions=True)

    return script


async def test_way_through_a_proxy(tmp_path: Path, authority: Authority) -> None:
    """CONNECT with the address of the server, and TLS through it; the proxy never sees our token."""
    async with (
        ScriptedServer(who, tls=server_context(tmp_path, authority.issue())) as server,
        ScriptedServer(proxy_to(server)) as way,
    ):
        proxy = Proxy(host="127.0.0.1", port=way.port, authorization="Basic eDp5")
        user = ClientIdentity(token="secret")
        async with asking(server, authorities=Pem(text=authority.pem), proxy=proxy, user=user) as client:
            assert (await client.get(NODES, "a"))["connection"] == 1
    [asked] = way.asked
    assert (asked.method, asked.target) == ("CONNECT", f"127.0.0.1:{server.port}")
    assert asked.headers == {"host": f"127.0.0.1:{server.port}", "proxy-authorization": "Basic eDp5"}
    assert server.asked[0].headers["authorization"] == "Bearer secret"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", "refused the way: HTTP/1.1 403 Forbidden"),
        (b"nonsense\r\n\r\n", "refused the way: nonsense"),
        (b"HTTP/1.1 500", "gave no answer to CONNECT"),
        (b"x" * 20000, "gave no answer to CONNECT"),
    ],
)
async def test_proxy_that_refuses(answer: bytes, said: str) -> None:
    """The proxy is named."""
    async with (
        ScriptedServer(who) as server,
        ScriptedServer(proxy_to(server, answer)) as way,
        asking(server, proxy=Proxy(host="127.0.0.1", port=way.port)) as client,
    ):
        with pytest.raises(UnreachableError) as caught:
            await client.get(NODES, "a")
    assert str(caught.value).startswith(f"{server.url}: proxy 127.0.0.1:{way.port} ")
    assert said in str(caught.value)


async def test_proxy_that_is_away() -> None:
    """It is the proxy that cannot be reached, not the server."""
    async with ScriptedServer(who) as way:
        pass
    async with ScriptedServer(who) as server, asking(server, proxy=Proxy(host="127.0.0.1", port=way.port)) as client:
        with pytest.raises(UnreachableError, match=f"proxy 127.0.0.1:{way.port}: connection refused"):
            await client.get(NODES, "a")


async def test_kubeconfig_from_end_to_end(tmp_path: Path, authority: Authority) -> None:
    """Everything as data in one file, as kubeadm writes it."""

    def data(text: str) -> str:
        return base64.b64encode(text.encode()).decode()

    pair = authority.issue(common_name="admin", client=True)
    async with ScriptedServer(who, tls=server_context(tmp_path, authority.issue(), authority)) as server:
        file = tmp_path / "admin.conf"
        file.write_text(
            f"""
apiVersion: v1
kind: Config
current-context: admin@k
contexts: [{{name: admin@k, context: {{cluster: k, user: admin}}}}]
clusters: [{{name: k, cluster: {{server: "{server.url}", certificate-authority-data: {data(authority.pem)}}}}}]
users:
- name: admin
  user: {{client-certificate-data: {data(pair.certificate)}, client-key-data: {data(pair.key)}}}
"""
        )
        client = KubeClient(find_access(str(file), {}))
        assert (await client.get(NODES, "a"))["subject"] == {"commonName": "admin"}
        await client.close()
