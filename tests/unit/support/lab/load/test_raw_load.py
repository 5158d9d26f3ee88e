"""The raw load client against a tiny HTTP/2 server that only knows frame heads."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

import pytest

from interpose.net.h2 import frames
from interpose.testing.eventually import WAIT_LIMIT
from tests.support.lab.load.raw_load import RawConnection, build_requests, traceparent
from tests.support.lab.processes import LabError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REPLY = b"\0\0\0\0\x02hi"
BLOCK = b"\x88"


def good_reply(stream: int) -> bytes:
    """Headers, one message, trailers."""
    data = frames.FRAME_HEAD.pack(len(REPLY) << 8 | frames.DATA, 0, stream) + REPLY
    return frames.headers(stream, BLOCK, False, 16384) + data + frames.headers(stream, BLOCK, True, 16384)


def serve(path: Path, reply: Callable[[int], bytes], settings: bytes) -> None:
    """Answer each stream as it ends, in a thread that lives as long as the one connection."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def work() -> None:
        with listener, listener.accept()[0] as connection:
            connection.sendall(settings)
            buffer = connection.recv(len(frames.PREFACE), socket.MSG_WAITALL)[:0]
            while received := connection.recv(65536):
                buffer += received
                while len(buffer) >= frames.HEAD_SIZE:
                    length_and_type, flags, stream = frames.FRAME_HEAD.unpack_from(buffer)
                    end = frames.HEAD_SIZE + (length_and_type >> 8)
                    if len(buffer) < end:
                        break
                    buffer = buffer[end:]
                    if length_and_type & 0xFF == frames.DATA and flags & frames.END_STREAM:
                        connection.sendall(reply(stream) + frames.window_update(0, 5))

    threading.Thread(target=work, name="frame-server", daemon=True).start()


def test_every_call_has_its_own_traceparent() -> None:
    """The values are well formed and all different, and requests differ although all else is the same."""
    values = {traceparent(n) for n in range(100)}
    assert len(values) == 100
    assert {tuple(len(part) for part in value.split(b"-")) for value in values} == {(2, 32, 16, 2)}
    assert len(set(build_requests(50))) == 50


def test_all_calls_are_counted_and_timed(tmp_path: Path) -> None:
    """Two runs on one connection take the requests in turn and time each call."""
    serve(tmp_path / "s", good_reply, frames.settings({}))
    with RawConnection(tmp_path / "s", build_requests(50), timeout=WAIT_LIMIT) as connection:
        assert len(connection.run(20, 4).durations) == 20
        timing = connection.run(30, 16)
    assert len(timing.durations) == 30
    assert all(0 < duration <= timing.seconds * 1e6 for duration in timing.durations)


def test_failed_calls_are_noticed(tmp_path: Path) -> None:
    """A trailers-only answer in between is an error, not a fast call."""

    def reply(stream: int) -> bytes:
        return frames.headers(stream, BLOCK, True, 16384) if stream == 7 else good_reply(stream)

    serve(tmp_path / "s", reply, frames.settings({}))
    with (
        RawConnection(tmp_path / "s", build_requests(10), timeout=WAIT_LIMIT) as connection,
        pytest.raises(LabError, match="some calls failed"),
    ):
        connection.run(10, 2)


def test_a_smaller_header_table_is_refused(tmp_path: Path) -> None:
    """The requests were built for the default table; a server that allows less would misread them."""
    serve(tmp_path / "s", good_reply, frames.settings({frames.HEADER_TABLE_SIZE: 0}))
    with pytest.raises(LabError, match="header table"):
        RawConnection(tmp_path / "s", build_requests(1), timeout=WAIT_LIMIT)
