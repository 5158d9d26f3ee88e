"""What makes a list of fields a request, a response or trailers, and how fields are written."""

import pytest

from interpose.net.h2.headers import Headers, HeaderShape, encode, make_field
from tests.support.net.h2_bench import REQUEST, RESPONSE
from tests.support.net.hpack import Decoder, Pair

METHOD, SCHEME, PATH, AUTHORITY, *REST = REQUEST


def headers(pairs: list[Pair]) -> Headers:
    """A block of these fields."""
    return Headers([make_field(*pair) for pair in pairs], 0)


@pytest.mark.parametrize(
    ("pairs", "shape"),
    [
        (REQUEST, HeaderShape.REQUEST),
        ([SCHEME, AUTHORITY, PATH, METHOD, *REST], HeaderShape.REQUEST),
        ([METHOD, SCHEME, PATH], HeaderShape.REQUEST),
        ([METHOD, SCHEME, PATH, (b"grpc-status", b"0")], HeaderShape.REQUEST),
        ([METHOD, SCHEME, AUTHORITY], HeaderShape.MALFORMED),
        ([METHOD, PATH, AUTHORITY], HeaderShape.MALFORMED),
        ([SCHEME, PATH, AUTHORITY], HeaderShape.MALFORMED),
        ([*REQUEST, METHOD], HeaderShape.MALFORMED),
        ([METHOD, METHOD, SCHEME, PATH], HeaderShape.MALFORMED),
        ([METHOD, SCHEME, SCHEME, PATH], HeaderShape.MALFORMED),
        ([METHOD, SCHEME, PATH, PATH], HeaderShape.MALFORMED),
        ([METHOD, SCHEME, PATH, AUTHORITY, AUTHORITY], HeaderShape.MALFORMED),
        ([METHOD, SCHEME, AUTHORITY, AUTHORITY], HeaderShape.MALFORMED),
        ([METHOD, SCHEME, (b"x", b"y"), PATH], HeaderShape.MALFORMED),
        ([(b"x", b"y"), METHOD, SCHEME, PATH], HeaderShape.MALFORMED),
        ([METHOD, SCHEME, PATH, (b":status", b"200")], HeaderShape.MALFORMED),
        ([METHOD, SCHEME, PATH, (b":protocol", b"websocket")], HeaderShape.MALFORMED),
        ([METHOD, SCHEME, (b":path", b"")], HeaderShape.MALFORMED),
        ([METHOD, SCHEME, (b":path", b"runtime.v1.RuntimeService/RunPodSandbox")], HeaderShape.MALFORMED),
        ([METHOD, SCHEME, (b":path", b"*")], HeaderShape.MALFORMED),
        (RESPONSE, HeaderShape.RESPONSE),
        ([(b":status", b"404"), (b"grpc-status", b"5")], HeaderShape.RESPONSE),
        ([(b":status", b"100")], HeaderShape.INTERIM),
        ([(b":status", b"103"), (b"link", b"</x>")], HeaderShape.INTERIM),
        ([(b":status", b"20")], HeaderShape.MALFORMED),
        ([(b":status", b"2000")], HeaderShape.MALFORMED),
        ([(b":status", b"abc")], HeaderShape.MALFORMED),
        ([(b":status", b"200"), (b":status", b"200")], HeaderShape.MALFORMED),
        ([(b":status", b"200"), METHOD], HeaderShape.MALFORMED),
        ([(b"x", b"y"), (b":status", b"200")], HeaderShape.MALFORMED),
        ([], HeaderShape.TRAILERS),
        ([(b"grpc-status", b"0"), (b"x-bin", b"AAA=")], HeaderShape.TRAILERS),
    ],
)
def test_shapes(pairs: list[Pair], shape: HeaderShape) -> None:
    """RFC 9113 8.3: which pseudo-header fields there are, how often, and that they come first."""
    assert headers(pairs).shape is shape


@pytest.mark.parametrize(
    "pair",
    [
        (b"connection", b"close"),
        (b"keep-alive", b"1"),
        (b"proxy-connection", b"close"),
        (b"transfer-encoding", b"chunked"),
        (b"upgrade", b"h2c"),
        (b"te", b"gzip"),
        (b"te", b""),
        (b"Upper", b"x"),
        (b"", b"x"),
        (b"with space", b"x"),
        (b"with:colon", b"x"),
        (b"nul\0", b"x"),
        (b"high\xff", b"x"),
        (b"x", b"line\nbreak"),
        (b"x", b"return\r"),
        (b"x", b"\0"),
        (b":unknown", b"x"),
    ],
)
def test_forbidden_fields(pair: Pair) -> None:
    """RFC 9113 8.2: fields about one connection, bad names and bad values spoil any block."""
    for pairs in (REQUEST, RESPONSE, []):
        assert headers([*pairs, pair]).shape is HeaderShape.MALFORMED


@pytest.mark.parametrize(
    "pair", [(b"te", b"trailers"), (b"x", b""), (b"x-!#$%&'*+.^_`|~09", b"\t \x80\xff"), (b"host", b"a")]
)
def test_allowed_fields(pair: Pair) -> None:
    """What looks odd but is not forbidden."""
    assert headers([*REQUEST, pair]).shape is HeaderShape.REQUEST


def test_oversized_is_no_event_that_may_come() -> None:
    """A list over the limit counts as malformed for the state table, whatever its shape."""
    fields = [make_field(*pair) for pair in REQUEST]
    assert (Headers(fields, 10**6).event, Headers(fields, 10**6).size) == (0, 10**6)
    assert (Headers(fields).event, Headers(fields).size) == (
        HeaderShape.REQUEST * 2,
        sum(field.size for field in fields),
    )


def test_looked_up_fields() -> None:
    """The few that everybody asks for, and any other by name."""
    block = headers([*REQUEST, (b"x", b"1"), (b"x", b"2")])
    assert block.path == b"/runtime.v1.RuntimeService/Version"
    assert block.grpc_status is None
    assert block.get(b"x") == b"1"
    assert block.get(b"y") is None
    trailers = headers([(b"grpc-message", b"no"), (b"grpc-status", b"5")])
    assert trailers.path == b""
    assert trailers.grpc_status == b"5"


def test_own_fields_on_the_wire() -> None:
    """By static index where the pair or the name has one, else as literals; nothing enters the peer's table."""
    pairs = [
        (b":status", b"200"),
        (b":status", b"418"),
        (b"user-agent", b"interpose"),
        (b"grpc-status", b"0"),
        (b"x" * 300, b"y" * 20_000),
    ]
    assert Decoder().decode(encode(pairs)) == [
        (*pair, form) for pair, form in zip(pairs, ["indexed", "plain", "plain", "plain", "plain"], strict=True)
    ]


def test_block_keeps_the_order_on_the_wire() -> None:
    """The outgoing form of a block has its fields in order."""
    assert Decoder().pairs(headers(REQUEST).wire) == REQUEST


def test_repr_hides_values() -> None:
    """Values may be secrets."""
    assert "s3cret" not in repr(make_field(b"authorization", b"s3cret"))
