"""Log lines, however output is cut into pieces."""

from hypothesis import given
from hypothesis import strategies as st

from interpose.node.runtime.shim.log import LogLines


@given(st.lists(st.text(alphabet="ab\n", max_size=20).map(str.encode), max_size=10), st.integers(1, 5))
def test_the_log_says_what_was_written(pieces: list[bytes], limit: int) -> None:
    """Parts joined and full lines ended give the output back; no line is longer than the limit."""
    lines = LogLines("stdout", limit=limit)
    log = b"".join([lines.feed(piece, 0) for piece in pieces] + [lines.end(0)])

    entries = [line.split(b" ", 3) for line in log.split(b"\n")[:-1]]
    said = b"".join(text + (b"\n" if tag == b"F" else b"") for _, _, tag, text in entries)

    assert said == b"".join(pieces)
    assert all(len(text) <= limit for *_, text in entries)
