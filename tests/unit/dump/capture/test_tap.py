"""The tap: which frames it makes of a call, for whom, and what it does when a reader is full."""

from types import SimpleNamespace

from interpose.cri.methods import METHODS
from interpose.dump.capture.queue import FrameQueue
from interpose.dump.capture.tap import DumpTap
from interpose.dump.model.call import Assembler
from interpose.dump.model.frames import Begin, End, Flags, Frame, Message, MessageSide, Packing, decode
from interpose.relay.api import Direction, Interest, Sighting

VERSION = METHODS["Version"]


class Headers:
    """The request's fields."""

    def items(self) -> list[tuple[bytes, bytes]]:
        """As they came."""
        return [(b":path", b"/x"), (b"te", b"trailers"), (b"user-agent", b"grpc-go"), (b"x", b"\xff")]


class Reader:
    """A reader that keeps what it is given."""

    def __init__(self, interest: Interest, *, only: str = "", limit: int = 10_000) -> None:
        self.queue = FrameQueue(
            "reader", lambda name: interest if only in ("", name) else Interest.NONE, limit=limit, wall=lambda: 0
        )

    @property
    def got(self) -> list[Frame]:
        """Frames."""
        found = [decode(data)[0] for data in self.queue._queue]
        return [one for one in found if one is not None]


class Node:
    """A tap with a clock that moves by itself."""

    def __init__(self, *readers: Reader) -> None:
        self.told = 0
        self._time = 0
        self.tap = DumpTap(lambda: 1000, self._clock, self._tell)
        for one in readers:
            self.tap.attach(one.queue)

    def _clock(self) -> int:
        self._time += 1
        return self._time

    def _tell(self) -> None:
        self.told += 1

    def call(self, path: str = VERSION.paths[0], number: int = 1) -> Sighting:
        """A call begins."""
        method = VERSION if path in VERSION.paths else None
        call = Sighting(
            number, path.encode(), method, peer=SimpleNamespace(pid=5, uid=6), headers=Headers(), intercepted=True
        )
        self.tap.on_begin(call)
        return call


def test_frames_of_a_call() -> None:
    """From its beginning to its end, with everything that is known of it."""
    reader = Reader(Interest.MESSAGES)
    node = Node(reader)
    call = node.call()
    node.tap.on_message(call, Direction.REQUEST, b"ask")
    node.tap.on_message(call, Direction.FORWARDED, b"asked")
    node.tap.on_message(call, Direction.RECEIVED, b"got")
    node.tap.on_unseen(call, Direction.REPLY, 99, "too large")
    node.tap.on_end(call, 5, "gone", ["hook"])
    begin, *messages, end = reader.got
    assert begin == Begin(
        number=1,
        time=1000,
        path="/runtime.v1.RuntimeService/Version",
        pid=5,
        uid=6,
        flags=Flags.INTERCEPTED,
        metadata=(("user-agent", "grpc-go"), ("x", "\xff")),
    )
    assert messages == [
        Message(number=1, at=1, side=MessageSide.REQUEST, size=3, body=b"ask"),
        Message(number=1, at=2, side=MessageSide.FORWARDED, size=5, body=b"asked"),
        Message(number=1, at=3, side=MessageSide.RECEIVED, size=3, body=b"got"),
        Message(number=1, at=4, side=MessageSide.REPLY, packing=Packing.ABSENT, size=99, body=b"too large"),
    ]
    assert end == End(number=1, elapsed=5, code=5, message="gone", changed_by=("hook",))
    assembler = Assembler()
    assert [event.kind for event in assembler.feed_all(reader.got)][-1] == "end"


class Block(Headers):
    """The request's fields, as the connection hands them on."""

    def __init__(self, value: bytes) -> None:
        self.wire = value
        self._value = value

    def items(self) -> list[tuple[bytes, bytes]]:
        """One of them differs from call to call."""
        return [(b":path", b"/x"), (b"x", self._value)]


def test_metadata_belongs_to_its_call() -> None:
    """Also if it came before, if it is too long to be kept, and after many others."""
    reader = Reader(Interest.CALLS, limit=1 << 20)
    node = Node(reader)
    values = [b"a", b"b" * 2000, b"a", *(b"%d" % number for number in range(200)), b"a", b"b" * 2000]
    for number, value in enumerate(values):
        node.tap.on_begin(Sighting(number, VERSION.paths[0].encode(), VERSION, headers=Block(value)))
    assert [begin.metadata for begin in reader.got if isinstance(begin, Begin)] == [
        (("x", value.decode()),) for value in values
    ]


def test_call_of_our_own_has_no_peer() -> None:
    """And no metadata."""
    reader = Reader(Interest.MESSAGES)
    node = Node(reader)
    node.tap.on_begin(Sighting(1, b"/a/B", None, origin="store"))
    begin = reader.got[0]
    assert isinstance(begin, Begin)
    assert (begin.origin, begin.pid, begin.metadata) == ("store", 0, ())


def test_reader_gets_as_much_as_it_wants() -> None:
    """Names only, one method only, or nothing."""
    names, one, none = Reader(Interest.CALLS), Reader(Interest.MESSAGES, only="Status"), Reader(Interest.NONE)
    node = Node(names, one, none)
    call = node.call()
    node.tap.on_message(call, Direction.REQUEST, b"ask")
    node.tap.on_unseen(call, Direction.REPLY, 1, "odd")
    node.tap.on_end(call, 0, "", ())
    assert [type(frame).__name__ for frame in names.got] == ["Begin", "End"]
    assert (one.got, none.got) == ([], [])
    assert node.tap.interest("Version") is Interest.CALLS
    assert node.tap.interest("Status") is Interest.MESSAGES


def test_call_nobody_wants_leaves_nothing() -> None:
    """Not even in memory."""
    node = Node(Reader(Interest.MESSAGES, only="Status"))
    call = node.call()
    node.tap.on_message(call, Direction.REQUEST, b"ask")
    node.tap.on_unseen(call, Direction.REPLY, 1, "odd")
    node.tap.on_end(call, 0, "", ())
    assert not node.tap._seen
    assert DumpTap(lambda: 0, lambda: 0).interest("Version") is Interest.NONE


def test_methods_nobody_knows_have_the_empty_name() -> None:
    """Whoever reads looks at their names; a client may make up as many as it likes, so they are not remembered."""
    curious, other = Reader(Interest.MESSAGES), Reader(Interest.MESSAGES, only="Version")
    node = Node(curious, other)
    for number, path in enumerate(("/x.Y/Future", "/x.Y/", "nonsense")):
        node.call(path, number)
    assert [frame.path for frame in curious.got if isinstance(frame, Begin)] == ["/x.Y/Future", "/x.Y/", "nonsense"]
    assert other.got == []
    assert not node.tap._audiences


def test_full_reader_loses_the_body_first() -> None:
    """The others get it; then whole frames are lost, and counted."""
    slow, quick = Reader(Interest.MESSAGES, limit=400), Reader(Interest.MESSAGES)
    node = Node(slow, quick)
    call = node.call()
    node.tap.on_message(call, Direction.REQUEST, bytes(300))
    absent = slow.got[-1]
    assert isinstance(absent, Message)
    assert (absent.size, absent.absent, slow.queue.bodies_lost) == (300, "not kept, the reader was too slow", 1)
    for number in range(2, 9):
        late = node.call(number=number)
        node.tap.on_message(late, Direction.REQUEST, bytes(300))
        node.tap.on_end(late, 0, "", ())
    assert slow.queue.frames_lost > 0
    assert quick.queue.frames_lost == 0
    assert slow.queue.waiting <= 500


def test_message_larger_than_the_queue_is_told_as_such() -> None:
    """It is nobody's fault that it was not kept."""
    reader = Reader(Interest.MESSAGES, limit=400)
    node = Node(reader)
    node.tap.on_message(node.call(), Direction.REQUEST, bytes(401))
    absent = reader.got[-1]
    assert isinstance(absent, Message)
    assert (absent.size, absent.absent) == (401, "not kept, it is larger than the queue of the reader")


def test_reader_that_leaves_gets_nothing_more() -> None:
    """Of calls in flight neither; whoever changes readers is told, and what was counted stays."""
    reader, stays = Reader(Interest.MESSAGES), Reader(Interest.MESSAGES)
    node = Node(reader, stays)
    call = node.call()
    node.tap.detach(reader.queue)
    node.tap.detach(reader.queue)
    node.tap.on_message(call, Direction.REQUEST, b"ask")
    node.tap.on_end(call, 0, "", ())
    assert (len(reader.got), len(stays.got)) == (1, 3)
    assert (node.told, node.tap.queues) == (3, (stays.queue,))
    assert node.tap.losses.totals(node.tap.queues)["reader", "frames"] == 4
