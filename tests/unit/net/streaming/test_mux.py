"""What waits on the channels of a link is bounded."""

import asyncio

import pytest

from interpose.net.spdy.connection import SpdyConnection, StreamOpened, StreamReset
from interpose.net.spdy.frames import data_frame
from interpose.net.streaming.byte_transport import CHUNK
from interpose.net.streaming.mux import MOST_HELD, ChannelOutcome
from interpose.net.streaming.mux_transports import SpdyMultiplexer
from interpose.testing.eventually import WAIT_LIMIT


class Recorded:
    """A wire with bytes that have come; `stalled` is set when nobody has read for a while."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._end = asyncio.Event()
        self.stalled = asyncio.Event()
        self.sent = b""

    async def read(self) -> bytes:
        data, self._data = self._data[:CHUNK], self._data[CHUNK:]
        if not data:
            await self._end.wait()
        return data

    def send(self, data: bytes) -> None:
        self.sent += data

    async def drain(self) -> None:
        """There is always room."""

    def pending(self) -> int:
        """Nothing waits to be sent here."""
        return 0

    def is_gone(self) -> bool:
        """Asked by a link that does not read."""
        self.stalled.set()
        return False

    def send_close(self) -> None:
        """Nothing: this transport has no close message."""

    def abort(self) -> None:
        """End the bytes that can be read."""
        self._end.set()

    async def close(self) -> None:
        """End the bytes that can be read."""
        self._end.set()


async def test_many_channels_together_hold_no_more_than_the_link_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them less than its window. The rest is read when there is room, and nothing is lost."""
    monkeypatch.setattr("interpose.net.streaming.mux._PEER_CHECK_INTERVAL", 0.01)
    sender = SpdyConnection(client=True)
    size, count = 200_000, 100
    for _ in range(count):
        sender.send(sender.open({"streamType": "data"}), bytes(size))
    wire = Recorded(sender.take())
    link = SpdyMultiplexer(wire, client=False)
    link.start()
    await asyncio.wait_for(wire.stalled.wait(), WAIT_LIMIT)
    assert MOST_HELD < link.held <= MOST_HELD + CHUNK
    for _ in range(count):
        channel = await asyncio.wait_for(link.accept(), WAIT_LIMIT)
        left = size
        while left:
            left -= len(await asyncio.wait_for(channel.read(), WAIT_LIMIT))
    assert link.held == 0
    await link.close()


async def test_what_nobody_wants_any_more_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """A channel that is ended or let go of makes room for the others."""
    monkeypatch.setattr("interpose.net.streaming.mux._PEER_CHECK_INTERVAL", 0.01)
    sender = SpdyConnection(client=True)
    for _ in range(2):
        sender.send(sender.open({"streamType": "data"}), bytes(300_000))
    wire = Recorded(sender.take())
    link = SpdyMultiplexer(wire, client=False)
    link.start()
    first = await link.accept()
    await asyncio.wait_for(wire.stalled.wait(), WAIT_LIMIT)
    first.reset()
    second = await asyncio.wait_for(link.accept(), WAIT_LIMIT)
    wire.stalled.clear()
    await asyncio.wait_for(wire.stalled.wait(), WAIT_LIMIT)
    assert link.held == second.held
    second.discard()
    assert link.held == 0
    await link.close()


@pytest.mark.parametrize("rude", [False, True], ids=["end and reset", "data after the end"])
async def test_an_end_and_a_reset_may_come_together(rude: bool) -> None:
    """Other channels of the link do not notice."""
    sender = SpdyConnection(client=True)
    first = sender.open({"streamType": "data"})
    sender.send(first, b"all")
    sender.finish(first)
    sent = sender.take()
    if rude:
        sent += data_frame(first, b"more")
    else:
        sender.reset(first)
        sent += sender.take()
    sender.send(sender.open({"streamType": "data"}), b"other")
    wire = Recorded(sent + sender.take())
    link = SpdyMultiplexer(wire, client=False)
    link.start()
    ended, other = [await asyncio.wait_for(link.accept(), WAIT_LIMIT) for _ in range(2)]
    assert [await ended.read(), await ended.read(), ended.end] == [b"all", b"", ChannelOutcome.FINISHED]
    assert await other.read() == b"other"
    assert not link.lost.is_set()
    await link.close()


async def test_a_stream_that_nobody_waits_for_any_more_is_ended() -> None:
    """A server that answers late would have it open for ever."""
    wire = Recorded(b"")
    link = SpdyMultiplexer(wire, client=True)
    link.start()
    opening = asyncio.ensure_future(link.open({"streamType": "data"}))
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    events = SpdyConnection(client=False).receive(wire.sent)
    assert [type(event) for event in events if isinstance(event, StreamOpened | StreamReset)] == [
        StreamOpened,
        StreamReset,
    ]
    await link.close()
