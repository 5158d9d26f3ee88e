"""The receiving half of HPACK (RFC 7541): a full decoder with a dynamic table and bounded memos.

Speed comes in two steps. A whole block that was seen before, while the dynamic table has not changed since, is one
dictionary look-up. Otherwise fields are decoded one by one; a field in a table already knows its outgoing form, so
only new literals cost work. Memos are dropped when full: nothing here grows with traffic.

The sending half keeps no state: see `headers.Field.wire`.
"""

from typing import Final

from interpose.h2.errors import ConnectionFault, ErrorCode
from interpose.h2.headers import (
    Field,
    Headers,
    kind_of,
    kind_of_field,
    make_field,
    name_prefix,
    never_indexed,
)
from interpose.h2.huffman import HuffmanDecoder, HuffmanError
from interpose.h2.static_table import STATIC_TABLE

TABLE_SIZE: Final = 4096  # SETTINGS_HEADER_TABLE_SIZE's default; we never announce another

_MEMO_ENTRIES: Final = 256
_MEMO_LONGEST: Final = 2048
_MEMO_LARGEST: Final = 8192  # a short block may stand for a long list
_STRINGS: Final = 512
_STATIC: Final[tuple[Field, ...]] = tuple(make_field(name, value) for name, value in STATIC_TABLE)
_STATIC_COUNT: Final = len(_STATIC)
_ENTRY_OVERHEAD: Final = 32
# Above this multiple of the limit a block is an attack, not a large request.
_BOMB: Final = 16


class HpackDecoder:
    """Decodes the header blocks of one connection, in the order they arrive."""

    def __init__(self, huffman: HuffmanDecoder, max_list: int) -> None:
        self._huffman = huffman
        self._max_list = max_list
        self._entries: list[Field] = []  # oldest first: index 62 is the last one
        self._used = 0
        self._capacity = TABLE_SIZE
        self._strings: dict[bytes, bytes] = {}
        self._names: dict[bytes, tuple[int, bytes]] = {}
        self.memo: dict[bytes, Headers] = {}

    def decode(self, block: bytes) -> Headers:
        """The fields of a block. Raises ConnectionFault: after a bad block the table cannot be trusted."""
        headers = self.memo.get(block)
        if headers is not None:
            return headers
        try:
            return self._decode(block)
        except IndexError:
            raise _broken("block is cut short or names an entry that does not exist") from None
        except HuffmanError as error:
            raise _broken(str(error)) from None

    def _decode(self, block: bytes) -> Headers:
        entries = self._entries
        fields: list[Field] = []
        size = 0
        changed = False
        position = 0
        end = len(block)
        limit = self._max_list
        while position < end:
            byte = block[position]
            position += 1
            if byte & 0x80:
                index = byte & 0x7F
                if index == 0x7F:
                    index, position = _integer(block, position, 0x7F)
                if index > _STATIC_COUNT:
                    field = entries[_STATIC_COUNT - index]
                elif index:
                    field = _STATIC[index - 1]
                else:
                    raise _broken("index 0")
            elif byte & 0xE0 == 0x20:
                if size:
                    raise _broken("table size update after a field")
                capacity = byte & 0x1F
                if capacity == 0x1F:
                    capacity, position = _integer(block, position, 0x1F)
                self._resize(capacity)
                changed = True
                continue
            else:
                field, position = self._literal(block, byte, position)
                if byte & 0x40:
                    self._insert(field)
                    changed = True
            size += field.size
            if size <= limit:
                fields.append(field)
            elif size > limit * _BOMB:
                raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "header list decompresses to far over the limit")
        headers = Headers(fields, size, oversized=size > limit)
        if changed:
            if self.memo:
                self.memo.clear()
        elif end <= _MEMO_LONGEST and size <= _MEMO_LARGEST:
            if len(self.memo) >= _MEMO_ENTRIES:
                self.memo.clear()
            self.memo[block] = headers
        return headers

    def _literal(self, block: bytes, byte: int, position: int) -> tuple[Field, int]:
        mask = 0x3F if byte & 0x40 else 0x0F
        index = byte & mask
        if index == mask:
            index, position = _integer(block, position, mask)
        if index:
            known = self._entries[_STATIC_COUNT - index] if index > _STATIC_COUNT else _STATIC[index - 1]
            name = known.name
            prefix = known.prefix
            name_kind = kind_of(name)
        else:
            name, position = self._string(block, position)
            about = self._names.get(name)
            if about is None:
                about = self._learn(name)
            name_kind, prefix = about
        start = position
        value, position = self._string(block, position)
        if byte & 0x50 == 0x10:
            prefix = never_indexed(prefix)
        # The string goes on as it came, Huffman-coded or not: its own length prefix included.
        field = Field(name, value, kind_of_field(name, name_kind, value), prefix, prefix + block[start:position])
        return field, position

    def _learn(self, name: bytes) -> tuple[int, bytes]:
        about = (kind_of(name), name_prefix(name))
        if len(self._names) >= _STRINGS:
            self._names.clear()
        if len(name) <= _MEMO_LONGEST:
            self._names[name] = about
        return about

    def _string(self, block: bytes, position: int) -> tuple[bytes, int]:
        length = block[position] & 0x7F
        coded = block[position] & 0x80
        position += 1
        if length == 0x7F:
            length, position = _integer(block, position, 0x7F)
        end = position + length
        raw = block[position:end]
        if len(raw) != length:
            raise _broken("string is cut short")
        if not coded:
            return raw, end
        text = self._strings.get(raw)
        if text is None:
            text = self._huffman.decode(raw)
            if len(raw) <= 256:
                if len(self._strings) >= _STRINGS:
                    self._strings.clear()
                self._strings[raw] = text
        return text, end

    def _insert(self, field: Field) -> None:
        self._used += field.size
        self._entries.append(field)
        self._evict()

    def _resize(self, capacity: int) -> None:
        if capacity > TABLE_SIZE:
            raise _broken(f"table size update to {capacity}, allowed are {TABLE_SIZE}")
        self._capacity = capacity
        self._evict()

    def _evict(self) -> None:
        entries = self._entries
        count = 0
        while self._used > self._capacity:
            self._used -= entries[count].size
            count += 1
        if count:
            del entries[:count]


def _integer(block: bytes, position: int, value: int) -> tuple[int, int]:
    shift = 0
    while True:
        byte = block[position]
        position += 1
        value += (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, position
        shift += 7
        if shift > 28:
            raise _broken("integer is too long")


def _broken(reason: str) -> ConnectionFault:
    return ConnectionFault(ErrorCode.COMPRESSION_ERROR, reason)
