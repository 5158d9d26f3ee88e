"""Sizes of a terminal, out of a stream of JSON documents."""

import pytest

from interpose.net.streaming.terminal_size import Size, SizeReader, encode_size


def test_sizes_are_read_as_they_are_written() -> None:
    """One after the other, with white space or without."""
    data = encode_size(80, 24) + encode_size(0, 65535) + b'{"Height":1,"Width":2}{"width":3,"height":4} '
    assert SizeReader().feed(data) == [Size(80, 24), Size(0, 65535), Size(2, 1), Size(3, 4)]


def test_a_size_may_come_in_pieces() -> None:
    """Byte by byte gives the same."""
    reader = SizeReader()
    data = encode_size(80, 24) + encode_size(100, 50)
    assert [size for number in range(len(data)) for size in reader.feed(data[number : number + 1])] == [
        Size(80, 24),
        Size(100, 50),
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"size",
        b"[80,24]",
        b'{"Width":"80"}',
        b'{"Width":-1}',
        b'{"Width":65536}',
        b'{"Width":true}',
        b"{80}",
        b"{" + b" " * 2000,
    ],
)
def test_what_is_no_size_ends_the_reading(data: bytes) -> None:
    """What came before counts, what comes after does not."""
    reader = SizeReader()
    assert reader.feed(encode_size(80, 24) + data) == [Size(80, 24)]
    assert reader.feed(encode_size(80, 24)) == []
