"""What attacks are made of: header blocks of calls, chunks of frames, calls that were opened."""

from collections.abc import Callable
from typing import Final

from tests.support.hostile.paths import BIG, FLOOD, MIDDLING, QUICK, STALLED, TAKEN
from tests.support.hostile.peer import HostilePeer
from tests.support.net.h2_peer import headers
from tests.support.net.hpack import Encoder

Attack = Callable[[HostilePeer], None]

# Settings by their number on the wire.
TABLE, WINDOW = 1, 4
STREAMS: Final = 990
# As much as goes out at once: more than a proxy reads at once.
_CHUNK: Final = 256 * 1024
EMPTY_MESSAGE: Final = b"\0\0\0\0\0"


def request(path: bytes, *more: tuple[bytes, bytes]) -> bytes:
    """The header block of a call that needs no table: the same bytes on any connection."""
    pairs = [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", path),
        (b":authority", b"localhost"),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
        *more,
    ]
    return Encoder().block(pairs, "plain", coded=False)


QUICK_CALL: Final = request(QUICK)
BIG_CALL: Final = request(BIG)
MIDDLING_CALL: Final = request(MIDDLING)
STALLED_CALL: Final = request(STALLED)
TAKEN_CALL: Final = request(TAKEN)
FLOOD_CALL: Final = request(FLOOD)


def filled(frame: bytes) -> bytes:
    """A chunk full of one frame."""
    return frame * max(1, _CHUNK // len(frame))


def repeat(peer: HostilePeer, chunk: bytes) -> None:
    """The same for ever."""
    while True:
        peer.send(chunk)


def opened(peer: HostilePeer, block: bytes, count: int, *, end: bool) -> list[int]:
    """That many calls at once; the numbers of their streams."""
    numbers = [peer.next_stream() for _ in range(count)]
    peer.send(b"".join(headers(number, block, end=end) for number in numbers))
    return numbers


def waiting_replies(peer: HostilePeer) -> list[int]:
    """Calls whose replies are there and may not be sent: their windows are closed."""
    peer.hello((WINDOW, 0))
    numbers = opened(peer, MIDDLING_CALL, STREAMS, end=True)
    peer.await_frames("HEADERS", STREAMS)
    return numbers


def send_numbered(peer: HostilePeer, make: Callable[[int], bytes], count: int = 1000) -> None:
    while True:
        peer.send(b"".join(make(peer.next_stream()) for _ in range(count)))
