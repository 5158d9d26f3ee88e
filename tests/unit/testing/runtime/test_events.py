"""Fan-out of events."""

import asyncio

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.net.grpc.status import Code, RpcError
from interpose.testing.runtime.events import EventHub


def make(name: str) -> cri.ContainerEventResponse:
    """An event that can be told from others."""
    return cri.ContainerEventResponse(container_id=name)


async def collect(hub: EventHub) -> list[str]:
    """Read a subscription to its end."""
    return [event.container_id async for event in hub.stream()]


async def test_every_subscriber_sees_every_event() -> None:
    """Two subscribers, two events, both see both in order."""
    hub = EventHub()
    readers = [asyncio.create_task(collect(hub)) for _ in range(2)]
    await hub.wait_for_subscribers(2)
    hub.publish(make("a"))
    hub.publish(make("b"))
    hub.end()
    assert await asyncio.gather(*readers) == [["a", "b"], ["a", "b"]]
    assert hub.subscribers == 0


async def test_a_subscription_begins_when_it_is_made() -> None:
    """What happened before is not replayed."""
    hub = EventHub()
    hub.publish(make("early"))
    reader = asyncio.create_task(collect(hub))
    await hub.wait_for_subscribers(1)
    hub.publish(make("late"))
    hub.end()
    assert await reader == ["late"]


async def test_a_subscriber_that_leaves_is_forgotten() -> None:
    """A cancelled reader no longer counts."""
    hub = EventHub()
    reader = asyncio.create_task(collect(hub))
    await hub.wait_for_subscribers(1)
    reader.cancel()
    await hub.wait_for_subscribers(0)
    with pytest.raises(asyncio.CancelledError):
        await reader


async def test_streams_can_be_broken() -> None:
    """`end` with an error gives it to every reader, after what was published."""
    hub = EventHub()
    reader = asyncio.create_task(collect(hub))
    await hub.wait_for_subscribers(1)
    hub.end(RpcError(Code.UNAVAILABLE, "restart"))
    with pytest.raises(RpcError, match="restart"):
        await reader


async def test_a_reader_that_does_not_read_loses_its_stream_only() -> None:
    """Its backlog is bounded and ends with RESOURCE_EXHAUSTED; another reader goes on."""
    hub = EventHub(backlog=2)
    stream = hub.stream()
    first = asyncio.ensure_future(anext(stream))
    await hub.wait_for_subscribers(1)
    hub.publish(make("0"))
    assert (await first).container_id == "0"
    for number in range(1, 4):
        hub.publish(make(str(number)))
    assert hub.subscribers == 0
    assert [(await anext(stream)).container_id for _ in range(2)] == ["1", "2"]
    with pytest.raises(RpcError) as caught:
        await anext(stream)
    assert caught.value.code is Code.RESOURCE_EXHAUSTED
