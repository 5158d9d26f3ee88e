"""What once happened at a runtime, call by call: as a recording tells it, or a test.

A call is asked and answered, in this order and with other calls between; a stream tells things meanwhile. They come in
the order in which they happened, because that is what decisions depend on. Pure.
"""

from dataclasses import dataclass
from typing import TypeAlias

from interpose.relay.api import CLIENT


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestEvent:
    """A call has come."""

    number: int  # tells calls in flight apart
    time_ns: int  # since the epoch
    method: str
    request: bytes = b""  # as the caller sent it
    origin: str = CLIENT  # or the part of the relay that made the call
    amends: bool = False  # it puts values of somebody else right, and asks for nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageEvent:
    """A stream has a message, and goes on."""

    number: int
    time_ns: int
    reply: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyEvent:
    """A call is over."""

    number: int
    time_ns: int
    reply: bytes | None = b""  # None: it was not kept
    code: int = 0
    message: str = ""  # of the status
    forwarded: bytes | None = None  # the request as the runtime got it, if that is another one


CallRecord: TypeAlias = RequestEvent | MessageEvent | ReplyEvent
