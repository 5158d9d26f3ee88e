"""Our streaming client against a real containerd: Go's SPDY and WebSocket servers must understand us."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from interpose._pb import cri_pb2
from interpose.net.streaming.client import StreamError, run_command
from interpose.net.streaming.portforward_client import PortForwarder
from interpose.testing.eventually import eventually
from tests.support.lab.cri import CriClient
from tests.support.lab.pods import LabPod
from tests.support.net.typed_input import Open, Typed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.support.lab.containerd import Containerd

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def cri(containerd: Containerd) -> Iterator[CriClient]:
    """A client of containerd itself."""
    with CriClient(containerd.socket) as connected:
        yield connected


@pytest.fixture(scope="module")
def pod(cri: CriClient) -> Iterator[LabPod]:
    """A running pod whose container sleeps."""
    with LabPod(cri, "streams") as running:
        yield running


@pytest.fixture(params=["spdy", "websocket-v4"])
def protocol(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


async def run(
    pod: LabPod,
    *command: str,
    protocols: tuple[str, ...],
    stdin: Typed | None = None,
    tty: bool = False,
    resizes: AsyncIterator[tuple[int, int]] | None = None,
) -> tuple[int, bytes, bytes]:
    """Exit code and what was written."""
    out, err = bytearray(), bytearray()

    async def url() -> str:
        request = cri_pb2.ExecRequest(
            container_id=pod.container_id,
            cmd=command,
            tty=tty,
            stdin=stdin is not None,
            stdout=True,
            stderr=not tty,
        )
        given: str = pod.client.call("Exec", request).url
        return given

    code = await run_command(
        url,
        stdin=stdin,
        stdout=out.extend,
        stderr=None if tty else err.extend,
        tty=tty,
        resizes=resizes,
        protocols=protocols,
    )
    return code, bytes(out), bytes(err)


async def test_output_and_exit_code(pod: LabPod, protocol: str) -> None:
    """Both outputs are kept apart, and the exit code is the command's."""
    line = ("sh", "-c", "echo out; echo err >&2; exit 3")
    assert await run(pod, *line, protocols=(protocol,)) == (3, b"out\n", b"err\n")


async def test_much_output(pod: LabPod, protocol: str) -> None:
    """Nothing is lost, also at the very end."""
    code, out, _ = await run(pod, "sh", "-c", "head -c 5000000 /dev/zero; echo end", protocols=(protocol,))
    assert (code, len(out), out[-4:]) == (0, 5_000_004, b"end\n")


async def test_stdin_ends_over_spdy(pod: LabPod) -> None:
    """A command that reads to the end of its input comes to its end."""
    typed = Typed(b"one\n", b"x" * 1_000_000, b"\ntwo\n")
    code, out, _ = await run(pod, "cat", protocols=("spdy",), stdin=typed)
    assert (code, out) == (0, b"one\n" + b"x" * 1_000_000 + b"\ntwo\n")


async def test_a_command_may_leave_its_input(pod: LabPod, protocol: str) -> None:
    """How it ended is known. (Of more than its pipes hold containerd 1.6 does not tell the end to any client.)"""
    for _ in range(5):
        typed = Open(*[b"y" * 32768] * 3)
        code, out, _ = await run(pod, "sh", "-c", "head -c 5; exit 6", protocols=(protocol,), stdin=typed)
        assert (code, out) == (6, b"yyyyy")


async def test_stdin_arrives_over_websocket(pod: LabPod) -> None:
    """v4 cannot end it, but a command that knows when it has enough can end itself."""
    code, out, _ = await run(pod, "head", "-n", "1", protocols=("websocket-v4",), stdin=Open(b"a line\n"))
    assert (code, out) == (0, b"a line\n")


async def test_the_default_finds_a_way(pod: LabPod) -> None:
    """containerd 1.6 does not speak v5 and uses up the URL by saying so; with a new URL SPDY works."""
    code, out, _ = await run(pod, "cat", protocols=("websocket", "spdy"), stdin=Typed(b"hello"))
    assert (code, out) == (0, b"hello")


async def test_a_terminal_has_the_size_of_ours(pod: LabPod, protocol: str) -> None:
    """Also the one it gets later. (Without stdin containerd 1.6 gives no output of terminals over WebSocket.)"""

    async def sizes() -> AsyncIterator[tuple[int, int]]:
        yield (100, 30)
        yield (120, 50)
        await asyncio.Event().wait()

    wait = "until stty size 2>/dev/null | grep -q '50 120'; do sleep 0.05; done; stty size"
    code, out, _ = await run(pod, "sh", "-c", wait, protocols=(protocol,), stdin=Open(), tty=True, resizes=sizes())
    assert (code, out) == (0, b"50 120\r\n")


async def test_a_command_that_cannot_be_run(pod: LabPod, protocol: str) -> None:
    """The runtime's own words arrive."""
    with pytest.raises(StreamError, match=r"no such file|not found"):
        await run(pod, "/nope", protocols=(protocol,))


async def test_attach_to_a_container(cri: CriClient, protocol: str) -> None:
    """What we type goes to the container's own stdin; its end ends the session."""
    with LabPod(cri, "attached").removed_at_the_end() as pod:
        pod.container_config.command[:] = ["sh", "-c", "read line; echo got $line; exit 0"]
        pod.container_config.stdin = True
        pod.container_config.stdin_once = True
        pod.run()
        pod.create()
        pod.start()
        request = cri_pb2.AttachRequest(container_id=pod.container_id, stdin=True, stdout=True, stderr=True)
        out, err = bytearray(), bytearray()
        code = await run_command(
            cri.call("Attach", request).url,
            stdin=Open(b"hello\n"),
            stdout=out.extend,
            stderr=err.extend,
            protocols=(protocol,),
        )
        assert (code, bytes(out), bytes(err)) == (0, b"got hello\n", b"")


async def test_ports_are_forwarded(pod: LabPod, protocol: str) -> None:
    """Bytes go to a server on the pod's port and back, connection after connection; a dead port is told."""

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
    errors: list[str] = []

    async def url() -> str:
        request = cri_pb2.PortForwardRequest(pod_sandbox_id=pod.sandbox_id, port=[port])
        given: str = pod.client.call("PortForward", request).url
        return given

    forwarder = PortForwarder(url, port, protocols=(protocol,), on_error=errors.append)
    await forwarder.start()
    for number in range(3):
        word = b"%d" % number * 200_000
        reader, writer = await asyncio.open_connection("127.0.0.1", forwarder.port)
        writer.write(word)
        assert await reader.readexactly(len(word)) == word
        writer.close()
        await writer.wait_closed()
    assert errors == []
    target.close()
    await target.wait_closed()
    reader, writer = await asyncio.open_connection("127.0.0.1", forwarder.port)
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()
    await eventually(lambda: errors, "the reason")
    assert str(port) in errors[0]
    await forwarder.close()
    await eventually(lambda: not connected, "all connections to end")
