"""Heads: what is read from them, what their bodies are, and what is remembered."""

import dataclasses

import pytest

from interpose.net.h1.heads import Framing, Heads, MalformedError, RequestHead, ResponseHead


def request(*lines: str, first: str = "GET /_ping HTTP/1.1", heads: Heads | None = None) -> RequestHead:
    """A head with these further lines."""
    return (heads or Heads()).request("\r\n".join([first, "Host: docker", *lines, "", ""]).encode("latin-1"))


def response(
    *lines: str, first: str = "HTTP/1.1 200 OK", method: str = "GET", heads: Heads | None = None
) -> ResponseHead:
    """An answer with these lines."""
    return (heads or Heads()).response("\r\n".join([first, *lines, "", ""]).encode("latin-1"), method)


def test_a_request_is_read() -> None:
    """Everything that is asked for later."""
    asked: list[tuple[str, str, str]] = []

    def classify(method: str, path: str, query: str) -> str:
        asked.append((method, path, query))
        return "route"

    head = request(
        "X-A: b", "x-a: c", first="POST /v1.41/containers/%63reate?name=a%20b HTTP/1.1", heads=Heads(classify=classify)
    )
    assert (head.method, head.target) == ("POST", "/v1.41/containers/%63reate?name=a%20b")
    assert (head.path, head.query, head.route) == ("/v1.41/containers/create", "name=a%20b", "route")
    assert asked == [("POST", "/v1.41/containers/create", "name=a%20b")]
    assert head.headers == ((b"host", b"docker"), (b"x-a", b"b"), (b"x-a", b"c"))
    assert head.raw.endswith(b"x-a: c\r\n\r\n")
    assert head.get(b"x-a") == b"b"
    assert head.get(b"x-b") is None


def test_an_answer_is_read() -> None:
    """The same for the other side."""
    head = response("Content-Type: text/plain", "Content-Length: 2", first="HTTP/1.1 404 Not Found")
    assert (head.status, head.reason, head.interim) == (404, "Not Found", False)
    assert (head.framing, head.length) == (Framing.LENGTH, 2)
    assert head.get(b"content-type") == b"text/plain"
    assert head.get(b"x") is None


def test_without_a_classifier_there_is_no_route() -> None:
    """Answers and tools need none."""
    assert request().route is None


@pytest.mark.parametrize(
    ("lines", "framing", "length"),
    [
        ([], Framing.NONE, 0),
        (["Content-Length: 0"], Framing.NONE, 0),
        (["Content-Length: 5"], Framing.LENGTH, 5),
        (["Transfer-Encoding: chunked"], Framing.CHUNKED, 0),
    ],
)
def test_bodies_of_requests(lines: list[str], framing: Framing, length: int) -> None:
    """Without a length there is none."""
    head = request(*lines)
    assert (head.framing, head.length) == (framing, length)


@pytest.mark.parametrize(
    ("first", "line", "method", "framing"),
    [
        ("200 OK", "", "GET", Framing.UNTIL_CLOSE),
        ("200 OK", "Content-Length: 5", "GET", Framing.LENGTH),
        ("200 OK", "Content-Length: 0", "GET", Framing.NONE),
        ("200 OK", "Transfer-Encoding: chunked", "GET", Framing.CHUNKED),
        ("200 OK", "Content-Length: 5", "HEAD", Framing.NONE),
        ("200 OK", "Transfer-Encoding: chunked", "HEAD", Framing.NONE),
        ("200 OK", "", "HEAD", Framing.NONE),
        ("204 No Content", "", "GET", Framing.NONE),
        ("304 Not Modified", "Content-Length: 5", "GET", Framing.NONE),
        ("100 Continue", "", "GET", Framing.NONE),
        ("101 UPGRADED", "Content-Type: x", "POST", Framing.NONE),
        ("200 OK", "", "CONNECT", Framing.NONE),
        ("400 Bad Request", "Content-Length: 5", "CONNECT", Framing.LENGTH),
    ],
)
def test_bodies_of_answers(first: str, line: str, method: str, framing: Framing) -> None:
    """By RFC 9112, 6.3."""
    head = response(*filter(None, [line]), first=f"HTTP/1.1 {first}", method=method)
    assert head.framing is framing
    assert head.length == (5 if framing is Framing.LENGTH else 0)


@pytest.mark.parametrize("first", ["204 No Content", "103 Early Hints", "101 UPGRADED"])
@pytest.mark.parametrize("line", ["Content-Length: 5", "Transfer-Encoding: chunked"])
def test_answers_without_a_body_may_not_claim_one(first: str, line: str) -> None:
    """Some clients would believe it."""
    with pytest.raises(MalformedError, match=f"status {first[:3]} has no body, but this one claims one") as caught:
        response(line, first=f"HTTP/1.1 {first}")
    assert caught.value.status == 502


@pytest.mark.parametrize(
    ("version", "connection", "kept"),
    [
        ("1.1", "", True),
        ("1.1", "close", False),
        ("1.1", "Upgrade, Close", False),
        ("1.1", "keep-alive", True),
        ("1.0", "", False),
        ("1.0", "Keep-Alive", True),
        ("1.0", "keep-alive, close", False),
    ],
)
def test_whether_a_connection_is_kept(version: str, connection: str, kept: bool) -> None:
    """By version and Connection, on both sides."""
    lines = [f"Connection: {connection}"] if connection else []
    assert request(*lines, first=f"GET / HTTP/{version}").keep_alive is kept
    assert response(*lines, "Content-Length: 2", first=f"HTTP/{version} 200 OK").keep_alive is kept


def test_an_answer_until_the_end_keeps_nothing() -> None:
    """Its end is the end of the connection."""
    assert response().keep_alive is False


def test_upgrades() -> None:
    """Both fields are needed."""
    assert request("Connection: x, Upgrade", "Upgrade: tcp").upgrade is True
    assert request("Connection: Upgrade").upgrade is False
    assert request("Upgrade: tcp").upgrade is False


def test_expectations() -> None:
    """In HTTP/1.1 only; others are the server's business."""
    assert request("Expect: 100-Continue").expects_continue is True
    assert request("Expect: 100-continue", first="GET / HTTP/1.0").expects_continue is False
    assert request("Expect: tea").expects_continue is False
    assert request().expects_continue is False


def test_interim_answers() -> None:
    """Another head follows them; not so 101."""
    assert response(first="HTTP/1.1 100 Continue").interim is True
    assert response(first="HTTP/1.1 101 UPGRADED").interim is False


@pytest.mark.parametrize(
    ("raw", "status", "text"),
    [
        (b"", 400, "the head is not one head"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n", 400, "the head is not one head"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\nG", 400, "the head is not one head"),
        (b"GET / HTTP/1.1\r\nHost: " + b"x" * 1000 + b"\r\n\r\n", 431, "the head is longer than 1000 bytes"),
    ],
)
def test_bytes_that_are_not_one_head_are_refused(raw: bytes, status: int, text: str) -> None:
    """Also for callers that do not cut with a reader."""
    with pytest.raises(MalformedError, match=text) as caught:
        Heads(limit=1000).request(raw)
    assert caught.value.status == status


def test_a_head_is_as_long_as_the_limit() -> None:
    """And not one byte longer."""
    start = b"GET / HTTP/1.1\r\nHost: x\r\nX: "
    raw = start + b"y" * (1000 - len(start) - 4) + b"\r\n\r\n"
    assert Heads(limit=1000).request(raw).raw == raw
    with pytest.raises(MalformedError):
        Heads(limit=999).request(raw)


def test_the_same_bytes_get_the_same_verdict() -> None:
    """The same bytes are parsed once."""
    heads = Heads()
    assert request(heads=heads) is request(heads=heads)
    assert response(heads=heads) is response(heads=heads)
    assert heads.remembered == 2


def test_what_an_answer_is_to_makes_another_verdict() -> None:
    """HEAD and CONNECT; all others are alike."""
    heads = Heads()
    plain = response("Content-Length: 5", heads=heads)
    assert response("Content-Length: 5", method="POST", heads=heads) is plain
    assert response("Content-Length: 5", method="HEAD", heads=heads).framing is Framing.NONE
    assert response("Content-Length: 5", heads=heads) is plain


def test_ever_new_heads_do_not_grow_the_memory() -> None:
    """Nor do they push out what is used."""
    heads = Heads(entries=10)
    used = request(heads=heads)
    for number in range(200):
        request(f"X: {number}", heads=heads)
        response(f"X: {number}", heads=heads)
        response(f"X: {number}", "Date: Mon, 16 Nov 2026 15:06:00 GMT", heads=heads)
        assert request(heads=heads) is used
    assert heads.remembered <= 30


@pytest.mark.parametrize(
    "line",
    ["Authorization: Bearer x", "X-Registry-Auth: x", "x-registry-config: x", "Cookie: x", f"X: {'y' * 4096}"],
)
def test_secrets_and_long_heads_are_not_remembered(line: str) -> None:
    """Nothing of them stays here."""
    heads = Heads()
    request(line, heads=heads)
    response(line, heads=heads)
    response(line, "Date: Mon, 16 Nov 2026 15:06:00 GMT", heads=heads)
    assert heads.remembered == 0


def test_heads_hide_their_bytes_in_logs() -> None:
    """They may hold secrets."""
    assert "hidden" not in repr(request("Authorization: hidden", first="GET /?x=hidden HTTP/1.1"))
    assert "hidden" not in repr(response("Set-Cookie: hidden"))


def dated(second: int, heads: Heads, *lines: str) -> ResponseHead:
    """An answer of that second."""
    return response("Server: Docker", f"Date: Mon, 16 Nov 2026 15:06:0{second} GMT", *lines, heads=heads)


def test_the_date_makes_no_other_verdict() -> None:
    """A head that differs in its date only is read as if it were read anew."""
    heads = Heads()
    dated(1, heads, "Content-Length: 5")
    later = dated(2, heads, "Content-Length: 5")
    fresh = dated(2, Heads(), "Content-Length: 5")
    assert dataclasses.asdict(later) == dataclasses.asdict(fresh)
    assert later.get(b"date") == b"Mon, 16 Nov 2026 15:06:02 GMT"
    assert dated(2, heads, "Content-Length: 5") is later


def test_all_but_the_date_makes_another_verdict() -> None:
    """Also an empty date, and a head with the same bytes around none."""
    heads = Heads()
    dated(1, heads, "Content-Length: 5")
    assert dated(2, heads, "Content-Length: 6").length == 6
    assert response("Server: Docker", "Date: ", "Content-Length: 5", heads=heads).get(b"date") == b""
    with pytest.raises(MalformedError):
        dated(2, heads, "Content-Length: +5")


def test_a_target_need_not_be_ascii() -> None:
    """Its bytes are letters of the same number; routes are told so, too."""
    heads = Heads(classify=lambda *asked: asked)
    head = heads.request("GET /v1/\u00fcber?a=\u00c3\u00a4 HTTP/1.1\r\nHost: x\r\n\r\n".encode("latin-1"))
    assert (head.target, head.path, head.query) == ("/v1/\u00fcber?a=\u00c3\u00a4", "/v1/\u00fcber", "a=\u00c3\u00a4")
    assert head.route == ("GET", head.path, head.query)
