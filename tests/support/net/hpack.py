"""HPACK for tests (RFC 7541): an encoder with every form the format has, and a plain decoder for what the engine sends.

The other opinion beside `interpose.net.h2.hpack`: own tables, no memos, no shortcuts. A test chooses the form of each
field; the encoder keeps the dynamic table that follows from it.
"""

from typing import Final

Pair = tuple[bytes, bytes]

# Symbols by the length of their code. Within a length, codes count up in the order of the symbols.
_SYMBOLS: Final[dict[int, list[int]]] = {
    5: [*b"012aceiost"],
    6: [*b" %-./3456789=A_bdfghlmnpru"],
    7: [*b":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz"],
    8: [*b"&*,;XZ"],
    10: [*b'!"()?'],
    11: [*b"'+|"],
    12: [*b"#>"],
    13: [0, *b"$@[]~"],
    14: [*b"^}"],
    15: [*b"<`{"],
    19: [92, 195, 208],
    20: [128, 130, 131, 162, 184, 194, 224, 226],
    21: [153, 161, 167, 172, 176, 177, 179, 209, 216, 217, 227, 229, 230],
    22: [*bytes.fromhex("81 84 85 86 88 92 9a 9c a0 a3 a4 a9 aa ad b2 b5 b9 ba bb bd be c4 c6 e4 e8 e9")],
    23: [*bytes.fromhex("01 87 89 8a 8b 8c 8d 8f 93 95 96 97 98 9b 9d 9e a5 a6 a8 ae af b4 b6 b7 bc bf c5 e7 ef")],
    24: [9, 142, 144, 145, 148, 159, 171, 206, 215, 225, 236, 237],
    25: [199, 207, 234, 235],
    26: [192, 193, 200, 201, 202, 205, 210, 213, 218, 219, 238, 240, 242, 243, 255],
    27: [203, 204, 211, 212, 214, 221, 222, 223, 241, 244, 245, 246, 247, 248, 250, 251, 252, 253, 254],
    28: [*range(2, 9), 11, 12, *range(14, 22), *range(23, 32), 127, 220, 249],
    30: [10, 13, 22, 256],
}


def _codes() -> dict[int, str]:
    """Symbol -> its code as a string of 0 and 1."""
    codes = {}
    code = length = 0
    for bits, symbols in _SYMBOLS.items():
        code <<= bits - length
        length = bits
        for symbol in symbols:
            codes[symbol] = format(code, f"0{bits}b")
            code += 1
    return codes


HUFFMAN: Final = _codes()
_BY_CODE: Final = {code: symbol for symbol, code in HUFFMAN.items()}

_STATIC_TEXT: Final = """
:authority|:method GET|:method POST|:path /|:path /index.html|:scheme http|:scheme https|:status 200|:status 204
:status 206|:status 304|:status 400|:status 404|:status 500|accept-charset|accept-encoding gzip, deflate
accept-language|accept-ranges|accept|access-control-allow-origin|age|allow|authorization|cache-control
content-disposition|content-encoding|content-language|content-length|content-location|content-range|content-type
cookie|date|etag|expect|expires|from|host|if-match|if-modified-since|if-none-match|if-range|if-unmodified-since
last-modified|link|location|max-forwards|proxy-authenticate|proxy-authorization|range|referer|refresh|retry-after
server|set-cookie|strict-transport-security|transfer-encoding|user-agent|vary|via|www-authenticate"""


def _static() -> list[Pair]:
    entries = _STATIC_TEXT.strip().replace("\n", "|").split("|")
    parts = [entry.encode().partition(b" ") for entry in entries]
    return [(name, value) for name, _, value in parts]


STATIC: Final = _static()


def integer(value: int, bits: int, pattern: int = 0) -> bytes:
    """An integer behind a prefix of `bits` (5.1)."""
    top = 2**bits - 1
    if value < top:
        return bytes((pattern | value,))
    value -= top
    out = [pattern | top]
    while value > 127:
        out.append(value % 128 + 128)
        value //= 128
    return bytes([*out, value])


def huffman(text: bytes) -> bytes:
    """The Huffman form, padded with ones."""
    bits = "".join(HUFFMAN[byte] for byte in text)
    bits += "1" * (-len(bits) % 8)
    return bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits), 8))


def string(text: bytes, *, coded: bool = False) -> bytes:
    """A string literal (5.2)."""
    if coded:
        text = huffman(text)
    return integer(len(text), 7, 0x80 if coded else 0) + text


class Table:
    """Static and dynamic table of one direction: newest dynamic entry at index 62."""

    def __init__(self, capacity: int = 4096) -> None:
        self.capacity = capacity
        self.dynamic: list[Pair] = []

    def add(self, pair: Pair) -> None:
        """Insert, and evict what no longer fits."""
        self.dynamic.insert(0, pair)
        self.resize(self.capacity)

    def resize(self, capacity: int) -> None:
        """Change the size, and evict what no longer fits."""
        self.capacity = capacity
        while sum(len(name) + len(value) + 32 for name, value in self.dynamic) > capacity:
            self.dynamic.pop()

    @property
    def entries(self) -> list[Pair]:
        """Everything an index may name; index 1 comes first."""
        return STATIC + self.dynamic

    def find(self, name: bytes) -> int:
        """An index with this name, or 0. The newest one, so that eviction by the insertion itself is met in tests."""
        for index in range(len(self.entries), 0, -1):
            if self.entries[index - 1][0] == name:
                return index
        return 0


class Encoder:
    """Writes header blocks in any form."""

    def __init__(self) -> None:
        self.table = Table()

    def resize(self, capacity: int) -> bytes:
        """A dynamic table size update."""
        self.table.resize(capacity)
        return integer(capacity, 5, 0x20)

    def indexed(self, pair: Pair) -> bytes:
        """One field by its index; it has to be in a table."""
        return integer(self.table.entries.index(pair) + 1, 7, 0x80)

    def literal(self, pair: Pair, how: str = "plain", *, coded: bool = False, by_index: bool = True) -> bytes:
        """One field as a literal: `plain` (not indexed), `index` (added to the table) or `never`."""
        bits, pattern = {"plain": (4, 0x00), "index": (6, 0x40), "never": (4, 0x10)}[how]
        index = self.table.find(pair[0]) if by_index else 0
        out = integer(index, bits, pattern)
        if not index:
            out += string(pair[0], coded=coded)
        if how == "index":
            self.table.add(pair)
        return out + string(pair[1], coded=coded)

    def block(self, pairs: list[Pair], how: str = "index", *, coded: bool = True) -> bytes:
        """A whole block: by index where a table has the field, else as a literal of this kind."""
        known = self.table
        return b"".join(
            self.indexed(pair) if pair in known.entries else self.literal(pair, how, coded=coded) for pair in pairs
        )


class Decoder:
    """Reads header blocks, with the form of each field: (name, value, form)."""

    def __init__(self) -> None:
        self.table = Table()
        self.updates: list[int] = []

    def decode(self, block: bytes) -> list[tuple[bytes, bytes, str]]:
        """All fields. Broken blocks raise whatever they run into: only the engine's own are read here."""
        found = []
        at = 0
        while at < len(block):
            first = block[at]
            if first & 0x80:
                index, at = _read_integer(block, at, 7)
                found.append((*self.table.entries[index - 1], "indexed"))
            elif first & 0x60 == 0x20:
                size, at = _read_integer(block, at, 5)
                self.updates.append(size)
                self.table.resize(size)
            else:
                how, bits = ("index", 6) if first & 0x40 else ("never" if first & 0x10 else "plain", 4)
                index, at = _read_integer(block, at, bits)
                if index:
                    name = self.table.entries[index - 1][0]
                else:
                    name, at = _read_string(block, at)
                value, at = _read_string(block, at)
                found.append((name, value, how))
                if how == "index":
                    self.table.add((name, value))
        return found

    def pairs(self, block: bytes) -> list[Pair]:
        """Names and values only."""
        return [(name, value) for name, value, _ in self.decode(block)]


def _read_integer(block: bytes, at: int, bits: int) -> tuple[int, int]:
    value = block[at] % 2**bits
    at += 1
    if value < 2**bits - 1:
        return value, at
    scale = 1
    while True:
        value += block[at] % 128 * scale
        scale *= 128
        at += 1
        if block[at - 1] < 128:
            return value, at


def _read_string(block: bytes, at: int) -> tuple[bytes, int]:
    coded = block[at] >= 128
    length, at = _read_integer(block, at, 7)
    text = block[at : at + length]
    return _unhuffman(text) if coded else text, at + length


def _unhuffman(text: bytes) -> bytes:
    out = bytearray()
    code = ""
    for bit in "".join(format(byte, "08b") for byte in text):
        code += bit
        if code in _BY_CODE:
            out.append(_BY_CODE[code])
            code = ""
    return bytes(out)
