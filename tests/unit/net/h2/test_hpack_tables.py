"""The Huffman code of HPACK, against a table of its own (`tests.support.net.hpack`)."""

import pytest

from interpose.net.h2.hpack_tables import HuffmanDecoder, HuffmanError, encode
from tests.support.net import hpack

EOS = "1" * 30


def packed(bits: str) -> bytes:
    """A string of 0 and 1 as bytes; its length is a multiple of eight."""
    return bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits), 8))


@pytest.mark.parametrize("symbol", range(256))
def test_every_symbol(symbol: int) -> None:
    """Each of the 256 symbols decodes, alone and among others, and encodes to the same bytes as the other table."""
    for text in (bytes((symbol,)), bytes((symbol,)) * 9, b"a" + bytes((symbol,)) + b"z"):
        coded = hpack.huffman(text)
        assert HuffmanDecoder().decode(coded) == text
        assert encode(text) == coded


def test_code_is_complete() -> None:
    """The lengths fill the code space exactly, and EOS is thirty ones: no code is missing from the test's own table."""
    assert sum(2.0 ** -len(code) for code in hpack.HUFFMAN.values()) == 1.0
    assert hpack.HUFFMAN[256] == EOS


@pytest.mark.parametrize(
    ("text", "coded"),
    [
        (b"www.example.com", "f1e3c2e5f23a6ba0ab90f4ff"),
        (b"no-cache", "a8eb10649cbf"),
        (b"custom-key", "25a849e95ba97d7f"),
        (b"custom-value", "25a849e95bb8e8b4bf"),
        (b"private", "aec3771a4b"),
        (b"Mon, 21 Oct 2013 20:13:21 GMT", "d07abe941054d444a8200595040b8166e082a62d1bff"),
    ],
)
def test_published_examples(text: bytes, coded: str) -> None:
    """The strings of RFC 7541 appendix C."""
    assert HuffmanDecoder().decode(bytes.fromhex(coded)) == text


def test_one_decoder_serves_many_strings() -> None:
    """What one string taught the automaton does not disturb the next, repeated or new."""
    decoder = HuffmanDecoder()
    texts = [bytes((i, 255 - i, i)) for i in range(256)] * 2
    assert [decoder.decode(hpack.huffman(text)) for text in texts] == texts


def test_empty_string() -> None:
    """No bytes are the empty string."""
    assert HuffmanDecoder().decode(b"") == b""


@pytest.mark.parametrize("after", ["", hpack.HUFFMAN[ord("a")]])
def test_eos_is_an_error(after: str) -> None:
    """EOS may not be part of a string, wherever it stands (RFC 7541 5.2)."""
    bits = hpack.HUFFMAN[ord("a")] + EOS + after
    with pytest.raises(HuffmanError, match="EOS"):
        HuffmanDecoder().decode(packed(bits + "1" * (-len(bits) % 8)))


def test_padding_of_zeros_is_an_error() -> None:
    """Padding is ones only."""
    with pytest.raises(HuffmanError, match="padding"):
        HuffmanDecoder().decode(packed(hpack.HUFFMAN[ord("a")] + "000"))


def test_padding_of_a_whole_byte_is_an_error() -> None:
    """Eight bits of padding are one too many, seven are not."""
    seven = hpack.HUFFMAN[ord("a")] + hpack.HUFFMAN[ord("!")] + "1" * 1
    assert len(seven) == 16
    assert HuffmanDecoder().decode(packed(seven)) == b"a!"
    with pytest.raises(HuffmanError, match="padding"):
        HuffmanDecoder().decode(packed(seven) + b"\xff")
    with pytest.raises(HuffmanError, match="padding"):
        HuffmanDecoder().decode(b"\xff")
