"""The workbench shows what the engine does, once and in order."""

from tests.support.net import h2_bench, h2_peer
from tests.support.net.h2_bench import REQUEST


def test_both_roles_talk_to_each_other() -> None:
    """A request of our client role arrives at our server role."""
    near, far = h2_bench.fresh_client(), h2_bench.fresh_server()
    h2_bench.open_call(near, end=True)
    far.feed(near.bytes_out())
    assert far.events == [("request", 1, REQUEST, True)]
    assert far.events == []
    near.feed(far.bytes_out())
    assert near.code is None
    assert [frame.kind for frame in near.frames()] == ["SETTINGS"]


def test_greeted_benches_have_nothing_left_to_say() -> None:
    """The handshake is over, in both roles, with the peer's settings in force."""
    for bench in (h2_bench.server(None, (4, 77)), h2_bench.client(None, (4, 77))):
        assert bench.bytes_out() == b""
        assert bench.conn.peer.initial_window == 77
        assert not bench.conn.half_read


def test_frames_can_be_filtered() -> None:
    """By kind; the others of that look are gone as well."""
    bench = h2_bench.server().feed(h2_peer.ping(), h2_peer.settings())
    assert [frame.kind for frame in bench.frames("PING")] == ["PING"]
    assert bench.frames() == []


def test_recorder_can_hold_credit_back() -> None:
    """Then the peer hears of no new window."""
    for credit in (True, False):
        bench = h2_bench.server()
        bench.recorder.credit = credit
        bench.feed(bench.request(1), *[h2_peer.data(1, bytes(16_384))] * 8)
        assert [frame.stream for frame in bench.frames("WINDOW_UPDATE")] == ([1] if credit else [])


def test_code_of_a_failed_connection() -> None:
    """None while all is well."""
    bench = h2_bench.server()
    assert bench.code is None
    assert bench.feed(h2_peer.window_update(0, 0)).code == 1
