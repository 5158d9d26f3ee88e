"""One connection: HTTP/1.1 as clients really speak it, and what happens to bad ones."""

import asyncio
import json
import os
import re
import socket
from collections.abc import AsyncIterator, Callable

import pytest

from interpose.net.httpd.connection import serve
from interpose.net.httpd.limits import HttpServerLimits
from interpose.net.httpd.routes import (
    BadRequestError,
    Hijack,
    Router,
    ServerRequest,
    ServerResponse,
    json_response,
    text_response,
)
from interpose.net.httpd.transports import SocketPipe


async def _echo(request: ServerRequest) -> ServerResponse:
    return json_response(
        {"method": request.method, "query": request.query, "body": request.body.decode(), "peer": request.peer}
    )


async def _fail(request: ServerRequest) -> ServerResponse:
    raise RuntimeError("a secret detail")


async def _bad(request: ServerRequest) -> ServerResponse:
    raise BadRequestError("level is missing")


async def _big(request: ServerRequest) -> ServerResponse:
    return text_response("x" * 8_000_000)


async def _hand_over(request: ServerRequest) -> Hijack:
    return Hijack(_send_descriptor)


async def _send_descriptor(sock: socket.socket) -> None:
    reading, writing = os.pipe()
    socket.send_fds(sock, [b"here"], [reading])
    os.write(writing, b"through the pipe")
    os.close(reading)
    os.close(writing)


async def _odd(request: ServerRequest) -> ServerResponse:
    return ServerResponse(status=299, body=b"")


ROUTER = Router(
    {
        ("GET", "/odd"): _odd,
        ("GET", "/echo"): _echo,
        ("PUT", "/echo"): _echo,
        ("GET", "/a b"): _echo,
        ("GET", "/fail"): _fail,
        ("GET", "/bad"): _bad,
        ("GET", "/big"): _big,
        ("POST", "/hand-over"): _hand_over,
    }
)

Connect = Callable[[HttpServerLimits], "Client"]


class Client:
    """The client's end of a connection; reads and writes plain bytes."""

    def __init__(self, limits: HttpServerLimits) -> None:
        self.sock, server = socket.socketpair()
        self.sock.setblocking(False)
        server.setblocking(False)
        self.task = asyncio.create_task(serve(SocketPipe(server), ROUTER, limits))

    async def send(self, data: bytes) -> None:
        """Write all of it."""
        await asyncio.get_running_loop().sock_sendall(self.sock, data)

    async def read_all(self) -> bytes:
        """Read until the server closes."""
        data = b""
        while chunk := await asyncio.get_running_loop().sock_recv(self.sock, 65536):
            data += chunk
        return data

    async def talk(self, data: bytes) -> tuple[int, bytes, bytes]:
        """Send, half-close, and return status, head and body of the one answer."""
        await self.send(data)
        self.sock.shutdown(socket.SHUT_WR)
        head, _, body = (await self.read_all()).partition(b"\r\n\r\n")
        return int(head.split()[1]), head.lower(), body


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Opens connections, and checks in the end that every server side ended by itself."""
    clients: list[Client] = []

    def open_one(limits: HttpServerLimits) -> Client:
        clients.append(Client(limits))
        return clients[-1]

    yield open_one
    for client in clients:
        client.sock.close()
        await client.task


async def test_a_request_is_handed_over_whole(connect: Connect) -> None:
    """Method, query, body and the identity of the peer reach the handler."""
    status, head, body = await connect(HttpServerLimits()).talk(
        b"PUT /echo?a=1&b=&a=%20 HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello"
    )
    assert status == 200
    assert b"content-type: application/json" in head
    answer = json.loads(body)
    assert answer["query"] == [["a", "1"], ["b", ""], ["a", " "]]
    assert answer["body"] == "hello"
    assert answer["peer"] == [os.getpid(), os.getuid(), os.getgid()]


async def test_chunked_bodies_and_continue_are_understood(connect: Connect) -> None:
    """curl asks before it sends a large body; the server says go on."""
    client = connect(HttpServerLimits())
    await client.send(
        b"PUT /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n"
        b"expect: 100-continue\r\nconnection: close\r\n\r\n"
    )
    go_on = await asyncio.get_running_loop().sock_recv(client.sock, 65536)
    assert go_on.startswith(b"HTTP/1.1 100 Continue\r\n")
    await client.send(b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
    answer = await client.read_all()
    assert b'"body": "abcde"' in answer


async def test_several_requests_share_a_connection_even_pipelined(connect: Connect) -> None:
    """Keep-alive works, also when requests arrive in one piece; a wrong path does not end it."""
    client = connect(HttpServerLimits())
    one = b"GET /echo HTTP/1.1\r\nhost: x\r\n\r\n"
    await client.send(one + one.replace(b"/echo", b"/nothing") + one + one.replace(b"GET", b"DELETE"))
    client.sock.shutdown(socket.SHUT_WR)
    answer = await client.read_all()
    assert re.findall(rb"HTTP/1\.1 (\d+)", answer) == [b"200", b"404", b"200", b"405"]


@pytest.mark.parametrize(
    ("target", "line"),
    [
        ("/echo", b"HTTP/1.1 200 OK"),
        ("/nothing", b"HTTP/1.1 404 Not Found"),
        ("/fail", b"HTTP/1.1 500 Internal Server Error"),
        ("/odd", b"HTTP/1.1 299 "),
        ("/bad", b"HTTP/1.1 400 Bad Request"),
    ],
)
async def test_answers_begin_with_words_too(connect: Connect, target: str, line: bytes) -> None:
    """The standard's words for the code: some clients do not take an answer without them for one."""
    client = connect(HttpServerLimits())
    await client.send(f"GET {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
    client.sock.shutdown(socket.SHUT_WR)
    answer = await client.read_all()
    assert answer.partition(b"\r\n")[0] == line


async def test_head_is_get_without_the_body(connect: Connect) -> None:
    """The length is that of the body GET would send."""
    status, head, body = await connect(HttpServerLimits()).talk(b"HEAD /big HTTP/1.1\r\nhost: x\r\n\r\n")
    assert status == 200
    assert b"content-length: 8000000" in head
    assert body == b""


async def test_a_large_answer_arrives_whole(connect: Connect) -> None:
    """Answers larger than any socket buffer are written piece by piece."""
    _, _, body = await connect(HttpServerLimits()).talk(b"GET /big HTTP/1.1\r\nhost: x\r\n\r\n")
    assert len(body) == 8_000_000


async def test_paths_are_decoded_and_absolute_targets_accepted(connect: Connect) -> None:
    """%20 is a blank, and http://host/path is /path."""
    assert (await connect(HttpServerLimits()).talk(b"GET /a%20b HTTP/1.1\r\nhost: x\r\n\r\n"))[0] == 200
    assert (await connect(HttpServerLimits()).talk(b"GET http://x/echo?q HTTP/1.1\r\nhost: x\r\n\r\n"))[0] == 200


async def test_a_failing_handler_is_500_without_details(connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    """The client learns that it failed, the log learns why."""
    status, _, body = await connect(HttpServerLimits()).talk(b"GET /fail HTTP/1.1\r\nhost: x\r\n\r\n")
    assert status == 500
    assert b"secret" not in body
    assert "a secret detail" in caplog.text


async def test_a_request_the_handler_cannot_use_is_400(connect: Connect) -> None:
    """The handler's words reach the client."""
    status, _, body = await connect(HttpServerLimits()).talk(b"GET /bad HTTP/1.1\r\nhost: x\r\n\r\n")
    assert (status, json.loads(body)) == (400, {"error": "level is missing"})


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\x00\x01\x02 nonsense\r\n\r\n", 400),
        (b"GET /echo HTTP/1.1\r\n\r\n", 400),  # no Host
        (b"GET /echo HTTP/1.1\r\nhost: x\r\nx: " + b"y" * 40_000, 431),
        (b"PUT /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 2000\r\n\r\n" + b"z" * 2000, 413),
    ],
)
async def test_bad_requests_are_answered_and_end_the_connection(connect: Connect, data: bytes, expected: int) -> None:
    """Garbage, oversized heads and oversized bodies get their status, even while the client still sends."""
    status, head, _ = await connect(HttpServerLimits(body=1000)).talk(data)
    assert status == expected
    assert b"connection: close" in head


@pytest.mark.parametrize("data", [b"", b"GET /ec", b"PUT /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhe"])
async def test_slow_clients_are_dropped(connect: Connect, data: bytes) -> None:
    """Whoever says nothing, or half of something, loses the connection when its time is over."""
    client = connect(HttpServerLimits(first_timeout=0.02, request_timeout=0.02))
    await client.send(data)
    assert await client.read_all() == b""


async def test_a_client_that_asks_nothing_more_is_dropped(connect: Connect) -> None:
    """Between requests there is another time."""
    client = connect(HttpServerLimits(idle_timeout=0.02))
    await client.send(b"GET /echo HTTP/1.1\r\nhost: x\r\n\r\n")
    assert (await client.read_all()).count(b"HTTP/1.1 200") == 1


async def test_a_body_in_countless_pieces_is_turned_away(connect: Connect) -> None:
    """Each takes its time, however small it is."""
    head = b"PUT /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    status, _, body = await connect(HttpServerLimits(pieces=100)).talk(head + b"1\r\nx\r\n" * 101)
    assert (status, json.loads(body)) == (413, {"error": "the body comes in more than 100 pieces"})


@pytest.mark.parametrize(
    "data",
    [
        b"PUT /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 4000 + b"0\r\n\r\n",
        b"GET /echo HTTP/1.1\r\nhost: x\r\n\r\n" * 500,
    ],
    ids=["pieces", "requests"],
)
async def test_others_have_their_turn_while_one_client_sends_much(connect: Connect, data: bytes) -> None:
    """Tiny pieces and tiny requests are all there at once, and yet do not keep the loop to themselves."""
    turns = 0
    client = connect(HttpServerLimits())

    async def others() -> None:
        nonlocal turns
        while not client.task.done():
            turns += 1
            await asyncio.sleep(0)

    watching = asyncio.create_task(others())
    status, _, _ = await client.talk(data)
    await watching
    assert status == 200
    assert turns > 50


async def test_a_client_that_does_not_read_is_dropped(connect: Connect) -> None:
    """A large answer to somebody who stopped reading does not stay in memory for ever."""
    client = connect(HttpServerLimits(write_timeout=0.02))
    await client.send(b"GET /big HTTP/1.1\r\nhost: x\r\n\r\n")
    await client.task
    assert 0 < len(await client.read_all()) < 8_000_000


async def test_a_client_that_leaves_in_the_middle_is_no_error(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is logged above debug for a client that went away."""
    client = connect(HttpServerLimits())
    await client.send(b"GET /big HTTP/1.1\r\nhost: x\r\n\r\n")
    client.sock.close()
    await client.task
    assert caplog.records == []


async def test_a_handler_can_have_the_raw_socket(connect: Connect) -> None:
    """A hijacked connection carries a file descriptor to the client and is closed afterwards."""
    client = connect(HttpServerLimits())
    await client.send(b"POST /hand-over HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n")
    await client.task
    client.sock.setblocking(True)
    message, descriptors, _, _ = socket.recv_fds(client.sock, 100, 1)
    assert message == b"here"
    with os.fdopen(descriptors[0], "rb") as pipe:
        assert pipe.read() == b"through the pipe"
    assert client.sock.recv(1) == b""


async def _over_tcp(host: bytes) -> int:
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    server, _ = listener.accept()
    listener.close()
    client.setblocking(False)
    server.setblocking(False)
    task = asyncio.create_task(serve(SocketPipe(server), ROUTER, HttpServerLimits()))
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(client, b"GET /echo HTTP/1.1\r\nconnection: close\r\nhost: " + host + b"\r\n\r\n")
    answer = await loop.sock_recv(client, 65536)
    client.close()
    await task
    return int(answer.split()[1])


@pytest.mark.parametrize(
    ("host", "expected"),
    [(b"127.0.0.1:9095", 200), (b"localhost", 200), (b"[::1]:9095", 200), (b"evil.example:9095", 403), (b"", 403)],
)
async def test_on_a_loopback_address_the_host_must_be_loopback(host: bytes, expected: int) -> None:
    """A web page that points its own name at 127.0.0.1 gets nothing."""
    assert await _over_tcp(host) == expected
