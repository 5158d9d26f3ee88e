"""A SPDY connection without a socket: what comes, what is said, and who waits for whom."""

import pytest

from interpose.net.spdy.connection import (
    WINDOW,
    DataReceived,
    GoingAway,
    PingAnswered,
    SpdyConnection,
    SpdyEvent,
    SpdyFailed,
    SpdyLimits,
    StreamAccepted,
    StreamEnded,
    StreamOpened,
    StreamReset,
    WindowWidened,
)
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
    Status,
    SynReply,
    SynStream,
    WindowUpdate,
    encode,
)
from interpose.net.spdy.headers import HeaderPacker


class Peer:
    """The other side, frame by frame; `packer` is its compression."""

    def __init__(self, *, client: bool = False, limits: SpdyLimits | None = None) -> None:
        self.connection = SpdyConnection(client=client, limits=limits)
        self.packer = HeaderPacker()

    def sends(self, *frames: Frame) -> list[SpdyEvent]:
        return self.connection.receive(b"".join(encode(frame) for frame in frames))

    def opens(self, stream: int, *, fin: bool = False) -> list[SpdyEvent]:
        return self.sends(SynStream(stream, self.packer.pack({"streamType": "stdin"}), fin))

    def said(self) -> list[Frame]:
        return list(FrameReader().feed(self.connection.take()))


def between(client: SpdyConnection, server: SpdyConnection) -> tuple[list[SpdyEvent], list[SpdyEvent]]:
    """Carry everything until nobody has anything to say; what each has seen."""
    seen: tuple[list[SpdyEvent], list[SpdyEvent]] = ([], [])
    while (up := client.take()) or (down := server.take()):
        if up:
            seen[1].extend(server.receive(up))
        else:
            seen[0].extend(client.receive(down))
    return seen


def test_a_stream_from_its_opening_to_its_end() -> None:
    """StreamOpened, accepted, bytes both ways, ended both ways, forgotten."""
    client, server = SpdyConnection(client=True), SpdyConnection(client=False)
    stream = client.open({"streamType": "stdin"})
    assert between(client, server) == ([], [StreamOpened(1, {"streamtype": "stdin"})])
    server.reply(stream)
    assert between(client, server) == ([StreamAccepted(1)], [])
    client.send(stream, b"question")
    client.finish(stream)
    assert between(client, server) == ([], [DataReceived(1, b"question"), StreamEnded(1)])
    assert not client.can_send(stream)
    server.send(stream, b"answer")
    server.finish(stream)
    assert between(client, server) == ([DataReceived(1, b"answer"), StreamEnded(1)], [])
    assert not client.is_open(stream)
    assert not server.is_open(stream)


def test_streams_have_odd_numbers_from_clients_and_even_from_servers() -> None:
    """And each is new."""
    client, server = SpdyConnection(client=True), SpdyConnection(client=False)
    assert [client.open({}), client.open({})] == [1, 3]
    assert [server.open({}), server.open({})] == [2, 4]


def test_an_accepted_stream_is_accepted_once() -> None:
    """Saying it again says nothing; of a stream that is not there neither."""
    peer = Peer()
    peer.opens(1)
    peer.connection.reply(1)
    peer.connection.reply(1)
    peer.connection.reply(9)
    assert [type(frame) for frame in peer.said()] == [SynReply]


def test_a_stream_may_end_with_its_opening() -> None:
    """Nothing more comes on it."""
    assert Peer().opens(1, fin=True) == [StreamOpened(1, {"streamtype": "stdin"}), StreamEnded(1)]


def test_a_reset_ends_a_stream_both_ways() -> None:
    """A reset of either side ends a stream in both directions."""
    peer = Peer()
    peer.opens(1)
    assert peer.sends(RstStream(1, 5)) == [StreamReset(1, 5)]
    peer.opens(3)
    peer.connection.reset(3, Status.INTERNAL_ERROR)
    peer.connection.reset(3)
    assert peer.said() == [RstStream(3, 6)]
    assert not peer.connection.is_open(3)
    assert peer.connection.room(3) == 0


def test_resets_of_streams_that_are_gone_mean_nothing() -> None:
    """Go's servers reset all streams at the end, also those that ended before."""
    assert Peer().sends(RstStream(1, 5)) == []


def test_bytes_that_were_under_way_to_a_closed_stream_are_dropped() -> None:
    """Without a word; to a stream that never was they are a mistake that is told."""
    peer = Peer()
    peer.opens(1)
    peer.connection.reset(1)
    peer.said()
    assert peer.sends(Data(1, b"late")) == []
    assert peer.said() == []
    assert peer.sends(Data(99, b"lost"), Data(2, b"lost")) == []
    assert peer.said() == [RstStream(99, 2), RstStream(2, 2)]
    for byte in encode(Data(97, bytes(100))):
        peer.connection.receive(bytes((byte,)))
    assert peer.said() == [RstStream(97, 2)]


def test_bytes_after_the_end_reset_the_stream() -> None:
    """The peer does not know what it does."""
    peer = Peer()
    peer.opens(1, fin=True)
    assert peer.sends(Data(1, b"more")) == [StreamReset(1, Status.STREAM_ALREADY_CLOSED)]
    assert peer.said() == [RstStream(1, Status.STREAM_ALREADY_CLOSED)]


def test_an_acceptance_that_nobody_waits_for_resets_the_stream() -> None:
    """A second one, or one of a stream that the peer opened itself; of unknown streams it is nothing."""
    peer = Peer(client=True)
    stream = peer.connection.open({})
    assert peer.sends(SynReply(stream, peer.packer.pack({}), True)) == [StreamAccepted(stream), StreamEnded(stream)]
    assert peer.sends(SynReply(stream, peer.packer.pack({}))) == [StreamReset(stream, Status.STREAM_IN_USE)]
    assert peer.sends(SynReply(77, peer.packer.pack({}))) == []


def test_more_headers_may_end_a_stream() -> None:
    """What they say is nobody's business."""
    peer = Peer()
    peer.opens(1)
    assert peer.sends(SpdyHeaders(1, peer.packer.pack({"a": "b"}), True)) == [StreamEnded(1)]
    assert peer.sends(SpdyHeaders(1, peer.packer.pack({"a": "b"}), True)) == []
    assert peer.sends(SpdyHeaders(5, peer.packer.pack({"a": "b"}))) == []


def test_streams_above_the_limit_are_refused() -> None:
    """Until one of the others has ended. Their headers are inflated nevertheless, the next ones build on them."""
    peer = Peer(limits=SpdyLimits(streams=2))
    for stream in (1, 3, 5):
        events = peer.opens(stream)
    assert events == []
    assert peer.said() == [RstStream(5, Status.REFUSED_STREAM)]
    peer.connection.reset(1)
    assert peer.opens(7) == [StreamOpened(7, {"streamtype": "stdin"})]


def test_after_our_goodbye_nothing_is_opened() -> None:
    """And goodbye is said once."""
    peer = Peer()
    peer.connection.go_away()
    peer.connection.go_away()
    assert peer.opens(1) == []
    assert peer.said() == [GoAway(0), RstStream(1, Status.REFUSED_STREAM)]


def test_a_goodbye_of_the_peer_is_told() -> None:
    """What is open goes on."""
    assert Peer().sends(GoAway(1)) == [GoingAway()]


@pytest.mark.parametrize("client", [True, False])
def test_pings_are_sent_back(client: bool) -> None:
    """Those of the peer; ours have come back."""
    peer = Peer(client=client)
    theirs, ours = (2, 1) if client else (1, 2)
    assert peer.sends(Ping(theirs)) == []
    assert peer.said() == [Ping(theirs)]
    assert [peer.connection.ping(), peer.connection.ping()] == [ours, ours + 2]
    assert peer.said() == [Ping(ours), Ping(ours + 2)]
    assert peer.sends(Ping(ours)) == [PingAnswered(ours)]


@pytest.mark.parametrize("stream", [0, 2, 1, 3])
def test_streams_with_wrong_numbers_end_the_connection(stream: int) -> None:
    """None, ours, one again, one from the past: nothing that follows can be trusted."""
    peer = Peer()
    peer.opens(3)
    peer.said()
    events = peer.opens(stream)
    assert [type(event) for event in events] == [SpdyFailed]
    assert peer.said() == [GoAway(3, 1)]
    assert peer.opens(5) == []


def test_nobody_waits_for_a_window_that_is_not_counted() -> None:
    """Go's peers neither count nor announce; they are told of no window either, but for our first."""
    peer = Peer()
    peer.connection.begin()
    peer.opens(1)
    peer.connection.send(1, bytes(1 << 20))
    assert peer.connection.room(1) > 1 << 30
    peer.sends(Data(1, bytes(1 << 20)))
    peer.connection.consumed(1, 1 << 20)
    assert peer.said()[0] == Settings(((7, WINDOW),))
    assert not any(isinstance(frame, WindowUpdate) for frame in peer.said())


def test_a_peer_that_announces_a_window_is_waited_for() -> None:
    """Until it widens it; what was sent before counts."""
    peer = Peer()
    peer.opens(1)
    peer.connection.send(1, bytes(600))
    assert peer.sends(Settings(((4, 100), (7, 1000)))) == [WindowWidened()]
    assert peer.connection.room(1) == 400
    peer.connection.send(1, bytes(400))
    assert peer.connection.room(1) == 0
    assert peer.sends(WindowUpdate(1, 250)) == [WindowWidened()]
    assert peer.connection.room(1) == 250
    assert peer.sends(WindowUpdate(55, 250)) == [WindowWidened()]


def test_a_window_over_all_streams_counts_once_it_was_widened() -> None:
    """Together with those of the streams."""
    peer = Peer()
    peer.opens(1)
    peer.opens(3)
    peer.connection.send(1, bytes(65536))
    assert peer.sends(WindowUpdate(0, 100)) == [WindowWidened()]
    assert peer.connection.room(3) == 100


def test_who_counts_is_told_what_was_consumed() -> None:
    """When it is worth a frame: on all streams when it came, on one when it was used."""
    peer = Peer()
    peer.sends(Settings(((7, 1000),)))
    peer.opens(1)
    peer.sends(Data(1, bytes(40_000)))
    assert peer.said() == [WindowUpdate(0, 40_000)]
    peer.connection.consumed(1, WINDOW // 2 - 1)
    assert peer.said() == []
    peer.connection.consumed(1, 1)
    assert peer.said() == [WindowUpdate(1, WINDOW // 2)]


def test_consuming_on_a_stream_that_has_ended_says_nothing() -> None:
    """There is nobody to be told."""
    peer = Peer()
    peer.sends(Settings(((7, 1000),)))
    peer.opens(1, fin=True)
    peer.connection.consumed(1, WINDOW)
    peer.connection.consumed(9, WINDOW)
    assert peer.said() == []


def test_ending_twice_ends_once() -> None:
    """And a stream that is not there not at all."""
    peer = Peer()
    peer.opens(1)
    peer.connection.finish(1)
    peer.connection.finish(1)
    peer.connection.finish(9)
    assert peer.said() == [Data(1, b"", True)]


def test_a_connection_that_has_had_all_its_streams_has_no_more() -> None:
    """Numbers are not used again."""
    connection = SpdyConnection(client=True)
    connection._next = (1 << 31) + 1
    with pytest.raises(SpdyError, match="all the streams"):
        connection.open({})


def test_nothing_is_heard_after_a_failure() -> None:
    """What was right before is told, with the failure as the last thing."""
    peer = Peer()
    data = encode(Ping(1)) + b"\x80\x02\x00\x01\x00\x00\x00\x00"
    events = peer.connection.receive(data)
    assert [type(event) for event in events] == [SpdyFailed]
    assert peer.connection.receive(encode(Ping(3))) == []
    assert peer.said() == [Ping(1), GoAway(0, 1)]
