"""Counting calls to a runtime."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

import pytest
from google.protobuf.message import Message

from interpose.cri.messages import cri
from interpose.cri.wrappers import EXPECTED, InstrumentedCaller
from interpose.metrics import Buckets, Sample
from interpose.net.grpc.status import Code, RpcError
from interpose.testing.fakeruntime import FakeRuntime


def ticking(step: float) -> Iterator[float]:
    now = 0.0
    while True:
        yield now
        now += step


def samples(caller: InstrumentedCaller, name: str) -> dict[tuple[str, ...], Sample | Buckets]:
    [family] = [one for one in caller.collect() if one.name == f"interpose_runtime_operations_{name}"]
    return {tuple(value for _, value in sorted(one.labels.items())): one for one in family.samples}


def value(sample: Sample | Buckets) -> float:
    assert isinstance(sample, Sample)
    return sample.value


async def test_calls_errors_and_times_are_counted() -> None:
    """By method, errors by code too; a failure takes time as well."""
    runtime = FakeRuntime()
    clock = ticking(0.02)
    caller = InstrumentedCaller(runtime, clock=lambda: next(clock))
    await caller.call("Version", cri.VersionRequest())
    runtime.fail("ListContainers", Code.UNAVAILABLE, "gone")
    with pytest.raises(RpcError, match="gone"):
        await caller.call("ListContainers", cri.ListContainersRequest())
    totals = samples(caller, "total")
    assert value(totals["Version",]) == 1
    assert value(totals["ListContainers",]) == 1
    assert value(samples(caller, "errors_total")["UNAVAILABLE", "ListContainers"]) == 1
    times = samples(caller, "seconds")["Version",]
    assert isinstance(times, Buckets)
    assert times.sum == pytest.approx(0.02)
    assert sum(times.counts) == 1


async def test_everything_that_will_happen_is_there_before_it_does() -> None:
    """A counter that appears with its first event hides it."""
    caller = InstrumentedCaller(FakeRuntime())
    assert {method for (method,) in samples(caller, "total")} == set(EXPECTED)
    assert value(samples(caller, "errors_total")["UNAVAILABLE", "RunPodSandbox"]) == 0
    assert {method for (method,) in samples(caller, "seconds")} == set(EXPECTED)


async def test_a_call_that_nobody_waits_for_any_more_is_cancelled() -> None:
    """Not a failure of the runtime."""
    runtime = FakeRuntime()
    stall = runtime.stall("Version")
    caller = InstrumentedCaller(runtime)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await caller.call("Version", cri.VersionRequest())
    assert caller.errors["Version", "CANCELLED"] == 1
    stall.release()


class Broken:
    """Has a mistake."""

    async def call(self, method: str, request: Message, *, timeout: float | None = None) -> Any:
        raise KeyError("oops")

    async def stream(self, method: str, request: Message, *, timeout: float | None = None) -> AsyncGenerator[Any, None]:
        yield 1
        raise RpcError(Code.UNKNOWN, "torn")


async def test_other_failures_are_internal_and_unknown_methods_share_a_label() -> None:
    """Whatever is called, the number of labels is bounded."""
    caller = InstrumentedCaller(Broken())
    with pytest.raises(KeyError):
        await caller.call("Wrong", cri.VersionRequest())
    assert caller.errors["other", "INTERNAL"] == 1


async def test_streams_are_counted_and_may_be_left() -> None:
    """Leaving one is no failure; one that breaks is."""
    caller = InstrumentedCaller(Broken())
    async with aclosing(caller.stream("GetContainerEvents", cri.GetEventsRequest())) as events:
        assert await anext(events) == 1
    assert ("GetContainerEvents", "UNKNOWN") not in caller.errors
    with pytest.raises(RpcError, match="torn"):
        [_ async for _ in caller.stream("GetContainerEvents", cri.GetEventsRequest())]
    assert caller.errors["GetContainerEvents", "UNKNOWN"] == 1
    assert caller.calls["GetContainerEvents"] == 2
