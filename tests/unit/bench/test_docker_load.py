"""What the clients of the Docker benchmark send and count."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from bench.docker_load import CHUNK, StreamCount, chunks, fresh, stream, upload
from tests.support.docker.fake.server import FakeDocker
from tests.support.lab.images import TEST_IMAGE
from tests.support.lab.processes import LabError

if TYPE_CHECKING:
    from pathlib import Path


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


async def test_each_request_has_a_connection_of_its_own(tmp_path: Path) -> None:
    """And its duration is kept."""
    async with FakeDocker(tmp_path / "d") as docker:
        timing = await asyncio.to_thread(fresh, tmp_path / "d", "/_ping", calls=5)
        assert docker.accepted == 5
    assert len(timing.durations) == 5


async def test_an_answer_that_is_no_success_ends_the_run(tmp_path: Path) -> None:
    """A benchmark of errors would be fast."""
    async with FakeDocker(tmp_path / "d") as docker:
        docker.faults.fail("ping", 500, "no")
        with pytest.raises(LabError, match=r"GET /_ping through .* 500 "):
            await asyncio.to_thread(fresh, tmp_path / "d", "/_ping", calls=2)


async def test_an_upload_arrives_whole(tmp_path: Path) -> None:
    """Without the framing of chunks."""
    body = bytes(3 * CHUNK + 17)
    async with FakeDocker(tmp_path / "d") as docker:
        moved = await asyncio.to_thread(upload, tmp_path / "d", body)
        assert docker.api.loaded.bytes == len(body)
    assert moved.size == len(body)


async def test_a_stream_comes_back(tmp_path: Path) -> None:
    """Bytes are counted on both ways."""
    async with FakeDocker(tmp_path / "d") as docker:
        body = json.dumps({"Image": TEST_IMAGE, "Cmd": ["cat"], "OpenStdin": True})
        docker.engine.start(docker.engine.create("streaming", body.encode()))
        moved = await asyncio.to_thread(stream, tmp_path / "d", "streaming", 300_000)
    assert moved.size == 600_000
