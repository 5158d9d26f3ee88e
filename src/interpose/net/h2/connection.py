"""The frame loop of a connection: the data path of the relay.

DATA and HEADERS are handled here and in `Stream`; frames of a stream that is spliced go straight to its peer's
connection. Everything else is a method of `control.Control`, looked up in a table. `server.ServerConnection` and
`client.ClientConnection` add what only one role does: accepting or opening streams.

A peer that breaks the protocol gets GOAWAY with the right code, and `failed` is set; the shell closes. Nothing but
ConnectionFault can leave the handlers.

Whatever arrives is handled in slices of bounded work. A slice is some bytes, of which the payload of large DATA frames
does not count, and some `cost` for what is dear: calls, header fields, walks over streams. What is left stays here and
`unread` says so; the shell gives the other connections their turn and calls `proceed`.
"""

from typing import Final

from interpose.net.h2 import frames
from interpose.net.h2.control import Control
from interpose.net.h2.errors import ConnectionFault, ErrorCode
from interpose.net.h2.frames import pack_short, unpack_short
from interpose.net.h2.headers import FIELD_COST, Headers, HeaderShape
from interpose.net.h2.states import BODY, DATA_EVENT, DONE, RECEIVING
from interpose.net.h2.stream import SMALL_DATA, Stream

_unpack: Final = frames.unpack_head
_LARGEST: Final = frames.DEFAULT_FRAME_SIZE
_LARGEST_ID: Final = frames.LARGEST_STREAM_ID
# In place of the last position at which a frame may begin: the next one has not arrived, or is for the next slice.
_INCOMPLETE: Final = -2
_ENOUGH: Final = -1
_TRAILERS: Final = int(HeaderShape.TRAILERS) * 2
# The payload of DATA frames of this length costs next to nothing for each byte.
_BULK_FROM: Final = 2048
# A slice: bytes, and beyond them cost. Both count units of about 0.1 us: a frame without much to do takes as long as
# its bytes say, within a factor of two, and what takes longer is charged for it.
_SLICE: Final = 64 * 1024
_SLICE_COST: Final = 20_000


class Connection(Control):
    """Takes bytes apart and hands the pieces on."""

    def receive(self, data: bytes) -> None:
        """Take bytes from the peer, as far as a slice goes. Afterwards look at `failed` and at `unread`."""
        if self.failed is None:
            try:
                self._receive(data)
            except ConnectionFault as fault:
                self.fail(fault)

    def hold(self, data: bytes) -> None:
        """Keep bytes from the peer for `proceed`: it is not its turn."""
        if self.failed is None:
            self._rest += data
            self.unread = True

    def proceed(self) -> None:
        """Go on with what was left: bytes of the peer, bytes for it, streams of a connection that is lost."""
        self.unread = False
        if self.unfinished:
            self.unfinished = False
            self._pump()
        self._lose()
        self.receive(b"")

    @property
    def half_read(self) -> bool:
        """Something began and has not ended: the preface, a frame or a header block. A slow peer may hold it so."""
        return not self.unread and (bool(self._rest) or self._fragments is not None or not self._greeted)

    def _greet(self, data: bytes) -> bytes | None:
        """Check how the peer begins; None while there is not enough to tell. SETTINGS has to come first."""
        if len(data) < frames.HEAD_SIZE:
            self._rest = data
            return None
        head, flags, _ = _unpack(data, 0)
        if head & 0xFF != frames.SETTINGS or flags & frames.ACK:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the first frame is not SETTINGS")
        self._greeted = True
        return data

    def _receive(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
            self._rest = b""
        if not self._greeted:
            greeted = self._greet(data)
            if greeted is None:
                return
            data = greeted
        position = 0 if self._fragments is None else self._gather(data, 0)
        size = len(data)
        last = size - 9
        if last > _SLICE:
            last = _SLICE
        cost = bulk = 0
        received = 0
        streams = self.streams
        dirty = self.dirty
        memo = self._decoder.memo
        while position <= last:
            high, length, what, number = unpack_short(data, position)
            start = position + 9
            position = start + length
            if high or position > size:
                if high or length > _LARGEST:
                    raise _oversized(high << 16 | length)
                position = start - 9
                last = _INCOMPLETE
                break
            if what < 0x100:  # DATA
                received += length
                stream = streams.get(number)
                if stream is None:
                    stream = self._stray_data(number, length)
                    if stream is None:
                        continue
                # The table's row for BODY, spelled out: anything else is an error.
                if stream.receiving != BODY or length > stream.receive_window:
                    self._refuse_data(stream, what, length)
                    continue
                stream.receive_window -= length
                if what > 1 and what & 8:  # PADDED
                    payload = self._unpad_data(stream, data, start, position, what)
                else:
                    payload = data[start:position]
                    if length >= _BULK_FROM:
                        if length > _LARGEST:
                            raise _oversized(length)
                        bulk += length
                        if last < size - 9:
                            last = min(last + length, size - 9)
                if what == 0 or (what == 1 and self.accepting):
                    # The end of a request is nobody's concern but the peer's; that of a reply is the sink's.
                    peer = stream.splice
                    if peer is not None and peer.ready and length <= peer.send_window:
                        other = peer.conn
                        if (
                            (what or length >= SMALL_DATA or (length and not self.accepting))
                            and length <= other.send_window
                            and not other.blocked
                        ):
                            # Nothing in the way: what `sink.on_data` and `peer.send_data` would do.
                            peer.send_window -= length
                            other.send_window -= length
                            out = other.out
                            if not out:
                                dirty.append(other)
                            out += (pack_short(0, length, what, peer.number), payload)
                            if what:
                                stream.receiving = peer.sending = DONE
                                peer.ready = False
                                if peer.receiving == DONE:
                                    other.drop(peer)
                                if stream.sending == DONE:
                                    self.drop(stream)
                            else:
                                stream.unacked += length
                                if stream.unacked >= self.credit_step:
                                    stream.give_credit()
                            continue
                if what & 1:  # END_STREAM
                    stream.receiving = DONE
                    stream.sink.on_data(stream, payload, True)
                    if stream.sending == DONE:
                        self.drop(stream)
                elif payload:
                    stream.sink.on_data(stream, payload, False)
                elif not length:
                    self.guard.idle("empty DATA")
            elif what < 0x200:  # HEADERS
                if length > _LARGEST:
                    raise _oversized(length)
                if what == 0x104 or what == 0x105:  # END_HEADERS, without and with END_STREAM
                    block = data[start:position]
                else:
                    block = self._strip(data, start, position, what, number)
                    if not what & 4:
                        self._fragments = [block]
                        self._fragments_size = len(block)
                        self._fragment_of = (number, what)
                        position = self._gather(data, position)
                        cost += self.cost
                        self.cost = 0
                        if cost > _SLICE_COST:
                            last = _ENOUGH
                        continue
                headers = memo.get(block)
                if headers is None:
                    headers = self._decoder.decode(block)
                    cost += FIELD_COST * len(headers.fields)
                    if cost > _SLICE_COST:
                        last = _ENOUGH
                stream = streams.get(number)
                if stream is None:
                    self.on_new_headers(number, headers, what & 1)
                    cost += headers.cost
                    if cost > _SLICE_COST:
                        last = _ENOUGH
                    continue
                if what & 1:
                    state = RECEIVING[stream.receiving][headers.event + 1]
                    if state < 0:
                        self._refuse_block(stream, headers, state)
                        continue
                    stream.receiving = state
                    stream.sink.on_headers(stream, headers, True)
                    if stream.sending == DONE:
                        self.drop(stream)
                    continue
                state = RECEIVING[stream.receiving][headers.event]
                if state < 0:
                    self._refuse_block(stream, headers, state)
                    continue
                stream.receiving = state
                peer = stream.splice
                if peer is not None and peer.ready:
                    other = peer.conn
                    wire = headers.wire
                    length = len(wire)
                    if not other.table_update and length <= _LARGEST and (state == BODY or not other.blocked):
                        out = other.out
                        if not out:
                            dirty.append(other)
                        out += (pack_short(0, length, 0x104, peer.number), wire)
                        peer.sending = BODY
                        # Unary replies come as headers, one small DATA and trailers in a row: take the rest along.
                        if position > last or state != BODY:
                            continue
                        high, length, what, following = unpack_short(data, position)
                        start = position + 9
                        after = start + length
                        if (
                            what
                            or following != number
                            or after > last
                            or length >= _BULK_FROM
                            or not length
                            or high
                            or length > stream.receive_window
                            or length > peer.send_window
                            or length > other.send_window
                            or other.blocked
                        ):
                            continue
                        high, rest, what, following = unpack_short(data, after)
                        end = after + 9 + rest
                        if what != 0x105 or following != number or end > size or high:
                            continue
                        trailers = memo.get(data[after + 9 : end])
                        if trailers is None or trailers.event != _TRAILERS:
                            continue
                        position = end
                        received += length
                        stream.receive_window -= length
                        peer.send_window -= length
                        other.send_window -= length
                        out += (pack_short(0, length, 0, peer.number), data[start:after])
                        stream.receiving = DONE
                        stream.sink.on_headers(stream, trailers, True)
                        if stream.sending == DONE:
                            self.drop(stream)
                        continue
                stream.sink.on_headers(stream, headers, False)
            elif length > _LARGEST:
                raise _oversized(length)
            elif (kind := what >> 8) < frames.CONTINUATION:
                payload = data[start:position]
                self._handlers[kind - frames.PRIORITY](number & frames.LARGEST_STREAM_ID, what & 0xFF, payload)
                cost += self.cost
                self.cost = 0
                if cost > _SLICE_COST:
                    last = _ENOUGH
            elif kind == frames.CONTINUATION:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "CONTINUATION without HEADERS")
            else:
                self.guard.idle("a frame of unknown type")
        if position < size:
            self._rest = data[position:]
            self.unread = last != _INCOMPLETE and position <= size - 9
        self.spent = position + cost
        if bulk:
            self.spent -= bulk - (bulk >> 6)
        if received:
            self._unacked += received
            if self._unacked >= self._unacked_limit:
                self.emit(frames.window_update(0, self._unacked))
                self._unacked = 0

    def _gather(self, data: bytes, position: int) -> int:
        """Collect the CONTINUATION frames of an unfinished header block: nothing else may come before its end."""
        size = len(data)
        while self._fragments is not None and size - position >= frames.HEAD_SIZE:
            head, flags, number = _unpack(data, position)
            length = head >> 8
            start = position + frames.HEAD_SIZE
            if length > _LARGEST:
                raise _oversized(length)
            if head & 0xFF != frames.CONTINUATION or (number ^ self._fragment_of[0]) & _LARGEST_ID:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a header block is interrupted")
            if start + length > size:
                break
            position = start + length
            self._on_continuation(flags, data[start:position], self._fragments)
        return position

    def _on_continuation(self, flags: int, payload: bytes, fragments: list[bytes]) -> None:
        fragments.append(payload)
        self._fragments_size += len(payload)
        if self._fragments_size > self.limits.header_block or len(fragments) > 1024:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "header block is too large")
        if flags & frames.END_HEADERS:
            self._fragments = None
            number, first_flags = self._fragment_of
            headers = self._decoder.decode(b"".join(fragments))
            self.cost += FIELD_COST * len(headers.fields) + headers.cost
            self._on_block(number, headers, first_flags & 1)
        elif len(payload) < 64:
            self.guard.idle("small CONTINUATION")

    def on_new_headers(self, number: int, headers: Headers, end: int) -> None:
        """A whole header block on a stream that is not open. Each role has its own."""
        raise NotImplementedError

    def _on_block(self, number: int, headers: Headers, end: int) -> None:
        """A block that came in pieces; the same as in the loop, without its haste."""
        stream = self.streams.get(number)
        if stream is None:
            self.on_new_headers(number, headers, end)
            return
        state = RECEIVING[stream.receiving][headers.event + end]
        if state < 0:
            self._refuse_block(stream, headers, state)
            return
        stream.receiving = state
        stream.sink.on_headers(stream, headers, end == 1)
        if end and stream.sending == DONE:
            self.drop(stream)

    def _stray_data(self, number: int, length: int) -> Stream | None:
        """DATA for a stream that is not open, unless the reserved bit only made it look so (RFC 9113 4.1)."""
        if length > _LARGEST:
            raise _oversized(length)
        stream = self.streams.get(number & _LARGEST_ID)
        if stream is None:
            self._stray(number & _LARGEST_ID, "DATA")
        return stream

    def _unpad_data(self, stream: Stream, data: bytes, start: int, end: int, flags: int) -> bytes:
        if end - start > _LARGEST:
            raise _oversized(end - start)
        payload = _unpad(data, start, end)
        if not payload and not flags & frames.END_STREAM:
            self.guard.idle("DATA with padding only")
        stream.credit(end - start - len(payload))
        return payload

    def _refuse_data(self, stream: Stream, flags: int, length: int) -> None:
        if length > _LARGEST:
            raise _oversized(length)
        state = RECEIVING[stream.receiving][DATA_EVENT + (flags & 1)]
        self.refuse(stream, -state if state < 0 else ErrorCode.FLOW_CONTROL_ERROR)

    def _refuse_block(self, stream: Stream, headers: Headers, state: int) -> None:
        self.refuse(stream, ErrorCode.ENHANCE_YOUR_CALM if headers.oversized else -state)

    def _strip(self, data: bytes, start: int, end: int, flags: int, number: int) -> bytes:
        payload = _unpad(data, start, end) if flags & frames.PADDED else data[start:end]
        if flags & frames.PRIORITY_FLAG:
            if len(payload) < 5:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "priority fields are cut short")
            if int.from_bytes(payload[:4], "big") & _LARGEST_ID == number & _LARGEST_ID:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a stream depends on itself")
            payload = payload[5:]
        return payload


def _oversized(length: int) -> ConnectionFault:
    return ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, f"frame of {length} bytes")


def _unpad(data: bytes, start: int, end: int) -> bytes:
    if start == end or data[start] >= end - start:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "padding is longer than the frame")
    return data[start + 1 : end - data[start]]
