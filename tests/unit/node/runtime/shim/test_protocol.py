"""Documents and frames between shim and runtime."""

import struct

import pytest

from interpose.node.runtime.shim import protocol


def test_documents_come_out_as_they_went_in() -> None:
    """Two in one buffer are taken one by one; the buffer is empty afterwards."""
    buffer = bytearray(protocol.document({"op": "hello"}) + protocol.document({"id": 1}))

    assert [protocol.take_document(buffer), protocol.take_document(buffer), protocol.take_document(buffer)] == [
        {"op": "hello"},
        {"id": 1},
        None,
    ]
    assert buffer == b""


@pytest.mark.parametrize("cut", range(len(protocol.document({"id": 1}))))
def test_a_document_is_waited_for(cut: int) -> None:
    """Wherever it is cut, nothing is taken before the rest is there."""
    whole = protocol.document({"id": 1})
    buffer = bytearray(whole[:cut])

    assert protocol.take_document(buffer) is None
    buffer += whole[cut:]
    assert protocol.take_document(buffer) == {"id": 1}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (struct.pack(">I", protocol.DOCUMENT_LIMIT + 1), "a document of"),
        (struct.pack(">I", 3) + b"{{{", "not JSON"),
        (struct.pack(">I", 2) + b"[]", "not an object"),
    ],
)
def test_what_is_no_document_ends_the_connection(data: bytes, words: str) -> None:
    """Too long, no JSON, no object."""
    with pytest.raises(protocol.ProtocolError, match=words):
        protocol.take_document(bytearray(data))


@pytest.mark.parametrize("cut", range(9))
def test_a_frame_is_waited_for(cut: int) -> None:
    """Wherever it is cut."""
    whole = protocol.frame(protocol.STDERR, b"data")
    buffer = bytearray(whole[:cut])

    taken = protocol.take_frame(buffer)
    if taken is None:
        buffer += whole[cut:]
        taken = protocol.take_frame(buffer)

    assert taken == (protocol.STDERR, b"data")
    assert buffer == b""


def test_a_frame_without_data_is_the_end_of_its_channel() -> None:
    """It is a frame like others."""
    assert protocol.take_frame(bytearray(protocol.frame(protocol.STDIN, b""))) == (protocol.STDIN, b"")


def test_a_frame_that_is_too_long_ends_the_connection() -> None:
    """Nobody is made to keep it."""
    with pytest.raises(protocol.ProtocolError, match="a frame of"):
        protocol.take_frame(bytearray(struct.pack(">BI", 1, protocol.FRAME_LIMIT + 1)))
