"""Calls of our own: which version of the API, and what an error becomes."""

from typing import Any, cast

import pytest

from interpose.cri.parser import CriParser
from interpose.net.grpc.status import Code, RpcError
from interpose.relay.api import Body, Interceptor, Reply
from interpose.relay.internal_calls import InternalCalls
from interpose.relay.proxy import Relay

V1, ALPHA = b"/runtime.v1.RuntimeService/Version", b"/runtime.v1alpha2.RuntimeService/Version"


class FakeRelay:
    """Answers the paths it knows."""

    def __init__(self, *known: bytes) -> None:
        self.known = known
        self.paths: list[bytes] = []
        self.options: dict[str, Any] = {}
        self.reply = Reply(code=0, body=Body(b"answer", CriParser("VersionResponse")))

    async def call(self, path: bytes, message: bytes, **options: Any) -> Reply:
        """As the relay does."""
        self.paths.append(path)
        self.options = options
        return self.reply if path in self.known else Reply(code=Code.UNIMPLEMENTED, message="unknown service")


def calls_of(relay: FakeRelay, below: Interceptor | None = None) -> InternalCalls:
    """Calls through it."""
    return InternalCalls(cast(Relay, relay), "store", below)


async def test_call_enters_below_its_originator() -> None:
    """With its name and deadline."""
    relay, below = FakeRelay(V1), cast(Interceptor, object())
    assert await calls_of(relay, below)("Version", b"") == b"answer"
    assert relay.options == {"origin": "store", "below": below, "timeout": 10.0}


async def test_older_version_is_remembered() -> None:
    """One attempt with the newer one, until the runtime may be another."""
    relay = FakeRelay(ALPHA)
    calls = calls_of(relay)
    for _ in range(2):
        await calls("Version", b"")
    calls.forget_version()
    relay.known = (V1,)
    await calls("Version", b"")
    assert relay.paths == [V1, ALPHA, ALPHA, V1]


async def test_newer_version_is_found_again() -> None:
    """Also without being told."""
    relay = FakeRelay(ALPHA)
    calls = calls_of(relay)
    await calls("Version", b"")
    relay.known = (V1,)
    await calls("Version", b"")
    await calls("Version", b"")
    assert relay.paths == [V1, ALPHA, ALPHA, V1, V1]


async def test_method_nobody_has() -> None:
    """UNIMPLEMENTED in both versions changes nothing."""
    relay = FakeRelay()
    calls = calls_of(relay)
    for _ in range(2):
        with pytest.raises(RpcError, match="UNIMPLEMENTED"):
            await calls("Version", b"")
    assert relay.paths == [V1, ALPHA] * 2


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Reply(code=Code.NOT_FOUND, message="gone"), Code.NOT_FOUND),
        (Reply(code=0), Code.INTERNAL),
        (Reply(code=0, body=Body(b"", CriParser("VersionResponse"), unreadable="snappy")), Code.INTERNAL),
    ],
)
async def test_errors_are_raised(reply: Reply, code: Code) -> None:
    """Whatever is no readable message; no second attempt is made."""
    relay = FakeRelay(V1)
    relay.reply = reply
    with pytest.raises(RpcError) as error:
        await calls_of(relay)("Version", b"")
    assert (error.value.code, relay.paths) == (code, [V1])
