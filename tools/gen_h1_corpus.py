"""Write tests/data/h1corpus: requests and answers that are broken in one way each, and odd ones that are not.

    python tools/gen_h1_corpus.py [--check]

`index.json` says for each file whether it is a `request` or an `answer` (and to which method), the `status` a client is
told (null: nothing is wrong), a part of the text that comes with it, and how many whole `messages` come before the
first wrong byte. A broken request is followed by one for /smuggled, which nobody may ever see.
"""

import json
import sys
from pathlib import Path
from typing import NamedTuple

from outputs import ROOT, wants_check

FOLDER = ROOT / "tests/data/h1corpus"
LIMIT = 65536

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
TCP = b"Connection: Upgrade\r\nUpgrade: tcp\r\n"


LONG_FIELD = b"X: " + b"y" * 100 + b"\r\n"


class Case(NamedTuple):
    """One file."""

    data: bytes
    status: int | None = None
    says: str = ""
    messages: int = 0
    method: str = ""


def get(*lines: bytes, first: bytes = b"GET /_ping HTTP/1.1", host: bytes = b"Host: docker\r\n") -> bytes:
    """A head with further lines, each with its own end."""
    return first + b"\r\n" + host + b"".join(lines) + b"\r\n"


def post(*lines: bytes, body: bytes = b"") -> bytes:
    """A request with a body."""
    return get(*lines, first=b"POST /v1.41/containers/create HTTP/1.1") + body


def chunked(body: bytes) -> bytes:
    """A request with a chunked body."""
    return post(CHUNKED, body=body)


def chunk(size: int) -> bytes:
    """A chunk whose data looks like framing."""
    return b"%x\r\n%s\r\n" % (size, (b"\r\n1\r\n0" * size)[:size])


def bad(data: bytes, says: str, status: int = 400) -> Case:
    """A request that is refused."""
    return Case(data + SMUGGLED, status, says)


def fine(data: bytes, messages: int = 1) -> Case:
    """Requests nothing is wrong with."""
    return Case(data, messages=messages)


def answer(*lines: bytes, first: bytes = b"HTTP/1.1 200 OK", body: bytes = b"") -> bytes:
    """An answer with further lines, each with its own end."""
    return first + b"\r\n" + b"".join(lines) + b"\r\n" + body


def wrong(data: bytes, says: str, method: str = "GET") -> Case:
    """An answer that is refused."""
    return Case(data, 502, says, method=method)


def right(data: bytes, method: str = "GET", messages: int = 1) -> Case:
    """An answer nothing is wrong with."""
    return Case(data, messages=messages, method=method)


def first_lines() -> dict[str, Case]:
    """What stands in the first line of a request."""
    return {
        "http_09": bad(b"GET /_ping\r\n\r\n", "the request line is 'GET /_ping'"),
        "http_2_preface": bad(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/2 is not spoken"),
        "http_20": bad(get(first=b"GET / HTTP/2.0"), "HTTP/2.0 is not understood", 505),
        "http_12": bad(get(first=b"GET / HTTP/1.2"), "HTTP/1.2 is not understood", 505),
        "http_two_digits": bad(get(first=b"GET / HTTP/1.10"), "the request line is"),
        "http_lower_case": bad(get(first=b"GET / http/1.1"), "the request line is"),
        "version_missing": bad(get(first=b"GET / "), "the request line is"),
        "version_followed_by_space": bad(get(first=b"GET / HTTP/1.1 "), "the request line is"),
        "leading_blank_line": bad(b"\r\n" + get(), "begins with '\\r'"),
        "leading_lf": bad(b"\n" + get(), "begins with '\\n'"),
        "leading_space": bad(b" " + get(), "begins with ' '"),
        "tls_hello": bad(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "begins with '\\x16'"),
        "method_odd": bad(get(first=b"GE(T / HTTP/1.1"), "the request line is"),
        "method_missing": bad(get(first=b"/ HTTP/1.1"), "begins with '/'"),
        "two_spaces": bad(get(first=b"GET  / HTTP/1.1"), "the request line is"),
        "tab_for_space": bad(get(first=b"GET\t/ HTTP/1.1"), "the request line is"),
        "target_with_space": bad(get(first=b"GET /a b HTTP/1.1"), "the request line is"),
        "target_with_nul": bad(get(first=b"GET /a\x00b HTTP/1.1"), "the request line is"),
        "target_with_del": bad(get(first=b"GET /\x7f HTTP/1.1"), "the request line is"),
        "target_not_ascii_bad_escape": bad(get(first=b"GET /\xc3\xa4%a HTTP/1.1"), "a % that escapes nothing"),
        "version_not_ascii": bad(get(first=b"GET / HTTP/1.1\xc3\xa4"), "the request line is"),
        "method_not_ascii": bad(get(first=b"G\xc3\xa4T / HTTP/1.1"), "the request line is"),
        "target_bad_escape": bad(get(first=b"GET /a%zz HTTP/1.1"), "a % that escapes nothing"),
        "target_cut_escape": bad(get(first=b"GET /a%4 HTTP/1.1"), "a % that escapes nothing"),
        "target_no_slash": bad(get(first=b"GET containers/json HTTP/1.1"), "the target of the request is"),
        "target_opaque": bad(get(first=b"GET http:containers/json HTTP/1.1"), "the target of the request is"),
        "line_smuggled_by_cr": bad(get(first=b"GET / HTTP/1.1\rX: y"), "CR without LF"),
    }


def line_ends() -> dict[str, Case]:
    """CR and LF where they do not belong."""
    return {
        "lf_everywhere": bad(b"GET /_ping HTTP/1.1\nHost: docker\n\n", "LF without CR"),
        "lf_after_field": bad(get(b"X: y\n"), "LF without CR"),
        "lf_smuggles_field": bad(get(b"X: y\nContent-Length: 5\r\n"), "LF without CR"),
        "lf_blank_line": bad(b"GET / HTTP/1.1\r\nHost: x\r\n\n", "LF without CR"),
        "cr_in_value": bad(get(b"X: y\rz\r\n"), "CR without LF"),
        "cr_smuggles_field": bad(get(b"X: y\rTransfer-Encoding: chunked\r\n"), "CR without LF"),
        "cr_cr_lf": bad(get(b"X: y\r\r\n"), "CR without LF"),
        "cr_cr_blank_line": bad(b"GET / HTTP/1.1\r\nHost: x\r\n\r\r\n", "CR without LF"),
    }


def fields() -> dict[str, Case]:
    """Lines of a head."""
    return {
        "obs_fold": bad(get(b"X: y\r\n", b" z\r\n"), "begins with white space"),
        "obs_fold_tab": bad(get(b"X: y\r\n", b"\tz\r\n"), "begins with white space"),
        "obs_fold_of_coding": bad(post(b"Transfer-Encoding:\r\n", b" chunked\r\n"), "begins with white space"),
        "obs_fold_first": bad(get(host=b" Host: docker\r\n"), "begins with white space"),
        "no_colon": bad(get(b"Content-Length\r\n"), "no colon"),
        "no_name": bad(get(b": y\r\n"), "has no name"),
        "space_before_colon": bad(post(b"Content-Length : 5\r\n"), "before the colon of 'Content-Length'"),
        "tab_before_colon": bad(post(b"Transfer-Encoding\t: chunked\r\n"), "before the colon of 'Transfer-Encoding'"),
        "name_with_space": bad(get(b"Content Length: 5\r\n"), "the name of a field is 'Content Length'"),
        "name_with_nul": bad(get(b"X\x00Y: 5\r\n"), "the name of a field is"),
        "name_not_ascii": bad(get(b"Content-L\xe4ngth: 5\r\n"), "the name of a field is"),
        "name_with_vt": bad(get(b"\x0bTransfer-Encoding: chunked\r\n"), "the name of a field is"),
        "value_with_nul": bad(get(b"X: a\x00b\r\n"), "the value of X has a control character"),
        "value_with_bell": bad(get(b"X: a\x07b\r\n"), "the value of X has a control character"),
        "value_with_del": bad(get(b"X: a\x7fb\r\n"), "the value of X has a control character"),
        "host_missing": bad(get(host=b""), "Host is missing"),
        "host_twice": bad(get(b"host: other\r\n"), "Host is given more than once"),
        "head_too_long": bad(get(b"X: " + b"y" * LIMIT + b"\r\n"), "longer than", 431),
        "head_never_ends": bad(b"GET / HTTP/1.1\r\nX: " + b"y" * 2 * LIMIT, "longer than", 431),
        "target_too_long": bad(get(first=b"GET /" + b"y" * LIMIT + b" HTTP/1.1"), "longer than", 431),
        "too_many_fields": bad(get(b"X: y\r\n" * 1024), "more than", 431),
    }


def lengths() -> dict[str, Case]:
    """Where a body ends: two programs must not differ."""
    length = {
        "plus": b"+5",
        "minus": b"-5",
        "hex": b"0x5",
        "comma": b"5, 5",
        "comma_other": b"5, 6",
        "empty": b"",
        "space_inside": b"5 5",
        "underscore": b"1_0",
        "float": b"5.0",
        "quoted": b'"5"',
        "letters": b"abc",
        "too_large": b"9223372036854775808",
        "much_too_large": b"9" * 40,
        "arabic_digits": "\u0665".encode(),
    }
    coding = {
        "x": b"xchunked",
        "twice": b"chunked, chunked",
        "identity": b"identity",
        "identity_chunked": b"identity, chunked",
        "gzip_chunked": b"gzip, chunked",
        "quoted": b'"chunked"',
        "comma": b"chunked,",
        "parameter": b"chunked;q=1",
        "empty": b"",
        "cow": b"cow",
    }
    cases = {
        f"length_{name}": bad(post(b"Content-Length: " + value + b"\r\n"), "Content-Length is '")
        for name, value in length.items()
    }
    cases |= {
        f"coding_{name}": bad(
            post(b"Transfer-Encoding: " + value + b"\r\n", body=b"0\r\n\r\n"), "Transfer-Encoding is '"
        )
        for name, value in coding.items()
    }
    return cases | {
        "length_and_coding": bad(post(b"Content-Length: 6\r\n", CHUNKED, body=b"0\r\n\r\n"), "both Content-Length"),
        "coding_and_length": bad(post(CHUNKED, b"Content-Length: 6\r\n", body=b"0\r\n\r\n"), "both Content-Length"),
        "length_twice": bad(post(b"Content-Length: 5\r\n", b"Content-Length: 6\r\n"), "Content-Length is given more"),
        "length_twice_equal": bad(post(b"Content-Length: 5\r\n" * 2, body=b"abcde"), "Content-Length is given more"),
        "coding_two_lines": bad(post(CHUNKED, b"Transfer-Encoding: x\r\n"), "Transfer-Encoding is given more"),
        "coding_two_lines_equal": bad(post(CHUNKED * 2, body=b"0\r\n\r\n"), "Transfer-Encoding is given more"),
        "coding_vt": bad(post(b"Transfer-Encoding: \x0bchunked\r\n"), "Transfer-Encoding has a control character"),
        "coding_in_http_10": bad(get(CHUNKED, first=b"POST / HTTP/1.0") + b"0\r\n\r\n", "HTTP/1.0 knows no"),
    }


def chunks() -> dict[str, Case]:
    """Chunked bodies of requests. The head itself is right, so it goes on."""
    sizes = {
        "not_hex": b"xyz\r\n",
        "empty": b"\r\n",
        "minus": b"-5\r\nhello\r\n",
        "plus": b"+5\r\nhello\r\n",
        "prefix": b"0x5\r\nhello\r\n",
        "space_before": b" 5\r\nhello\r\n",
        "space_after": b"5 \r\nhello\r\n",
        "space_before_extension": b"5 ;a=b\r\nhello\r\n",
        "underscore": b"1_0\r\n",
        "too_many_digits": b"0000000000000005\r\nhello\r\n",
        "too_large": b"ffffffffffffffffff\r\n",
        "lf": b"5\nhello\r\n",
        "cr_only": b"5\rhello\r\n",
        "extension_lf": b"5;a\nhello\r\n",
        "extension_cr": b"5;a\rb\r\nhello\r\n",
        "extension_nul": b"5;a\x00\r\nhello\r\n",
    }
    cases = {f"chunk_size_{name}": bad(chunked(line), "the line before a chunk is '") for name, line in sizes.items()}
    after = {"missing": b"0\r\n\r\n", "lf": b"\n0\r\n\r\n", "cr_only": b"\r0\r\n\r\n", "too_long": b"!\r\n0\r\n\r\n"}
    cases |= {
        f"chunk_end_{name}": bad(chunked(b"5\r\nhello" + end), "a chunk is followed by") for name, end in after.items()
    }
    trailers = {
        "no_colon": (b"X\r\n", "no colon"),
        "lf": (b"X: y\n\r\n", "LF without CR"),
        "lf_only": (b"\n", "LF without CR"),
        "fold": (b"X: y\r\n z\r\n\r\n", "begins with white space"),
        "length": (b"Content-Length: 5\r\n\r\n", "content-length stands in the trailers"),
        "coding": (b"Transfer-Encoding: chunked\r\n\r\n", "transfer-encoding stands in the trailers"),
        "host": (b"Host: other\r\n\r\n", "host stands in the trailers"),
        "nul": (b"X: \x00\r\n\r\n", "the value of X has a control character"),
    }
    cases |= {f"trailer_{name}": bad(chunked(b"0\r\n" + lines), says) for name, (lines, says) in trailers.items()}
    return cases | {
        "chunk_line_too_long": bad(chunked(b"5;" + b"a" * 2000 + b"\r\nhello\r\n"), "longer than 1024 bytes"),
        "trailers_too_long": bad(chunked(b"0\r\n" + LONG_FIELD * 1000), "the trailers are longer than", 431),
        "too_many_trailers": bad(chunked(b"0\r\n" + b"X: y\r\n" * 1025), "the trailers have more than", 431),
        "too_many_extensions": bad(chunked(b"1;a\r\nx\r\n" * 1025), "more than 1024 chunks have extensions"),
        "trailer_line_too_long": bad(
            chunked(b"0\r\nX: " + b"y" * LIMIT + b"\r\n"), "the trailers are longer than", 431
        ),
    }


def fine_requests() -> dict[str, Case]:
    """Odd, but read by everybody in the same way."""
    hijack = get(TCP, b"Content-Length: 2\r\n", first=b"POST /exec/x/start HTTP/1.1") + b"{}"
    return {
        "fine_ping": fine(get()),
        "fine_target_not_ascii": fine(get(first=b"GET /\xc3\xa4?b=\xff\xc3 HTTP/1.1") + get(), 2),
        "fine_many_fields": fine(get(b"X: y\r\n" * 1000)),
        "fine_small_chunks": fine(chunked(b"".join(map(chunk, range(1, 300))) + b"0\r\n\r\n") + get(), 2),
        "fine_sizes_with_zeros": fine(
            chunked(b"01\r\nx\r\n" + b"0" * 14 + b"1\r\ny\r\n00fF\r\n" + b"z" * 255 + b"\r\n00\r\n\r\n") + get(), 2
        ),
        "fine_head": fine(get(first=b"HEAD /_ping HTTP/1.1")),
        "fine_http_10": fine(get(first=b"GET /_ping HTTP/1.0", host=b"")),
        "fine_pipelined": fine(get() * 3, 3),
        "fine_length": fine(post(b"Content-Length: 5\r\n", body=b"hello") + get(), 2),
        "fine_length_zero": fine(post(b"Content-Length: 0\r\n") + get(), 2),
        "fine_length_leading_zeros": fine(post(b"Content-Length: 0005\r\n", body=b"hello") + get(), 2),
        "fine_body_like_a_request": fine(post(b"Content-Length: 35\r\n", body=SMUGGLED[:35]) + get(), 2),
        "fine_chunked": fine(chunked(b"5\r\nhello\r\nA\r\n0123456789\r\n0\r\n\r\n") + get(), 2),
        "fine_chunked_upper_case": fine(post(b"transfer-encoding: CHUNKED\r\n", body=b"0\r\n\r\n") + get(), 2),
        "fine_chunked_zeros": fine(chunked(b"005\r\nhello\r\n000\r\n\r\n") + get(), 2),
        "fine_chunked_extension": fine(chunked(b'5;a="b c";d\r\nhello\r\n0;e\r\n\r\n') + get(), 2),
        "fine_chunked_trailers": fine(chunked(b"0\r\nX-Sum: 1\r\nEmpty:\r\n\r\n") + get(), 2),
        "fine_expect": fine(post(b"Expect: 100-continue\r\n", b"Content-Length: 2\r\n", body=b"{}")),
        "fine_expect_other": fine(get(b"Expect: tea\r\n")),
        "fine_hijack": fine(hijack),
        "fine_absolute": fine(get(first=b"GET http://docker/v1.41/containers/json?all=1 HTTP/1.1")),
        "fine_escapes": fine(get(first=b"POST /v1.41/containers/%63reate?name=a%zz HTTP/1.1")),
        "fine_asterisk": fine(get(first=b"OPTIONS * HTTP/1.1")),
        "fine_connect": fine(get(first=b"CONNECT docker:80 HTTP/1.1")),
        "fine_host_empty": fine(get(host=b"Host:\r\n")),
        "fine_host_path": fine(get(host=b"Host: %2Fvar%2Frun%2Fdocker.sock\r\n")),
        "fine_value_not_ascii": fine(get(b"X: \xc3\xa4\xff\t!\r\n")),
        "fine_value_empty": fine(get(b"X:\r\n", b"Y: \t \r\n")),
        "fine_get_with_body": fine(get(b"Content-Length: 2\r\n") + b"{}" + get(), 2),
    }


def answers() -> dict[str, Case]:
    """What a server may send, and what not."""
    ok = b"HTTP/1.1 200 OK"
    length = b"Content-Length: 5\r\n"
    hello = b"5\r\nhello\r\n0\r\n\r\n"
    return {
        "answer_length": right(answer(length, body=b"hello")),
        "answer_chunked": right(answer(CHUNKED, body=hello)),
        "answer_chunked_trailers": right(answer(CHUNKED, body=b"5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n")),
        "answer_until_close": right(answer(body=b"anything")),
        "answer_http_10": right(answer(first=b"HTTP/1.0 200 OK", body=b"anything")),
        "answer_no_reason": right(answer(length, first=b"HTTP/1.1 200", body=b"hello")),
        "answer_empty_reason": right(answer(length, first=b"HTTP/1.1 200 ", body=b"hello")),
        "answer_head": right(answer(length), "HEAD"),
        "answer_head_chunked": right(answer(CHUNKED), "HEAD"),
        "answer_204": right(answer(first=b"HTTP/1.1 204 No Content")),
        "answer_204_length_0": right(answer(b"Content-Length: 0\r\n", first=b"HTTP/1.1 204 No Content")),
        "answer_304_length": right(answer(length, first=b"HTTP/1.1 304 Not Modified")),
        "answer_101": right(answer(TCP, first=b"HTTP/1.1 101 UPGRADED")),
        "answer_connect": right(answer(), "CONNECT"),
        "answer_connect_refused": right(answer(length, first=b"HTTP/1.1 404 Not Found", body=b"hello"), "CONNECT"),
        "answer_interim": right(answer(first=b"HTTP/1.1 100 Continue") * 2 + answer(length, body=b"hello")),
        "answer_value_with_control": right(answer(length, b"X: a\x01b\r\n", body=b"hello")),
        "answer_lf": wrong(b"HTTP/1.1 200 OK\nContent-Length: 0\n\n", "LF without CR"),
        "answer_cr": wrong(answer(b"X: a\rb\r\n"), "CR without LF"),
        "answer_fold": wrong(answer(b"X: a\r\n", b" b\r\n"), "begins with white space"),
        "answer_space_before_colon": wrong(answer(b"Content-Length : 5\r\n"), "before the colon"),
        "answer_nul": wrong(answer(b"X: a\x00b\r\n"), "the value of X has a control character"),
        "answer_vt": wrong(answer(b"X: a\x0bb\r\n"), "the value of X has a control character"),
        "answer_length_and_coding": wrong(answer(length, CHUNKED), "both Content-Length"),
        "answer_length_twice": wrong(answer(length, length, body=b"hello"), "Content-Length is given more"),
        "answer_length_odd": wrong(answer(b"Content-Length: 5, 5\r\n", body=b"hello"), "Content-Length is '5, 5'"),
        "answer_coding_odd": wrong(answer(b"Transfer-Encoding: gzip\r\n"), "Transfer-Encoding is 'gzip'"),
        "answer_coding_http_10": wrong(answer(CHUNKED, first=b"HTTP/1.0 200 OK", body=hello), "HTTP/1.0 knows no"),
        "answer_204_length": wrong(answer(length, first=b"HTTP/1.1 204 No Content"), "status 204 has no body"),
        "answer_204_chunked": wrong(answer(CHUNKED, first=b"HTTP/1.1 204 No Content"), "status 204 has no body"),
        "answer_101_length": wrong(answer(TCP, length, first=b"HTTP/1.1 101 UPGRADED"), "status 101 has no body"),
        "answer_connect_length": wrong(answer(length), "status 200 has no body", "CONNECT"),
        "answer_http_2": wrong(answer(first=b"HTTP/2.0 200 OK"), "the status line is 'HTTP/2.0 200 OK'"),
        "answer_http_09": wrong(b"hello", "begins with 'h'"),
        "answer_status_short": wrong(answer(first=b"HTTP/1.1 20 OK"), "the status line is"),
        "answer_status_low": wrong(answer(first=b"HTTP/1.1 099 OK"), "tatus"),
        "answer_head_too_long": wrong(ok + b"\r\nX: " + b"y" * LIMIT, "longer than"),
        "answer_chunk_size": wrong(answer(CHUNKED, body=b"5 \r\nhello\r\n0\r\n\r\n"), "the line before a chunk"),
        "answer_chunk_end": wrong(answer(CHUNKED, body=b"5\r\nhello!\r\n0\r\n\r\n"), "a chunk is followed by '!'"),
        "answer_trailer": wrong(answer(CHUNKED, body=b"0\r\nContent-Length: 5\r\n\r\n"), "stands in the trailers"),
        "answer_trailers_too_long": wrong(
            answer(CHUNKED, body=b"0\r\n" + LONG_FIELD * 1000), "the trailers are longer"
        ),
    }


def corpus() -> dict[str, Case]:
    """Everything, by name."""
    return first_lines() | line_ends() | fields() | lengths() | chunks() | fine_requests() | answers()


def files() -> dict[Path, bytes]:
    """What belongs in the folder."""
    cases = corpus()
    index = {
        name: {
            "kind": "answer" if case.method else "request",
            **{k: v for k, v in case._asdict().items() if k != "data"},
        }
        for name, case in cases.items()
    }
    text = json.dumps(index, indent=1, sort_keys=True) + "\n"
    return {FOLDER / f"{name}.bin": case.data for name, case in cases.items()} | {FOLDER / "index.json": text.encode()}


def main() -> int:
    """Write the files, or with --check say which differ; files nobody makes are removed or named."""
    check = wants_check(__doc__ or "")
    fresh = files()
    stale = [path for path in FOLDER.glob("*") if path not in fresh]
    differing = [path for path, content in fresh.items() if not path.exists() or path.read_bytes() != content]
    for path in stale + differing:
        if check:
            print(f"{path.relative_to(ROOT)} is not what tools/gen_h1_corpus.py makes", file=sys.stderr)
        elif path in fresh:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(fresh[path])
        else:
            path.unlink()
    return 1 if check and stale + differing else 0


if __name__ == "__main__":
    sys.exit(main())
