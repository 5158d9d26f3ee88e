"""The words that header blocks are compressed with: any other byte and no peer understands us."""

import zlib

from interpose.net.spdy.headers import DICTIONARY


def test_it_is_the_published_one() -> None:
    """By its length and its checksum, which zlib streams carry as their id."""
    assert len(DICTIONARY) == 1423
    assert zlib.adler32(DICTIONARY) == 0xE3C6A7C2
