"""Calls of our own parts: where they enter the chain, what taps see of them, and how they end."""

import asyncio
from typing import Any

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.cri.methods import METHODS
from interpose.cri.parser import CriParser
from interpose.net.grpc.status import Code
from interpose.relay.api import Body, Call, Proceed, Reply
from interpose.relay.chain import Chain
from interpose.relay.internal_calls import CallRunner, message_of
from interpose.relay.routes import Route, Routes
from interpose.relay.taps import TapRegistry
from tests.support.net.byte_seams import Behaviour, Notes, Stub

NAME = "UpdateContainerResources"
METHOD = METHODS[NAME]
PATH = METHOD.paths[0].encode()
REQUEST = cri.UpdateContainerResourcesRequest(container_id="c1").SerializeToString()
ODD = b"\xba\x3e\x05later"  # a field that nobody knows


def reply_of(message: bytes = b"", *, unreadable: str = "") -> Reply:
    """An answer of the runtime."""
    return Reply(code=0, body=Body(message, CriParser(METHOD.response), unreadable=unreadable))


class Asking:
    """A call runner with a runtime that gives one answer and notes what it was asked."""

    def __init__(self, *interceptors: Stub, answer: Reply | None = None) -> None:
        self.notes = Notes([NAME])
        now = asyncio.get_running_loop().time
        taps = TapRegistry([self.notes])
        self.runner = CallRunner(chain=Chain(interceptors), tap_registry=taps, limit=1 << 20, now=now, ask=self._ask)
        self.answer = reply_of() if answer is None else answer
        self.asked: list[bytes] = []
        self.left = 0.0
        self.routes = Routes(None, None)
        self.routes.known[PATH].subscribe(intercepted=True, taps=[self.notes], readers=[self.notes])

    async def _ask(self, route: Route, path: bytes, message: bytes, timeout: float) -> Reply:
        """What the runtime does."""
        assert (route, path) == (self.routes.known[PATH], PATH)
        self.asked.append(message)
        self.left = timeout
        return self.answer

    async def call(self, *, below: Any = None, timeout: float = 5.0) -> Reply:
        """A call of the policy."""
        return await self.runner.originate(
            self.routes.known[PATH], PATH, REQUEST, origin="policy", below=below, timeout=timeout
        )

    @property
    def shown(self) -> list[tuple[str, bytes]]:
        """What the tap saw, all of it of the policy."""
        assert {origin for _, origin, _, _ in self.notes.seen} <= {"policy"}
        return [(direction, message) for _, _, direction, message in self.notes.seen]


def stub(behaviour: Behaviour, name: str = "stub") -> Stub:
    """An interceptor of these calls."""
    return Stub(behaviour, name, [NAME])


async def on(_call: Call, proceed: Proceed) -> Reply:
    """Let it go on."""
    return await proceed()


async def hang(_call: Call, _proceed: Proceed) -> Reply:
    """For ever."""
    await asyncio.Event().wait()
    raise AssertionError


async def test_calls_enter_below_their_part() -> None:
    """Who comes after it sees the call, and whose it is."""
    above, part, under = stub(on, "above"), stub(on, "part"), stub(on, "under")
    asking = Asking(above, part, under)
    reply = await asking.call(below=part)
    assert (reply.code, asking.asked) == (0, [REQUEST])
    assert (above.calls, part.calls, [call.origin for call in under.calls]) == ([], [], ["policy"])


async def test_the_runtime_has_what_is_left_of_the_time() -> None:
    """And never less than nothing."""
    asking, now = Asking(), asyncio.get_running_loop().time()
    for spent, left in ((2.0, 3.0), (9.0, 0.0)):
        asking.runner.now = iter((now, now + spent)).__next__
        await asking.call(timeout=5.0)
        assert asking.left == pytest.approx(left)


async def test_taps_see_a_call_that_nobody_changes() -> None:
    """Its request and its reply, once each."""
    asking = Asking(answer=reply_of(ODD))
    await asking.call()
    assert asking.shown == [("request", REQUEST), ("reply", ODD)]
    assert asking.notes.ended == [(0, "", ())]
    (sighting,) = asking.notes.calls.values()
    assert (sighting.intercepted, sighting.metadata) == (True, ())


async def test_taps_see_what_was_changed() -> None:
    """Before and after, and by whom."""

    async def change(call: Call, proceed: Proceed) -> Reply:
        call.request.container_id = "c2"
        await proceed()
        return reply_of(ODD)

    asking = Asking(stub(change))
    await asking.call()
    sent = cri.UpdateContainerResourcesRequest(container_id="c2").SerializeToString()
    assert asking.asked == [sent]
    assert asking.shown == [("request", REQUEST), ("forwarded", sent), ("received", b""), ("reply", ODD)]
    assert asking.notes.ended == [(0, "", ("stub",))]


async def test_taps_see_what_became_an_error() -> None:
    """As the runtime sent it; of the error they hear the code and why."""

    async def spoil(_call: Call, proceed: Proceed) -> Reply:
        await proceed()
        return Reply(code=Code.ABORTED, message="no")

    asking = Asking(stub(spoil), answer=reply_of(ODD))
    assert (await asking.call()).code == Code.ABORTED
    assert asking.shown == [("request", REQUEST), ("received", ODD)]
    assert [end[:2] for end in asking.notes.ended] == [(Code.ABORTED, "no")]


async def test_call_that_takes_too_long() -> None:
    """Ends in time, for taps, too."""
    asking = Asking(stub(hang))
    reply = await asking.call(timeout=0.001)
    assert (reply.code, reply.message) == (Code.DEADLINE_EXCEEDED, "no answer within 0.001 s")
    assert asking.notes.ended == [(Code.DEADLINE_EXCEEDED, "no answer within 0.001 s", ())]


async def test_call_that_is_given_up() -> None:
    """Taps hear that it is over."""
    waiting = asyncio.Event()

    async def wait(call: Call, proceed: Proceed) -> Reply:
        waiting.set()
        return await hang(call, proceed)

    asking = Asking(stub(wait))
    task = asyncio.get_running_loop().create_task(asking.call())
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asking.notes.ended == [(Code.CANCELLED, "", ())]


async def test_only_known_methods_can_be_called() -> None:
    """The route of everything else has none."""
    asking = Asking()
    with pytest.raises(LookupError):
        await asking.runner.originate(
            asking.routes.fallback_routes[0], b"/x", b"", origin="store", below=None, timeout=1.0
        )


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (reply_of(ODD), ODD),
        (reply_of(ODD, unreadable="compressed"), None),
        (Reply(code=Code.ABORTED, body=reply_of(ODD).body), None),
        (Reply(code=0), None),
    ],
)
def test_messages_of_replies(reply: Reply, message: bytes | None) -> None:
    """Only of a good one that can be read."""
    assert message_of(reply) == message
