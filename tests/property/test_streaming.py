"""SPDY and WebSocket: whatever is written comes back, however it is cut; whatever is broken ends in an orderly way."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from interpose.net import websocket
from interpose.net.spdy import connection as spdy
from interpose.net.spdy.frames import (
    Data,
    Frame,
    FrameReader,
    GoAway,
    Ping,
    RstStream,
    Settings,
    SpdyError,
    SpdyHeaders,
    SynReply,
    SynStream,
    WindowUpdate,
    encode,
)
from interpose.net.spdy.headers import HeaderPacker, HeaderUnpacker
from interpose.net.streaming.channels import ChannelData, Splitter, message
from interpose.net.streaming.exit_status import exit_document, parse_status
from interpose.net.streaming.terminal_size import SizeReader, encode_size

STREAMS = st.integers(0, (1 << 31) - 1)
NUMBERS = st.integers(0, (1 << 32) - 1)
BYTES = st.binary(max_size=40)
CUTS = st.lists(st.integers(0, 4000), max_size=10)
HEADERS = st.dictionaries(
    st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=12).map(str.lower),
    st.text(st.characters(max_codepoint=255), max_size=12),
    max_size=5,
)

FRAMES: st.SearchStrategy[Frame] = st.one_of(
    st.builds(SynStream, STREAMS, BYTES, st.booleans()),
    st.builds(SynReply, STREAMS, BYTES, st.booleans()),
    st.builds(RstStream, STREAMS, NUMBERS),
    st.builds(Settings, st.lists(st.tuples(st.integers(0, (1 << 24) - 1), NUMBERS), max_size=3).map(tuple)),
    st.builds(Ping, NUMBERS),
    st.builds(GoAway, STREAMS, NUMBERS),
    st.builds(SpdyHeaders, STREAMS, BYTES, st.booleans()),
    st.builds(WindowUpdate, STREAMS, STREAMS),
    st.builds(Data, STREAMS, BYTES, st.booleans()),
)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    """The same bytes, cut at these places."""
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:stop] for start, stop in pairwise(places)]


def read_frames(parts: list[bytes]) -> tuple[list[Frame], str]:
    """All frames, pieces of data joined, and the words of what ended the reading."""
    reader, frames = FrameReader(1 << 12), list[Frame]()
    try:
        for part in parts:
            for frame in reader.feed(part):
                last = frames[-1] if frames else None
                # A frame without bytes may stand by itself; pieces of one frame follow each other without an end.
                if isinstance(frame, Data) and isinstance(last, Data) and last.stream == frame.stream and not last.fin:
                    frames[-1] = Data(frame.stream, last.data + frame.data, frame.fin)
                else:
                    frames.append(frame)
            assert reader.held <= 1 << 12
    except SpdyError as error:
        return frames, str(error)
    return frames, ""


@given(FRAMES)
def test_frames_are_read_as_they_were_written(frame: Frame) -> None:
    """Each for itself."""
    assert read_frames([encode(frame)]) == ([frame], "")


@given(st.lists(FRAMES, max_size=8), CUTS)
def test_how_frames_are_cut_does_not_matter(frames: list[Frame], cuts: list[int]) -> None:
    """The same ones come out."""
    data = b"".join(encode(frame) for frame in frames)
    assert read_frames(pieces(data, cuts)) == read_frames([data])


@given(st.binary(max_size=300), CUTS)
def test_any_bytes_are_read_to_the_same_end(data: bytes, cuts: list[int]) -> None:
    """Frames, then perhaps an error; the same however they were cut."""
    assert read_frames(pieces(data, cuts)) == read_frames([data])


@given(st.lists(HEADERS, min_size=1, max_size=6))
def test_header_blocks_are_read_in_their_order(blocks: list[dict[str, str]]) -> None:
    """Each with all that went before it."""
    packer, unpacker = HeaderPacker(), HeaderUnpacker()
    assert [unpacker.unpack(packer.pack(headers)) for headers in blocks] == blocks


def outcome(parts: list[bytes], *, client: bool) -> tuple[list[object], bytes]:
    """What a connection made of these bytes, with data joined, and what it said to them."""
    connection = spdy.SpdyConnection(client=client, limits=spdy.SpdyLimits(streams=3, control=4096, headers=4096))
    if client:
        connection.open({})
    seen: list[object] = []
    said = b""
    for part in parts:
        for event in connection.receive(part):
            last = seen[-1] if seen else None
            if (
                isinstance(event, spdy.DataReceived)
                and isinstance(last, spdy.DataReceived)
                and last.stream == event.stream
            ):
                seen[-1] = spdy.DataReceived(event.stream, last.data + event.data)
            else:
                seen.append(event)
        said += connection.take()
    return seen, said


@given(st.lists(FRAMES | st.builds(Data, st.integers(1, 5), BYTES, st.booleans()), max_size=8), st.booleans(), CUTS)
def test_a_connection_survives_any_frames(frames: list[Frame], client: bool, cuts: list[int]) -> None:
    """It says little about them, hears nothing after a failure, and sees the same however they were cut."""
    data = b"".join(encode(frame) for frame in frames)
    seen, said = outcome([data], client=client)
    assert not any(isinstance(event, spdy.SpdyFailed) for event in seen[:-1])
    assert len(said) <= 100 + 4 * len(data)
    again, _ = outcome(pieces(data, cuts), client=client)
    assert again == seen


MESSAGES = st.lists(st.binary(max_size=300), max_size=5)


def messages(parts: list[bytes], *, client: bool) -> tuple[list[bytes], bool]:
    """Whole messages, and whether it ended in a failure."""
    socket = websocket.WebSocket(client=client, random=bytes)
    found: list[bytes] = []
    for part in parts:
        for event in socket.receive(part):
            if isinstance(event, websocket.MessagePiece):
                found[len(found) - (not event.first) :] = [(b"" if event.first else found[-1]) + event.data]
            elif isinstance(event, websocket.WebSocketFailed):
                return found, True
        assert socket.held <= 125
    return found, False


@given(MESSAGES, st.booleans(), CUTS, st.binary(min_size=4, max_size=4))
def test_messages_arrive_however_they_are_cut(sent: list[bytes], client: bool, cuts: list[int], mask: bytes) -> None:
    """From both ends, with any mask."""
    sender = websocket.WebSocket(client=client, random=lambda _: mask)
    for one in sent:
        sender.message(one)
    assert messages(pieces(sender.take(), cuts), client=not client) == (sent, False)


@given(st.binary(max_size=300), st.booleans(), CUTS)
def test_any_bytes_are_messages_or_a_failure(data: bytes, client: bool, cuts: list[int]) -> None:
    """Never anything else, and the same however they were cut."""
    assert messages(pieces(data, cuts), client=client) == messages([data], client=client)


@given(st.lists(st.tuples(st.integers(0, 254), st.binary(min_size=1, max_size=50)), max_size=5), CUTS)
def test_channels_get_their_own_bytes(sent: list[tuple[int, bytes]], cuts: list[int]) -> None:
    """All of them, in their order."""
    sender = websocket.WebSocket(client=True, random=bytes)
    receiver, splitter = websocket.WebSocket(client=False, random=bytes), Splitter(closes=True)
    for channel, data in sent:
        sender.message(message(channel, data))
    got: dict[int, bytes] = {}
    for part in pieces(sender.take(), cuts):
        for event in receiver.receive(part):
            assert isinstance(event, websocket.MessagePiece)
            for one in splitter.feed(event):
                assert isinstance(one, ChannelData)
                got[one.channel] = got.get(one.channel, b"") + one.data
    wanted: dict[int, bytes] = {}
    for channel, data in sent:
        wanted[channel] = wanted.get(channel, b"") + data
    assert got == wanted


@given(st.lists(st.tuples(st.integers(0, 65535), st.integers(0, 65535)), max_size=5), CUTS)
def test_sizes_arrive_however_they_are_cut(sizes: list[tuple[int, int]], cuts: list[int]) -> None:
    """In their order."""
    reader = SizeReader()
    data = b"".join(encode_size(*size) for size in sizes)
    assert [size for part in pieces(data, cuts) for size in reader.feed(part)] == sizes


@given(st.binary(max_size=300))
def test_any_status_is_read_as_something(raw: bytes) -> None:
    """A code, or words."""
    found = parse_status(raw)
    assert found.code is not None or isinstance(found.message, str)


@given(st.integers(-(1 << 31), (1 << 31) - 1))
def test_exit_codes_come_back(code: int) -> None:
    """Whatever they are."""
    assert parse_status(exit_document(code)).code == code
