"""What waits in queues is counted in and out, whatever becomes of it."""

import pytest

from interpose.net.h2.buffered import Buffered, BufferedShare
from interpose.net.h2.headers import encode
from interpose.net.h2.server import ServerConnection
from tests.support.net import h2_bench, h2_peer
from tests.support.net.h2_bench import RESPONSE, Bench


def waiting(window: int = 0) -> tuple[Bench[ServerConnection], Buffered]:
    """Two replies of 1000 bytes whose windows are closed, or let some of it out."""
    bench = h2_bench.server(None, (4, window))
    buffered = bench.conn.buffered = Buffered(limit=1500)
    for number in (1, 3):
        bench.feed(bench.request(number, end=True))
        bench.stream(number).send_headers(encode(RESPONSE), False)
        bench.stream(number).send_data(bytes(600), False)
        bench.stream(number).send_data(bytes(400), True)
    return bench, buffered


@pytest.mark.parametrize(("window", "size"), [(0, 2000), (100, 1800), (1000, 0)])
def test_what_windows_leave(window: int, size: int) -> None:
    """All that could not be sent."""
    _, buffered = waiting(window)
    assert buffered.size == size
    assert buffered.exceeded == (size > 1500)


def test_what_leaves() -> None:
    """By credit, by the end of a stream, by the end of the connection."""
    bench, buffered = waiting()
    bench.feed(h2_peer.window_update(1, 300))
    assert buffered.size == 1700
    bench.feed(h2_peer.window_update(1, 350))
    assert buffered.size == 1350
    bench.feed(h2_peer.rst_stream(1))
    assert buffered.size == 1000
    bench.conn.lost()
    assert buffered.size == 0


def test_without_a_limit() -> None:
    """Nobody asked for one."""
    assert not Buffered().exceeded


def test_a_share_is_given_back_once() -> None:
    """However often it is said."""
    account = Buffered()
    share = BufferedShare(account)
    share.add(10)
    share.add(5)
    assert (share.size, account.size) == (15, 15)
    share.release()
    share.release()
    assert (share.size, account.size) == (0, 0)
