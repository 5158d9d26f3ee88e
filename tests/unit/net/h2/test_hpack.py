"""Decoding header blocks: RFC 7541, its limits, and the memos."""

import pytest

from interpose.net.h2.errors import ConnectionFault, ErrorCode
from interpose.net.h2.headers import Headers
from interpose.net.h2.hpack import HpackDecoder
from interpose.net.h2.hpack_tables import HuffmanDecoder
from tests.support.net.hpack import Decoder, Encoder, Pair, integer

LIMIT = 64 * 1024


def decoder(limit: int = LIMIT) -> HpackDecoder:
    """A decoder with an empty table."""
    return HpackDecoder(HuffmanDecoder(), limit)


def fault(target: HpackDecoder, block: bytes) -> ConnectionFault:
    """The fault this block ends in."""
    with pytest.raises(ConnectionFault) as caught:
        target.decode(block)
    return caught.value


def broken(block: bytes, target: HpackDecoder | None = None) -> str:
    """The reason why this block is a compression error."""
    error = fault(target or decoder(), block)
    assert error.code == ErrorCode.COMPRESSION_ERROR
    return error.reason


REQUEST_1 = [(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/"), (b":authority", b"www.example.com")]
REQUEST_2 = [*REQUEST_1, (b"cache-control", b"no-cache")]
REQUEST_3 = [
    (b":method", b"GET"),
    (b":scheme", b"https"),
    (b":path", b"/index.html"),
    (b":authority", b"www.example.com"),
    (b"custom-key", b"custom-value"),
]
DATE_21 = (b"date", b"Mon, 21 Oct 2013 20:13:21 GMT")
DATE_22 = (b"date", b"Mon, 21 Oct 2013 20:13:22 GMT")
LOCATION = (b"location", b"https://www.example.com")
COOKIE = (b"set-cookie", b"foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1")
RESPONSE_1 = [(b":status", b"302"), (b"cache-control", b"private"), DATE_21, LOCATION]
RESPONSE_2 = [(b":status", b"307"), (b"cache-control", b"private"), DATE_21, LOCATION]
RESPONSE_3 = [
    (b":status", b"200"),
    (b"cache-control", b"private"),
    DATE_22,
    LOCATION,
    (b"content-encoding", b"gzip"),
    COOKIE,
]


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        pytest.param(
            [
                "828684410f7777772e6578616d706c652e636f6d",
                "828684be58086e6f2d6361636865",
                "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
            ],
            [REQUEST_1, REQUEST_2, REQUEST_3],
            id="C.3-plain",
        ),
        pytest.param(
            [
                "828684418cf1e3c2e5f23a6ba0ab90f4ff",
                "828684be5886a8eb10649cbf",
                "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
            ],
            [REQUEST_1, REQUEST_2, REQUEST_3],
            id="C.4-huffman",
        ),
    ],
)
def test_published_requests(blocks: list[str], expected: list[list[Pair]]) -> None:
    """Three requests on one connection, the later ones by index into what the earlier ones left."""
    target = decoder()
    assert [target.decode(bytes.fromhex(block)).items() for block in blocks] == expected


@pytest.mark.parametrize("coded", [False, True])
def test_published_responses_with_eviction(coded: bool) -> None:
    """RFC 7541 C.5 and C.6: in a table of 256 bytes the third response pushes out what the first two put in."""
    encoder = Encoder()
    target = decoder()
    first = encoder.resize(256) + encoder.block(RESPONSE_1, coded=coded)
    assert target.decode(first).items() == RESPONSE_1
    assert target.decode(encoder.block(RESPONSE_2, coded=coded)).items() == RESPONSE_2
    assert target.decode(encoder.block(RESPONSE_3, coded=coded)).items() == RESPONSE_3
    assert encoder.table.dynamic == [COOKIE, (b"content-encoding", b"gzip"), DATE_22]
    for pair in encoder.table.dynamic:
        assert target.decode(encoder.indexed(pair)).items() == [pair]
    assert "does not exist" in broken(b"\xc1", target)


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ("400a637573746f6d2d6b65790d637573746f6d2d686561646572", (b"custom-key", b"custom-header", "plain")),
        ("040c2f73616d706c652f70617468", (b":path", b"/sample/path", "plain")),
        ("100870617373776f726406736563726574", (b"password", b"secret", "never")),
        ("82", (b":method", b"GET", "indexed")),
    ],
)
def test_published_fields(block: str, expected: tuple[bytes, bytes, str]) -> None:
    """RFC 7541 C.2: each form decodes, and goes out in a form that needs no table: never-indexed stays so."""
    headers = decoder().decode(bytes.fromhex(block))
    assert headers.items() == [expected[:2]]
    assert Decoder().decode(headers.wire) == [expected]


def test_never_indexed_is_kept_with_an_indexed_name() -> None:
    """The mark survives whether the name came by static index, by dynamic index or as text."""
    encoder = Encoder()
    target = decoder()
    target.decode(encoder.block([(b"x-token", b"1")]))
    pairs = [(b"authorization", b"Bearer s3cret"), (b"x-token", b"2"), (b"x-other", b"3"), (b":path", b"/x")]
    block = b"".join(encoder.literal(pair, "never", coded=True) for pair in pairs)
    assert block[0] & 0xF0 == 0x10
    wire = target.decode(block).wire
    assert Decoder().decode(wire) == [(*pair, "never") for pair in pairs]


def test_sending_form_needs_no_table() -> None:
    """What arrived by dynamic index leaves as a literal that is not indexed, Huffman-coded values included."""
    encoder = Encoder()
    target = decoder()
    pairs = [(b"traceparent", b"00-abc-def-01"), (b"user-agent", b"grpc-go/1.60"), (b":method", b"POST")]
    for coded in (False, True):
        target.decode(encoder.block(pairs, coded=coded))
        other = Decoder()
        assert other.pairs(target.decode(encoder.block(pairs)).wire) == pairs
        assert other.table.dynamic == []


def test_inserted_fields_leave_as_plain_literals() -> None:
    """Whatever index their name has: neither indexed nor marked as never to be."""
    for name in (b":path", b"accept-encoding", b"user-agent", b"x-new"):
        block = Encoder().literal((name, b"some value"), "index")
        assert Decoder().decode(decoder().decode(block).wire) == [(name, b"some value", "plain")]


def test_entry_larger_than_the_table_empties_it() -> None:
    """RFC 7541 4.4: no error, but nothing is left."""
    encoder = Encoder()
    target = decoder()
    target.decode(encoder.block([(b"a", b"1")]))
    big = (b"big", b"x" * 4096)
    assert target.decode(encoder.block([big])).items() == [big]
    assert encoder.table.dynamic == []
    assert "does not exist" in broken(b"\xbe", target)


def test_new_entry_may_take_its_name_from_one_it_evicts() -> None:
    """The name is read before room is made (RFC 7541 4.4)."""
    encoder = Encoder()
    target = decoder()
    name = b"n" * 100
    target.decode(encoder.resize(200) + encoder.block([(name, b"first")]))
    second = (name, b"s" * 60)
    assert target.decode(encoder.literal(second, "index")).items() == [second]
    assert target.decode(b"\xbe").items() == [second]
    assert "does not exist" in broken(b"\xbf", target)


def test_size_update_to_zero_and_back() -> None:
    """Two updates before the first field: the table is empty, and then usable again."""
    encoder = Encoder()
    target = decoder()
    target.decode(encoder.block([(b"a", b"1")]))
    block = encoder.resize(0) + encoder.resize(4096) + encoder.block([(b"b", b"2")])
    assert target.decode(block).items() == [(b"b", b"2")]
    assert target.decode(b"\xbe").items() == [(b"b", b"2")]
    assert "does not exist" in broken(b"\xbf", target)


def test_size_update_over_what_we_announced() -> None:
    """We never offered more than the default."""
    assert decoder().decode(integer(4096, 5, 0x20)).items() == []
    assert "4097" in broken(integer(4097, 5, 0x20))


def test_size_update_after_a_field() -> None:
    """It has to stand at the beginning, also when the field before it was too large to keep."""
    assert "size update" in broken(b"\x82\x20")
    assert "size update" in broken(Encoder().literal((b"a", b"b" * 100)) + b"\x20", decoder(100))


def test_size_updates_are_two_at_most() -> None:
    """The smallest size in between and the last one: whoever sends more makes work."""
    assert decoder().decode(b"\x20\x3f\xe1\x1f\x82").items() == [(b":method", b"GET")]
    assert "two table size updates" in broken(b"\x20\x20\x20")


@pytest.mark.parametrize("field", [b"\x90", b"\x50\x00", b"\x00\x01a\x00"])
def test_more_fields_than_fit_into_the_limit(field: bytes) -> None:
    """A list that is over the limit by its number of fields alone is not decoded to its end."""
    most = LIMIT // 32
    assert decoder().decode(field * most).oversized
    error = fault(decoder(), field * most * 4)
    assert (error.code, "too many fields" in error.reason) == (ErrorCode.ENHANCE_YOUR_CALM, True)


def test_index_zero() -> None:
    """Index 0 names nothing."""
    assert broken(b"\x80") == "index 0"


@pytest.mark.parametrize("block", [b"\xbe", integer(62, 4) + b"\0", integer(70, 6, 0x40) + b"\0", b"\xff\x80\x80\x08"])
def test_index_out_of_range(block: bytes) -> None:
    """Beyond both tables, as a field or as a name."""
    assert "does not exist" in broken(block)


@pytest.mark.parametrize("prefix", [b"\xff", b"\x3f", b"\x7f", b"\x0f", b"\x00\x7f", b"\x00\xff"])
def test_integer_overflow(prefix: bytes) -> None:
    """An integer that never ends is refused, wherever it stands."""
    assert broken(prefix + b"\x80" * 20 + b"\x01") == "integer is too long"


@pytest.mark.parametrize(
    "block", [b"\xff", b"\x00", b"\x40\x01", b"\x00\x01a", b"\x00\x03ab", b"\x00\x01a\x05abcd", b"\x3f"]
)
def test_cut_short(block: bytes) -> None:
    """A block may not end inside a field."""
    assert "cut short" in broken(block)


@pytest.mark.parametrize("coded", [b"\xff\xff\xff\xff", b"\x18", b"\xff"])
def test_bad_huffman_strings(coded: bytes) -> None:
    """EOS, wrong and overlong padding are compression errors."""
    assert broken(b"\x00\x01a" + bytes((0x80 | len(coded),)) + coded) != ""


def test_long_integers_and_strings() -> None:
    """Lengths that need several bytes."""
    pairs = [(b"n" * 130, b"v" * 20_000), (b"m" * 2100, b"w" * 127)]
    for coded in (False, True):
        encoder = Encoder()
        block = b"".join(encoder.literal(pair, coded=coded) for pair in pairs)
        headers = decoder().decode(block)
        assert headers.items() == pairs
        assert Decoder().pairs(headers.wire) == pairs


def test_list_over_the_limit_keeps_the_table() -> None:
    """The block is marked, the fields over the limit are dropped, and the table is as if it were all well."""
    encoder = Encoder()
    target = decoder(200)
    pairs = [(b"first", b"1"), (b"second", b"2" * 150), (b"third", b"3")]
    headers = target.decode(encoder.block(pairs))
    assert headers.oversized
    assert headers.items() == pairs[:1]
    assert headers.size == sum(len(name) + len(value) + 32 for name, value in pairs)
    for pair in (pairs[0], pairs[2]):
        assert target.decode(encoder.indexed(pair)).items() == [pair]


def test_limit_counts_as_the_rfc_does() -> None:
    """A list of exactly the limit passes."""
    pair = (b"name", b"value")
    just_right = decoder(41).decode(Encoder().literal(pair))
    assert (just_right.oversized, just_right.items()) == (False, [pair])
    assert decoder(40).decode(Encoder().literal(pair)).oversized


def test_decompression_bomb() -> None:
    """A few bytes that stand for far more than the limit end the connection before they are unpacked."""
    encoder = Encoder()
    target = decoder(1000)
    target.decode(encoder.block([(b"bomb", b"x" * 900)]))
    assert target.decode(b"\xbe" * 16).oversized
    assert fault(target, b"\xbe" * 20).code == ErrorCode.ENHANCE_YOUR_CALM


class TestMemo:
    """Whole blocks are remembered, but only while the table stays as it was."""

    def test_same_block_is_one_object(self) -> None:
        """A repeated block is not decoded again."""
        target = decoder()
        block = Encoder().block([(b":method", b"GET"), (b"x", b"y")], "plain")
        assert target.decode(block) is target.decode(block)

    def test_same_bytes_after_the_table_changed(self) -> None:
        """Index 62 means another field now."""
        encoder = Encoder()
        target = decoder()
        for value in (b"1", b"2", b"3"):
            target.decode(encoder.literal((b"x", value), "index"))
            assert target.decode(b"\xbe").items() == [(b"x", value)]
            assert target.decode(b"\xbe").items() == [(b"x", value)]

    def test_same_bytes_after_a_size_update(self) -> None:
        """An entry that was evicted is not remembered."""
        encoder = Encoder()
        target = decoder()
        target.decode(encoder.block([(b"x", b"1")]))
        target.decode(b"\xbe")
        target.decode(encoder.resize(0))
        assert "does not exist" in broken(b"\xbe", target)

    def test_inserting_block_is_decoded_each_time(self) -> None:
        """The same bytes that add an entry add it twice."""
        target = decoder()
        block = Encoder().literal((b"x", b"1"), "index")
        target.decode(block)
        target.decode(block)
        assert target.decode(b"\xbe\xbf").items() == [(b"x", b"1")] * 2

    def test_repeated_strings(self) -> None:
        """A Huffman-coded string met again in another block gives the same text."""
        target = decoder()
        for name in (b"a", b"b", b"c"):
            pair = (name, b"the same value")
            assert target.decode(Encoder().literal(pair, coded=True)).items() == [pair]

    def test_memory_is_bounded(self) -> None:
        """Many different blocks, names and strings: everything decodes, and the memo is dropped when full."""
        target = decoder()
        sizes = []
        for i in range(1200):
            pair = (b"name-%d" % i, b"value-%d" % i)
            assert target.decode(Encoder().literal(pair, coded=True)).items() == [pair]
            sizes.append(len(target.memo))
        assert max(sizes) <= 256
        assert sizes.count(1) > 1

    def test_large_lists_are_not_kept(self) -> None:
        """A short block that stands for a long list would make the memo large: 256 times the limit."""
        encoder = Encoder()
        target = decoder()
        target.decode(encoder.block([(b"x", b"1" * 3000)]))
        target.decode(b"\xbe" * 10)
        target.decode(Encoder().literal((b"y", b"2" * 3000)))
        assert target.memo == {}

    def test_long_names_and_strings_are_not_kept(self) -> None:
        """They decode the same the second time, though nobody remembered them."""
        target = decoder()
        pair = (b"n" * 2049, b"v" * 600)
        block = Encoder().literal(pair, coded=True)
        first: Headers = target.decode(block)
        assert first.items() == target.decode(block).items() == [pair]
