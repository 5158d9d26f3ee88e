"""Attacks by header blocks: large entries of the table, many small frames, fields that cost much to decode."""

from tests.support.hostile.calls import EMPTY_MESSAGE, QUICK_CALL, Attack, filled, repeat, request, send_numbered
from tests.support.hostile.paths import QUICK
from tests.support.hostile.peer import HostilePeer
from tests.support.net.h2_peer import continuation, data, headers
from tests.support.net.hpack import Encoder, integer, string


def calls_with(block: bytes, *, first: bytes = b"", settled: bool = True) -> Attack:
    """Calls that repeat one header block; `first` is an earlier one that fills the table."""

    def attack(peer: HostilePeer) -> None:
        peer.hello()
        if first:
            peer.send(headers(peer.next_stream(), first, end=True))
        while True:
            before = peer.seen["HEADERS"]
            peer.send(b"".join(block_frames(peer.next_stream(), block) for _ in range(50)))
            if settled:
                peer.await_frames("HEADERS", before + 50, 0.02)

    return attack


def block_frames(number: int, block: bytes, size: int = 16_384, *, end: bool = True) -> bytes:
    """A header block in frames of this size."""
    parts = [block[at : at + size] for at in range(0, len(block), size)]
    out = headers(number, parts[0], end=end, more=len(parts) > 1)
    return out + b"".join(continuation(number, part, more=at < len(parts) - 2) for at, part in enumerate(parts[1:]))


def _entry(size: int) -> tuple[bytes, bytes]:
    """A header block that puts one large entry into the table, and a reference to it."""
    encoder = Encoder()
    first = encoder.block([(b"x-large", b"v" * size)], "index", coded=False)
    return QUICK_CALL + first, integer(62, 7, 0x80)


def large_entry_calls(count: int) -> Attack:
    first, reference = _entry(4000)
    return calls_with(QUICK_CALL + reference * count, first=first)


def referenced_at_once(peer: HostilePeer) -> None:
    """950 calls in one write, each with 15 references to an entry of 4000 bytes."""
    first, reference = _entry(4000)
    peer.hello()
    peer.send(headers(peer.next_stream(), first, end=True))
    peer.await_frames("HEADERS", 2)
    while True:
        before = peer.seen["HEADERS"]
        numbers = [peer.next_stream() for _ in range(950)]
        peer.send(b"".join(headers(number, QUICK_CALL + reference * 15, end=True) for number in numbers))
        peer.await_frames("HEADERS", before + 950)


def insertions(size: int, count: int) -> bytes:
    """Literals that go into the table, each one pushing others out."""
    return b"".join(b"\x40" + string(b"%x" % number) + string(b"v" * size) for number in range(count))


def many_small_continuations(peer: HostilePeer) -> None:
    """250 KB in a thousand pieces."""
    block = QUICK_CALL + b"".join(b"\x00" + string(b"x-%d" % n) + string(b"v" * 200) for n in range(1200))
    peer.hello()
    while True:
        peer.send(block_frames(peer.next_stream(), block, 250))


def continuation_flood(peer: HostilePeer) -> None:
    """CVE-2024-27316: a block that does not end."""
    peer.hello()
    peer.send(headers(peer.next_stream(), QUICK_CALL, more=True))
    repeat(peer, filled(continuation(1, b"", more=True)))


def one_byte_continuations(peer: HostilePeer) -> None:
    """A small request in pieces of one byte."""
    peer.hello()
    send_numbered(peer, lambda number: block_frames(number, QUICK_CALL, 1), 20)


def changing_headers(peer: HostilePeer) -> None:
    """Every call has fields that were never seen before: nothing that is kept helps."""
    peer.hello()

    def call(number: int) -> bytes:
        fields = [(b"x-%d-%d" % (number, n), b"%d" % (number * n)) for n in range(20)]
        return headers(number, request(QUICK, *fields), end=True)

    while True:
        before = peer.seen["HEADERS"]
        peer.send(b"".join(call(peer.next_stream()) for _ in range(50)))
        peer.await_frames("HEADERS", before + 100, 0.05)


STATIC_FIELD = b"\x90"  # accept-encoding, by its index
INSERTED = insertions(1, 3000)
HUFFMAN_RARE = b"\x00" + string(b"x") + integer(2000, 7, 0x80) + b"\xff\xff\xff\xea" * 500
HUFFMAN_COMMON = b"".join(b"\x00" + string(b"x-%d" % n) + string(b"0" * 400, coded=True) for n in range(60))


def trailers(block: bytes) -> Attack:
    """Calls that end with this block."""

    def attack(peer: HostilePeer) -> None:
        peer.hello()
        while True:
            before = peer.seen["HEADERS"]
            numbers = [peer.next_stream() for _ in range(50)]
            peer.send(
                b"".join(headers(n, QUICK_CALL) + data(n, EMPTY_MESSAGE) + block_frames(n, block) for n in numbers)
            )
            peer.await_frames("HEADERS", before + 50, 0.05)

    return attack
