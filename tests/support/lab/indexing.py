"""An HPACK encoder that indexes as grpc-go does: the sender our own code deliberately is not.

Every field goes into the dynamic table, a known pair is one index, a known name with a new value is a literal that is
indexed again, strings are Huffman-coded when that is shorter. So a header that changes with each call slowly pushes all
other fields out of the table, and they come back as literals: that is what a proxy sees from a tracing client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interpose.net.h2.hpack_tables import encode as huffman
from interpose.net.h2.static_table import STATIC_TABLE

if TYPE_CHECKING:
    from collections.abc import Iterable

TABLE_SIZE = 4096
ENTRY_OVERHEAD = 32


class IndexingEncoder:
    """Keeps the dynamic table of one connection's sending side."""

    def __init__(self, table_size: int = TABLE_SIZE) -> None:
        self._limit = table_size
        self._size = 0
        self._strings = StringCoder()
        self._entries: list[tuple[bytes, bytes]] = []  # newest first, as indexes count

    def encode(self, fields: Iterable[tuple[bytes, bytes]]) -> bytes:
        return b"".join(self._field(name, value) for name, value in fields)

    def _field(self, name: bytes, value: bytes) -> bytes:
        known = [*STATIC_TABLE, *self._entries]
        if (name, value) in known:
            return integer(known.index((name, value)) + 1, 7, 0x80)
        named = next((index for index, (other, _) in enumerate(known, 1) if other == name), 0)
        head = integer(named, 6, 0x40)
        self._add(name, value)
        return head + (b"" if named else self._strings.encode(name)) + self._strings.encode(value)

    def _add(self, name: bytes, value: bytes) -> None:
        self._entries.insert(0, (name, value))
        self._size += len(name) + len(value) + ENTRY_OVERHEAD
        while self._size > self._limit:
            old_name, old_value = self._entries.pop()
            self._size -= len(old_name) + len(old_value) + ENTRY_OVERHEAD


def integer(value: int, prefix: int, first: int) -> bytes:
    """An HPACK integer behind the flag bits of its first byte."""
    most = (1 << prefix) - 1
    if value < most:
        return bytes([first | value])
    out = bytearray([first | most])
    value -= most
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


class StringCoder:
    """String literals, Huffman-coded when that is shorter."""

    def __init__(self) -> None:
        # Eight times the same symbol need no padding: as many bytes as one code has bits, and the code is on top.
        # Worked out once, because the codec of `h2` is built for decoding and slow at this.
        eights = [huffman(bytes([symbol]) * 8) for symbol in range(256)]
        self._codes = [(len(eight), int.from_bytes(eight, "big") >> 7 * len(eight)) for eight in eights]

    def encode(self, text: bytes) -> bytes:
        bits = count = 0
        for symbol in text:
            length, code = self._codes[symbol]
            bits = bits << length | code
            count += length
        size = (count + 7) // 8
        if size >= len(text):
            return integer(len(text), 7, 0) + text
        padding = -count % 8
        coded = (bits << padding | (1 << padding) - 1).to_bytes(size, "big")
        return integer(size, 7, 0x80) + coded
