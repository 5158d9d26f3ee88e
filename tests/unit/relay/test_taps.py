"""Cutting passing bytes into messages for taps, and the guard around them."""

import logging
from collections.abc import Collection

import pytest

from interpose.h2.headers import Headers, make_field
from interpose.relay.interceptor import Direction
from interpose.relay.methods import METHODS, Method
from interpose.relay.taps import Viewing, Watchers
from interpose.rpc.framing import frame

VERSION = METHODS["Version"]


class Notes:
    """Writes down everything, or fails."""

    def __init__(self, name: str = "notes", methods: Collection[str] = ("Version",), *, fail: bool = False) -> None:
        self.name = name
        self.methods = methods
        self.seen: list[tuple[int, str, bytes]] = []
        self.ends: list[int] = []
        self._fail = fail

    def on_message(self, call: int, method: Method, origin: str, direction: Direction, message: bytes) -> None:
        """A message."""
        if self._fail:
            raise ZeroDivisionError
        self.seen.append((call, direction.value, message))

    def on_end(self, call: int, method: Method, code: int) -> None:
        """An end."""
        self.ends.append(code)


def test_subscription_by_method() -> None:
    """A tap sees what it named."""
    one, other = Notes(), Notes(methods=("Status", "Version"))
    watchers = Watchers([one, other])
    assert watchers.of("Version") == (one, other)
    assert watchers.of("Status") == (other,)
    assert watchers.of("Exec") == ()
    assert watchers.number() != watchers.number()


def test_failing_tap_is_logged_once_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    """The one after it is served."""
    bad, good = Notes("bad", fail=True), Notes()
    watchers = Watchers([bad, good])
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            watchers.show((bad, good), 1, VERSION, "client", Direction.REPLY, b"x")
    assert (watchers.errors, len(good.seen), len(caplog.records)) == ({"bad": 3}, 3, 1)


def test_messages_are_whole_in_both_directions() -> None:
    """However the bytes were cut; directions do not mix."""
    notes = Notes()
    view = Viewing(Watchers([notes]), [notes], VERSION, 100)
    for byte in frame(b"hello"):
        view.data(Direction.REQUEST, bytes([byte]))
    view.data(Direction.REPLY, frame(b"a") + frame(b"b"))
    assert [(direction, text) for _, direction, text in notes.seen] == [
        ("request", b"hello"),
        ("reply", b"a"),
        ("reply", b"b"),
    ]


def test_end_is_told_once() -> None:
    """Whoever notices first."""
    notes = Notes()
    view = Viewing(Watchers([notes]), [notes], VERSION, 100)
    view.end(5)
    view.end(0)
    assert notes.ends == [5]


@pytest.mark.parametrize("data", [b"\x01\x00\x00\x00\x01x", frame(bytes(101))], ids=["encoding", "size"])
def test_what_cannot_be_read_ends_the_copying(data: bytes) -> None:
    """Counted; later messages of that call are not guessed at."""
    notes = Notes()
    watchers = Watchers([notes])
    view = Viewing(watchers, [notes], VERSION, 100)
    view.headers(Direction.REQUEST, Headers([make_field(b"grpc-encoding", b"odd")], 0))
    view.data(Direction.REQUEST, data)
    view.data(Direction.REQUEST, frame(b"later"))
    assert (notes.seen, watchers.errors) == ([], {"unreadable message": 1})
