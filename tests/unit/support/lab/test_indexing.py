"""The indexing encoder: what it writes is what our decoder reads, over many header blocks."""

from __future__ import annotations

from tests.support.lab.indexing import IndexingEncoder, StringCoder, integer


def test_integers_of_the_rfc() -> None:
    """The examples of RFC 7541, appendix C.1."""
    assert integer(10, 5, 0) == b"\x0a"
    assert integer(1337, 5, 0) == b"\x1f\x9a\x0a"
    assert integer(42, 8, 0) == b"\x2a"


def test_requests_of_the_rfc() -> None:
    """Three requests on one connection give the bytes of RFC 7541, appendix C.4."""
    encoder = IndexingEncoder()
    base = [(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/"), (b":authority", b"www.example.com")]
    assert encoder.encode(base).hex() == "828684418cf1e3c2e5f23a6ba0ab90f4ff"
    assert encoder.encode([*base, (b"cache-control", b"no-cache")]).hex() == "828684be5886a8eb10649cbf"
    third = [(b":method", b"GET"), (b":scheme", b"https"), (b":path", b"/index.html"), base[3]]
    expected = "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf"
    assert encoder.encode([*third, (b"custom-key", b"custom-value")]).hex() == expected


def test_a_changing_value_pushes_others_out() -> None:
    """Fields that were one index are literals again after enough new entries."""
    encoder = IndexingEncoder(table_size=200)
    stable = [(b"te", b"trailers")]
    literal = encoder.encode(stable)
    assert len(encoder.encode(stable)) == 1
    for number in range(10):
        encoder.encode([(b"traceparent", b"value-%d" % number)])
    assert encoder.encode(stable) == literal


def test_a_string_that_huffman_would_lengthen_stays_plain() -> None:
    """Rare bytes are written as they are."""
    assert StringCoder().encode(b"\xff\xfe") == b"\x02\xff\xfe"
