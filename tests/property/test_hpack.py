"""Laws of HPACK decoding: any list of fields, in any form, over any number of blocks."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from interpose.net.h2.hpack import HpackDecoder
from interpose.net.h2.hpack_tables import HuffmanDecoder
from tests.support.fuzz import h2 as h2fuzz
from tests.support.net import hpack
from tests.support.net.hpack import Decoder, Encoder, Pair


@dataclass(frozen=True)
class Written:
    """One field and how it is to be written."""

    pair: Pair
    how: str
    coded: bool
    by_index: bool


# Few names, so that the tables are used; some values are long, so that entries are evicted.
names = st.sampled_from([b":path", b"te", b"x", b"content-type", b"traceparent", b"cookie"]) | st.binary(
    min_size=1, max_size=12
)
values = st.sampled_from([b"", b"/", b"1", b"v" * 900, b"trailers"]) | st.binary(max_size=40)
fields = st.builds(
    Written,
    pair=st.tuples(names, values),
    how=st.sampled_from(["index", "plain", "never", "by index"]),
    coded=st.booleans(),
    by_index=st.booleans(),
)
sizes = st.lists(st.sampled_from([0, 40, 200, 1000, 4096]), max_size=2)
blocks = st.lists(st.tuples(sizes, st.lists(fields, max_size=12)), min_size=1, max_size=12)


def write(encoder: Encoder, field: Written) -> bytes:
    """A field in its form; by index only if a table has it."""
    if field.how == "by index":
        if field.pair in encoder.table.entries:
            return encoder.indexed(field.pair)
        return encoder.literal(field.pair, "index", coded=field.coded)
    return encoder.literal(field.pair, field.how, coded=field.coded, by_index=field.by_index)


@given(blocks)
def test_round_trip(conversation: list[tuple[list[int], list[Written]]]) -> None:
    """Every block decodes to what was encoded, and again to the same from the form in which we send it on."""
    encoder = Encoder()
    engine = HpackDecoder(HuffmanDecoder(), 10**6)
    onward = Decoder()
    for updates, written in conversation:
        block = b"".join([encoder.resize(size) for size in updates] + [write(encoder, field) for field in written])
        headers = engine.decode(block)
        assert headers.items() == [field.pair for field in written]
        sent = onward.decode(headers.wire)
        assert [field[:2] for field in sent] == headers.items()
        assert [form == "never" for _, _, form in sent] == [field.how == "never" for field in written]
    assert onward.table.dynamic == []


@given(st.lists(st.sampled_from([b"a", b"b", b"c"]), min_size=1, max_size=60), st.integers(30, 200))
def test_repeated_blocks_with_a_changing_table(values_seen: list[bytes], capacity: int) -> None:
    """The same bytes mean another field after each insertion; the memo must not remember the old one."""
    encoder = Encoder()
    engine = HpackDecoder(HuffmanDecoder(), 10**6)
    engine.decode(encoder.resize(capacity))
    for value in values_seen:
        engine.decode(encoder.literal((b"name", value), "index"))
        for pair in encoder.table.dynamic:
            assert engine.decode(encoder.indexed(pair)).items() == [pair]


@given(st.binary(max_size=200))
def test_huffman_round_trip(text: bytes) -> None:
    """Any bytes survive the Huffman code."""
    assert HuffmanDecoder().decode(hpack.huffman(text)) == text


@given(st.binary(max_size=300))
def test_garbage(data: bytes) -> None:
    """Any bytes decode to what they mean, or are a fault of the peer."""
    h2fuzz.check_hpack(data)
