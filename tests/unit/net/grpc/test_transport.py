"""A link between a transport without a socket and a connection: turns, and what ends it."""

import asyncio
from functools import partial

import pytest

from interpose.net.grpc.fairness import PeerAccount
from interpose.net.grpc.transport import Hub, Link
from interpose.net.h2.limits import Limits
from interpose.net.h2.server import ServerConnection
from interpose.net.h2.stream import Stream
from tests.support.net import h2_bench, h2_peer
from tests.support.net.h2_bench import Bench


class Wire(asyncio.Transport):
    """A transport that takes everything and remembers what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.reading = True
        self.closed = False
        self.written = bytearray()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close


class Linked:
    """A server's connection on a link."""

    def __init__(self, hub: Hub, account: PeerAccount | None = None) -> None:
        self.bench: Bench[ServerConnection] = h2_bench.server()
        self.bench.conn.dirty = hub.dirty
        self.ended: list[Link] = []
        self.link = Link(self.bench.conn, hub, self.ended.append, account)
        self.wire = Wire()
        self.link.connection_made(self.wire)

    @property
    def calls(self) -> int:
        """How many have been accepted."""
        return len(self.bench.recorder.streams)

    def requests(self, count: int, first: int = 1) -> bytes:
        """The bytes of this many calls."""
        return b"".join(self.bench.request(number, end=True) for number in range(first, first + 2 * count, 2))


async def settled(hub: Hub) -> None:
    """Let everybody who waits have their turns."""
    for _ in range(200):
        await asyncio.sleep(0)


async def test_a_long_read_is_handled_in_turns() -> None:
    """The peer is not read meanwhile, and is read again when all of it is done."""
    hub = Hub()
    client = Linked(hub)
    client.link.data_received(client.requests(500))
    assert 0 < client.calls < 500
    assert not client.wire.reading
    await settled(hub)
    assert client.calls == 500
    assert client.wire.reading


async def test_a_neighbour_comes_before_all_who_keep_the_loop_busy() -> None:
    """Peers that use the loop in each turn, many of them: one who does not is served in the next turn, before them."""
    hub = Hub()
    order: list[str] = []

    def note(name: str, what: str, stream: Stream) -> None:
        order.append(name)

    busy = [Linked(hub, PeerAccount(Limits())) for _ in range(10)]
    neighbour = Linked(hub, PeerAccount(Limits()))
    for number, client in enumerate(busy):
        client.link.account.used = 100_000
        client.bench.recorder.react = partial(note, f"busy{number}")
        client.link.data_received(client.requests(600))
    neighbour.bench.recorder.react = partial(note, "neighbour")
    neighbour.link.data_received(neighbour.requests(1))
    at_once = len(order)
    assert 0 < len(set(order)) < 5
    assert [client.wire.reading for client in (*busy, neighbour)] == [False] * 11
    await settled(hub)
    assert order[at_once] == "neighbour"
    assert [client.calls for client in (*busy, neighbour)] == [600] * 10 + [1]
    assert all(client.wire.reading for client in (*busy, neighbour))


async def test_a_backend_of_all_does_not_wait() -> None:
    """Answers are taken also when nothing is left of the turn, and are nobody's part of it."""
    hub = Hub()
    busy, backend = Linked(hub), Linked(hub)
    backend.link.account.common = True
    hub.turns.left = left = -1
    busy.link.data_received(busy.requests(1))
    assert busy.calls == 0
    backend.link.data_received(backend.requests(1))
    assert (backend.calls, hub.turns.left) == (1, left)
    await settled(hub)
    assert busy.calls == 1


async def test_bytes_that_come_while_it_waits_stay_in_order() -> None:
    """A transport may hand over what it had read already."""
    hub = Hub()
    client = Linked(hub)
    client.link.data_received(client.requests(500))
    client.link.data_received(client.requests(1, first=1001))
    assert 1001 not in client.bench.conn.streams
    await settled(hub)
    assert list(client.bench.recorder.streams) == list(range(1, 1002, 2))


async def test_a_fault_in_a_later_turn_closes() -> None:
    """GOAWAY is the last that is written."""
    hub = Hub()
    client = Linked(hub)
    client.link.data_received(client.requests(500) + h2_peer.raw(6, 0, 0, b"short"))
    await settled(hub)
    assert client.wire.closed
    assert h2_peer.read_frames(bytes(client.wire.written))[-1].kind == "GOAWAY"


async def test_a_bug_of_ours_costs_one_connection(caplog: pytest.LogCaptureFixture) -> None:
    """Whether it shows at once or in a later turn."""
    hub = Hub()

    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    for later in (False, True):
        client = Linked(hub)
        if later:
            client.link.data_received(client.requests(500))
        client.bench.conn.accept = fail
        client.link.data_received(client.requests(1, first=1001))
        await settled(hub)
        assert client.wire.closed
    assert "Connection handler failed" in caplog.text


async def test_calls_of_a_lost_connection_end_in_turns() -> None:
    """All of them are told, though the connection is gone at once."""
    hub = Hub()
    client = Linked(hub)
    client.link.data_received(client.requests(600))
    await settled(hub)
    client.bench.recorder.events.clear()
    client.wire.closed = True
    client.link.connection_lost(None)
    assert client.ended == [client.link]
    assert len(client.bench.recorder.events) < 300
    await settled(hub)
    assert len(client.bench.recorder.events) == 600
