"""The kubelet's list of pods over real sockets: plain, encrypted, and from kubelets that misbehave."""

import asyncio
import json
import os
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interpose.hooks.server.pods.kubelet_client import KubeletPods
from interpose.testing.eventually import WAIT_LIMIT, eventually

_SELF_SIGNED = (
    *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
    *("-subj", "/CN=kubelet", "-addext", "subjectAltName=IP:127.0.0.1"),
)


class FakeKubelet:
    """Answers every request with the same bytes, or not at all."""

    def __init__(self) -> None:
        self.answer = ok({"items": [{"metadata": {"uid": "u1"}}]})
        self.requests: list[bytes] = []
        self.stalled: asyncio.Event | None = None
        self.left = 0  # connections that the other side ended while they waited
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        try:
            self.requests.append(await reader.readuntil(b"\r\n\r\n"))
            if self.stalled is not None:
                self.stalled.set()
                await reader.read()
                self.left += 1
            else:
                writer.write(self.answer)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


def ok(document: object) -> bytes:
    """An answer with a document."""
    body = json.dumps(document).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


@asynccontextmanager
async def kubelet(context: ssl.SSLContext | None = None) -> AsyncIterator[FakeKubelet]:
    """One that listens on a port of this machine."""
    fake = FakeKubelet()
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0, ssl=context)
    fake.port = server.sockets[0].getsockname()[1]
    yield fake
    server.close()


@pytest.fixture
def certificate(scratch: Path) -> Path:
    """A certificate for 127.0.0.1, signed by itself, with its key in the same file."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("there is no openssl to make a certificate with")
    path, key = scratch / "kubelet.pem", scratch / "key.pem"
    subprocess.run(
        [program, *_SELF_SIGNED, "-keyout", key, "-out", path],
        check=True,
        capture_output=True,
    )
    path.write_text(path.read_text() + key.read_text())
    return path


def server_context(certificate: Path) -> ssl.SSLContext:
    """What a kubelet serves with."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


async def test_read_only_port() -> None:
    """One request, nothing secret in it."""
    async with kubelet() as fake:
        source = KubeletPods(f"http://127.0.0.1:{fake.port}/pods")
        assert await source.refresh(), source.problem
        assert set(source.pods) == {"u1"}
        assert fake.requests[0].startswith(b"GET /pods HTTP/1.1\r\n")
        assert b"Authorization" not in fake.requests[0]


async def test_unix_socket(scratch: Path) -> None:
    """HTTP all the same; chunks are put together."""
    fake = FakeKubelet()
    fake.answer = (
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{"it\r\n7\r\nems":[]\r\n1\r\n}\r\n0\r\n\r\n'
    )
    async with await asyncio.start_unix_server(fake.serve, str(scratch / "k.sock")):
        source = KubeletPods(f"unix://{scratch}/k.sock")
        assert await source.refresh(), source.problem
        assert source.refreshes == 1
    assert not await source.refresh()
    assert source.problem


async def test_encrypted_with_a_token_that_is_replaced(certificate: Path, scratch: Path) -> None:
    """The file is read each time."""
    token = scratch / "token"
    async with kubelet(server_context(certificate)) as fake:
        source = KubeletPods(
            f"https://127.0.0.1:{fake.port}/pods/", token_file=str(token), ca_file=str(certificate), timeout=WAIT_LIMIT
        )
        for word in ("first", "second"):
            token.write_text(f"{word}\n")
            assert await source.refresh(), source.problem
        assert [b"Authorization: Bearer first\r\n" in one for one in fake.requests] == [True, False]
        assert b"Authorization: Bearer second\r\n" in fake.requests[1]


async def test_kubelet_that_proves_nothing_gets_no_token(certificate: Path, scratch: Path) -> None:
    """Unless somebody says that it does not matter."""
    (scratch / "token").write_text("secret")
    async with kubelet(server_context(certificate)) as fake:
        url = f"https://127.0.0.1:{fake.port}/pods"
        strict = KubeletPods(url, token_file=f"{scratch}/token", timeout=20)
        assert not await strict.refresh()
        assert "the certificate of the server cannot be trusted: self-signed certificate" in strict.problem
        assert not fake.requests
        assert await KubeletPods(url, token_file=f"{scratch}/token", insecure=True, timeout=20).refresh()
        assert b"secret" in fake.requests[0]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (
            b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",
            "the kubelet answers 401 Unauthorized; is the token right?",
        ),
        (b"HTTP/1.1 500 Oh\r\n\r\n", "the kubelet answers 500 Oh"),
        (b"HTTP/1.1 302 Found\r\nLocation: https://elsewhere/\r\n\r\n", "the kubelet answers 302 Found"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "{url}: the answer is not HTTP as it should be"),
        (b"", "{url}: the connection was closed instead of an answer"),
        (
            b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"items":',
            "{url}: the connection was closed in the middle of an answer",
        ),
        (b"HTTP/1.1 200 OK\r\n\r\n{", "the list of pods is not JSON"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 5000, "the list is larger than 4096 bytes"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "{url}: the "),
    ],
    ids=["unauthorized", "error", "redirect", "not http", "nothing", "cut off", "no json", "too large", "bad chunk"],
)
async def test_answers_that_cannot_be_used(answer: bytes, problem: str) -> None:
    """Each is a value; the list of before stays."""
    async with kubelet() as fake:
        source = KubeletPods(f"http://127.0.0.1:{fake.port}/pods", limit=4096)
        assert await source.refresh(), source.problem
        fake.answer = answer
        assert not await source.refresh()
        assert source.problem.startswith(problem.format(url=f"http://127.0.0.1:{fake.port}"))
        assert set(source.pods) == {"u1"}


async def test_kubelet_that_hangs_is_left(caplog: pytest.LogCaptureFixture) -> None:
    """The connection ends with the time-out, and the next request is made."""
    async with kubelet() as fake:
        source = KubeletPods(f"http://127.0.0.1:{fake.port}/pods", timeout=0.2)
        fake.stalled = asyncio.Event()
        assert not await source.refresh()
        assert source.problem == "no answer within 0.2 s"
        await eventually(lambda: fake.left == 1, "the connection to end")
        fake.stalled = None
        source._timeout = WAIT_LIMIT
        assert await source.refresh(), source.problem


async def test_file_that_hangs_is_left(scratch: Path) -> None:
    """No second thread waits for it: until the first one is free, each refresh fails at once."""
    pipe = scratch / "pods.json"
    os.mkfifo(pipe)
    source = KubeletPods(f"file://{pipe}", timeout=0.2)
    for problem in ("no answer within 0.2 s", "the request before has not ended yet"):
        assert not await source.refresh()
        assert source.problem == problem
    await asyncio.to_thread(pipe.write_text, '{"items": []}')
    await eventually(lambda: source._thread is None or source._thread.done(), "the thread to end")
    pipe.unlink()
    pipe.write_text('{"items": []}')
    source._timeout = WAIT_LIMIT
    assert await source.refresh(), source.problem


async def test_refresh_that_is_cancelled_ends_its_request() -> None:
    """Whoever is shut down does not wait for a kubelet."""
    async with kubelet() as fake:
        source = KubeletPods(f"http://127.0.0.1:{fake.port}/pods", timeout=30)
        fake.stalled = asyncio.Event()
        task = asyncio.create_task(source.refresh())
        await asyncio.wait_for(fake.stalled.wait(), WAIT_LIMIT)
        assert not await source.refresh()
        assert source.problem == "the request before has not ended yet"
        task.cancel()
        await eventually(lambda: fake.left == 1, "the connection to end")
        assert source.refreshes == 0
