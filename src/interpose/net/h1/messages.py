"""Readers for the two directions of a connection: bytes in, heads and pieces of bodies out, message by message.

Invariant: the heads and the raw bytes of the parts, joined, are the bytes received, in their order, up to the first
that is refused; none of them is given out before it is known to belong where it stands. What is refused, and why,
does not depend on how the bytes were cut. After MalformedError a reader gives out nothing more and holds nothing.
"""

from collections import deque
from enum import Enum, auto
from typing import Final, Generic, NamedTuple, TypeVar

from interpose.net.h1.chunked import LAST, ChunkedBody, skip_plain_chunks
from interpose.net.h1.heads import Framing, Heads, MalformedError, RequestHead, ResponseHead
from interpose.net.h1.rules import BLANK, REQUESTS, RESPONSES, Grammar

_SMALL: Final = 512  # bytes


class Inbox:
    """A queue of received bytes, in the pieces they came in. Small pieces are joined, nothing else is copied."""

    __slots__ = ("_at", "_pieces", "size")

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._at = 0  # where the first piece begins
        self.size = 0

    def add(self, data: bytes) -> None:
        if not data:
            return
        pieces = self._pieces
        self.size += len(data)
        # A peer that sends single bytes must not make us keep an object for each.
        if len(data) < _SMALL and pieces and len(pieces[-1]) < _SMALL:
            pieces[-1] += data
        else:
            pieces.append(data)

    def first(self) -> tuple[bytes, int]:
        """The first piece, and where in it the bytes begin. There must be one."""
        return self._pieces[0], self._at

    def skip_to(self, position: int) -> None:
        """Drop the first piece up to a position."""
        self.size -= position - self._at
        self._at = position
        if position == len(self._pieces[0]):
            self._pieces.popleft()
            self._at = 0

    def take(self, most: int) -> bytes:
        """The next bytes, at most so many and at most one piece; the piece itself if all of it is taken."""
        piece = self._pieces[0]
        at = self._at
        stop = min(at + most, len(piece))
        self.skip_to(stop)
        return piece if stop - at == len(piece) else piece[at:stop]

    def take_all(self) -> bytes:
        """Everything that is left."""
        return b"".join([self.take(self.size) for _ in range(len(self._pieces))])

    def put_back(self, data: bytes) -> None:
        """Put bytes that were taken to the front again."""
        if data:
            if self._at:
                self._pieces[0] = self._pieces[0][self._at :]
                self._at = 0
            self._pieces.appendleft(data)
            self.size += len(data)


Head = TypeVar("Head", RequestHead, ResponseHead)


class BodyPart(NamedTuple):
    """A piece of a body: as it came, and without chunk framing if the reader decodes. `end`: the message is over."""

    raw: bytes
    data: bytes
    end: bool


class _At(Enum):
    HEAD = auto()
    LENGTH = auto()
    CHUNKED = auto()
    UNTIL_CLOSE = auto()
    OVER = auto()
    FINISHED = auto()


_BODY: Final = {
    Framing.NONE: _At.OVER,
    Framing.LENGTH: _At.LENGTH,
    Framing.CHUNKED: _At.CHUNKED,
    Framing.UNTIL_CLOSE: _At.UNTIL_CLOSE,
}
_FINAL: Final = 200


class _Reader(Generic[Head]):
    """The base of both readers: cuts heads, counts bodies."""

    def __init__(self, heads: Heads, grammar: Grammar, at: _At) -> None:
        self.decode = False
        self._grammar = grammar
        self._heads = heads
        self._at = at
        self._inbox = Inbox()
        self._partial = bytearray()  # a head that is not complete
        self._has_line = False  # its first line is
        self._left = 0
        self._chunks: ChunkedBody | None = None
        self._fault: tuple[int, str] | None = None  # not the exception: it holds references to frames

    @property
    def buffered(self) -> int:
        """Bytes that were received and not given out."""
        held = self._chunks.holding if self._chunks is not None else 0
        return len(self._partial) + held + self._inbox.size

    @property
    def between(self) -> bool:
        """Whether no byte of a message has been read."""
        return self._at is _At.HEAD and not self._partial and not self._inbox.size

    def receive(self, data: bytes) -> None:
        """Add received bytes. After MalformedError they are dropped."""
        if self._at is _At.FINISHED:
            raise RuntimeError("the reader has given its bytes away")
        if self._fault is None:
            self._inbox.add(data)

    def next(self) -> Head | BodyPart | None:
        """The next head or part; None: more bytes are needed, or the message is over. Raises MalformedError."""
        if self._fault is not None:
            raise MalformedError(*self._fault)
        try:
            if self._chunks is not None:
                return self._next_of_chunks(self._chunks)
            match self._at:
                case _At.HEAD:
                    return self._next_head()
                case _At.LENGTH:
                    return self._next_of_length()
                case _At.UNTIL_CLOSE:
                    return self._next_until_close()
                case _:
                    return None
        except MalformedError as fault:
            self._break(fault)
            raise

    def take_rest(self) -> bytes:
        """All bytes that were received and not given out, for a tunnel. The reader is finished."""
        held = self._chunks.take_held() if self._chunks is not None else b""
        rest = bytes(self._partial) + held + self._inbox.take_all()
        self._partial.clear()
        self._chunks = None
        self._at = _At.FINISHED
        return rest

    def eof(self) -> BodyPart | None:
        """Called at the end of the bytes: the end of a body that ends so, None between messages, else MalformedError.

        Before, `next` must have given everything out.
        """
        if self._fault is not None:
            raise MalformedError(*self._fault)
        if self._at is _At.UNTIL_CLOSE:
            rest = self._inbox.take_all()
            self._at = _At.OVER
            return BodyPart(rest, rest if self.decode else b"", True)
        if self.between or self._at in (_At.OVER, _At.FINISHED):
            return None
        raise self._break(MalformedError(self._grammar.status, "the connection ended in the middle of a message"))

    def _parse(self, raw: bytes) -> Head:
        raise NotImplementedError

    def _after_head(self, head: Head) -> _At:
        return _BODY[head.framing]

    def _next_head(self) -> Head | None:
        raw = self._cut_head()
        if raw is None:
            return None
        head = self._parse(raw)
        self._at = self._after_head(head)
        self._left = head.length
        self._chunks = ChunkedBody(self._grammar, self._heads.limit) if self._at is _At.CHUNKED else None
        return head

    def _cut_head(self) -> bytes | None:
        """The bytes of a head. Bytes that were searched are not searched again."""
        inbox = self._inbox
        if not inbox.size:
            return None
        partial = self._partial
        limit = self._heads.limit
        if not partial:
            piece, at = inbox.first()
            end = piece.find(BLANK, at, at + limit)
            if end >= 0:
                return inbox.take(end + len(BLANK) - at)
        while inbox.size:
            looked = len(partial)
            partial += inbox.take(limit - looked)
            end = partial.find(BLANK, max(looked - 3, 0))
            if end >= 0:
                end += len(BLANK)
                raw = bytes(partial[:end])
                inbox.put_back(bytes(partial[end:]))
                partial.clear()
                return raw
            self._has_line = self._grammar.check_beginning(
                partial, looked, limit, has_line=self._has_line and looked > 0
            )
            if len(partial) >= limit:
                raise self._grammar.too_long_error(limit)
        return None

    def _next_of_length(self) -> BodyPart | None:
        if not self._inbox.size:
            return None
        raw = self._inbox.take(self._left)
        self._left -= len(raw)
        if not self._left:
            self._at = _At.OVER
        return BodyPart(raw, raw if self.decode else b"", not self._left)

    def _next_until_close(self) -> BodyPart | None:
        if not self._inbox.size:
            return None
        raw = self._inbox.take(self._inbox.size)
        return BodyPart(raw, raw if self.decode else b"", False)

    def _next_of_chunks(self, chunks: ChunkedBody) -> BodyPart | None:
        while chunks.fault is None and self._inbox.size:
            piece, at = self._inbox.first()
            payload: list[bytes] | None = [] if self.decode else None
            raw, stop = chunks.feed(piece, at, payload)
            self._inbox.skip_to(stop)
            if raw:
                if chunks.ended:
                    self._at = _At.OVER
                    self._chunks = None
                return BodyPart(raw, b"".join(payload or ()), chunks.ended)
        if chunks.fault is not None:
            raise chunks.fault
        return None

    def _break(self, fault: MalformedError) -> MalformedError:
        self._fault = (fault.status, str(fault))
        self._at = _At.OVER
        self._inbox = Inbox()
        self._partial = bytearray()
        self._chunks = None
        return fault


class RequestReader(_Reader[RequestHead]):
    """Reads the requests that a client sends."""

    def __init__(self, heads: Heads) -> None:
        super().__init__(heads, REQUESTS, _At.HEAD)

    def whole(self, data: bytes) -> RequestHead | None:
        """The head, if these bytes are exactly one request without a body, whose head is remembered, and nothing waits.

        As `receive` and `next`, in one step. None: nothing has happened, take the long way.
        """
        if self._at is not _At.HEAD or self._partial or self._inbox.size:
            return None
        head = self._heads.known_request(data)
        if head is None or head.framing is not Framing.NONE:
            return None
        self._at = _At.OVER
        return head

    def start_next(self) -> None:
        """The message is over and answered: go on to the next."""
        if self._at is not _At.OVER:
            raise RuntimeError("the message is not over")
        self._at = _At.HEAD

    def _parse(self, raw: bytes) -> RequestHead:
        return self._heads.request(raw)


class ResponseReader(_Reader[ResponseHead]):
    """Reads the responses that a server sends. Call `expect` before each of them."""

    def __init__(self, heads: Heads) -> None:
        super().__init__(heads, RESPONSES, _At.OVER)
        self._method = ""

    def expect(self, method: str) -> None:
        """A response to a request of that method follows. MalformedError if bytes arrived before it."""
        if self._at is not _At.OVER:
            raise RuntimeError("the answer before is not over")
        self._method = method
        self._at = _At.HEAD
        if self._inbox.size:
            self._break(MalformedError(RESPONSES.status, "bytes came that answer nothing"))

    def whole(self, data: bytes) -> ResponseHead | None:
        """The head, if these bytes are exactly one answer, whose head is remembered, and nothing waits.

        As `receive` and `next` until the answer is over, in one step. None: nothing has happened, take the long way. So
        it is with answers that others follow (100), and with those behind which a tunnel begins.
        """
        if self._at is not _At.HEAD or self._partial or self._inbox.size or self._method == "CONNECT":
            return None
        end = data.find(BLANK) + len(BLANK)
        head = self._heads.known_response(data[:end], self._method)
        if head is None or head.status < _FINAL or not _is_body(head, data, end):
            return None
        self._at = _At.OVER
        return head

    def _parse(self, raw: bytes) -> ResponseHead:
        return self._heads.response(raw, self._method)

    def _after_head(self, head: ResponseHead) -> _At:
        return _At.HEAD if head.interim else _BODY[head.framing]


def _is_body(head: ResponseHead, data: bytes, at: int) -> bool:
    """Whether the bytes from there on are the whole body and nothing more. False also if that takes longer to tell."""
    if head.framing is Framing.CHUNKED:
        return data.endswith(LAST) and skip_plain_chunks(data, at) == len(data) - len(LAST)
    return head.framing is not Framing.UNTIL_CLOSE and len(data) - at == head.length
