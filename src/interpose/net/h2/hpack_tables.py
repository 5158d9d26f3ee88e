"""The Huffman code of HPACK (RFC 7541 appendix B), decoding only.

The code is canonical: codes of one length are consecutive and follow the order of the symbols, so the lengths say it
all. We never encode with it: strings that arrive Huffman-coded are passed on as they came.

DEFLATE codes are canonical too, of at most 15 bits. All symbols of ordinary text have shorter codes here, and exactly
one code of 15 bits is left, the beginning of all longer ones. So a DEFLATE block with these lengths, and its end mark
in that place, lets zlib decode ordinary strings; only the bits of each byte have to be turned round. A string zlib
cannot take (rare symbols, mistakes) walks a byte-at-a-time automaton whose states are unfinished codes; transitions are
worked out when first met. There are at most 256 states, and few are ever met.
"""

import zlib
from itertools import accumulate
from operator import getitem, itemgetter
from typing import Any, Final, TypeAlias

# Length in bits of the code of each symbol 0..255; the last one is EOS.
_LENGTHS: Final = (
    [13, 23] + [28] * 7 + [24, 30, 28, 28, 30] + [28] * 8 + [30] + [28] * 9
    + [6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6]
    + [5, 5, 5] + [6] * 7 + [7, 8, 15, 6, 12, 10]
    + [13, 6] + [7] * 22 + [8, 7, 8, 13, 19, 13, 14, 6]
    + [15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28]
    + [20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23]
    + [24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24]
    + [22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23]
    + [21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23]
    + [26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25]
    + [19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27]
    + [20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23]
    + [26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26]
    + [30]
)  # fmt: skip
_EOS: Final = 256
_DEFLATE_LONGEST: Final = 15


def _codes() -> dict[tuple[int, int], int]:
    """(length, code) -> symbol, from the lengths alone."""
    table: dict[tuple[int, int], int] = {}
    code = 0
    previous = 0
    for length, symbol in sorted((length, symbol) for symbol, length in enumerate(_LENGTHS)):
        code <<= length - previous
        table[length, code] = symbol
        code += 1
        previous = length
    return table


def encode(text: bytes) -> bytes:
    """The Huffman form of a string. For tests and load clients: the relay itself never calls it."""
    forms = {symbol: (length, code) for (length, code), symbol in _codes().items()}
    bits = 0
    count = 0
    for byte in text:
        length, code = forms[byte]
        bits = bits << length | code
        count += length
    padding = -count % 8
    return (bits << padding | (1 << padding) - 1).to_bytes((count + padding) // 8, "big")


_REVERSED: Final = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
_SHORT_LENGTHS: Final = bytes(length if length <= _DEFLATE_LONGEST else 0 for length in _LENGTHS[:256])


def _deflate_header() -> bytes:
    """The head of a DEFLATE block (RFC 1951 3.2.7) with our code, so long that the first code begins a byte."""
    lengths = [*_SHORT_LENGTHS, _DEFLATE_LONGEST]
    bits = "1" + "01"  # the last block, with a code of its own (multi-bit fields are sent lowest bit first)
    bits += f"{0:05b}{0:05b}{15:04b}"  # 257 symbols, one distance symbol, 19 lengths of the code for lengths
    bits += "000" * 3 + "001" * 16  # that code: none for the three repeat symbols, four bits for each length
    bits += "".join(f"{length:04b}" for length in [*lengths, 0])  # codes are sent highest bit first
    while len(bits) % 8:
        bits = "0" + "10" + "0" * 7 + bits  # an empty block with the fixed code
    return bytes(int(bits[at : at + 8][::-1], 2) for at in range(0, len(bits), 8))


class HuffmanError(Exception):
    """The bytes are not a Huffman-coded string."""


# One state: its successors by byte, None until first met, and at the end the symbols each byte yields on the way.
_Row: TypeAlias = list[Any]
_symbols: Final = itemgetter(256)


class HuffmanDecoder:
    """Decodes strings; share one per process, its automaton grows to a bounded size."""

    def __init__(self) -> None:
        self._codes = _codes()
        self._rows: dict[tuple[int, int], _Row] = {}  # (bits so far, their value) -> row
        self._states: dict[int, tuple[int, int]] = {}  # id of a row -> what it stands for
        self._start = self._row(0, 0)
        self._inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        self._inflater.decompress(_deflate_header())

    def decode(self, raw: bytes) -> bytes:
        """The string, or HuffmanError: an unknown code, EOS inside, or padding that is not a short run of ones."""
        text = self.inflate(raw)
        return self.walk(raw) if text is None else text

    def inflate(self, raw: bytes) -> bytes | None:
        """The string if zlib can take it; None if it has rare symbols or a mistake."""
        inflater = self._inflater.copy()
        text = inflater.decompress(raw.translate(_REVERSED))
        padding = len(raw) * 8 - sum(text.translate(_SHORT_LENGTHS))
        if padding < 8 and not inflater.eof:
            ones = (1 << padding) - 1
            if not ones or raw[-1] & ones == ones:
                return text
        return None

    def walk(self, raw: bytes) -> bytes:
        """The string by the automaton, which takes anything and about twenty times as long."""
        try:
            rows = list(accumulate(raw, getitem, initial=self._start))
            bits, value = self._states[id(rows.pop())]
        except (TypeError, KeyError):  # the walk has met None
            self._explore(raw)
            return self.walk(raw)
        if bits > 7 or value != (1 << bits) - 1:
            raise HuffmanError("padding is not a short run of ones")
        return b"".join(map(getitem, map(_symbols, rows), raw))

    def _row(self, bits: int, value: int) -> _Row:
        row = self._rows.get((bits, value))
        if row is None:
            row = self._rows[bits, value] = [None] * 256 + [[b""] * 256]
            self._states[id(row)] = (bits, value)
        return row

    def _explore(self, raw: bytes) -> None:
        """Work out every transition this string needs."""
        row = self._start
        for byte in raw:
            if row[byte] is None:
                self._step(row, byte)
            row = row[byte]

    def _step(self, row: _Row, byte: int) -> None:
        bits, value = self._states[id(row)]
        symbols = bytearray()
        for shift in range(7, -1, -1):
            value = value << 1 | (byte >> shift & 1)
            bits += 1
            symbol = self._codes.get((bits, value))
            if symbol is not None:
                if symbol == _EOS:
                    raise HuffmanError("EOS inside a string")
                symbols.append(symbol)
                bits = value = 0
        row[256][byte] = bytes(symbols)
        row[byte] = self._row(bits, value)
