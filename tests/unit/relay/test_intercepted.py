"""Header blocks of intercepted calls; what the calls themselves do is in tests/integration."""

from interpose.net.grpc.exchange import RawReply
from interpose.net.h2.headers import Headers, make_field
from interpose.relay.intercepted import _blocks, _rewritten


def block(*pairs: tuple[bytes, bytes]) -> Headers:
    """A decoded header block."""
    return Headers([make_field(name, value) for name, value in pairs], 0)


def test_values_are_replaced_in_their_place() -> None:
    """Order and all other bytes stay."""
    headers = block((b"a", b"1"), (b"grpc-timeout", b"10S"), (b"b", b"2"))
    expected = block((b"a", b"1"), (b"grpc-timeout", b"9S"), (b"b", b"2"))
    assert _rewritten(headers, make_field(b"grpc-timeout", b"9S").wire, False) == expected.wire


def test_content_length_goes_only_with_a_new_size() -> None:
    """Where it still holds it stays."""
    headers = block((b"content-length", b"10"), (b"b", b"2"))
    assert _rewritten(headers, b"", False) == headers.wire
    assert _rewritten(headers, b"", True) == block((b"b", b"2")).wire


def test_blocks_of_replies() -> None:
    """With trailers, trailers only, and a body that ended by itself."""
    head, tail = block((b":status", b"200")), block((b"grpc-status", b"0"))
    assert _blocks(RawReply(head, b"", tail), resized=False) == (head.wire, tail.wire)
    assert _blocks(RawReply(None, b"", tail), resized=False) == (b"", tail.wire)
    assert _blocks(RawReply(head, b"", head), resized=False) == (head.wire, b"")
