"""The receiving half of HPACK (RFC 7541): a full decoder with a dynamic table and bounded memos.

Speed comes in two steps. A whole block that was seen before, while the dynamic table has not changed since, is one
dictionary look-up. Otherwise fields are decoded one by one; a field in a table already knows its outgoing form, so
only new literals cost work. Memos are dropped when full: nothing here grows with traffic.

The sending half keeps no state: see `headers.Field.wire`.
"""

from itertools import accumulate
from typing import Final

from interpose.net.h2.errors import ConnectionFault, ErrorCode
from interpose.net.h2.headers import Field, Headers, kind_of, make_field, name_prefix, never_indexed
from interpose.net.h2.hpack_tables import HuffmanDecoder, HuffmanError
from interpose.net.h2.static_table import STATIC_TABLE

TABLE_SIZE: Final = 4096  # SETTINGS_HEADER_TABLE_SIZE's default; we never announce another

_MEMO_ENTRIES: Final = 256
_MEMO_LONGEST: Final = 2048
_MEMO_LARGEST: Final = 8192  # a short block may stand for a long list
_STRINGS: Final = 512
_SHORT: Final = 32
_STATIC: Final[tuple[Field, ...]] = tuple(make_field(name, value) for name, value in STATIC_TABLE)
_STATIC_COUNT: Final = len(_STATIC)
# Above this multiple of the limit a block is an attack, not a large request.
_BOMB: Final = 16
# The least that RFC 7541 4.1 counts for a field: so many bytes of limit for each, and no more fields than that.
_LEAST_FIELD: Final = 32
# After so many bytes of a block the fields are counted: a byte may be a field.
_STRETCH: Final = 512
# RFC 7541 4.2: the smallest size in between, and the last one.
_MOST_RESIZES: Final = 2


class HpackDecoder:
    """Decodes the header blocks of one connection, in the order they arrive."""

    def __init__(self, huffman: HuffmanDecoder, max_list: int) -> None:
        self._huffman = huffman
        self._max_list = max_list
        # So many fields of a short block cannot be over the limit: each is an entry of the table, or shorter than one.
        self._harmless = max_list // (TABLE_SIZE + 64)
        self._most_fields = max_list // _LEAST_FIELD
        self._table: list[Field] = list(_STATIC)  # index 1 is the first; dynamic entries follow, newest first
        self._used = 0
        self._capacity = TABLE_SIZE
        self._strings: dict[bytes, bytes] = {}
        self._names: dict[bytes, tuple[int, bytes]] = {}
        self.memo: dict[bytes, Headers] = {}
        self.walked = 0  # bytes of slow strings; the connection resets it every second

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
        table = self._table
        fields: list[Field] = []
        changed = False
        position = 0
        end = len(block)
        resizes = 0
        while position < end:
            stop = end if end - position <= _STRETCH else position + _STRETCH
            while position < stop:
                byte = block[position]
                position += 1
                if byte > 0x80:
                    if byte != 0xFF:
                        fields.append(table[byte - 0x81])
                    else:
                        index, position = _integer(block, position, 0x7F)
                        fields.append(table[index - 1])
                elif byte & 0xE0 == 0x20:
                    if fields:
                        raise _broken("table size update after a field")
                    capacity = byte & 0x1F
                    if capacity == 0x1F:
                        capacity, position = _integer(block, position, 0x1F)
                    resizes += 1
                    if resizes > _MOST_RESIZES:
                        raise _broken("more than two table size updates")
                    self._resize(capacity)
                    changed = True
                elif byte == 0x80:
                    raise _broken("index 0")
                else:
                    field, position = self._literal(block, byte, position)
                    fields.append(field)
                    if byte & 0x40:
                        changed = True
                        table.insert(_STATIC_COUNT, field)
                        self._used += field.size
                        while self._used > self._capacity:
                            self._used -= table.pop().size
            if len(fields) > self._most_fields and position < end:
                # It cannot come within the limit any more, and each further field is work.
                raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "header list has far too many fields")
        if len(fields) > self._harmless or end > _MEMO_LONGEST:
            headers = self._measured(fields)
        else:
            headers = Headers(fields)
        if changed:
            if self.memo:
                self.memo.clear()
        elif end <= _MEMO_LONGEST and len(headers.wire) <= _MEMO_LARGEST:
            if len(self.memo) >= _MEMO_ENTRIES:
                self.memo.clear()
            self.memo[block] = headers
        return headers

    def _measured(self, fields: list[Field]) -> Headers:
        """Many fields, or long ones: they have to keep to the limit.

        They are shared with the table, so a bomb costs a list of references until here, and nothing after.
        """
        size = sum([field.size for field in fields])
        if size > self._max_list * _BOMB:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "header list decompresses to far over the limit")
        if size > self._max_list:
            return Headers(_within(fields, self._max_list), size)
        return Headers(fields)

    def _literal(self, block: bytes, byte: int, position: int) -> tuple[Field, int]:
        mask = 0x3F if byte & 0x40 else 0x0F
        index = byte & mask
        if index == mask:
            index, position = _integer(block, position, mask)
        if index:
            known = self._table[index - 1]
            name = known.name
            prefix = known.prefix
            name_kind = known.name_kind
        else:
            name, position = self._string(block, position)
            about = self._names.get(name)
            if about is None:
                about = self._learn(name)
            name_kind, prefix = about
        start = position
        first = block[position]
        if first & 0x7F == 0x7F:
            value, position = self._string(block, position)
        else:  # the same as in _string, for the short values that come with every call
            end = position + 1 + (first & 0x7F)
            value = block[position + 1 : end]
            if end > len(block):
                raise _broken("string is cut short")
            if first & 0x80:
                value = self._plain(value)
            position = end
        if byte & 0x50 == 0x10:
            prefix = never_indexed(prefix)
        # The string goes on as it came, Huffman-coded or not: its own length prefix included.
        field = Field(name, value, name_kind, prefix, prefix + block[start:position])
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
        return self._plain(raw), end

    def _plain(self, raw: bytes) -> bytes:
        """Undo the Huffman code. Short strings tend to come again; long ones are trace ids."""
        text = self._strings.get(raw)
        if text is None:
            text = self._huffman.inflate(raw)
            if text is None:
                text = self._walk(raw)
            if len(raw) <= _SHORT:
                if len(self._strings) >= _STRINGS:
                    self._strings.clear()
                self._strings[raw] = text
        return text

    def _walk(self, raw: bytes) -> bytes:
        """Decode a string with rare symbols: slow, so a peer may send little of it per second."""
        self.walked += len(raw)
        if self.walked > self._max_list // 2:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many strings coded for symbols that are rare")
        return self._huffman.walk(raw)

    def _resize(self, capacity: int) -> None:
        if capacity > TABLE_SIZE:
            raise _broken(f"table size update to {capacity}, allowed are {TABLE_SIZE}")
        self._capacity = capacity
        while self._used > capacity:
            self._used -= self._table.pop().size


def _within(fields: list[Field], limit: int) -> list[Field]:
    """The first fields up to the limit: enough to name the call that is refused."""
    totals = accumulate(field.size for field in fields)
    return fields[: sum(total <= limit for total in totals)]


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
