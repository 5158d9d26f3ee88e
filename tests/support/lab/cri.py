"""A small CRI client on grpcio: the independent peer that the lab points at a runtime or at the relay.

Most of the lab works without grpcio, which is imported here and by `hookplugin`, and without generated classes. One
client is one channel with its own connection; both API versions use the same message classes.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import grpc
from google.protobuf.message_factory import GetMessageClass

from interpose._pb import cri_pb2
from interpose.testing.eventually import WAIT_LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from google.protobuf.message import Message

MESSAGE_LIMIT = 64 * 1024 * 1024
SERVICES = ("RuntimeService", "ImageService")
Metadata = tuple[tuple[str, str | bytes], ...]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """All that a client can see of one call; two outcomes compare equal when they can not be told apart."""

    code: str
    details: str
    initial: Metadata
    trailing: Metadata
    reply: bytes


class CriClient:
    """Calls of one API version over one connection."""

    def __init__(self, socket: Path, version: str = "v1") -> None:
        self.version = version
        self.channel = grpc.insecure_channel(
            f"unix:{socket}",
            options=[
                ("grpc.default_authority", "localhost"),
                ("grpc.max_receive_message_length", MESSAGE_LIMIT),
                ("grpc.max_send_message_length", MESSAGE_LIMIT),
                # Without it all channels of a process to one address share a connection.
                ("grpc.use_local_subchannel_pool", 1),
                ("grpc.initial_reconnect_backoff_ms", 50),
                # Despite its name: how long one attempt may take, so a server that is just starting needs some time.
                ("grpc.min_reconnect_backoff_ms", 5000),
                ("grpc.max_reconnect_backoff_ms", 500),
            ],
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.close()

    def call(self, method: str, request: Message | None = None, *, timeout: float = WAIT_LIMIT) -> Any:
        """The reply message; grpc.RpcError for any other status."""
        request_class, reply_class = message_classes(method)
        unary = self.channel.unary_unary(
            self.path(method),
            request_serializer=request_class.SerializeToString,
            response_deserializer=reply_class.FromString,
        )
        return unary(request_class() if request is None else request, timeout=timeout)

    def stream(self, method: str, request: Message | None = None, *, timeout: float = WAIT_LIMIT) -> Any:
        """A server-streaming call in flight."""
        request_class, reply_class = message_classes(method)
        starter = self.channel.unary_stream(
            self.path(method),
            request_serializer=request_class.SerializeToString,
            response_deserializer=reply_class.FromString,
        )
        return starter(request_class() if request is None else request, timeout=timeout)

    def outcome(
        self,
        method: str,
        request: Message | bytes = b"",
        *,
        timeout: float = WAIT_LIMIT,
        metadata: Sequence[tuple[str, str | bytes]] = (),
    ) -> Outcome:
        """Everything visible of a call, errors included. `method` is a CRI name or a whole path."""
        payload = request if isinstance(request, bytes) else request.SerializeToString()
        call = self.raw(method)(payload, timeout=timeout, metadata=tuple(metadata))
        try:
            reply = call.result()
        except grpc.RpcError:
            reply = b""
        return Outcome(
            code=call.code().name,
            details=call.details() or "",
            initial=_plain(call.initial_metadata()),
            trailing=_plain(call.trailing_metadata()),
            reply=reply,
        )

    def raw(self, method: str) -> Callable[..., Any]:
        """A starter of calls with bytes in and bytes out: `raw(method)(payload, timeout=...)` is a call in flight."""
        starter = self.channel.unary_unary(self.path(method), request_serializer=None, response_deserializer=None)
        future: Callable[..., Any] = starter.future
        return future

    def path(self, method: str) -> str:
        return method if method.startswith("/") else f"/runtime.{self.version}.{service_of(method)}/{method}"


class EventListener:
    """A subscriber, as an evented kubelet is one: all that its stream says, gathered in a thread until it is closed."""

    def __init__(self, client: CriClient) -> None:
        self.events: list[Any] = []
        self.code = ""
        """How the stream ended; empty as long as it goes on."""
        self._call = client.stream("GetContainerEvents")
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._call.cancel()
        self._thread.join(WAIT_LIMIT)

    def of(self, object_id: str) -> list[Any]:
        """The events of a container or pod, in the order they came."""
        return [event for event in list(self.events) if event.container_id == object_id]

    def kinds(self, object_id: str) -> list[int]:
        """What they say."""
        return [event.container_event_type for event in self.of(object_id)]

    def _listen(self) -> None:
        try:
            for event in self._call:
                self.events.append(event)
        except grpc.RpcError as error:
            self.code = error.code().name


def service_of(method: str) -> str:
    """Which of the two CRI services has this method."""
    for service in SERVICES:
        if method in cri_pb2.DESCRIPTOR.services_by_name[service].methods_by_name:
            return service
    raise ValueError(f"no CRI method {method!r}")


def message_classes(method: str) -> tuple[type[Message], type[Message]]:
    """Request and reply class of a CRI method."""
    descriptor = cri_pb2.DESCRIPTOR.services_by_name[service_of(method)].methods_by_name[method]
    return GetMessageClass(descriptor.input_type), GetMessageClass(descriptor.output_type)


def _plain(metadata: Any) -> Metadata:
    return tuple((str(key), value) for key, value in metadata or ())
