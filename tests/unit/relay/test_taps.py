"""Cutting passing bytes into messages for taps, and the guard around them."""

import logging
from collections.abc import Collection, Sequence

import pytest

from interpose.cri.methods import METHODS
from interpose.net.grpc.framing import frame
from interpose.net.h2.headers import Headers, make_field
from interpose.relay.api import Direction, Interest, Sighting
from interpose.relay.taps import CallView, TapRegistry

VERSION = METHODS["Version"]


def sighting(number: int = 1) -> Sighting:
    """A call."""
    return Sighting(number, VERSION.paths[0].encode(), VERSION)


class Notes:
    """Writes down everything, or fails."""

    def __init__(self, name: str = "notes", methods: Collection[str] = ("Version",), *, fail: bool = False) -> None:
        self.name = name
        self.methods = methods
        self.begun = 0
        self.seen: list[tuple[int, str, bytes]] = []
        self.unseen: list[tuple[int, str]] = []
        self.ends: list[int] = []
        self.fail = fail

    def interest(self, method: str) -> Interest:
        """In what it was told."""
        self._try()
        return Interest.MESSAGES if method in self.methods else Interest.NONE

    def _try(self) -> None:
        if self.fail:
            raise ZeroDivisionError

    def on_begin(self, call: Sighting) -> None:
        """A beginning."""
        self._try()
        self.begun += 1

    def on_message(self, call: Sighting, direction: Direction, message: bytes) -> None:
        """A message."""
        self._try()
        self.seen.append((call.number, direction.value, message))

    def on_unseen(self, call: Sighting, direction: Direction, size: int, why: str) -> None:
        """A message that is not shown."""
        self._try()
        self.unseen.append((size, why))

    def on_end(self, call: Sighting, code: int, message: str, changed_by: Sequence[str]) -> None:
        """An end."""
        self._try()
        self.ends.append(code)


def view_of(tap_registry: TapRegistry, *taps: Notes) -> CallView:
    """A call that these read."""
    return CallView(tap_registry, taps, taps, sighting())


def test_subscription_by_method() -> None:
    """A tap sees what it named."""
    one, other = Notes(), Notes(methods=("Status", "Version"))
    tap_registry = TapRegistry([one, other])
    assert tap_registry.taps_for("Version") == (one, other)
    assert tap_registry.taps_for("Status") == (other,)
    assert tap_registry.taps_for("Exec") == ()
    assert tap_registry.number() != tap_registry.number()


def test_tap_that_cannot_say_what_it_wants_sees_nothing() -> None:
    """The others do."""
    bad, good = Notes("bad", fail=True), Notes()
    tap_registry = TapRegistry([bad, good])
    assert (tap_registry.taps_for("Version"), tap_registry.errors) == ((good,), {"bad": 1})


def test_failing_tap_is_logged_once_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    """The one after it is served."""
    bad, good = Notes("bad", fail=True), Notes()
    tap_registry = TapRegistry([bad, good], limit=10)
    with caplog.at_level(logging.ERROR):
        view = view_of(tap_registry, bad, good)
        view.data(Direction.REPLY, frame(b"x") + frame(bytes(11)))
        view.end(0)
    assert (good.begun, len(good.seen), len(good.unseen), good.ends) == (1, 1, 1, [0])
    assert (tap_registry.errors, len(caplog.records)) == ({"bad": 4, "unreadable message": 1}, 1)


def test_failures_that_never_were_count_zero() -> None:
    """So that the first of its kind is seen as an increase."""
    tap_registry = TapRegistry([Notes("bad", fail=True), Notes("good")])
    tap_registry.taps_for("Version")
    assert tap_registry.failures() == {"bad": 1, "good": 0, "unreadable message": 0}


def test_messages_are_whole_in_both_directions() -> None:
    """However the bytes were cut; directions do not mix."""
    notes = Notes()
    tap_registry = TapRegistry([notes], limit=100)
    room = tap_registry.room
    view = view_of(tap_registry, notes)
    for byte in frame(b"hello"):
        view.data(Direction.REQUEST, bytes([byte]))
    view.data(Direction.REPLY, frame(b"a") + frame(b"b"))
    assert [(direction, text) for _, direction, text in notes.seen] == [
        ("request", b"hello"),
        ("reply", b"a"),
        ("reply", b"b"),
    ]
    assert tap_registry.room == room


def test_whole_message_behind_one_in_pieces() -> None:
    """Each is shown once, in order; one whose beginning is still to be had is not mistaken for the end of another."""
    notes = Notes()
    view = view_of(TapRegistry([notes], limit=100), notes)
    inner = frame(b"inner")  # looks like a message of its own, and is a part of one
    outer = frame(inner)
    for data in (frame(b"first"), outer[:5], outer[5:], frame(b"last")):
        view.data(Direction.REPLY, data)
    assert [text for *_, text in notes.seen] == [b"first", inner, b"last"]


def test_who_wants_calls_only_sees_no_message() -> None:
    """Nothing is copied for it."""
    notes = Notes()
    view = CallView(TapRegistry([notes]), [notes], [], sighting())
    view.data(Direction.REQUEST, frame(b"a"))
    view.show(Direction.REPLY, b"b")
    view.unseen(Direction.REPLY, 1, "large")
    view.end(0)
    assert (notes.begun, notes.seen, notes.unseen, notes.ends) == (1, [], [], [0])


def test_end_is_told_once() -> None:
    """Whoever notices first; nothing is shown afterwards."""
    notes = Notes()
    view = view_of(TapRegistry([notes]), notes)
    view.end(5)
    view.end(0)
    view.data(Direction.REQUEST, frame(b"late"))
    view.show(Direction.REPLY, b"late")
    view.unseen(Direction.REPLY, 1, "late")
    assert (notes.ends, notes.seen, notes.unseen) == ([5], [], [])


@pytest.mark.parametrize("cut", [1, 3, 50, 1000])
@pytest.mark.parametrize(
    ("data", "size", "why"),
    [
        (b"\x01\x00\x00\x00\x01x", 1, "grpc-encoding 'odd' is not known"),
        (frame(bytes(101)), 101, "larger than the 100 bytes that are copied"),
    ],
    ids=["encoding", "size"],
)
def test_what_cannot_be_read_is_told_and_passed_over(data: bytes, size: int, why: str, cut: int) -> None:
    """The next message is shown again, however the bytes come."""
    notes = Notes()
    tap_registry = TapRegistry([notes], limit=100)
    view = view_of(tap_registry, notes)
    view.headers(Direction.REQUEST, Headers([make_field(b"grpc-encoding", b"odd")], 0))
    data += frame(b"later")
    for start in range(0, len(data), cut):
        view.data(Direction.REQUEST, data[start : start + cut])
    assert (notes.unseen, [text for *_, text in notes.seen]) == ([(size, why)], [b"later"])
    assert tap_registry.errors == {"unreadable message": 1}


def test_memory_for_messages_on_their_way_is_bounded() -> None:
    """What does not fit is told; room comes back when a message is whole or its call is over."""
    notes = Notes()
    tap_registry = TapRegistry([notes], limit=100, budget=150)
    first, second, third = (view_of(tap_registry, notes) for _ in range(3))
    big = frame(bytes(100))
    first.data(Direction.REQUEST, big[:10])
    second.data(Direction.REQUEST, big[:10])
    assert (tap_registry.room, notes.unseen) == (50, [(100, "too much was being copied at that moment")])
    second.data(Direction.REQUEST, big[10:] + frame(b"small"))
    assert notes.seen == [(1, "request", b"small")]
    first.end(0)
    assert tap_registry.room == 150
    third.data(Direction.REQUEST, big[:10])
    third.data(Direction.REQUEST, big[10:])
    assert (tap_registry.room, len(notes.seen)) == (150, 2)
