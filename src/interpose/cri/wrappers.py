"""Callers around a Caller: one that counts calls, durations and failures, and one that adds deadlines.

Only `InstrumentedCaller` counts runtime operations. `LocalCaller` gives a runtime in the same process the deadlines it
would have behind a socket.
"""

import asyncio
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from typing import Any, Final

from google.protobuf.message import Message

from interpose.cri.caller import Caller
from interpose.cri.methods import METHODS
from interpose.metrics import Buckets, Family, Sample
from interpose.net.grpc.status import Code, RpcError

_PREFIX: Final = "interpose_runtime_operations"
_BOUNDS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 240.0)
# There from the start, for the methods that a manager uses: a counter that appears with its first event hides it.
EXPECTED: Final = (
    "RunPodSandbox",
    "StopPodSandbox",
    "RemovePodSandbox",
    "PodSandboxStatus",
    "ListPodSandbox",
    "CreateContainer",
    "StartContainer",
    "StopContainer",
    "RemoveContainer",
    "ContainerStatus",
    "ListContainers",
    "UpdateContainerResources",
    "ExecSync",
    "ImageStatus",
    "PullImage",
    "Status",
)
_USUAL_FAILURES: Final = (Code.UNKNOWN, Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE)
_OTHER: Final = "other"


class InstrumentedCaller:
    """Passes every call on, unchanged, and remembers what came of it."""

    def __init__(self, inner: Caller, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self._inner = inner
        self._clock = clock
        self.calls: Counter[str] = Counter(dict.fromkeys(EXPECTED, 0))
        self.errors: Counter[tuple[str, str]] = Counter(
            {(method, code.name): 0 for method in EXPECTED for code in _USUAL_FAILURES}
        )
        self._seconds: dict[str, float] = dict.fromkeys(EXPECTED, 0.0)
        self._buckets = {method: [0] * (len(_BOUNDS) + 1) for method in EXPECTED}

    async def call(self, method: str, request: Message, *, timeout: float | None = None) -> Any:
        """As the caller within."""
        began = self._begun(method)
        try:
            return await self._inner.call(method, request, timeout=timeout)
        except BaseException as error:
            self._failed(method, error)
            raise
        finally:
            self._ended(method, began)

    async def stream(self, method: str, request: Message, *, timeout: float | None = None) -> AsyncGenerator[Any, None]:
        """As the caller within. A stream that its reader leaves has not failed."""
        began = self._begun(method)
        try:
            async with aclosing(self._inner.stream(method, request, timeout=timeout)) as answers:
                async for answer in answers:
                    yield answer
        except GeneratorExit:
            raise
        except BaseException as error:
            self._failed(method, error)
            raise
        finally:
            self._ended(method, began)

    def collect(self) -> Iterable[Family]:
        """The counts as metrics."""
        text = "Calls to the runtime by method, finished or not."
        calls = [Sample(count, {"method": method}) for method, count in sorted(self.calls.items())]
        yield Family(f"{_PREFIX}_total", "counter", text, calls)
        text = "Calls to the runtime that failed, by method and gRPC code; CANCELLED: the caller stopped waiting."
        errors = [
            Sample(count, {"method": method, "code": code}) for (method, code), count in sorted(self.errors.items())
        ]
        yield Family(f"{_PREFIX}_errors_total", "counter", text, errors)
        text = "Time that calls to the runtime took, those that failed too."
        spread = [
            Buckets(_BOUNDS, list(counts), self._seconds[method], {"method": method})
            for method, counts in sorted(self._buckets.items())
        ]
        yield Family(f"{_PREFIX}_seconds", "histogram", text, spread)

    def _begun(self, method: str) -> float:
        self.calls[_known(method)] += 1
        return self._clock()

    def _failed(self, method: str, error: BaseException) -> None:
        if isinstance(error, RpcError):
            code = error.code
        else:
            code = Code.CANCELLED if isinstance(error, asyncio.CancelledError) else Code.INTERNAL
        self.errors[_known(method), code.name] += 1

    def _ended(self, method: str, began: float) -> None:
        name = _known(method)
        took = max(self._clock() - began, 0.0)
        self._seconds[name] = self._seconds.get(name, 0.0) + took
        self._buckets.setdefault(name, [0] * (len(_BOUNDS) + 1))[bisect_left(_BOUNDS, took)] += 1


def _known(method: str) -> str:
    """A label has few values, whatever is called."""
    return method if method in METHODS else _OTHER


class LocalCaller:
    """Gives a Caller that may know nothing of time the deadlines its user sets."""

    def __init__(self, inner: Caller) -> None:
        self._inner = inner

    async def call(self, method: str, request: Message, *, timeout: float | None = None) -> Any:
        """DEADLINE_EXCEEDED after `timeout` seconds; what the runtime had begun may go on."""
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                return await self._inner.call(method, request)
        except TimeoutError:
            if not limit.expired():
                raise
            raise RpcError(Code.DEADLINE_EXCEEDED, f"{method}: no answer within {timeout:g} s") from None

    async def stream(self, method: str, request: Message, *, timeout: float | None = None) -> AsyncGenerator[Any, None]:
        """The same for a stream as a whole: the time counts while its next answer is waited for."""
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        async with aclosing(self._inner.stream(method, request)) as answers:
            while True:
                try:
                    async with asyncio.timeout_at(deadline):
                        answer = await anext(answers)
                except StopAsyncIteration:
                    return
                except TimeoutError:
                    raise RpcError(Code.DEADLINE_EXCEEDED, f"{method}: not at its end within {timeout:g} s") from None
                yield answer
