"""A runtime served: which calls are answered, and how bytes become messages."""

import pytest

from interpose.cri.messages import cri
from interpose.cri.server import handlers
from interpose.net.grpc.handlers import ServerStreaming, Unary
from interpose.net.grpc.status import Code, RpcError
from interpose.testing.fakeruntime import FakeRuntime


class _Context:
    path = b"/"
    metadata: tuple[tuple[bytes, bytes], ...] = ()
    deadline = None


def test_both_api_versions_are_answered() -> None:
    """With the same messages; what is not named has no handler."""
    table = handlers(FakeRuntime(), methods={"Version", "ListImages"})
    assert sorted(table) == [
        b"/runtime.v1.ImageService/ListImages",
        b"/runtime.v1.RuntimeService/Version",
        b"/runtime.v1alpha2.ImageService/ListImages",
        b"/runtime.v1alpha2.RuntimeService/Version",
    ]


def test_streams_are_told_from_unary_calls() -> None:
    """By the table of methods."""
    table = handlers(FakeRuntime(), methods={"StreamContainers", "ListContainers"}, versions=("v1",))
    assert isinstance(table[b"/runtime.v1.RuntimeService/StreamContainers"], ServerStreaming)
    assert isinstance(table[b"/runtime.v1.RuntimeService/ListContainers"], Unary)


def test_methods_nobody_knows_are_a_mistake_of_ours() -> None:
    """All of them are named."""
    with pytest.raises(ValueError, match="no such CRI methods: Dance, Sing"):
        handlers(FakeRuntime(), methods={"Version", "Sing", "Dance"})


async def test_bytes_that_are_no_message_are_refused() -> None:
    """The code and the words are those of gRPC servers."""
    handler = handlers(FakeRuntime(), methods={"Version"})[b"/runtime.v1.RuntimeService/Version"]
    assert isinstance(handler, Unary)
    with pytest.raises(RpcError) as caught:
        await handler.handle(b"\xff", _Context())
    assert caught.value.code is Code.INTERNAL
    assert "error unmarshalling request" in caught.value.message


async def test_calls_go_to_the_runtime() -> None:
    """Bytes in, bytes out."""
    runtime = FakeRuntime()
    handler = handlers(runtime, methods={"Version"})[b"/runtime.v1.RuntimeService/Version"]
    assert isinstance(handler, Unary)
    answer = cri.VersionResponse.FromString(await handler.handle(b"", _Context()))
    assert (answer.version, runtime.calls["Version"]) == ("0.1.0", 1)


@pytest.mark.parametrize("version", ["v1", "v1alpha2"])
async def test_the_version_of_the_api_is_the_one_that_was_asked(version: str) -> None:
    """Only the path tells it: the runtime is asked the same in both cases."""
    handler = handlers(FakeRuntime(), methods={"Version"})[f"/runtime.{version}.RuntimeService/Version".encode()]
    assert isinstance(handler, Unary)
    answer = cri.VersionResponse.FromString(await handler.handle(b"", _Context()))
    assert answer.runtime_api_version == version


async def test_streams_come_message_by_message() -> None:
    """Each is an answer of its own."""
    runtime = FakeRuntime(stream_batch=1)
    runtime.populate(2)
    handler = handlers(runtime, methods={"StreamPodSandboxes"})[b"/runtime.v1.RuntimeService/StreamPodSandboxes"]
    assert isinstance(handler, ServerStreaming)
    request = cri.StreamPodSandboxesRequest().SerializeToString()
    assert len([answer async for answer in handler.handle(request, _Context())]) == 2
