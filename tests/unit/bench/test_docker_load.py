"""What the clients of the Docker benchmark send and count."""

from __future__ import annotations

import pytest

from bench.docker_load import CHUNK, StreamCount, chunks


def test_a_body_is_sent_in_chunks_of_what_go_copies_at_once() -> None:
    """Whole chunks, a shorter last one, and the end."""
    sent = list(chunks(bytes(CHUNK + 3)))
    assert sent == [b"8000\r\n" + bytes(CHUNK) + b"\r\n", b"3\r\n\0\0\0\r\n", b"0\r\n\r\n"]


@pytest.mark.parametrize("cut", [1, 3, 7, 8, 9, 1000])
def test_only_the_payload_of_a_stream_is_counted(cut: int) -> None:
    """However the bytes arrive, frame heads are not counted."""
    data = b"\1\0\0\0\0\0\0\5hello" + b"\2\0\0\0\0\0\0\0" + b"\1\0\0\0\0\0\1\0" + bytes(256)
    counted = StreamCount()
    for first in range(0, len(data), cut):
        counted.receive(data[first : first + cut])
    assert counted.payload == 5 + 256
