"""The test peer's own HPACK, against the examples printed in RFC 7541."""

import pytest

from tests.support.net.hpack import STATIC, Decoder, Encoder, Table, huffman, integer

FIRST = [(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/"), (b":authority", b"www.example.com")]
SECOND = [*FIRST, (b"cache-control", b"no-cache")]


@pytest.mark.parametrize(
    ("value", "bits", "expected"), [(10, 5, "0a"), (1337, 5, "1f9a0a"), (42, 8, "2a"), (31, 5, "1f00")]
)
def test_integers(value: int, bits: int, expected: str) -> None:
    """RFC 7541 C.1."""
    assert integer(value, bits).hex() == expected


def test_requests() -> None:
    """RFC 7541 C.4, written and read."""
    encoder = Encoder()
    blocks = [encoder.block(FIRST), encoder.block(SECOND)]
    assert [block.hex() for block in blocks] == ["828684418cf1e3c2e5f23a6ba0ab90f4ff", "828684be5886a8eb10649cbf"]
    decoder = Decoder()
    assert [decoder.pairs(block) for block in blocks] == [FIRST, SECOND]
    assert decoder.table.dynamic == encoder.table.dynamic == [(b"cache-control", b"no-cache"), FIRST[3]]


def test_forms() -> None:
    """The form of each field is told; size updates are noted."""
    encoder = Encoder()
    block = encoder.resize(100) + encoder.indexed((b":method", b"GET"))
    block += encoder.literal((b"a", b"1" * 200), "plain") + encoder.literal((b"b", b"2"), "index", by_index=False)
    block += encoder.literal((b":path", b"3"), "never")
    decoder = Decoder()
    assert [form for _, _, form in decoder.decode(block)] == ["indexed", "plain", "index", "never"]
    assert decoder.updates == [100]


def test_eviction() -> None:
    """The oldest goes first, at an insertion and at a change of size."""
    table = Table(70)
    table.add((b"a", b"1"))
    table.add((b"b", b"2"))
    table.add((b"c", b"3"))
    assert table.dynamic == [(b"c", b"3"), (b"b", b"2")]
    table.resize(34)
    assert table.entries == [*STATIC, (b"c", b"3")]
    assert (table.find(b"c"), table.find(b"b"), table.find(b":path")) == (62, 0, 5)


def test_huffman() -> None:
    """RFC 7541 C.6.1."""
    assert huffman(b"Mon, 21 Oct 2013 20:13:21 GMT").hex() == "d07abe941054d444a8200595040b8166e082a62d1bff"
