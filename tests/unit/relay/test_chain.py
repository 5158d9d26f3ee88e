"""The chain runs interceptors so that none of them can hurt a call."""

import logging
from typing import Any

import pytest

from interpose.cri.methods import METHODS
from interpose.relay.api import Body, Call, Proceed, Reply
from interpose.relay.chain import Chain


class Letters:
    """Messages are bytearrays."""

    def parse(self, data: bytes) -> Any:
        """A copy to edit."""
        return bytearray(data)

    def serialize(self, message: Any) -> bytes:
        """Its bytes."""
        return bytes(message)


class One:
    """Adds its letter on the way there and on the way back; fails where told."""

    def __init__(self, name: str, fail: str = "", methods: tuple[str, ...] = ("Version",)) -> None:
        self.name = name
        self.methods = methods
        self._fail = fail

    async def intercept(self, call: Call, proceed: Proceed) -> Reply:
        """See the class."""
        call.request.extend(self.name.encode())
        if self._fail == "before":
            raise ZeroDivisionError
        reply = await proceed()
        reply.response.extend(self.name.encode())
        if self._fail == "after":
            raise ZeroDivisionError
        return reply


def version(body: bytes = b">") -> Call:
    """A call."""
    return Call(method=METHODS["Version"], path=b"/x", body=Body(body, Letters()))


async def echo(call: Call) -> Reply:
    """The end of the chain: answers with what arrived."""
    data = call.body.data()
    return Reply(code=0, body=Body(data + b"<", Letters()), raw=data)


async def test_order() -> None:
    """There in order, back in reverse."""
    reply = await Chain([One("a"), One("b")]).run(version(), echo)
    assert reply.response == b">ab<ba"


async def test_only_subscribers_of_the_method_are_asked() -> None:
    """Others are passed over."""
    chain = Chain([One("a"), One("x", methods=("Status",)), One("b")])
    assert (await chain.run(version(), echo)).response == b">ab<ba"
    assert chain.methods == {"Version", "Status"}


async def test_below() -> None:
    """A call of one's own goes to those after oneself."""
    chain = [One("a"), One("b"), One("c")]
    assert (await Chain(chain).run(version(), echo, below=chain[1])).response == b">c<c"


async def test_failure_before_proceed_undoes_its_own_edits_only() -> None:
    """The next one sees what the failing one saw."""
    chain = Chain([One("a"), One("b", "before"), One("c")])
    assert (await chain.run(version(), echo)).response == b">ac<ca"
    assert chain.errors == {("b", "Version", "before"): 1}


async def test_failure_after_proceed_gives_the_answer_as_it_came() -> None:
    """The runtime's own reply: what goes back is raw."""
    chain = Chain([One("b", "after")])
    reply = await chain.run(version(), echo)
    assert (reply.code, reply.body, reply.raw) == (0, None, b">b")
    assert chain.errors == {("b", "Version", "after"): 1}


async def test_failures_are_logged_once_and_counted_always(caplog: pytest.LogCaptureFixture) -> None:
    """A broken interceptor on a busy node does not fill the log."""
    chain = Chain([One("b", "before")])
    with caplog.at_level(logging.ERROR):
        for _ in range(5):
            await chain.run(version(), echo)
    assert len(caplog.records) == 1
    assert chain.errors == {("b", "Version", "before"): 5}


async def test_nothing_is_kept_for_a_tidy_one() -> None:
    """It says that it leaves no half edit behind, and is believed."""
    tidy = One("b", "before")
    tidy.tidy = True  # type: ignore[attr-defined]
    assert (await Chain([One("a"), tidy]).run(version(), echo)).response == b">ab<a"


async def test_methods_may_change() -> None:
    """After `arrange` the chain asks again."""
    one = One("a")
    chain = Chain([one, One("b")])
    await chain.run(version(), echo)
    one.methods = ()
    chain.refresh()
    assert (await chain.run(version(), echo)).response == b">b<b"


async def test_failures_that_never_were_count_zero() -> None:
    """So that the first of its kind is seen as an increase; whatever is intercepted at that time."""
    chain = Chain([One("a", "after"), One("b", methods=("Status", "Version"))])
    await chain.run(version(), echo)
    assert chain.failures() == {
        ("a", "Version", "before"): 0,
        ("a", "Version", "after"): 1,
        ("b", "Status", "before"): 0,
        ("b", "Status", "after"): 0,
        ("b", "Version", "before"): 0,
        ("b", "Version", "after"): 0,
    }
    assert Chain([]).failures() == {}
