"""Floods: each kind of frame that brings nobody forward ends the connection with ENHANCE_YOUR_CALM."""

from collections.abc import Callable

import pytest

from interpose.net.h2.errors import ErrorCode
from interpose.net.h2.limits import Limits
from interpose.net.h2.server import ServerConnection
from tests.support.net import h2_bench, h2_peer
from tests.support.net.h2_bench import Bench

LIMITS = Limits(idle_frames=50, resets=20)
CALM = ErrorCode.ENHANCE_YOUR_CALM

Flood = Callable[[Bench[ServerConnection], int], bytes]


def reset_after_open(bench: Bench[ServerConnection], i: int) -> bytes:
    """A call that is cancelled at once."""
    return bench.request(i * 2 + 3) + h2_peer.rst_stream(i * 2 + 3)


def make_us_reset(bench: Bench[ServerConnection], i: int) -> bytes:
    """A call that breaks a rule, so that we are the ones who reset it."""
    return bench.request(i * 2 + 3) + h2_peer.window_update(i * 2 + 3, 0)


def malformed(bench: Bench[ServerConnection], i: int) -> bytes:
    """A request that is none."""
    return bench.request(i * 2 + 3, [(b":method", b"GET")])


IDLE: dict[str, Flood] = {
    "ping": lambda bench, i: h2_peer.ping(),
    "ping-ack": lambda bench, i: h2_peer.ping(ack=True),
    "settings": lambda bench, i: h2_peer.settings(),
    "settings-ack": lambda bench, i: h2_peer.settings_ack(),
    "empty-data": lambda bench, i: h2_peer.data(1),
    "padded-empty-data": lambda bench, i: h2_peer.data(1, pad=9),
    "priority": lambda bench, i: h2_peer.priority(1),
    "priority-of-idle-streams": lambda bench, i: h2_peer.priority(99),
    "unknown-type": lambda bench, i: h2_peer.raw(0x77, 0, 0, b"?"),
    "goaway": lambda bench, i: h2_peer.goaway(0),
    "malformed-requests": malformed,
}


def flood(bench: Bench[ServerConnection], make: Flood, limit: int) -> None:
    """Feed frames until the connection fails; it must hold just as many as are allowed."""
    for i in range(limit):
        bench.feed(make(bench, i))
        assert bench.code is None
    bench.feed(make(bench, limit))
    assert bench.code == CALM
    assert bench.frames("GOAWAY")[0].code == CALM


def ready() -> Bench[ServerConnection]:
    """A server with stream 1 open and fresh counters."""
    bench = h2_bench.server(LIMITS)
    bench.feed(bench.request(1))
    bench.tick()
    return bench


@pytest.mark.parametrize("kind", IDLE)
def test_idle_frames(kind: str) -> None:
    """Exactly the limit passes, one more does not."""
    flood(ready(), IDLE[kind], LIMITS.idle_frames)


@pytest.mark.parametrize("make", [reset_after_open, make_us_reset])
def test_cancelled_streams(make: Flood) -> None:
    """Rapid reset, whoever sends the RST_STREAM (CVE-2023-44487, CVE-2025-8671)."""
    flood(ready(), make, LIMITS.resets)


def test_late_frames_on_closed_streams() -> None:
    """RST_STREAM and DATA for streams that are gone."""
    for late in (h2_peer.rst_stream(1), h2_peer.data(1, b"x")):
        bench = ready()
        bench.feed(h2_peer.rst_stream(1))
        flood(bench, lambda _bench, _i, late=late: late, LIMITS.idle_frames)  # type: ignore[misc]


def test_refused_streams() -> None:
    """Opening streams over the limit again and again."""
    bench = h2_bench.server(Limits(idle_frames=50, streams=1))
    bench.feed(bench.request(1))
    bench.tick()
    flood(bench, lambda bench, i: bench.request(i * 2 + 3), 50)


def test_small_continuations() -> None:
    """A block dribbled in crumbs."""
    bench = ready()
    bench.feed(h2_peer.headers(3, b"", more=True))
    flood(bench, lambda _bench, _i: h2_peer.continuation(3, b"", more=True), LIMITS.idle_frames)


@pytest.mark.parametrize(("size", "allowed"), [(100, 1023), (16_384, 15)])
def test_continuation_flood(size: int, allowed: int) -> None:
    """Neither the number of pieces nor their sum grows without end."""
    bench = ready()
    piece = b"\0" * size
    bench.feed(h2_peer.headers(3, piece, more=True))
    flood(bench, lambda _bench, _i: h2_peer.continuation(3, piece, more=True), allowed)


def test_a_new_second_counts_anew() -> None:
    """What is spread over time is no flood."""
    bench = ready()
    for i in range(5):
        bench.feed(*[h2_peer.ping()] * LIMITS.idle_frames)
        bench.feed(*[reset_after_open(bench, i * 20 + j) for j in range(LIMITS.resets)])
        bench.tick()
    assert bench.code is None


def test_strings_of_rare_symbols() -> None:
    """They decode slowly, so a peer may send half a header list of them a second, however short each is."""
    limits = Limits(header_list=8000)
    bench = h2_bench.server(limits)
    rare = [*h2_bench.REQUEST, (b"x-rare", bytes(range(160, 255)) * 10)]  # about 2 800 bytes when coded
    bench.feed(bench.request(1, rare))
    bench.tick()
    bench.feed(bench.request(3, [*rare[:-1], (b"x-rare", rare[-1][1] + b"!")]))
    assert bench.code is None
    bench.feed(bench.request(5, [*rare[:-1], (b"x-rare", rare[-1][1] + b"?")]))
    assert bench.code == CALM


def test_settings_that_touch_many_streams() -> None:
    """Another initial window costs work for each open stream, so fewer such frames are allowed when there are many."""
    bench = h2_bench.server(LIMITS)
    for number in range(1, 161, 2):
        bench.feed(bench.request(number))
    for window in range(70_000, 70_004):
        bench.feed(h2_peer.settings((4, window)))
    assert bench.code is None
    bench.feed(h2_peer.settings((4, 70_004)))
    assert bench.code == CALM


def test_header_lists_over_the_limit() -> None:
    """Each is refused with a reason; a peer that goes on with them is cut off, the sooner the larger they are."""
    bench = h2_bench.server(Limits(idle_frames=50, header_list=10_000))
    large = [*h2_bench.REQUEST, (b"x", b"y" * 15_000)]
    for i in range(3):
        bench.feed(bench.request(i * 2 + 1, large, end=True))
        assert bench.code is None
    bench.feed(bench.request(7, large, end=True))
    assert bench.code == CALM


def test_guard_of_a_peer_outlives_its_connections() -> None:
    """What one connection was cut off for counts for the next one too, until a second has passed."""
    one, two = h2_bench.server(LIMITS), h2_bench.server(LIMITS)
    two.conn.guard = one.conn.guard
    one.feed(*[h2_peer.ping()] * (LIMITS.idle_frames + 1))
    assert one.code == CALM
    assert one.conn.guard.exceeded
    two.feed(h2_peer.ping())
    assert two.code == CALM
    three = h2_bench.server(LIMITS)
    three.conn.guard = one.conn.guard
    three.tick()
    assert not three.conn.guard.exceeded
    three.feed(h2_peer.ping())
    assert three.code is None
