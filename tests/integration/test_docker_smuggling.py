"""Requests that two parsers may read differently, through a relay: refused, and nothing behind them is heard of."""

import json
from pathlib import Path

import pytest

from tests.support.docker.wire import DockerWire, docker_wire

FOLDER = Path(__file__).resolve().parents[1] / "data/h1corpus"
INDEX = json.loads((FOLDER / "index.json").read_text())
REFUSED = sorted(name for name, case in INDEX.items() if case["kind"] == "request" and case["status"] is not None)
FINE = sorted(name for name, case in INDEX.items() if case["kind"] == "request" and case["status"] is None)
ANSWERS = sorted(name for name, case in INDEX.items() if case["kind"] == "answer" and case["status"] is not None)
PING = b"GET /_ping HTTP/1.1\r\nHost: docker\r\n\r\n"


def said(name: str) -> bytes:
    """The bytes of a case."""
    return (FOLDER / f"{name}.bin").read_bytes()


async def arrived(wire: DockerWire) -> bytes:
    """All that dockerd got, on any connection, until nothing is open any more."""
    found = b""
    while wire.upstream.dials > len(wire.dockerd.ends):
        end = await wire.dockerd.accept()
        try:
            found += await end.rest()
        except ConnectionResetError:
            found += end.seen
    return found


@pytest.mark.parametrize("name", REFUSED)
async def test_refused_and_closed(scratch: Path, name: str) -> None:
    """The client is told what is wrong, and the connection ends; dockerd never hears of what stands behind."""
    async with docker_wire(scratch) as wire:
        client = await wire.client()
        await client.send(said(name))
        head = await client.head()
        assert int(head.split(b" ", 2)[1]) == INDEX[name]["status"]
        assert b"connection: close" in head.lower()
        assert INDEX[name]["says"] in json.loads(await client.rest())["message"]
        assert sum(wire.listener.faults.values()) == 1
        client.close()
        assert b"/smuggled" not in await arrived(wire)


@pytest.mark.parametrize("name", FINE)
async def test_what_is_odd_but_right_passes(scratch: Path, name: str) -> None:
    """dockerd gets every byte of the first request, and no byte of another one before that is answered."""
    async with docker_wire(scratch) as wire:
        client = await wire.client()
        await client.send(said(name))
        backend = await wire.dockerd.accept()
        got = await backend.exactly(1)
        while b"\r\n\r\n" not in got:
            got += await backend.exactly(1)
        assert said(name).startswith(got)
        client.close()


@pytest.mark.parametrize("name", ANSWERS)
async def test_answers_that_are_none(scratch: Path, name: str) -> None:
    """A dockerd that is none cannot speak to the next caller either: 502 or a cut answer, and a new connection."""
    async with docker_wire(scratch) as wire:
        method = INDEX[name]["method"].encode()
        client, backend = await wire.ask(PING.replace(b"GET", method, 1))
        await backend.send(said(name))
        backend.half_close()
        answer = await client.rest()
        status = answer.split(b" ", 2)[1:2]
        assert status == [b"502"] or said(name).startswith(answer)
