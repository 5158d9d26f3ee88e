"""Real kubectl against our streaming server: Go's SPDY and WebSocket clients are the peer that must understand us.

A server in between plays the API server: it knows one pod, and leads exec, attach and port-forward to the streaming
server byte by byte, as the API server and the kubelet do.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from interpose.net.streaming.server import StreamServer
from interpose.tasks import TaskBag
from interpose.testing.eventually import WAIT_LIMIT, eventually
from tests.support.net.fake_stream_handler import FakeStreamHandler

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.e2e

_KUBECTL = os.environ.get("INTERPOSE_KUBECTL") or shutil.which("kubectl") or ""
_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p1", "namespace": "default", "uid": "u1"},
    "spec": {"containers": [{"name": "main", "stdin": True}]},
    "status": {"phase": "Running"},
}
_DOCUMENTS: dict[str, Any] = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": {
        "kind": "APIResourceList",
        "groupVersion": "v1",
        "resources": [{"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod", "verbs": ["get"]}],
    },
    "/api/v1/namespaces/default/pods/p1": _POD,
}


class ApiServerInBetween:
    """Answers about one pod; leads its streams to the streaming server."""

    def __init__(self, streams: StreamServer) -> None:
        self._streams = streams
        self._tasks = TaskBag()
        self._server: asyncio.Server | None = None
        self.upgrades: list[str] = []
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        await self._tasks.cancel()

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.spawn(self._serve(reader, writer), name="kubectl")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                line, _, rest = head.partition(b"\r\n")
                method, target, version = line.decode().split(" ")
                url = self._url(target)
                if url is not None:
                    self.upgrades += [
                        one.decode() for one in rest.split(b"\r\n") if one.lower().startswith(b"upgrade:")
                    ]
                    first = f"{method} {urlsplit(url).path} {version}\r\n".encode()
                    await self._lead(first + rest, reader, writer)
                    return
                document = _DOCUMENTS.get(urlsplit(target).path)
                body = json.dumps(document or {"kind": "Status", "status": "Failure", "code": 404}).encode()
                status = "200 OK" if document else "404 Not Found"
                writer.write(f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n".encode())
                writer.write(f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    def _url(self, target: str) -> str | None:
        parts = urlsplit(target)
        query = parse_qs(parts.query)
        tty, stdin, stdout, stderr = (query.get(one) == ["true"] for one in ("tty", "stdin", "stdout", "stderr"))
        match parts.path.removeprefix("/api/v1/namespaces/default/pods/p1/"):
            case "exec":
                return self._streams.exec_url("c1", tuple(query["command"]), tty, stdin, stdout, stderr)
            case "attach":
                return self._streams.attach_url("c1", tty, stdin, stdout, stderr)
            case "portforward":
                return self._streams.port_forward_url("s1", ())
            case _:
                return None

    async def _lead(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind_reader, behind_writer = await asyncio.open_connection("127.0.0.1", self._streams.port)
        behind_writer.write(head)
        there = self._tasks.spawn(_copy(reader, behind_writer), name="there")
        back = self._tasks.spawn(_copy(behind_reader, writer), name="back")
        await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
        behind_writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass


class Lab:
    """kubectl, what it talks to, and what that was asked."""

    def __init__(self, api: ApiServerInBetween, handler: FakeStreamHandler, home: Path, websockets: bool) -> None:
        self.api = api
        self.handler = handler
        self.upgrade = "Upgrade: websocket" if websockets else "Upgrade: SPDY/3.1"
        flag = "true" if websockets else "false"
        self._environment = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": flag,
            "KUBECTL_PORT_FORWARD_WEBSOCKETS": flag,
        }

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        server = f"http://127.0.0.1:{self.api.port}"
        argv = (_KUBECTL, "--server", server, *arguments)
        return await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe, stderr=pipe, env=self._environment)

    async def run(self, *arguments: str, stdin: bytes = b"") -> tuple[int | None, bytes, bytes]:
        """Exit code and what was written."""
        process = await self.start(*arguments)
        out, err = await process.communicate(stdin)
        return process.returncode, out, err


@pytest.fixture(params=["websocket", "spdy"])
async def lab(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Lab]:
    """kubectl in one of its two ways to stream."""
    if not _KUBECTL:
        pytest.skip("no kubectl")
    handler = FakeStreamHandler()
    streams = StreamServer(handler)
    await streams.start()
    api = ApiServerInBetween(streams)
    await api.start()
    yield Lab(api, handler, tmp_path, request.param == "websocket")
    await streams.close()
    await api.close()


async def test_exec_shows_both_outputs(lab: Lab) -> None:
    """Over the protocol that we think it is."""
    assert await lab.run("exec", "p1", "--", "both") == (0, b"to stdout\n", b"to stderr\n")
    assert lab.api.upgrades == [lab.upgrade]


async def test_exec_ends_with_the_exit_code(lab: Lab) -> None:
    """kubectl takes it from the status document."""
    code, _, err = await lab.run("exec", "p1", "--", "exit", "7")
    # A kubectl that is slow to make its streams reports what came before: of a command without output, nothing is lost.
    said = [line for line in err.splitlines() if b"Unknown stream id 1, discarding message" not in line]
    assert (code, said) == (7, [b"command terminated with exit code 7"])


async def test_stdin_arrives_and_ends(lab: Lab) -> None:
    """All of it, and its end."""
    data = bytes(range(256)) * 8192
    assert await lab.run("exec", "-i", "p1", "--", "cat", stdin=data) == (0, data, b"")


async def test_much_output_arrives(lab: Lab) -> None:
    """To the last byte before the end."""
    code, out, err = await lab.run("exec", "p1", "--", "flood", "20000000")
    assert (code, len(out), err) == (0, 20_000_000, b"")


async def test_what_cannot_be_run_is_said_in_words(lab: Lab) -> None:
    """Those of the handler."""
    code, _, err = await lab.run("exec", "p1", "--", "fail", "no such file: /nope")
    assert code == 1
    assert b"no such file: /nope" in err


async def test_attach(lab: Lab) -> None:
    """The container's own streams, until they end."""
    code, out, _ = await lab.run("attach", "-i", "p1", stdin=b"typed\n")
    assert (code, out) == (0, b"this is c1\ntyped\n")


async def test_a_killed_kubectl_ends_the_work(lab: Lab) -> None:
    """The handler is cancelled."""
    process = await lab.start("exec", "p1", "--", "hang")
    await lab.handler.hanging.wait()
    process.kill()
    await process.communicate()
    await asyncio.wait_for(lab.handler.cancelled.wait(), WAIT_LIMIT)


async def test_ports_are_forwarded(lab: Lab) -> None:
    """Several connections one after the other and at once, also to a port where nobody listens."""
    connected: set[asyncio.StreamWriter] = set()

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.add(writer)
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()
        connected.discard(writer)

    target = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = target.sockets[0].getsockname()[1]
    process = await lab.start("port-forward", "p1", f":{port}")
    assert process.stdout is not None
    line = await process.stdout.readline()
    local = int(line.split(b" -> ")[0].rpartition(b":")[2])

    async def one(number: int) -> None:
        word = b"%03d" % number * 50_000
        reader, writer = await asyncio.open_connection("127.0.0.1", local)
        writer.write(word)
        assert await reader.readexactly(len(word)) == word
        writer.close()
        await writer.wait_closed()

    await one(1)
    await asyncio.gather(*(one(number) for number in range(2, 12)))
    await eventually(lambda: not connected, "the connections to end")
    target.close()
    await target.wait_closed()
    reader, writer = await asyncio.open_connection("127.0.0.1", local)
    writer.write(b"anybody?")
    with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
        await reader.readexactly(1)
    writer.close()
    process.terminate()
    _, err = await process.communicate()
    assert b"nobody listens on port" in err
