"""The clients in front of a Docker socket: short requests, and bodies and streams of many megabytes.

Short requests on kept connections are h2load's, in HTTP/1.1: it costs less than anything written here. It knows no
duration with the connect in it, so one connection per request is a plain loop. Bodies go through blocking sockets in
big pieces, which is faster than dockerd takes or gives them.
"""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.lab.load.h2load import read_log
from tests.support.lab.load.raw_load import Timing
from tests.support.lab.processes import LabError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TIMEOUT = 120.0
READ_SIZE = 1 << 18
# What Go's io.Copy reads at once, and so the size of the chunks that `docker load` sends.
CHUNK = 32 << 10
# In the frames of a stream with stdout and stderr: kind, three zeros, length.
FRAME_HEAD = 8


@dataclass(frozen=True, kw_only=True)
class Moved:
    """One exchange with much data: payload bytes, and seconds."""

    size: int
    seconds: float


def kept(folder: Path, path: Path, target: str, *, calls: int, connections: int) -> Timing:
    """`calls` GETs over this many connections that stay; any answer but 200 is an error."""
    log = folder / "h2load.log"
    log.unlink(missing_ok=True)
    argv = ["h2load", "--h1", "-n", str(calls), "-c", str(connections), "-t", "1", "-B", f"unix:{path}"]
    argv += ["--log-file", str(log), f"http://localhost{target}"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    if done.returncode != 0 or f"{calls} succeeded" not in done.stdout:
        raise LabError(f"{' '.join(argv)}\n{done.stdout[-800:]}{done.stderr}")
    return read_log(log.read_text())


def fresh(path: Path, target: str, *, calls: int) -> Timing:
    """`calls` GETs, each over a connection of its own: connect, request, whole answer, close."""
    request = f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    durations = []
    begin = time.perf_counter()
    for _ in range(calls):
        started = time.perf_counter()
        with connected(path) as sock:
            sock.sendall(request)
            answer = b""
            while piece := sock.recv(READ_SIZE):
                answer += piece
        durations.append((time.perf_counter() - started) * 1e6)
        if not answer.startswith(b"HTTP/1.1 200 "):
            raise LabError(f"GET {target} through {path}: {answer[:300]!r}")
    return Timing(seconds=time.perf_counter() - begin, durations=durations)


def upload(path: Path, archive: bytes) -> Moved:
    """`docker load` of an image that is there already: dockerd reads all of it, but unpacks no layer."""
    begin = time.perf_counter()
    with connected(path) as sock:
        sock.sendall(
            b"POST /v1.41/images/load?quiet=1 HTTP/1.1\r\nHost: docker\r\nContent-Type: application/x-tar\r\n"
            b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        for piece in chunks(archive):
            sock.sendall(piece)
        answer = b"".join(iter(lambda: sock.recv(READ_SIZE), b""))
    if not answer.startswith(b"HTTP/1.1 200 ") or b"Loaded image" not in answer:
        raise LabError(f"POST /images/load through {path}: {answer[:300]!r}")
    return Moved(size=len(archive), seconds=time.perf_counter() - begin)


def chunks(body: bytes) -> Iterator[bytes]:
    """The body in the chunked coding."""
    for first in range(0, len(body), CHUNK):
        piece = body[first : first + CHUNK]
        yield b"%x\r\n%b\r\n" % (len(piece), piece)
    yield b"0\r\n\r\n"


def download(path: Path, image: str, least: int) -> Moved:
    """`docker save`, timed from the first byte: what dockerd collects before that takes longer than the way."""
    with connected(path) as sock:
        sock.sendall(
            f"GET /v1.41/images/{image}/get HTTP/1.1\r\nHost: docker\r\nConnection: close\r\n\r\n".encode(),
        )
        first = sock.recv(READ_SIZE)
        begin = time.perf_counter()
        size, end = len(first), first[-5:]
        while piece := sock.recv(READ_SIZE):
            size += len(piece)
            end = (end + piece[-5:])[-5:]
    seconds = time.perf_counter() - begin
    if not first.startswith(b"HTTP/1.1 200 ") or size < least:
        raise LabError(f"GET /images/{image}/get through {path}: {size} bytes, {first[:300]!r}")
    if not end.endswith(b"0\r\n\r\n") and b"chunked" in first:
        raise LabError(f"GET /images/{image}/get through {path}: the answer is cut after {size} bytes")
    return Moved(size=size, seconds=seconds)


def stream(path: Path, container: str, size: int) -> Moved:
    """`docker attach` to a container that runs `cat`: so many bytes in, and the same number out again.

    Not `docker exec`, whose request has a body: HAProxy does not pass on an upgrade of such a request.
    """
    with connected(path) as sock:
        sock.sendall(
            f"POST /v1.41/containers/{container}/attach?stream=1&stdin=1&stdout=1 HTTP/1.1\r\nHost: docker\r\n"
            "Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n\r\n".encode()
        )
        head, _, early = _until_blank_line(sock)
        if not head.startswith(b"HTTP/1.1 101 "):
            raise LabError(f"attach through {path}: {head[:300]!r}")
        begin = time.perf_counter()
        writer = threading.Thread(target=_pour, args=(sock, size), name="pour", daemon=True)
        writer.start()
        counted = StreamCount()
        counted.receive(early)
        while counted.payload < size:
            piece = sock.recv(READ_SIZE)
            if not piece:
                raise LabError(f"attach through {path}: ended after {counted.payload} of {size} bytes")
            counted.receive(piece)
        seconds = time.perf_counter() - begin
        writer.join(TIMEOUT)
    return Moved(size=2 * size, seconds=seconds)


class StreamCount:
    """Counts the payload of the frames that dockerd puts around stdout and stderr."""

    def __init__(self) -> None:
        self.payload = 0
        self._left = 0
        self._head = b""

    def receive(self, data: bytes) -> None:
        position, size = 0, len(data)
        while position < size:
            if self._left:
                taken = min(self._left, size - position)
                self._left -= taken
                self.payload += taken
                position += taken
                continue
            need = FRAME_HEAD - len(self._head)
            self._head += data[position : position + need]
            position += need
            if len(self._head) == FRAME_HEAD:
                self._left = int.from_bytes(self._head[4:], "big")
                self._head = b""


@contextmanager
def connected(path: Path) -> Iterator[socket.socket]:
    """A connection to a unix socket, within the block."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(TIMEOUT)
        sock.connect(str(path))
        yield sock


def _until_blank_line(sock: socket.socket) -> tuple[bytes, bytes, bytes]:
    got = b""
    while b"\r\n\r\n" not in got:
        piece = sock.recv(READ_SIZE)
        if not piece:
            raise LabError(f"closed after {got[:300]!r}")
        got += piece
    return got.partition(b"\r\n\r\n")


def _pour(sock: socket.socket, size: int) -> None:
    block = bytes(READ_SIZE)
    left = size
    while left:
        piece = memoryview(block)[: min(left, len(block))]
        sock.sendall(piece)
        left -= len(piece)
