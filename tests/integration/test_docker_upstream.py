"""dockerd as the relay sees it: whether it is there, what it tells by itself, and calls of the relay's own."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interpose.net.h1.heads import Heads
from interpose.relay.docker.connection import HttpReply
from interpose.relay.docker.upstream import BackendAwayError, DockerUpstream
from interpose.testing.eventually import eventually
from tests.support.docker.wire import RawDockerd, RawEnd

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Node:
    """A raw dockerd and the upstream that looks at it."""

    def __init__(self, folder: Path) -> None:
        self.dockerd = RawDockerd(folder / "dockerd.sock")
        self.upstream = DockerUpstream(str(self.dockerd.path), heads=Heads(), wait=0.2, limit=100_000)
        self.lines: list[bytes] = []
        self.ups = 0
        self.upstream.on_event = self.lines.append
        self.upstream.on_up = self._up

    def _up(self) -> None:
        self.ups += 1

    async def follow(self) -> RawEnd:
        """The connection on which events are followed; it is up."""
        end = await self.dockerd.accept()
        head = await end.head()
        assert head.startswith(b"GET /events?filters=")
        assert head.endswith(b" HTTP/1.1\r\nHost: docker\r\nUser-Agent: interpose\r\n\r\n")
        await end.send(CHUNKED)
        await eventually(lambda: self.upstream.up, "the upstream to be up")
        return end


@asynccontextmanager
async def running(folder: Path, *, dockerd: bool = True) -> AsyncIterator[Node]:
    node = Node(folder)
    if dockerd:
        node.dockerd.start()
    yield node
    await node.upstream.close()
    node.dockerd.stop()
    await eventually(lambda: node.upstream.connections == 0, "connections to end")


@pytest.fixture
async def node(scratch: Path) -> AsyncIterator[Node]:
    async with running(scratch) as one:
        yield one


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


async def test_each_time_events_are_heard_has_a_number(node: Node) -> None:
    """In between there is none: what was not heard then nobody knows."""
    assert node.upstream.event_session == 0
    node.upstream.start()
    end = await node.follow()
    first = node.upstream.event_session
    assert first
    end.close()
    await eventually(lambda: not node.upstream.up, "it to be gone")
    assert node.upstream.event_session == 0
    await node.follow()
    assert node.upstream.event_session not in (0, first)


async def test_it_is_up_when_dockerd_answers(node: Node) -> None:
    """Not when something takes connections."""
    node.upstream.start()
    end = await node.dockerd.accept()
    await end.head()
    assert node.ups == 0
    await end.send(CHUNKED)
    await eventually(lambda: node.ups == 1, "to be told")
    assert node.upstream.up
    assert node.upstream.last_error == ""


async def test_events_come_line_by_line(node: Node) -> None:
    """However they are cut, and at once."""
    node.upstream.start()
    end = await node.follow()
    await end.send(chunk(b'{"a":1}\n'))
    await eventually(lambda: node.lines == [b'{"a":1}'], "the first line")
    await end.send(chunk(b'{"a"') + chunk(b":2}\n\n{") + chunk(b"}\n"))
    await eventually(lambda: node.lines == [b'{"a":1}', b'{"a":2}', b"{}"], "all lines")


async def test_a_line_that_is_too_long_is_left_out(node: Node) -> None:
    """The next one is read again."""
    node.upstream.start()
    end = await node.follow()
    for _ in range(20):
        await end.send(chunk(b"x" * 60_000))
    await end.send(chunk(b"\nnext\n"))
    await eventually(lambda: node.lines == [b"next"], "the next line")


async def test_a_listener_that_fails_misses_one_event(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    """The stream goes on."""
    seen = []

    def listen(line: bytes) -> None:
        seen.append(line)
        raise ZeroDivisionError

    node.upstream.on_event = listen
    node.upstream.start()
    end = await node.follow()
    await end.send(chunk(b"1\n2\n"))
    await eventually(lambda: len(seen) == 2, "both lines")
    assert node.upstream.up


async def test_it_comes_back_after_dockerd_was_gone(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    """Told each time, and logged once."""
    caplog.set_level(logging.INFO)
    node.upstream.start()
    await node.follow()
    node.dockerd.stop()
    await eventually(lambda: not node.upstream.up, "to be down")
    await eventually(lambda: node.upstream.failures > 1, "dials in vain")
    assert node.upstream.last_error == f"{node.dockerd.path}: No such file or directory"
    node.dockerd.start()
    await node.follow()
    await eventually(lambda: node.ups == 2, "to be told again")
    said = [record.message for record in caplog.records]
    assert said.count("Connected to backend") == 2
    assert said.count("Backend connection ended") == 1
    assert said.count("Backend is not reachable") == 1


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n", "HTTP 500"),
        (b"hello\r\n\r\n", "not HTTP"),
        (b"", "closed the connection"),
    ],
)
async def test_a_dockerd_that_has_no_events_is_not_there(node: Node, answer: bytes, why: str) -> None:
    """And it is said why."""
    node.upstream.start()
    end = await node.dockerd.accept()
    await end.head()
    await end.send(answer)
    if not answer:
        end.close()
    await eventually(lambda: why in node.upstream.last_error, "the reason")
    assert node.ups == 0


async def test_events_that_end_are_asked_for_again(node: Node) -> None:
    """dockerd may end them in good order."""
    node.upstream.start()
    end = await node.follow()
    await end.send(b"0\r\n\r\n")
    await node.follow()
    await eventually(lambda: node.ups == 2, "to be told again")


async def test_starting_twice_follows_once(node: Node) -> None:
    """A successor starts it before it listens."""
    node.upstream.start()
    node.upstream.start()
    await node.follow()
    assert node.upstream.dials == 1


async def test_connecting_waits_for_a_while(scratch: Path) -> None:
    """Then the socket and the reason are named."""
    async with running(scratch, dockerd=False) as node:
        with pytest.raises(BackendAwayError, match=r"dockerd\.sock is not reachable: No such file or directory"):
            await node.upstream.connect()
        assert node.upstream.failures > 1


async def test_where_dockerd_is_may_be_found_later(scratch: Path) -> None:
    """Asked before each dial."""
    dockerd = RawDockerd(scratch / "real.sock")
    dockerd.start()
    upstream = DockerUpstream("", heads=Heads(), wait=1, limit=1, find=lambda: str(dockerd.path))
    (await upstream.connect()).abort()
    assert upstream.path == str(dockerd.path)
    await eventually(lambda: upstream.connections == 0, "the connection to end")
    dockerd.stop()


async def test_not_finding_dockerd_is_a_failed_dial(scratch: Path) -> None:
    """The watch goes on and finds it when it is there."""
    dockerd = RawDockerd(scratch / "real.sock")

    def find() -> str:
        if not dockerd.path.exists():
            raise FileNotFoundError(2, "no daemon at any known place")
        return str(dockerd.path)

    upstream = DockerUpstream("", heads=Heads(), wait=1, limit=1, find=find)
    upstream.start()
    await eventually(lambda: "no daemon at any known place" in upstream.last_error, "the reason")
    dockerd.start()
    end = await dockerd.accept()
    await end.head()
    await end.send(CHUNKED)
    await eventually(lambda: upstream.up, "the upstream to be up")
    await upstream.close()
    dockerd.stop()


async def asked(node: Node, method: str = "GET", body: bytes = b"") -> "asyncio.Future[HttpReply]":
    return asyncio.ensure_future(node.upstream.request(method, "/info", body, timeout=5))


async def test_own_calls_are_answered_whole(node: Node) -> None:
    """With the head, the body without framing, and the bytes as they came."""
    asking = await asked(node)
    end = await node.dockerd.accept()
    await end.expect(b"GET /info HTTP/1.1\r\nHost: docker\r\nUser-Agent: interpose\r\n\r\n")
    await end.send(CHUNKED + chunk(b"{}") + b"0\r\n\r\n")
    reply = await asking
    assert reply.head is not None
    assert (reply.head.status, reply.body, reply.failure) == (200, b"{}", "")
    assert reply.raw == CHUNKED + chunk(b"{}") + b"0\r\n\r\n"


async def test_own_calls_keep_their_connection(node: Node) -> None:
    """Another one is dialled only while it is in use."""
    asking = await asked(node)
    end = await node.dockerd.accept()
    for _ in range(3):
        await end.head()
        await end.send(OK)
        assert (await asking).body == b"{}"
        asking = await asked(node)
    asking.cancel()
    assert node.upstream.dials == 1


async def test_own_calls_share_eight_connections(node: Node) -> None:
    """The others wait for their turn."""
    asking = [await asked(node) for _ in range(12)]
    ends = [await node.dockerd.accept() for _ in range(8)]
    for end in ends:
        await end.head()
    await asyncio.sleep(0.02)
    assert node.upstream.dials == 8
    for end in ends[:4]:
        await end.send(OK)
        await end.head()
    for end in ends:
        await end.send(OK)
    assert [(await one).body for one in asking] == [b"{}"] * 12


async def test_a_get_is_asked_again_if_its_kept_connection_was_just_closed(node: Node) -> None:
    """Nothing of the answer had come."""
    asking = await asked(node)
    end = await node.dockerd.accept()
    await end.head()
    await end.send(OK)
    await asking
    asking = await asked(node)
    await end.head()
    end.close()
    end = await node.dockerd.accept()
    await end.head()
    await end.send(OK)
    assert (await asking).body == b"{}"


async def test_a_post_is_never_sent_twice(node: Node) -> None:
    """It goes on a new connection, and is lost with it."""
    asking = await asked(node)
    kept = await node.dockerd.accept()
    await kept.head()
    await kept.send(OK)
    await asking
    asking = await asked(node, "POST", b"{}")
    end = await node.dockerd.accept()
    assert (await end.head()).endswith(b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n")
    await end.expect(b"{}")
    end.close()
    reply = await asking
    assert reply.failure == "dockerd closed the connection"
    assert node.upstream.dials == 2


async def test_an_own_call_ends_with_its_time(node: Node) -> None:
    """The connection is not used again."""
    asking = await asked(node)
    end = await node.dockerd.accept()  # kept: the next call does not have to dial within its time
    await end.head()
    await end.send(OK)
    await asking
    reply = await node.upstream.request("GET", "/info", timeout=0.05)
    assert "did not answer within 0.05 s" in reply.failure
    await end.head()
    assert await end.ended()


async def test_an_own_call_to_nobody_fails(scratch: Path) -> None:
    """As a reply, like every other failure."""
    async with running(scratch, dockerd=False) as node:
        reply = await node.upstream.request("GET", "/info", timeout=5)
        assert "is not reachable" in reply.failure
        assert reply.head is None


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"x" * 150_000,
        b"garbage\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab",
    ],
    ids=["too large", "garbage", "switched", "cut"],
)
async def test_a_bad_answer_fails_an_own_call(node: Node, answer: bytes) -> None:
    """And ends the connection."""
    asking = await asked(node)
    end = await node.dockerd.accept()
    await end.head()
    await end.send(answer)
    if answer.endswith(b"ab"):
        end.half_close()
    assert (await asking).failure
    assert await end.ended()


async def test_interim_answers_are_skipped_and_an_end_without_length_is_an_end(node: Node) -> None:
    """As HTTP has it."""
    asking = await asked(node)
    end = await node.dockerd.accept()
    await end.head()
    await end.send(b"HTTP/1.1 103 Hints\r\n\r\nHTTP/1.0 200 OK\r\n\r\nall")
    end.close()
    reply = await asking
    assert (reply.body, reply.failure) == (b"all", "")


async def test_closing_ends_calls_that_wait(scratch: Path) -> None:
    """Nobody waits for a relay that is gone."""
    async with running(scratch) as node:
        asking = await asked(node)
        end = await node.dockerd.accept()
        await end.head()
        await node.upstream.close()
        assert (await asking).failure
