"""Protobuf bytes without a schema."""

import pytest

from interpose.dump.decode.raw_protobuf import (
    MAX_FIELDS,
    MAX_READ,
    MAX_SUMMARY,
    WireField,
    terminal_text,
    wire_fields,
    wire_summary,
)


@pytest.mark.parametrize(
    ("data", "kind", "value"),
    [
        (b"\x08\x96\x01", "varint", 150),
        (b"\x08" + b"\xff" * 9 + b"\x01", "varint", (1 << 64) - 1),
        (b"\x09\x01\x00\x00\x00\x00\x00\x00\x00", "fixed64", 1),
        (b"\x0d\x02\x00\x00\x00", "fixed32", 2),
        (b"\x0a\x02hi", "bytes", b"hi"),
        (b"\x0b\x10\x05\x0c", "group", b"\x10\x05"),
        (b"\x0b\x13\x14\x0c", "group", b"\x13\x14"),
    ],
)
def test_each_type_is_read(data: bytes, kind: str, value: int | bytes) -> None:
    """With its value; of a group, what is inside."""
    assert wire_fields(data) == [WireField(number=1, type=kind, value=value)]


@pytest.mark.parametrize(
    "data",
    [
        b"\x08",  # no value
        b"\x08" + b"\xff" * 11,  # a number without end
        b"\x0a\x05hi",  # cut off
        b"\x0d\x01",
        b"\x00\x01",  # number 0
        b"\x0e",  # no such type
        b"\x0c",  # the end of a group that did not begin
        b"\x0b\x14",  # the end of another
        b"\x0b",  # a group without end
        b"\x0b" * 200,  # groups without end
        b"\x0b\x08\x01" + b"\x08\x01" * MAX_READ,  # a group longer than anybody reads
    ],
)
def test_what_is_no_message_is_none(data: bytes) -> None:
    """Instead of half of one."""
    assert wire_fields(data) is None


def test_a_summary_with_contents_shows_values() -> None:
    """Texts, numbers, messages inside, and bytes that are neither."""
    data = b'\x08\x07\x12\x02hi\x1a\x02\x08\x01"\x02\xff\xff*\x00'
    assert wire_summary(data, contents=True) == (
        '16 bytes, 5 fields: 1 varint 7, 2 bytes[2] "hi", 3 message[2] {1 varint 1}, 4 bytes[2] ff ff, 5 bytes[0]'
    )


def test_a_summary_without_contents_shows_numbers_types_and_lengths() -> None:
    """And nothing of any value."""
    data = b'\x08\x07\x12\x02hi\x1a\x02\x08\x01"\x02\xff\xff'
    assert wire_summary(data, contents=False) == (
        "14 bytes, 4 fields: 1 varint, 2 bytes[2], 3 message[2] {1 varint}, 4 bytes[2]"
    )


def test_a_group_is_shown_as_one() -> None:
    """It is no guess that there are fields in it."""
    assert wire_summary(b"\x0b\x10\x05\x0c", contents=True) == "4 bytes, 1 field: 1 group[2] {2 varint 5}"


def test_a_text_stays_on_one_line() -> None:
    """A note is a line."""
    assert wire_summary(b"\x0a\x03a\nb", contents=True) == '5 bytes, 1 field: 1 bytes[3] "a\\nb"'


def test_a_long_text_is_cut() -> None:
    """Enough to know what it is."""
    assert '"' + "x" * 60 + '"...' in wire_summary(b"\x0a\x64" + b"x" * 100, contents=True)


def test_what_is_no_message_shows_its_beginning() -> None:
    """As hex."""
    assert wire_summary(b"\xff" * 40, contents=True) == "40 bytes, no protobuf message: " + "ff " * 31 + "ff..."


def test_what_is_no_message_shows_nothing_without_contents() -> None:
    """But its size."""
    assert wire_summary(b"\xff\xff", contents=False) == "2 bytes, no protobuf message"


def test_an_empty_message_has_no_fields() -> None:
    """It is a message all the same."""
    assert wire_summary(b"", contents=True) == "0 bytes, 0 fields"


def test_many_fields_are_counted() -> None:
    """Rather than listed."""
    assert wire_summary(b"\x08\x01" * 50, contents=False).endswith(f"1 varint, {50 - MAX_FIELDS} more")


def test_more_fields_than_are_read_are_said_to_be_more() -> None:
    """A message may have millions of them."""
    assert f"{MAX_READ} or more fields" in wire_summary(b"\x08\x01" * 5000, contents=False)


def test_messages_within_messages_end_somewhere() -> None:
    """What is deeper is bytes."""
    data = b"\x08\x01"
    for _level in range(8):
        data = b"\x0a" + bytes([len(data)]) + data
    assert wire_summary(data, contents=False).count("message") == 3


def test_a_summary_is_never_long() -> None:
    """It goes where a line fits."""
    data = b"".join(b"\x0a\x3c" + b"x" * 60 for _field in range(40))
    assert len(wire_summary(data, contents=True)) == MAX_SUMMARY + 3


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"hi", "hi"),
        (b"a\tb\r\nc\n", "a\tb\r\nc\n"),
        ("ä€".encode(), "ä€"),
        (b"", ""),
        (b"\x00", None),
        (b"\xff", None),
    ],
)
def test_a_text_is_what_a_terminal_can_show(data: bytes, text: str | None) -> None:
    """With line ends and tabs, without anything that would move the cursor elsewhere."""
    assert terminal_text(data) == text
