"""Deadlines for a runtime in the same process."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.protobuf.message import Message

from interpose.cri.messages import cri
from interpose.cri.wrappers import LocalCaller
from interpose.net.grpc.status import Code, RpcError
from interpose.testing.fakeruntime import FakeRuntime


async def test_an_answer_in_time_comes_through() -> None:
    """As it is."""
    runtime = FakeRuntime()
    answer = await LocalCaller(runtime).call("Version", cri.VersionRequest(), timeout=10)
    assert answer.version == "0.1.0"


async def test_no_answer_in_time_is_a_deadline() -> None:
    """With the method in the text."""
    runtime = FakeRuntime()
    stall = runtime.stall("Version")
    with pytest.raises(RpcError) as caught:
        await LocalCaller(runtime).call("Version", cri.VersionRequest(), timeout=0.01)
    assert (caught.value.code, caught.value.message) == (Code.DEADLINE_EXCEEDED, "Version: no answer within 0.01 s")
    assert stall.waiting == 0


class Failing:
    """Fails with an error of time that is its own."""

    async def call(self, method: str, request: Message, *, timeout: float | None = None) -> Any:
        raise TimeoutError("mine")

    async def stream(self, method: str, request: Message, *, timeout: float | None = None) -> AsyncGenerator[Any, None]:
        yield "one"
        await asyncio.Event().wait()


async def test_a_runtimes_own_timeout_is_not_a_deadline() -> None:
    """It is a mistake of the runtime, and comes through as one."""
    with pytest.raises(TimeoutError, match="mine"):
        await LocalCaller(Failing()).call("Version", cri.VersionRequest(), timeout=10)


async def test_a_stream_comes_to_its_end() -> None:
    """All of it."""
    runtime = FakeRuntime()
    runtime.populate(2)
    answers = [one async for one in LocalCaller(runtime).stream("StreamPodSandboxes", cri.StreamPodSandboxesRequest())]
    assert len(answers[0].pod_sandboxes) == 2


async def test_a_stream_has_one_deadline_for_all_of_it() -> None:
    """What came before counts."""
    events = LocalCaller(Failing()).stream("GetContainerEvents", cri.GetEventsRequest(), timeout=0.01)
    assert await anext(events) == "one"
    with pytest.raises(RpcError) as caught:
        await anext(events)
    assert caught.value.code is Code.DEADLINE_EXCEEDED
