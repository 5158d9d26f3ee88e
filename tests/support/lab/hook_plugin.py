"""A hook server on grpcio, in threads of the test: the independent peer on the other side of the hook protocol.

It notes what it is asked and answers as it is told; see `interpose.testing.hookserver` for the same on our own server,
whose `echo`, `response_to` and `set_shares` are answers here too.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import grpc

from interpose.hooks.api.hookpoint import SERVICE, HookPoint
from interpose.hooks.api.messages import request_class
from interpose.testing.hookserver import response_to

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from google.protobuf.message import Message

THREADS = 8


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One call of the hook server."""

    point: HookPoint
    request: Any
    metadata: dict[str, str | bytes]


class Refusal(Exception):  # noqa: N818 - an answer, not a mistake
    """Raised by an answer: the call ends with this status."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class HookPlugin:
    """Serves on its socket inside the `with` block. `answers` by hook point; others get an empty answer."""

    def __init__(self, socket: Path, default: Callable[[Any], Message] = response_to) -> None:
        self.socket = socket
        self.default = default
        self.answers: dict[HookPoint, Callable[[Any], Message]] = {}
        self.calls: list[Asked] = []
        self._left = threading.Event()
        self._server: Any = None

    def __enter__(self) -> Self:
        self._left.clear()
        handlers = {f"{point.value}Hook": self._handler(point) for point in HookPoint}
        service = grpc.method_handlers_generic_handler(SERVICE, handlers)
        self._server = grpc.server(ThreadPoolExecutor(THREADS, thread_name_prefix="hook plugin"), handlers=[service])
        self._server.add_insecure_port(f"unix:{self.socket}")
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()
        self._server.wait_for_termination()

    def leave(self) -> None:
        """End at once: the socket goes, calls in flight break off."""
        self._left.set()
        self._server.stop(None)

    # -- answers besides those of `interpose.testing.hookserver`

    def hang(self, request: Any) -> Message:
        """Never answer; the thread comes back when the server leaves."""
        self._left.wait()
        answer: Message = response_to(request)
        return answer

    def crash(self, request: Any) -> Message:
        """Be gone in the middle of the call."""
        self.leave()
        return self.hang(request)

    # -- what happened

    @property
    def points(self) -> list[HookPoint]:
        """Where it was asked, in order."""
        return [call.point for call in self.calls]

    def last(self, point: HookPoint) -> Any:
        """The latest request at this hook point."""
        return next(call.request for call in reversed(self.calls) if call.point is point)

    def _handler(self, point: HookPoint) -> Any:
        return grpc.unary_unary_rpc_method_handler(
            partial(self._serve, point),
            request_deserializer=request_class(point).FromString,
            response_serializer=lambda answer: answer.SerializeToString(),
        )

    def _serve(self, point: HookPoint, request: Any, context: Any) -> Any:
        metadata = dict(context.invocation_metadata())
        self.calls.append(Asked(point=point, request=request, metadata=metadata))
        try:
            return self.answers.get(point, self.default)(request)
        except Refusal as refusal:
            context.abort(refusal.code, refusal.text)
