"""The bookkeeper around a call: what it hears of, and that no call suffers from it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.cri.methods import METHODS, Concern
from interpose.cri.parser import CriParser
from interpose.cri.store.pending import PendingCreates
from interpose.cri.store.store import Store
from interpose.cri.store.sync import Synchronizer
from interpose.net.grpc.exchange import RawReply
from interpose.net.grpc.status import Code, RpcError
from interpose.relay.api import Body, Call, Reply
from interpose.relay.store_updater import StoreUpdater
from interpose.relay.store_updates import STORE_UPDATES
from interpose.testing.pods import pod_config, run_request

RUN = METHODS["RunPodSandbox"]


def call_of(message: bytes) -> Call:
    """A RunPodSandbox on its way."""
    return Call(method=RUN, path=RUN.paths[0].encode(), body=Body(message, CriParser(RUN.request)))


def body(message: Any) -> Body:
    """A response."""
    return Body(message.SerializeToString(), CriParser(type(message).__name__))


class Keeper:
    """A bookkeeper whose runtime is away, so that what is in doubt stays so."""

    def __init__(self) -> None:
        self.store = Store()
        self.sync = Synchronizer(self.store, self.away)
        self.bookkeeper = StoreUpdater(self.store, self.sync)

    async def away(self, method: str, message: bytes) -> bytes:
        """No answer."""
        raise RpcError(Code.UNAVAILABLE)

    async def run(self, proceed: Callable[[], Awaitable[Reply]], message: bytes | None = None) -> Reply:
        """A pod."""
        request = run_request(pod_config("web")).SerializeToString() if message is None else message
        try:
            return await self.bookkeeper.intercept(call_of(request), proceed)
        finally:
            await self.sync.close()


def answers(reply: Reply) -> Callable[[], Awaitable[Reply]]:
    """The rest of the chain."""

    async def proceed() -> Reply:
        return reply

    return proceed


def test_every_method_that_changes_something_is_kept() -> None:
    """Whatever makes, changes, stops or removes pods and containers."""
    changing = {Concern.RESTORE_POD} | {
        one for one in Concern if one.value.endswith(("-create", "-start", "-stop", "-remove", "-update"))
    }
    assert set(STORE_UPDATES) == {name for name, method in METHODS.items() if method.concern in changing}


async def test_success_is_recorded() -> None:
    """The reply itself is handed back."""
    it, reply = Keeper(), Reply(code=0, body=body(cri.RunPodSandboxResponse(pod_sandbox_id="p1")))
    assert await it.run(answers(reply)) is reply
    assert list(it.store.pods) == ["p1"]


@pytest.mark.parametrize(
    ("reply", "pending"),
    [
        (Reply(code=Code.UNKNOWN), 0),
        (Reply(code=Code.NOT_FOUND), 0),
        (Reply(code=Code.FAILED_PRECONDITION, message="refused"), 0),
        (Reply(code=Code.CANCELLED), 1),
        (Reply(code=Code.DEADLINE_EXCEEDED), 1),
        (Reply(code=Code.UNAVAILABLE), 1),
        (Reply(code=Code.INTERNAL, raw=RawReply(None, b"", None, RpcError(Code.INTERNAL, "reset"))), 1),
        (Reply(code=Code.OK, body=Body(b"", CriParser(RUN.response), unreadable="snappy")), 1),
        (Reply(code=Code.OK, body=Body(b"\xff", CriParser(RUN.response))), 1),
    ],
)
async def test_outcomes(reply: Reply, pending: int) -> None:
    """A refusal of the runtime is final; a reply that was cut short or cannot be read is not."""
    it = Keeper()
    assert await it.run(answers(reply)) is reply
    assert (len(it.store.pods), len(it.store.pending)) == (0, pending)


async def test_cancelled_call_is_in_doubt() -> None:
    """And stays cancelled."""
    it = Keeper()

    async def proceed() -> Reply:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await it.run(proceed)
    assert len(it.store.pending) == 1


async def test_too_many_pending_creates_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The oldest is given up, with a warning."""
    it = Keeper()
    it.store.pending = PendingCreates(most=1)
    for name in ("web", "db"):
        await it.run(answers(Reply(code=Code.UNAVAILABLE)), run_request(pod_config(name)).SerializeToString())
    assert len(it.store.pending) == 1
    assert "dropping the oldest" in caplog.text


async def test_unreadable_request_passes() -> None:
    """Nothing is kept of it."""
    it, reply = Keeper(), Reply(code=0, body=body(cri.RunPodSandboxResponse(pod_sandbox_id="p1")))
    assert await it.run(answers(reply), b"\xff") is reply
    assert not it.store.pods


async def test_mistake_of_ours_stays_ours(caplog: pytest.LogCaptureFixture) -> None:
    """The caller gets the runtime's answer, the log the mistake."""

    class Broken:
        def parse(self, data: bytes) -> object:
            raise ZeroDivisionError

        def serialize(self, message: object) -> bytes:
            raise ZeroDivisionError

    it, reply = Keeper(), Reply(code=0, body=Body(b"", Broken()))
    assert await it.run(answers(reply)) is reply
    assert "Failed to update the store" in caplog.text


async def test_questions_end_with_the_call() -> None:
    """Whatever its outcome."""
    it = Keeper()
    create = METHODS["CreateContainer"]
    request = cri.CreateContainerRequest(pod_sandbox_id="p1").SerializeToString()
    call = Call(method=create, path=b"", body=Body(request, CriParser(create.request)))
    await it.bookkeeper.intercept(call, answers(Reply(code=Code.UNKNOWN)))
    assert not it.store._queries


async def test_records_do_not_wait_for_what_others_do_after_the_reply() -> None:
    """A hook after a stop takes its time: the runtime has answered, and the record says so."""
    it = Keeper()
    reply = Reply(code=0, body=body(cri.RunPodSandboxResponse(pod_sandbox_id="p1")))
    late: list[Callable[[], None]] = []
    request = run_request(pod_config("web")).SerializeToString()
    call = Call(method=RUN, path=b"/", body=Body(request, CriParser(RUN.request)), afterwards=late)
    await it.bookkeeper.intercept(call, answers(reply))
    assert list(it.store.pods) == []
    await asyncio.sleep(0)
    assert list(it.store.pods) == ["p1"]
    it.store.remove_pod("p1")
    for act in late:
        act()
    assert list(it.store.pods) == []
    await it.sync.close()
