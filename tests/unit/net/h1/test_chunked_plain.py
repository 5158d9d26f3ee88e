"""Whole chunks with plain sizes: all of them are passed, and nothing else is."""

import pytest

from interpose.net.h1.chunked import decode_plain_chunks, skip_plain_chunks


def chunk(size: int, form: bytes = b"%x") -> bytes:
    """A chunk whose data looks like framing."""
    return b"%s\r\n%s\r\n" % (form % size, (b"\r\n1\r\n0" * size)[:size])


def both(piece: bytes, at: int = 0) -> tuple[int, bytes]:
    """Where both stop, and the data."""
    payload: list[bytes] = []
    stop = decode_plain_chunks(piece, at, payload)
    assert skip_plain_chunks(piece, at) == stop
    return stop, b"".join(payload)


@pytest.mark.parametrize("form", [b"%x", b"%X", b"0%x", b"%014x", b"%015X"])
def test_every_size_is_read(form: bytes) -> None:
    """Small ones and larger ones, in any form that is plain."""
    for size in [*range(1, 300), 4095, 4096, 70_000]:
        piece = chunk(size, form)
        assert both(piece) == (len(piece), (b"\r\n1\r\n0" * size)[:size])


def test_many_are_read_at_once() -> None:
    """More than the expression takes in one go, and of mixed sizes."""
    piece = chunk(1) * 1000 + chunk(300) * 3 + chunk(200) * 600
    assert both(piece)[0] == len(piece)
    assert len(both(piece)[1]) == 1000 + 900 + 120_000


def test_it_begins_where_it_is_told() -> None:
    """The head stands before."""
    assert both(b"head" + chunk(5) + b"0\r\n", 4) == (14, b"\r\n1\r\n")


@pytest.mark.parametrize("before", [b"", chunk(3), chunk(300)])
@pytest.mark.parametrize(
    "rest",
    [
        b"",
        b"0\r\n\r\n",
        b"00\r\n\r\n",
        b"5",
        b"5\r",
        b"5\r\n",
        b"5\r\nhell",
        b"5\r\nhello",
        b"5\r\nhello\r",
        b"5\r\nhelloXX",
        b"5\r\nhello\n\n",
        b"5\r\nhello!\r\n",
        b"5\nhello\r\n",
        b"5 \r\nhello\r\n",
        b" 5\r\nhello\r\n",
        b"+5\r\nhello\r\n",
        b"0x5\r\nhello\r\n",
        b"5;a\r\nhello\r\n",
        b"g\r\nhello\r\n",
        b"1_0\r\nhello0123456789\r\n",
        b"\r\nhello\r\n",
        b"0000000000000005\r\nhello\r\n",
        b"400\r\nhello\r\n",
        b"fffffffffffffff\r\nhello\r\n",
    ],
)
def test_everything_else_is_left(before: bytes, rest: bytes) -> None:
    """What is cut, what is wrong, what is more than a size, and the last one."""
    assert both(before + rest)[0] == len(before)
