"""The rules for heads, one by one. The corpus has many more cases of each."""

import pytest

from interpose.net.h1.rules import (
    FIELDS,
    REQUESTS,
    RESPONSES,
    DeclaredBody,
    Grammar,
    MalformedError,
    RequestLine,
    StatusLine,
    format_value,
)

BOTH = [REQUESTS, RESPONSES]


def why(grammar: Grammar, data: bytes, looked: int = 0, limit: int = 1000) -> str:
    """What is wrong with the beginning of a head."""
    with pytest.raises(MalformedError) as caught:
        grammar.check_beginning(data, looked, limit)
    assert caught.value.status == grammar.status
    return str(caught.value)


def test_values_in_texts_are_short_and_printable() -> None:
    """Whatever bytes they have."""
    assert format_value(b"a'\x00\xff") == '"a\'\\x00\\xff"'
    assert format_value(b"x" * 50) == f"'{'x' * 40}'..."


def test_a_first_line_is_looked_at_when_it_is_there() -> None:
    """Not before: it may yet become right. And not again."""
    assert REQUESTS.check_beginning(b"GET /_pi", 0, 1000) is False
    assert REQUESTS.check_beginning(b"GET /_ping HTTP/1.1\r", 8, 1000) is False
    assert REQUESTS.check_beginning(b"GET /_ping HTTP/1.1\r\n", 20, 1000) is True
    assert REQUESTS.check_beginning(b"bad line that was right\r\nHost", 25, 1000, has_line=True) is True
    assert "the request line is 'GET /'" in why(REQUESTS, b"GET /\r\n")
    assert "the status line is 'HTTP/1.1'" in why(RESPONSES, b"HTTP/1.1\r\n")


def test_a_first_byte_is_enough() -> None:
    """A client that speaks TLS need not be waited for."""
    assert "begins with '\\x16'" in why(REQUESTS, b"\x16")
    assert "begins with '<'" in why(RESPONSES, b"<")


@pytest.mark.parametrize("lined", [False, True])
def test_stray_line_ends_are_found_at_once(lined: bool) -> None:
    """Across what was looked at before, too; a CR at the end may be followed by its LF."""
    head = b"GET / HTTP/1.1\r\nX: y"
    assert REQUESTS.check_beginning(head + b"\r", len(head), 1000, has_line=lined) is True or not lined
    with pytest.raises(MalformedError, match="the head has a CR without LF"):
        REQUESTS.check_beginning(head + b"\rz", len(head) + 1, 1000, has_line=True)
    with pytest.raises(MalformedError, match="the head has a LF without CR"):
        REQUESTS.check_beginning(head + b"\n", len(head), 1000, has_line=True)
    assert why(REQUESTS, head + b"\rz") == "the head has a CR without LF"
    assert why(REQUESTS, b"GET / HTTP/1.1\n") == "the head has a LF without CR"


def test_what_is_beyond_the_limit_is_not_looked_at() -> None:
    """It would depend on how the bytes came."""
    assert REQUESTS.check_beginning(b"GET / HTTP/1.1\r\nX: y\rz", 0, 21) is True
    assert REQUESTS.check_beginning(b"GET / HTTP/1.1\r\n", 0, 15) is False


def test_a_request_line_is_read() -> None:
    """A request line has a method, a target and a version."""
    assert REQUESTS.parse_line(b"GET /_ping HTTP/1.0") == RequestLine(b"GET", b"/_ping", b"1.0")


def test_a_status_line_is_read() -> None:
    """With or without a reason."""
    assert RESPONSES.parse_line(b"HTTP/1.1 404 Not Found") == StatusLine(b"1.1", 404, b"Not Found")
    assert RESPONSES.parse_line(b"HTTP/1.0 200") == StatusLine(b"1.0", 200, b"")


def test_fields_are_read() -> None:
    """Names in lower case, values without white space around them."""
    lines = [b"Host: docker", b"X-A:\t b c \t", b"Empty:"]
    assert REQUESTS.parse_fields(lines) == ((b"host", b"docker"), (b"x-a", b"b c"), (b"empty", b""))


def test_there_may_be_so_many_fields() -> None:
    """And not one more."""
    assert len(REQUESTS.parse_fields([b"X: y"] * FIELDS)) == FIELDS
    with pytest.raises(MalformedError, match=f"more than {FIELDS} fields") as caught:
        REQUESTS.parse_fields([b"X: y"] * (FIELDS + 1))
    assert caught.value.status == 431


@pytest.mark.parametrize("grammar", BOTH)
@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b" X: y", "a line of the head begins with white space"),
        (b"\tX", "a line of the head begins with white space"),
        (b"X", "a line of the head has no colon"),
        (b"", "a line of the head has no colon"),
        (b": y", "a field of the head has no name"),
        (b"X : y", "white space stands before the colon of 'X'"),
        (b"X Y: z", "the name of a field is 'X Y'"),
        (b"X: y\x00", "the value of X has a control character"),
    ],
)
def test_lines_that_are_no_fields_are_named(grammar: Grammar, line: bytes, text: str) -> None:
    """What is wrong is said, values are not shown."""
    with pytest.raises(MalformedError) as caught:
        grammar.parse_field(line)
    assert (caught.value.status, str(caught.value)) == (grammar.status, text)


def test_only_servers_may_have_control_characters_in_values() -> None:
    """They harm nobody there."""
    assert RESPONSES.parse_field(b"X: a\x01") == (b"x", b"a\x01")
    with pytest.raises(MalformedError, match="control character"):
        RESPONSES.parse_field(b"X: a\x0b")  # h11 would refuse it
    with pytest.raises(MalformedError, match="control character"):
        REQUESTS.parse_field(b"X: a\x01")


@pytest.mark.parametrize("grammar", BOTH)
def test_lengths_and_codings_are_read(grammar: Grammar) -> None:
    """One of them or none."""
    assert grammar.parse_body((), b"1.1") == DeclaredBody(False, None)
    assert grammar.parse_body(((b"content-length", b"007"),), b"1.0") == DeclaredBody(False, 7)
    assert grammar.parse_body(((b"transfer-encoding", b"Chunked"),), b"1.1") == DeclaredBody(True, None)


@pytest.mark.parametrize("grammar", BOTH)
@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ("length 5 coding chunked", "both Content-Length and Transfer-Encoding are given"),
        ("length 5 length 5", "Content-Length is given more than once"),
        ("coding chunked coding chunked", "Transfer-Encoding is given more than once"),
        ("coding xchunked", "Transfer-Encoding is 'xchunked': only chunked is understood"),
        ("length +5", "Content-Length is '+5': not a number of bytes"),
        ("length 1234567890123456789", "Content-Length is '1234567890123456789': not a number of bytes"),
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(grammar: Grammar, fields: str, text: str) -> None:
    """For both directions, with their status."""
    words = fields.replace("length", "content-length").replace("coding", "transfer-encoding").encode().split()
    with pytest.raises(MalformedError) as caught:
        grammar.parse_body(tuple(zip(words[::2], words[1::2], strict=True)), b"1.1")
    assert (caught.value.status, str(caught.value)) == (grammar.status, text)


def test_http_10_knows_no_codings() -> None:
    """Some would read the body until the end of the connection."""
    with pytest.raises(MalformedError, match=r"HTTP/1\.0 knows no Transfer-Encoding"):
        REQUESTS.parse_body(((b"transfer-encoding", b"chunked"),), b"1.0")


def test_host_is_given_once() -> None:
    """Before HTTP/1.1 it may be missing."""
    REQUESTS.check_hosts(((b"host", b""),), b"1.1")
    REQUESTS.check_hosts((), b"1.0")
    with pytest.raises(MalformedError, match="Host is missing"):
        REQUESTS.check_hosts((), b"1.1")
    with pytest.raises(MalformedError, match="Host is given more than once"):
        REQUESTS.check_hosts(((b"host", b"a"), (b"host", b"a")), b"1.0")


def test_long_heads_have_a_status_of_their_own() -> None:
    """Clients get 431 for a head that is too long, servers 502."""
    assert (REQUESTS.too_long_error(10).status, str(REQUESTS.too_long_error(10))) == (
        431,
        "the head is longer than 10 bytes",
    )
    assert RESPONSES.too_long_error(10).status == 502
    assert RESPONSES.not_one_head_error().status == 502
