"""Header blocks: each builds on those before it, and none becomes too large."""

import zlib

import pytest

from interpose.net.spdy.frames import SpdyError
from interpose.net.spdy.headers import DICTIONARY, HeaderPacker, HeaderUnpacker


def block(plain: bytes, *, end: bool = False) -> bytes:
    """The first block of a connection, from its bytes."""
    packer = zlib.compressobj(zdict=DICTIONARY)
    return packer.compress(plain) + packer.flush(zlib.Z_FINISH if end else zlib.Z_SYNC_FLUSH)


def field(*texts: bytes) -> bytes:
    return b"".join(len(text).to_bytes(4, "big") + text for text in texts)


def test_blocks_are_read_in_their_order() -> None:
    """The second one is small because it builds on the first."""
    packer, unpacker = HeaderPacker(), HeaderUnpacker()
    headers = {"streamType": "data", "port": "8080", "requestID": "0"}
    first, second = packer.pack(headers), packer.pack(headers)
    assert len(second) < len(first)
    assert [unpacker.unpack(block) for block in (first, second)] == [
        {"streamtype": "data", "port": "8080", "requestid": "0"}
    ] * 2


def test_no_headers_are_a_block_too() -> None:
    """That is how streams are accepted."""
    assert HeaderUnpacker().unpack(HeaderPacker().pack({})) == {}


def test_names_are_read_in_any_case() -> None:
    """Names of headers are read in any case, whichever peer sends them."""
    assert HeaderUnpacker().unpack(block(b"\0\0\0\1" + field(b"StreamType", b"error"))) == {"streamtype": "error"}


BROKEN = {
    "nothing": block(b""),
    "not compressed": b"streamtype",
    "no name": block(b"\0\0\0\1" + field(b"", b"x")),
    "a name twice": block(b"\0\0\0\2" + field(b"a", b"x", b"A", b"y")),
    "cut in a length": block(b"\0\0\0\1\0\0"),
    "cut in a name": block(b"\0\0\0\1\0\0\0\5abc"),
    "more than it says": block(b"\0\0\0\0x"),
    "too many fields": block(b"\0\1\0\0"),
    "a bomb": block(b"\0\0\0\1" + field(b"a", bytes(10_000_000))),
    "the last of all": block(b"\0\0\0\0", end=True),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_refused(name: str) -> None:
    """Nothing else is raised, and nothing large is made of something small."""
    with pytest.raises(SpdyError):
        HeaderUnpacker(4096).unpack(BROKEN[name])
