"""Exec, attach and port forwarding over the URLs that the runtime gives out, in every protocol clients use."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from conformance.bench import Container, eventually
from conformance.points import Group, Point
from interpose._pb import cri_pb2 as cri
from interpose.net.streaming.client import StreamError, run_command
from interpose.net.streaming.portforward_client import PortForwarder
from interpose.testing.eventually import WAIT_LIMIT
from interpose.testing.eventually import eventually as eventually_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from conformance.bench import Bench, Pod

SPDY, V5, V4 = "spdy", "websocket", "websocket-v4"


class _Typed:
    """Stdin that says these things, and then ends or not."""

    def __init__(self, *pieces: bytes, ends: bool = True) -> None:
        self._pieces = list(pieces)
        self._ends = ends

    async def read(self) -> bytes:
        if not self._pieces and not self._ends:
            await asyncio.Event().wait()
        return self._pieces.pop(0) if self._pieces else b""


async def _sizes(*sizes: tuple[int, int]) -> AsyncIterator[tuple[int, int]]:
    for size in sizes:
        yield size
    await asyncio.Event().wait()


def _session(
    bench: Bench, method: str, protocol: str, *, stdin: _Typed | None = None, tty: bool = False, **fields: Any
) -> tuple[int, bytes, bytes]:
    """Exit code and what was written."""
    out, err = bytearray(), bytearray()

    async def url() -> str:
        wanted = {"tty": tty, "stdin": stdin is not None, "stdout": True, "stderr": not tty}
        return str(bench.call(method, **wanted, **fields).url)

    async def run() -> int:
        resizes = _sizes((100, 30), (120, 50)) if tty else None
        stderr = None if tty else err.extend
        return await run_command(
            url, stdin=stdin, stdout=out.extend, stderr=stderr, tty=tty, resizes=resizes, protocols=(protocol,)
        )

    code = asyncio.run(asyncio.wait_for(run(), WAIT_LIMIT))
    return code, bytes(out), bytes(err)


def _exec(bench: Bench, container: Container, protocol: str, *command: str, **more: Any) -> tuple[int, bytes, bytes]:
    return _session(bench, "Exec", protocol, container_id=container.id, cmd=command, **more)


def _exec_check(protocol: str) -> Any:
    def check(bench: Bench) -> None:
        line = ("sh", "-c", "echo out; echo err >&2; exit 3")
        assert _exec(bench, bench.container(), protocol, *line) == (3, b"out\n", b"err\n")

    return check


def _stdin_check(protocol: str) -> Any:
    def check(bench: Bench) -> None:
        typed = _Typed(b"one\n", b"x" * 300_000, b"\ntwo\n")
        code, out, _ = _exec(bench, bench.container(), protocol, "cat", stdin=typed)
        assert (code, out) == (0, b"one\n" + b"x" * 300_000 + b"\ntwo\n")

    return check


def _terminal_check(protocol: str) -> Any:
    def check(bench: Bench) -> None:
        line = "until stty size 2>/dev/null | grep -q '50 120'; do sleep 0.05; done; stty size"
        typed = _Typed(ends=False)
        code, out, _ = _exec(bench, bench.container(), protocol, "sh", "-c", line, stdin=typed, tty=True)
        assert (code, out) == (0, b"50 120\r\n")

    return check


def _attach_check(protocol: str) -> Any:
    def check(bench: Bench) -> None:
        line = "read line; echo got $line; exit 0"
        container = bench.container("sh", "-c", line, stdin=True, stdin_once=True)
        typed = _Typed(b"hello\n", ends=False)
        found = _session(bench, "Attach", protocol, container_id=container.id, stdin=typed)
        assert found == (0, b"got hello\n", b"")
        assert container.ended().exit_code == 0
        assert eventually(container.text, "the log") == "got hello\n"

    return check


def exec_much(bench: Bench) -> None:
    line = "head -c 5000000 /dev/zero; echo end"
    code, out, _ = _exec(bench, bench.container(), SPDY, "sh", "-c", line)
    assert (code, len(out), out[-4:]) == (0, 5_000_004, b"end\n")


def exec_missing(bench: Bench) -> None:
    words = "it was run"
    try:
        _exec(bench, bench.container(), SPDY, "/no/such/program")
    except StreamError as error:
        words = str(error)
    assert "no such file" in words.lower()


def url_once(bench: Bench) -> None:
    container = bench.container()
    request = {"container_id": container.id, "cmd": ["true"], "stdout": True}
    url = bench.call("Exec", **request).url
    assert asyncio.run(run_command(url, stdout=lambda _data: None, protocols=(SPDY,))) == 0
    try:
        asyncio.run(run_command(url, stdout=lambda _data: None, protocols=(SPDY,)))
    except StreamError:
        return
    raise AssertionError("the same URL was good twice")


def url_guessed(bench: Bench) -> None:
    container = bench.container()
    url = bench.call("Exec", container_id=container.id, cmd=["true"], stdout=True).url
    parts = urlsplit(url)
    token = parts.path.rsplit("/", 1)[1]
    assert len(token) >= 8
    assert parts.hostname == "127.0.0.1"
    try:
        asyncio.run(run_command(url.replace(token, "A" * len(token)), stdout=lambda _data: None, protocols=(SPDY,)))
    except StreamError:
        return
    raise AssertionError("a token that nobody gave out was good")


def bad_flags(bench: Bench) -> None:
    container = bench.container()
    for flags in ({}, {"tty": True, "stdout": True, "stderr": True}):
        assert bench.code("Exec", container_id=container.id, cmd=["true"], **flags) == "INVALID_ARGUMENT"


def not_running(bench: Bench) -> None:
    container = bench.home.create()
    wanted = ("UNKNOWN", "FAILED_PRECONDITION")
    assert bench.code("Exec", container_id=container.id, cmd=["true"], stdout=True) in wanted
    assert bench.code("Attach", container_id=container.id, stdout=True) in wanted
    assert bench.code("ExecSync", container_id=container.id, cmd=["true"]) in wanted


@contextmanager
def _echo(server: socket.socket) -> Iterator[int]:
    """A server that says once what it hears, to everybody who comes."""

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                while data := connection.recv(65536):
                    connection.sendall(data)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield server.getsockname()[1]
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(WAIT_LIMIT)


async def _through(bench: Bench, pod: Pod, port: int, protocol: str, word: bytes) -> tuple[bytes, list[str]]:
    errors: list[str] = []

    async def url() -> str:
        return str(bench.call("PortForward", pod_sandbox_id=pod.id, port=[port]).url)

    forwarder = PortForwarder(url, port, protocols=(protocol,), on_error=errors.append)
    await forwarder.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", forwarder.port)
        writer.write(word)
        found = b""
        while len(found) < len(word) and (data := await asyncio.wait_for(reader.read(65536), WAIT_LIMIT)):
            found += data
        writer.close()
        await writer.wait_closed()
        if found != word:  # it was refused, and the reason is on its way
            await eventually_async(lambda: errors, "the reason")
    finally:
        await forwarder.close()
    return found, errors


def _forward_check(protocol: str) -> Any:
    def check(bench: Bench) -> None:
        pod, word = bench.pod(), b"abc" * 100_000
        with _echo(socket.create_server(("127.0.0.1", 0))) as port:
            assert asyncio.run(_through(bench, pod, port, protocol, word)) == (word, [])

    return check


def forward_into_pod(bench: Bench) -> None:
    pod = bench.pod(network=cri.POD)
    container = pod.run_container("sh", "-c", "while true; do nc -l -p 7777 -e cat; done")
    eventually(lambda: "1E61 0" in container.says("cat", "/proc/net/tcp", "/proc/net/tcp6"), "the pod to listen")
    assert asyncio.run(_through(bench, pod, 7777, SPDY, b"hello")) == (b"hello", [])


def forward_to_closed_port(bench: Bench) -> None:
    pod = bench.pod(network=cri.POD)
    found, errors = asyncio.run(_through(bench, pod, 7777, SPDY, b"hello"))
    assert found == b""
    assert "7777" in errors[0]


GROUPS = (
    Group(
        name="Streaming",
        about="critest: 5 specs",
        points=(
            *(
                Point(name=f"{what} over {title}", check=check(protocol))
                for protocol, title in ((SPDY, "SPDY"), (V5, "WebSocket v5"), (V4, "WebSocket v4"))
                for what, check in (
                    ("exec with both outputs and exit code", _exec_check),
                    ("exec in a terminal that changes its size", _terminal_check),
                    ("attach with stdin", _attach_check),
                )
            ),
            Point(name="stdin with its end over SPDY", check=_stdin_check(SPDY)),
            Point(name="stdin with its end over WebSocket v5", check=_stdin_check(V5)),
            Point(name="port forwarding over SPDY, in the node's network", check=_forward_check(SPDY)),
            Point(name="port forwarding over WebSocket v4, in the node's network", check=_forward_check(V4)),
            Point(name="port forwarding into the network of a pod", check=forward_into_pod),
            Point(name="a port where nobody listens is told", check=forward_to_closed_port),
            Point(name="much output arrives to its end", check=exec_much),
            Point(name="a program that is not there is told", check=exec_missing),
            Point(name="a URL is good once", check=url_once),
            Point(name="a URL cannot be guessed and is on loopback", check=url_guessed),
            Point(name="no stream at all, and stderr with a terminal, are refused", check=bad_flags),
            Point(name="containers that do not run are refused", check=not_running),
        ),
    ),
)
