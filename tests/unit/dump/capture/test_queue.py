"""The queue to one reader: what it takes, what it loses, what it says of that, and how it ends."""

import asyncio
import socket
from collections.abc import Iterator

import pytest

from interpose.dump.capture.queue import FrameQueue
from interpose.dump.model.frame_reader import FrameStream
from interpose.dump.model.frames import Dropped, End, Frame, encode
from interpose.relay.api import Interest
from interpose.tasks import TaskBag
from interpose.testing.eventually import WAIT_LIMIT


def queue(limit: int = 1000) -> FrameQueue:
    """A queue for somebody who wants everything."""
    return FrameQueue("reader", lambda _name: Interest.MESSAGES, limit=limit, wall=lambda: 7)


def end(number: int) -> bytes:
    """A small frame."""
    return encode(End(number=number, elapsed=0, code=0))


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends."""
    one, other = socket.socketpair()
    one.setblocking(False)
    with one, other:
        yield one, other


async def written(it: FrameQueue, pair: tuple[socket.socket, socket.socket]) -> list[Frame]:
    """What a reader gets until the end."""
    it.finish()
    await it.run(pair[0])
    pair[0].shutdown(socket.SHUT_WR)
    data = b""
    while more := pair[1].recv(65536):
        data += more
    return FrameStream().feed(data)


async def test_frames_arrive_in_order(pair: tuple[socket.socket, socket.socket]) -> None:
    """All of them, and nothing is waiting afterwards."""
    it = queue()
    frames = [End(number=number, elapsed=0, code=0) for number in range(5)]
    for one in frames:
        assert it.put(encode(one))
    assert await written(it, pair) == frames
    assert (it.waiting, it.frames) == (0, 5)


async def test_full_queue_takes_only_what_is_small_and_important() -> None:
    """Until the reserve is used up, too."""
    it = queue(limit=100)
    assert it.put(bytes(90))
    assert not it.put(bytes(20))
    assert it.put(bytes(20), reserve=True)
    assert not it.put(bytes(20), reserve=True)
    assert it.waiting == 110


async def test_reader_is_told_what_is_missing(pair: tuple[socket.socket, socket.socket]) -> None:
    """Where it is missing, once for all that was lost there."""
    it = queue()
    it.put(end(1))
    it.lose(10)
    it.lose(20)
    it.put(end(2))
    it.put(end(3))
    frames = await written(it, pair)
    assert [type(one).__name__ for one in frames] == ["End", "Dropped", "End", "End"]
    assert frames[1] == Dropped(frames=2, size=30, time=7)


async def test_loss_at_the_end_is_told_too(pair: tuple[socket.socket, socket.socket]) -> None:
    """Nothing came after it."""
    it = queue()
    it.lose(10)
    assert await written(it, pair) == [Dropped(frames=1, size=10, time=7)]


async def test_frames_that_come_later_are_written(pair: tuple[socket.socket, socket.socket]) -> None:
    """The writer waits for them and wakes up."""
    it = queue()
    tasks = TaskBag()
    tasks.spawn(it.run(pair[0]), name="writer")
    loop = asyncio.get_running_loop()
    pair[1].setblocking(False)
    for number in (1, 2):
        it.put(end(number))
        assert await asyncio.wait_for(loop.sock_recv(pair[1], 1000), WAIT_LIMIT) == end(number)
    await tasks.cancel()


async def test_reader_that_is_gone_ends_the_writing(pair: tuple[socket.socket, socket.socket]) -> None:
    """With an error of the system; what was on its way counts as lost."""
    it = queue()
    pair[1].close()
    it.put(end(1))
    with pytest.raises(OSError, match=r"Broken pipe|reset"):
        await it.run(pair[0])
    assert it.frames_lost == 1


async def test_reader_that_does_not_read_costs_its_own_frames_only(pair: tuple[socket.socket, socket.socket]) -> None:
    """Putting never waits, and memory has its limit."""
    it = queue(limit=1 << 20)
    tasks = TaskBag()
    tasks.spawn(it.run(pair[0]), name="writer")
    taken = 0
    for _ in range(100):
        for _ in range(10):
            taken += it.put(bytes(65536))
        await asyncio.sleep(0)
    assert it.waiting <= 1 << 20
    assert 0 < taken < 1000
    await tasks.cancel()
