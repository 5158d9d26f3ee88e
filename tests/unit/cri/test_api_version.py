"""Which version of the API is used. The way over a socket is tested in tests/integration/test_runtime_calls.py."""

from typing import cast

import pytest

from interpose.cri.api_version import RuntimeCalls, VersionFallback
from interpose.cri.methods import METHODS
from interpose.net.grpc.client import Client, Metadata
from interpose.net.grpc.status import Code, RpcError

V1, ALPHA = b"/runtime.v1.RuntimeService/Version", b"/runtime.v1alpha2.RuntimeService/Version"


class FakeClient:
    """Answers the paths it knows."""

    def __init__(self, *known: bytes) -> None:
        self.known = known
        self.paths: list[bytes] = []
        self.timeouts: list[float | None] = []
        self.metadata: Metadata = ()

    async def unary(
        self, path: bytes, message: bytes, *, metadata: Metadata = (), timeout: float | None = None
    ) -> bytes:
        """As a client does."""
        self.paths.append(path)
        self.metadata = metadata
        self.timeouts.append(timeout)
        if path not in self.known:
            raise RpcError(Code.UNIMPLEMENTED, "unknown service")
        return message + b" answered"


def calls_over(client: FakeClient, timeout: float = 10.0) -> RuntimeCalls:
    """Calls over it."""
    return RuntimeCalls(cast(Client, client), timeout)


async def test_newer_version_is_tried_first() -> None:
    """And is all there is to it on a current runtime."""
    client = FakeClient(V1, ALPHA)
    assert await calls_over(client)("Version", b"it") == b"it answered"
    assert client.paths == [V1]


async def test_older_version_is_remembered_until_the_runtime_may_be_another() -> None:
    """One attempt with the newer one."""
    client = FakeClient(ALPHA)
    calls = calls_over(client)
    for _ in range(2):
        await calls("Version", b"")
    calls.forget_version()
    await calls("Version", b"")
    assert client.paths == [V1, ALPHA, ALPHA, V1, ALPHA]


async def test_method_nobody_has_changes_nothing() -> None:
    """The next call begins with the same version."""
    client = FakeClient()
    calls = calls_over(client)
    for _ in range(2):
        with pytest.raises(RpcError, match="UNIMPLEMENTED"):
            await calls("Version", b"")
    assert client.paths == [V1, ALPHA] * 2


async def test_timeout_is_the_calls_own_or_that_of_all() -> None:
    """An update has less time than a list."""
    client = FakeClient(V1)
    calls = calls_over(client, 7.0)
    await calls("Version", b"")
    await calls("Version", b"", timeout=2.0)
    assert client.timeouts == [7.0, 2.0]


async def test_version_that_answered_is_known() -> None:
    """A stream, which cannot be sent twice, takes the path of that version."""
    client = FakeClient(ALPHA)

    async def send(path: str, message: bytes, timeout: float) -> bytes:
        return await client.unary(path.encode(), message, timeout=timeout)

    versions = VersionFallback(send)
    paths = METHODS["Version"].paths
    assert (versions.version, versions.choose_path(paths)) == ("v1", V1.decode())
    await versions.call(paths, b"", 1.0)
    assert (versions.version, versions.choose_path(paths)) == ("v1alpha2", ALPHA.decode())
    versions.forget()
    assert versions.version == "v1"


async def test_other_errors_are_not_tried_again() -> None:
    """The runtime may have done it."""
    paths: list[str] = []

    async def send(path: str, message: bytes, timeout: float) -> bytes:
        paths.append(path)
        raise RpcError(Code.UNAVAILABLE, "lost")

    with pytest.raises(RpcError, match="lost"):
        await VersionFallback(send).call(("a", "b"), b"", 1.0)
    assert paths == ["a"]


async def test_every_call_carries_the_metadata() -> None:
    """A mark for relays."""
    client = FakeClient(V1)
    mark = ((b"a", b"b"),)
    await RuntimeCalls(cast(Client, client), metadata=mark)("Version", b"")
    assert client.metadata == mark
