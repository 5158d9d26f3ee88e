"""The rules for heads: our own strict ones, without h11.

Everything that one HTTP program reads as one message and another as two is refused: line ends that are not CR LF,
folded lines, white space where none belongs, lengths that are given twice or look odd, codings that are not exactly
`chunked`. Responses have the same rules for framing; only odd characters in their values are accepted.

Invariant: for a stream of bytes the first broken rule is the same however the stream is cut into pieces.
`check_beginning` looks at heads that are not complete yet, in the order of their bytes; the rest looks at complete
ones.
"""

import re
from enum import Enum
from typing import Final, NamedTuple

LIMIT: Final = 65536
FIELDS: Final = 1024  # lines of a head or of trailers; Docker's clients send ten

_TOKEN: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_TCHARS: Final = frozenset(b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_NAME: Final = re.compile(_TOKEN)
_FIELD: Final = re.compile(rb"(" + _TOKEN + rb"):([\t\x20-\x7e\x80-\xff]*)")
# What h11 takes for white space is not taken for text either.
_LOOSE_FIELD: Final = re.compile(rb"(" + _TOKEN + rb"):([^\x00\r\n\x0b\x0c]*)")
# Go takes names that are not ASCII in a target as they are.
_REQUEST_LINE: Final = re.compile(rb"(" + _TOKEN + rb") ([\x21-\x7e\x80-\xff]+) HTTP/([0-9]\.[0-9])")
_STATUS_LINE: Final = re.compile(rb"HTTP/([0-9]\.[0-9]) ([0-9]{3})(?: ([^\x00\r\n\x0b\x0c]*))?")
# A CR at the end of what is known so far may yet be followed by its LF.
_STRAY: Final = re.compile(rb"\r(?=[^\n])|(?<!\r)\n")
_LENGTH: Final = re.compile(rb"[0-9]{1,18}")  # below 2**63, which is where Go ends
_VERSIONS: Final = (b"1.0", b"1.1")
_PREFACE: Final = b"PRI * HTTP/2.0"
_LONGEST_SHOWN: Final = 40

BLANK: Final = b"\r\n\r\n"


class Framing(Enum):
    """How the end of a body is known. A length of 0 is NONE."""

    NONE = "none"
    LENGTH = "length"
    CHUNKED = "chunked"
    UNTIL_CLOSE = "until close"


class MalformedError(Exception):
    """Bytes that break a rule. `status` is what the client gets: 400, 431 or 505; 502 for responses."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


Fields = tuple[tuple[bytes, bytes], ...]


class RequestLine(NamedTuple):
    """The first line of a request."""

    method: bytes
    target: bytes
    version: bytes


class StatusLine(NamedTuple):
    """The first line of an answer."""

    version: bytes
    status: int
    reason: bytes


class DeclaredBody(NamedTuple):
    """The body that a head declares: chunked, a length, or neither. Never both."""

    chunked: bool
    length: int | None


def format_value(value: bytes) -> str:
    """A value for an error text: quoted, printable and short."""
    text = ascii(value[:_LONGEST_SHOWN].decode("latin-1"))
    return text if len(value) <= _LONGEST_SHOWN else f"{text}..."


class Grammar:
    """The rules for one direction: `status` for what is wrong, `large` for what is too long."""

    status: int
    large: int
    _field: "re.Pattern[bytes]"

    def check_beginning(self, data: bytes | bytearray, checked: int, limit: int, *, has_line: bool = False) -> bool:
        """Check a head that may not be complete; returns whether its first line is.

        `checked` is the number of bytes that were checked before; `has_line`: the first line was among them.
        """
        if not checked:
            self._check_first_byte(data)
        start = max(checked - 1, 0)
        if not has_line:
            end = data.find(b"\r\n", start, limit)
            if end < 0:
                self._check_line_ends(data, start, limit)
                return False
            self._check_line_ends(data, start, end + 2)
            self.check_line(bytes(data[:end]))
            start = end + 1
        self._check_line_ends(data, start, limit)
        return True

    def too_long_error(self, limit: int) -> MalformedError:
        """The error for a head without a blank line within the limit."""
        return MalformedError(self.large, f"the head is longer than {limit} bytes")

    def not_one_head_error(self) -> MalformedError:
        """The error for bytes that do not end with their first blank line, which readers never pass."""
        return MalformedError(self.status, "the head is not one head")

    def parse_fields(self, lines: list[bytes]) -> Fields:
        """The fields of a head; names in lower case, values without white space around them."""
        if len(lines) > FIELDS:
            raise MalformedError(self.large, f"the head has more than {FIELDS} fields")
        return tuple([self.parse_field(line) for line in lines])

    def parse_field(self, line: bytes) -> tuple[bytes, bytes]:
        """Parse one line of a head or of trailers, without its end."""
        match = self._field.fullmatch(line)
        if match is None:
            raise MalformedError(self.status, _describe_bad_field(line))
        return match[1].lower(), match[2].strip(b" \t")

    def parse_body(self, fields: Fields, version: bytes) -> DeclaredBody:
        """The body that the fields declare; MalformedError if they are ambiguous."""
        lengths = [value for name, value in fields if name == b"content-length"]
        codings = [value for name, value in fields if name == b"transfer-encoding"]
        if lengths and codings:
            raise MalformedError(self.status, "both Content-Length and Transfer-Encoding are given")
        if len(lengths) > 1:
            raise MalformedError(self.status, "Content-Length is given more than once")
        if len(codings) > 1:
            raise MalformedError(self.status, "Transfer-Encoding is given more than once")
        if codings:
            if codings[0].lower() != b"chunked":
                raise MalformedError(
                    self.status, f"Transfer-Encoding is {format_value(codings[0])}: only chunked is understood"
                )
            if version == b"1.0":
                raise MalformedError(self.status, "HTTP/1.0 knows no Transfer-Encoding")
            return DeclaredBody(True, None)
        if lengths:
            if _LENGTH.fullmatch(lengths[0]) is None:
                raise MalformedError(
                    self.status, f"Content-Length is {format_value(lengths[0])}: not a number of bytes"
                )
            return DeclaredBody(False, int(lengths[0]))
        return DeclaredBody(False, None)

    def check_line(self, line: bytes) -> None:
        """Check the first line alone."""
        raise NotImplementedError

    def _check_first_byte(self, data: bytes | bytearray) -> None:
        raise NotImplementedError

    def _check_line_ends(self, data: bytes | bytearray, start: int, end: int) -> None:
        found = _STRAY.search(data, start, end)
        if found is not None:
            kind = "CR without LF" if found[0] == b"\r" else "LF without CR"
            raise MalformedError(self.status, f"the head has a {kind}")


class RequestGrammar(Grammar):
    """The rules for requests of clients."""

    status = 400
    large = 431
    _field = _FIELD

    def parse_line(self, line: bytes) -> RequestLine:
        """Parse the first line of a head."""
        match = _REQUEST_LINE.fullmatch(line)
        if match is None:
            raise MalformedError(400, f"the request line is {format_value(line)}: not METHOD TARGET HTTP/1.1")
        if line == _PREFACE:
            raise MalformedError(400, "HTTP/2 is not spoken on this socket")
        if match[3] not in _VERSIONS:
            raise MalformedError(505, f"HTTP/{match[3].decode('ascii')} is not understood")
        return RequestLine(match[1], match[2], match[3])

    def check_line(self, line: bytes) -> None:
        """Check the first line alone."""
        self.parse_line(line)

    def check_hosts(self, fields: Fields, version: bytes) -> None:
        """Check for one Host in HTTP/1.1, at most one before. Its value may be anything, also empty."""
        hosts = sum(name == b"host" for name, _ in fields)
        if hosts > 1:
            raise MalformedError(400, "Host is given more than once")
        if not hosts and version == b"1.1":
            raise MalformedError(400, "Host is missing")

    def _check_first_byte(self, data: bytes | bytearray) -> None:
        if data[0] not in _TCHARS:
            raise MalformedError(400, f"the request begins with {format_value(bytes(data[:1]))}, as no method does")


class ResponseGrammar(Grammar):
    """The rules for responses of the server."""

    status = 502
    large = 502
    _field = _LOOSE_FIELD

    def parse_line(self, line: bytes) -> StatusLine:
        """Parse the first line of a head."""
        match = _STATUS_LINE.fullmatch(line)
        if match is None or match[1] not in _VERSIONS:
            raise MalformedError(502, f"the status line is {format_value(line)}: not HTTP/1.1 STATUS REASON")
        return StatusLine(match[1], int(match[2]), match[3] or b"")

    def check_line(self, line: bytes) -> None:
        """Check the first line alone."""
        self.parse_line(line)

    def _check_first_byte(self, data: bytes | bytearray) -> None:
        if data[0] != ord("H"):
            raise MalformedError(502, f"the answer begins with {format_value(bytes(data[:1]))}, not with HTTP/")


def _describe_bad_field(line: bytes) -> str:
    """What is wrong with a line that is no field. Values may be secrets and are not shown."""
    name, colon, _ = line.partition(b":")
    if line[:1] in (b" ", b"\t"):
        return "a line of the head begins with white space"
    if not colon:
        return "a line of the head has no colon"
    if not name:
        return "a field of the head has no name"
    if name[-1:] in (b" ", b"\t"):
        return f"white space stands before the colon of {format_value(name.rstrip())}"
    if _NAME.fullmatch(name) is None:
        return f"the name of a field is {format_value(name)}"
    return f"the value of {name.decode('ascii')} has a control character"


REQUESTS: Final = RequestGrammar()
RESPONSES: Final = ResponseGrammar()
