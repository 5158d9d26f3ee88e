"""Asking containers over the network."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interpose.node.pods.prober.client import NoTlsError, ProbeError, http_get, port_of, request_bytes, tcp_connect
from interpose.node.pods.spec import HttpAction, Port, TcpAction
from interpose.testing.eventually import WAIT_LIMIT
from tests.support.net.certificates import Authority
from tests.support.node.managed_node import container

Respond = Callable[[bytes], bytes]


@asynccontextmanager
async def served(respond: Respond, context: ssl.SSLContext | None = None, keep: bool = False) -> AsyncIterator[int]:
    """A server that answers one request per connection, and then closes it or keeps it."""

    writers = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        try:
            writer.write(respond(await reader.readuntil(b"\r\n\r\n")))
            await writer.drain()
            if keep:
                await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]
    await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)


def fixed(answer: bytes) -> Respond:
    return lambda _request: answer


@pytest.mark.parametrize(
    ("answer", "status", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, b"ok"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, b""),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 200, b"ok"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 No\r\nContent-Length: 4\r\n\r\ndown", 503, b"down"),
        (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", 200, b"until the end"),
        (b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * 20_000, 200, b"x" * 10_240),
        (b"HTTP/1.1 200 OK\n\nok", 200, b"ok"),
        (b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 100_000 + b"\r\nContent-Length: 2\r\n\r\nok", 200, b"ok"),
    ],
)
async def test_answers_of_every_form(answer: bytes, status: int, body: bytes) -> None:
    """Bodies are read up to a limit."""
    async with served(fixed(answer)) as port:
        found = await http_get("127.0.0.1", port, timeout=WAIT_LIMIT)
    assert (found.status, found.body) == (status, body)
    assert found.good == (status < 400)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "closed without an answer"),
        (b"SSH-2.0-server\r\n\r\n", "not an HTTP answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", "not an HTTP answer"),
        (b"HTTP/1.1 200 OK\nContent-Length: two\n\nok", "http://.*: not an HTTP answer: Content-Length 'two'"),
    ],
)
async def test_what_is_no_answer_is_an_error(answer: bytes, words: str) -> None:
    """Said in a few words."""
    async with served(fixed(answer)) as port:
        with pytest.raises(ProbeError, match=words):
            await http_get("127.0.0.1", port, timeout=WAIT_LIMIT)


async def test_redirects_to_the_same_host_are_followed() -> None:
    """Those that lead elsewhere are the answer."""

    def respond(request: bytes) -> bytes:
        if request.startswith(b"GET /first "):
            return b"HTTP/1.1 302 Found\nLocation:\n /second\nContent-Length: 0\n\n"
        if request.startswith(b"GET /away "):
            return b"HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n"
        if request.startswith(b"GET /round "):
            return b"HTTP/1.1 302 Found\r\nLocation: /round\r\nContent-Length: 0\r\n\r\n"
        if request.startswith(b"GET /made "):
            return b"HTTP/1.1 201 Created\r\nLocation: /second\r\nContent-Length: 0\r\n\r\n"
        return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"

    async with served(respond) as port:
        assert (await http_get("127.0.0.1", port, "/made", timeout=WAIT_LIMIT)).status == 201
        assert (await http_get("127.0.0.1", port, "/first", timeout=WAIT_LIMIT)).status == 404
        assert (await http_get("127.0.0.1", port, "/away", timeout=WAIT_LIMIT)).status == 302
        with pytest.raises(ProbeError, match="10 redirects"):
            await http_get("127.0.0.1", port, "/round", timeout=WAIT_LIMIT)


async def test_certificates_are_not_checked(tmp_path: Path) -> None:
    """They are the container's own."""
    pair = Authority().issue("somebody-else")
    (tmp_path / "cert.pem").write_text(pair.certificate)
    (tmp_path / "key.pem").write_text(pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    async with served(fixed(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), context) as port:
        assert (await http_get("127.0.0.1", port, scheme="HTTPS", timeout=WAIT_LIMIT)).good


async def test_nobody_there_and_nobody_answering() -> None:
    """The address is named."""
    async with served(fixed(b"")) as port:
        await tcp_connect("127.0.0.1", port, 10)
    with pytest.raises(ProbeError, match=f"127.0.0.1:{port}"):
        await tcp_connect("127.0.0.1", port, 10)
    with pytest.raises(ProbeError, match=f"http://127.0.0.1:{port}/"):
        await http_get("127.0.0.1", port, timeout=WAIT_LIMIT)

    async with served(fixed(b"HTTP/1.1 100 Continue\r\n\r\n"), keep=True) as port:
        with pytest.raises(ProbeError, match=r"no answer within 0\.05 s"):
            await http_get("127.0.0.1", port, timeout=0.05)


def test_a_request_as_kubelets_make_it() -> None:
    """Our fields, unless others of the same name are given."""
    lines = request_bytes("http://10.0.0.1:80/a b?x=1 2", [("X-One", "1"), ("host", "me"), ("User-Agent", "")])
    head, *fields = lines.decode().split("\r\n")
    assert head == "GET /a%20b?x=1%202 HTTP/1.1"
    assert fields == ["Accept: */*", "X-One: 1", "host: me", "Connection: close", "", ""]
    plain = request_bytes("http://[::1]:80", []).decode()
    assert plain.startswith("GET / HTTP/1.1\r\nHost: [::1]:80\r\nUser-Agent: interpose-probe/")


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("X-Empty", ["Host: a", "User-Agent", "Accept: */*", "X-Empty: "]),
        ("accept", ["Host: a", "User-Agent"]),
        ("User-agent", ["Host: a", "Accept: */*"]),
        ("host", ["Host: a", "User-Agent", "Accept: */*"]),
    ],
)
def test_headers_without_a_value(name: str, lines: list[str]) -> None:
    """They are sent; only two of ours can be left out that way."""
    fields = request_bytes("http://a/", [(name, "")]).decode().split("\r\n")[1:-3]
    assert [one.partition("/")[0] if one.startswith("User") else one for one in fields] == [
        "User-Agent: interpose-probe" if one == "User-Agent" else one for one in lines
    ]


def test_headers_cannot_smuggle() -> None:
    """Line breaks are refused."""
    with pytest.raises(ProbeError, match="line break"):
        request_bytes("http://a/", [("X", "a\r\nY: b")])


async def test_an_address_of_the_sixth_version_gets_brackets() -> None:
    """In the message, too."""
    with pytest.raises(ProbeError, match=r"http://\[::1\]:1/"):
        await http_get("::1", 1, timeout=WAIT_LIMIT)


@pytest.mark.parametrize(("port", "number"), [(80, 80), ("web", 8080), ("81", 81)])
def test_ports_by_number_and_name(port: int | str, number: int) -> None:
    """Names are those of the container."""
    one = container(ports=(Port(container_port=8080, name="web"),))
    assert port_of(TcpAction(port=port), one) == number
    assert port_of(HttpAction(port=port), one) == number


@pytest.mark.parametrize("port", [0, 65536, "other"])
def test_ports_that_are_none(port: int | str) -> None:
    """Named in the message."""
    with pytest.raises(ProbeError, match=str(port)):
        port_of(TcpAction(port=port), container())


async def test_who_speaks_no_tls_is_told_apart() -> None:
    """A hook is sent again without; a probe has failed."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(NoTlsError):
            await http_get("127.0.0.1", port, scheme="HTTPS", timeout=WAIT_LIMIT)
