"""The events of recorded CRI calls, from a recording or a test.

A call has a request and a reply, in this order and with other calls between; a stream has messages meanwhile. Events
come in the order in which they happened, because that is what decisions depend on. Pure.
"""

from dataclasses import dataclass
from typing import TypeAlias

from interpose.relay.api import CLIENT


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestEvent:
    """The request of a call."""

    number: int  # of the call; unique among calls in flight
    time_ns: int  # since the epoch
    method: str
    request: bytes = b""  # as the caller sent it
    origin: str = CLIENT  # or the part of the relay that made the call
    amends: bool = False  # it corrects values of a hook server, and requests nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageEvent:
    """A message of a stream that goes on."""

    number: int
    time_ns: int
    reply: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyEvent:
    """The reply that ends a call."""

    number: int
    time_ns: int
    reply: bytes | None = b""  # None: it is not in the recording
    code: int = 0
    message: str = ""  # of the status
    forwarded: bytes | None = None  # the request as the runtime got it, if that is another one


CallRecord: TypeAlias = RequestEvent | MessageEvent | ReplyEvent
