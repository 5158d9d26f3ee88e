"""Frames as bytes and back."""

import struct
import zlib

import pytest

from interpose.dump.model import frames as module
from interpose.dump.model.frames import (
    HEAD,
    MAGIC,
    MARK,
    MAX_PAYLOAD,
    Begin,
    Context,
    DamagedFrameError,
    Dropped,
    End,
    Flags,
    Frame,
    FrameKind,
    Header,
    Index,
    KnownTexts,
    Message,
    MessageSide,
    Packing,
    Trailer,
    decode,
    encode,
    encode_begin,
    encode_frame,
    frame_size,
    pack_fields,
    pack_texts,
)
from tests.support.builds import patches_constants

BEGIN = Begin(
    number=7,
    time=1_763_283_600_000_000_000,
    path="/runtime.v1.RuntimeService/Version",
    origin="client",
    pid=812,
    uid=1000,
    flags=Flags.INTERCEPTED,
    metadata=(("user-agent", "grpc-go"), ("x", "")),
)
MESSAGE = Message(number=7, at=12, side=MessageSide.REPLY, size=3, body=b"abc")
EVERY_KIND: list[Frame] = [
    Header(facts={"version": 1, "session": "a"}),
    BEGIN,
    MESSAGE,
    End(number=7, elapsed=99, code=5, message="not found", changed_by=("a", "b")),
    Dropped(frames=3, size=400, time=-1),
    Context(facts={"pods": []}),
    Index(facts={"calls": 0}),
    Trailer(index_at=1 << 40),
]


@pytest.mark.parametrize("value", EVERY_KIND, ids=lambda value: type(value).__name__)
def test_a_frame_of_every_kind_comes_back(value: Frame) -> None:
    """At any offset, and the next one begins behind it."""
    data = encode(value)
    assert decode(data) == (value, data)
    assert decode(memoryview(b"xyz" + data + b"rest"), 3) == (value, data)


def test_fields_of_http_are_texts_in_latin_1() -> None:
    """As if they had been made texts first; what is too long is cut off."""
    fields = [(b"user-agent", b"grpc-go"), (b"x", b"\xff"), (b"long", bytes(70_000))]
    texts = [part.decode("latin-1") for field in fields for part in field]
    packed = pack_fields(fields)
    assert packed == pack_texts(*texts)
    begin, _ = decode(encode_begin(1, 2, 3, 4, Flags.NONE, pack_texts("/a/B", "store") + packed))
    metadata = (("user-agent", "grpc-go"), ("x", "\xff"), ("long", "\0" * 0xFFFF))
    assert begin == Begin(number=1, time=2, path="/a/B", origin="store", pid=3, uid=4, metadata=metadata)


def test_every_kind_is_in_the_list() -> None:
    """So that nobody adds one without a test."""
    assert {encode(value)[2] for value in EVERY_KIND} == set(FrameKind)


def test_a_recording_begins_with_its_magic() -> None:
    """Tools tell files by that."""
    assert encode(EVERY_KIND[0]).startswith(MAGIC)


def test_an_unknown_kind_is_passed_over() -> None:
    """It is one of a later version."""
    data = encode_frame(200, b"something")
    assert decode(data) == (None, data)


def test_an_unfinished_frame_is_told_from_a_damaged_one() -> None:
    """At every place it can be cut at."""
    data = encode(BEGIN)
    for cut in range(len(data)):
        with pytest.raises(EOFError):
            decode(data[:cut])


def test_the_size_is_known_when_the_head_is_there() -> None:
    """Not before."""
    data = encode(MESSAGE)
    assert frame_size(data[: HEAD.size - 1]) is None
    assert frame_size(data[: HEAD.size]) == len(data)


@pytest.mark.parametrize("data", [b"x", b"\xc1x", b"x" * 20, HEAD.pack(MARK, 3, MAX_PAYLOAD + 1, 0)])
def test_what_does_not_begin_like_a_frame_is_damaged(data: bytes) -> None:
    """However short."""
    with pytest.raises(DamagedFrameError, match="no frame begins here"):
        decode(data)


def test_a_flipped_byte_is_damage_or_nobody_misses_it() -> None:
    """The one byte of the head that means nothing may be anything."""
    data = encode(MESSAGE)
    for at in range(len(data)):
        broken = bytearray(data)
        broken[at] ^= 0xFF
        if at == 3:
            assert decode(bytes(broken)) == (MESSAGE, bytes(broken))
        else:
            with pytest.raises((DamagedFrameError, EOFError)):
                decode(bytes(broken))


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (FrameKind.BEGIN, b""),
        (FrameKind.BEGIN, struct.pack("<QqiIB", 1, 1, 1, 1, 0)),
        (FrameKind.BEGIN, struct.pack("<QqiIBH", 1, 1, 1, 1, 0, 9) + b"short"),
        (FrameKind.BEGIN, struct.pack("<QqiIB", 1, 1, 1, 1, 0) + b"\x01\x00a" * 3),
        (FrameKind.MESSAGE, struct.pack("<QQBBI", 1, 1, 77, 0, 0)),
        (FrameKind.MESSAGE, struct.pack("<QQBBI", 1, 1, 0, 77, 0)),
        (FrameKind.END, struct.pack("<QQB", 1, 1, 0)),
        (FrameKind.DROPPED, b"123"),
        (FrameKind.HEADER, b"[]"),
        (FrameKind.HEADER, b"{"),
        (FrameKind.CONTEXT, b"\xff"),
        (FrameKind.CONTEXT, b"[" * 100_000),
        (FrameKind.INDEX, b"not packed"),
        (FrameKind.INDEX, zlib.compress(b"3")),
    ],
)
def test_a_payload_that_makes_no_sense_is_damage(kind: FrameKind, payload: bytes) -> None:
    """Also if its checksum is right."""
    with pytest.raises(DamagedFrameError):
        decode(encode_frame(kind, payload))


def test_a_frame_that_is_too_large_cannot_be_written() -> None:
    """Nobody could read it."""
    with pytest.raises(ValueError, match="over the limit"):
        encode_frame(FrameKind.MESSAGE, bytes(MAX_PAYLOAD + 1))


def test_long_texts_are_cut() -> None:
    """A status message may be as long as it likes."""
    value, _ = decode(encode(End(number=1, elapsed=1, code=2, message="x" * 70_000)))
    assert isinstance(value, End)
    assert value.message == "x" * 0xFFFF


def test_text_that_is_not_utf_8_survives() -> None:
    """Metadata may hold any bytes."""
    value = BEGIN._replace(metadata=(("x-bin", b"\xff\x00".decode(errors="surrogateescape")),))
    assert decode(encode(value))[0] == value


def test_a_packed_body_is_unpacked() -> None:
    """The size is that of the message."""
    message = MESSAGE._replace(packing=Packing.ZLIB, size=5000, body=zlib.compress(b"y" * 5000))
    assert message.data == b"y" * 5000
    assert message.absent == ""


def test_a_plain_body_is_itself() -> None:
    """Nothing is done to it."""
    assert (MESSAGE.data, MESSAGE.absent) == (b"abc", "")


def test_a_body_that_was_not_kept_says_why() -> None:
    """And is empty."""
    message = MESSAGE._replace(packing=Packing.ABSENT, body=b"too large")
    assert (message.data, message.absent) == (b"", "too large")


@pytest.mark.parametrize(("size", "body"), [(3, b"no zlib"), (3, zlib.compress(b"1234")), (3, zlib.compress(b"12"))])
def test_a_body_that_cannot_be_unpacked_is_damage(size: int, body: bytes) -> None:
    """Or is not as long as it should be; no more than that is unpacked."""
    with pytest.raises(DamagedFrameError):
        _ = MESSAGE._replace(packing=Packing.ZLIB, size=size, body=body).data


def test_sides_know_their_direction() -> None:
    """Two each."""
    assert [side.is_reply for side in MessageSide] == [False, False, True, True]


@pytest.mark.parametrize("code", [-1, 255, 256, 999_999])
def test_a_code_that_does_not_exist_is_kept_as_the_highest(code: int) -> None:
    """It is no success, whatever it was."""
    value, _ = decode(encode(End(number=1, elapsed=1, code=code)))
    assert isinstance(value, End)
    assert value.code == 255


def test_half_a_pair_in_a_text_is_shown_as_that() -> None:
    """No bytes could be read as it, so it cannot come back."""
    value, _ = decode(encode(BEGIN._replace(path="/a/\ud800")))
    assert isinstance(value, Begin)
    assert value.path == "/a/\\ud800"


@pytest.mark.parametrize("packing", [Packing.PLAIN, Packing.ZLIB])
def test_a_message_that_would_fill_the_memory_is_damage(packing: Packing) -> None:
    """Nobody writes one; one that was not kept may have been of any size."""
    large = MESSAGE._replace(packing=packing, size=MAX_PAYLOAD + 1)
    with pytest.raises(DamagedFrameError, match="over the limit"):
        decode(encode(large))
    absent = large._replace(packing=Packing.ABSENT)
    assert decode(encode(absent))[0] == absent


@patches_constants
def test_an_index_that_would_fill_the_memory_is_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is unpacked up to the limit only, and none that is larger is written."""
    monkeypatch.setattr(module, "MAX_PAYLOAD", 1000)
    facts = {"a": " " * 989}
    assert decode(encode(Index(facts=facts)))[0] != Index(facts={})
    with pytest.raises(ValueError, match="over the limit"):
        encode(Index(facts={"a": " " * 1000}))
    with pytest.raises(DamagedFrameError, match="an index of more than 1000 bytes"):
        decode(encode_frame(FrameKind.INDEX, zlib.compress(b" " * 1_000_000)))


@patches_constants
def test_json_and_texts_of_too_many_parts_are_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part takes many times as much memory as room in a file."""
    monkeypatch.setattr(module, "_MAX_PARTS", 3)
    monkeypatch.setattr(module, "_MAX_TEXTS", 4)
    assert decode(encode(Context(facts={"a": [[]]})))[0] == Context(facts={"a": [[]]})
    with pytest.raises(DamagedFrameError, match="too many parts"):
        decode(encode(Context(facts={"a": [[], []]})))
    with pytest.raises(DamagedFrameError, match="too many texts"):
        decode(encode(BEGIN._replace(metadata=(("a", "b"), ("c", "d")))))


def test_texts_that_come_again_are_the_very_same() -> None:
    """Short ones, of the newest kinds of calls: what is kept is bounded."""
    known = KnownTexts()
    texts = pack_texts("/a/B", "client", "user-agent", "grpc-go")
    first = known.of(texts)
    assert first == ("/a/B", "client", (("user-agent", "grpc-go"),))
    assert known.of(bytes(bytearray(texts)))[2] is first[2]
    long = pack_texts("/a/B", "client", "x", "y" * 2000)
    assert known.of(long) == known.of(long)
    assert known.of(long)[2] is not known.of(long)[2]
    for number in range(300):
        known.of(pack_texts(f"/a/{number}", "client"))
    assert known.of(texts) == first
    assert known.of(texts)[2] is not first[2]
