"""The feed of events."""

import asyncio

import pytest

from interpose.cri.messages import cri
from interpose.net.grpc.status import RpcError
from interpose.node.runtime.service.events import EventFeed


def event(name: str) -> cri.ContainerEventResponse:
    """An event about this."""
    return cri.ContainerEventResponse(container_id=name)


async def test_nothing_is_made_for_nobody() -> None:
    """An event shows a whole pod."""
    EventFeed().publish(lambda: pytest.fail("made for nobody"))


async def test_a_slow_subscriber_loses_its_stream() -> None:
    """And nobody else theirs."""
    feed = EventFeed(backlog=2)
    slow, quick = feed.stream(), feed.stream()
    firsts = [asyncio.ensure_future(anext(one)) for one in (slow, quick)]
    await asyncio.sleep(0)
    feed.publish(lambda: event("0"))
    assert [(await one).container_id for one in firsts] == ["0", "0"]
    for number in range(1, 4):
        feed.publish(lambda number=number: event(str(number)))  # type: ignore[misc]
        assert (await anext(quick)).container_id == str(number)
    assert [(await anext(slow)).container_id for _ in range(2)] == ["1", "2"]
    with pytest.raises(RpcError, match="RESOURCE_EXHAUSTED"):
        await anext(slow)
    assert feed.subscribers == 1
    await quick.aclose()
    assert feed.subscribers == 0


async def test_bytes_that_are_not_read_are_bounded() -> None:
    """A few large events are as many small ones; what was read counts no more, and one event is never too large."""
    feed = EventFeed(max_bytes=100)
    slow, quick = feed.stream(), feed.stream()
    firsts = [asyncio.ensure_future(anext(one)) for one in (slow, quick)]
    await asyncio.sleep(0)
    feed.publish(lambda: event("0"))
    assert [(await one).container_id for one in firsts] == ["0", "0"]
    for letter in "abc":
        feed.publish(lambda letter=letter: event(letter * 120))  # type: ignore[misc]
        assert (await anext(quick)).container_id == letter * 120
    assert (await anext(slow)).container_id == "a" * 120
    with pytest.raises(RpcError, match="RESOURCE_EXHAUSTED: 1 events not read, 122 bytes"):
        await anext(slow)
    assert feed.subscribers == 1
    await quick.aclose()


async def test_room_is_for_some_megabytes_by_default() -> None:
    """Of a subscriber that does not read."""
    feed = EventFeed()
    stream = feed.stream()
    first = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    large = event("x" * (1 << 20))
    published = 0
    while feed.subscribers:
        feed.publish(lambda: large)
        published += 1
        assert published < 100
    assert published == 17
    await first
    await stream.aclose()


async def test_close_ends_streams() -> None:
    """After what was published."""
    feed = EventFeed()
    stream = feed.stream()
    first = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    feed.publish(lambda: event("a"))
    feed.close()
    assert (await first).container_id == "a"
    with pytest.raises(RpcError, match="UNAVAILABLE"):
        await anext(stream)
