"""Documents and frames between shim and runtime."""

import struct

import pytest

from interpose.node.runtime.shim import protocol as wire


def test_documents_come_out_as_they_went_in() -> None:
    """Two in one buffer are taken one by one; the buffer is empty afterwards."""
    buffer = bytearray(wire.document({"op": "hello"}) + wire.document({"id": 1}))

    assert [wire.take_document(buffer), wire.take_document(buffer), wire.take_document(buffer)] == [
        {"op": "hello"},
        {"id": 1},
        None,
    ]
    assert buffer == b""


@pytest.mark.parametrize("cut", range(len(wire.document({"id": 1}))))
def test_a_document_is_waited_for(cut: int) -> None:
    """Wherever it is cut, nothing is taken before the rest is there."""
    whole = wire.document({"id": 1})
    buffer = bytearray(whole[:cut])

    assert wire.take_document(buffer) is None
    buffer += whole[cut:]
    assert wire.take_document(buffer) == {"id": 1}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (struct.pack(">I", wire.DOCUMENT_LIMIT + 1), "a document of"),
        (struct.pack(">I", 3) + b"{{{", "not JSON"),
        (struct.pack(">I", 2) + b"[]", "not an object"),
    ],
)
def test_what_is_no_document_ends_the_connection(data: bytes, words: str) -> None:
    """Too long, no JSON, no object."""
    with pytest.raises(wire.WireError, match=words):
        wire.take_document(bytearray(data))


@pytest.mark.parametrize("cut", range(9))
def test_a_frame_is_waited_for(cut: int) -> None:
    """Wherever it is cut."""
    whole = wire.frame(wire.STDERR, b"data")
    buffer = bytearray(whole[:cut])

    taken = wire.take_frame(buffer)
    if taken is None:
        buffer += whole[cut:]
        taken = wire.take_frame(buffer)

    assert taken == (wire.STDERR, b"data")
    assert buffer == b""


def test_a_frame_without_data_is_the_end_of_its_channel() -> None:
    """It is a frame like others."""
    assert wire.take_frame(bytearray(wire.frame(wire.STDIN, b""))) == (wire.STDIN, b"")


def test_a_frame_that_is_too_long_ends_the_connection() -> None:
    """Nobody is made to keep it."""
    with pytest.raises(wire.WireError, match="a frame of"):
        wire.take_frame(bytearray(struct.pack(">BI", 1, wire.FRAME_LIMIT + 1)))
