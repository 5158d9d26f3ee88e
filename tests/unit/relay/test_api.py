"""Bodies: parsed when asked for, sent as they came unless changed."""

from collections.abc import Callable
from typing import Any

import pytest

from interpose.cri.errors import OpaqueMessageError, UnreadableMessageError
from interpose.cri.methods import METHODS
from interpose.relay.api import Body, Call, Reply, refusal


class Words:
    """Messages are lists of words; parsing loses how much space was between them."""

    def __init__(self) -> None:
        self.parsed = 0

    def parse(self, data: bytes) -> Any:
        """Split."""
        self.parsed += 1
        if data == b"?":
            raise UnreadableMessageError("not words")
        return data.split()

    def serialize(self, message: Any) -> bytes:
        """Join."""
        return b" ".join(message)


def test_untouched_body_is_never_parsed() -> None:
    """Whoever does not look pays nothing."""
    parser = Words()
    assert Body(b"a  b", parser).data() == b"a  b"
    assert parser.parsed == 0


def test_read_body_keeps_its_bytes() -> None:
    """Though it would serialize differently; it is parsed once."""
    parser = Words()
    body = Body(b"a  b", parser)
    assert body.message == body.message == [b"a", b"b"]
    assert (body.data(), parser.parsed) == (b"a  b", 1)


def test_changed_body_is_serialized() -> None:
    """And a change taken back is no change."""
    body = Body(b"a  b", Words())
    body.message.append(b"c")
    assert body.data() == b"a b c"
    body.message.pop()
    assert body.data() == b"a  b"


def test_restored_body_forgets_edits() -> None:
    """The next reader parses anew."""
    body = Body(b"a  b", Words())
    body.message.clear()
    body.restore(b"a  b")
    assert body.data() == b"a  b"
    assert body.message == [b"a", b"b"]


def test_unreadable_body() -> None:
    """Behind an encoding nobody knows: bytes pass, asking for the message says why not."""
    body = Body(b"a  b", Words(), unreadable="encoding 'x'")
    assert (body.readable, body.data()) == (False, b"a  b")
    with pytest.raises(UnreadableMessageError, match="encoding 'x'"):
        body.message  # noqa: B018


def test_garbage_passes() -> None:
    """Bytes that do not parse are still bytes."""
    body = Body(b"?", Words())
    with pytest.raises(UnreadableMessageError):
        body.message  # noqa: B018
    assert (body.readable, body.data()) == (True, b"?")


def test_failed_reply_has_no_message() -> None:
    """Asking is an error of the interceptor; a refusal is a reply like others."""
    reply = refusal(9, "no")
    assert (reply.code, reply.message, reply.body, reply.raw) == (9, "no", None, None)
    with pytest.raises(UnreadableMessageError):
        reply.response  # noqa: B018
    assert Reply(code=0, body=Body(b"x y", Words())).response == [b"x", b"y"]


def test_body_is_untouched_until_somebody_looks() -> None:
    """Looking is enough: what is in the parsed message may have been changed."""
    body = Body(b"raw", Words())
    assert body.untouched
    assert body.message is not None
    assert not body.untouched


def test_body_that_is_only_read_stays_untouched() -> None:
    """It is parsed once, also for who edits it later; whoever edits what was only to be read changes nothing."""
    parser = Words()
    body = Body(b"a  b", parser)
    assert body.read() == [b"a", b"b"]
    body.read().append(b"lost")
    assert (body.untouched, body.data()) == (True, b"a  b")
    body.restore(b"a  b")
    assert body.read() is body.message
    body.message.append(b"c")
    assert (body.data(), body.read(), parser.parsed) == (b"a b c", [b"a", b"b", b"c"], 2)
    assert Reply(code=0, body=body).read() is body.message
    with pytest.raises(UnreadableMessageError):
        refusal(9, "no").read()


def test_what_is_done_afterwards_waits_for_the_reply() -> None:
    """Without anybody who sends one it is done at once."""
    done: list[str] = []
    later: list[Callable[[], None]] = []
    method, body = METHODS["Version"], Body(b"", Words())
    Call(method=method, path=b"", body=body, afterwards=later).afterwards(lambda: done.append("late"))
    assert done == []
    Call(method=method, path=b"", body=body).afterwards(lambda: done.append("now"))
    for act in later:
        act()
    assert done == ["now", "late"]


def test_body_that_only_the_runtime_understands() -> None:
    """Whoever asks can tell it from one that nobody does."""
    for understood in (False, True):
        body = Body(b"a", Words(), unreadable="a key twice", understood=understood)
        for read in (lambda body=body: body.message, body.original):
            with pytest.raises(UnreadableMessageError, match="a key twice") as caught:
                read()
            assert isinstance(caught.value, OpaqueMessageError) is understood
        assert not body.readable
