"""The protocols of `interpose.relay.api` under the name they had before; goes with the next release."""

from interpose.cri.errors import OpaqueMessageError as Opaque
from interpose.cri.errors import UnreadableMessageError as Unreadable
from interpose.relay.api import (
    CLIENT,
    Body,
    Call,
    Direction,
    Interceptor,
    Interest,
    Parser,
    Proceed,
    Reply,
    Sighting,
    StreamEditor,
    Tap,
)

__all__ = (
    "CLIENT",
    "Body",
    "Call",
    "Direction",
    "Interceptor",
    "Interest",
    "Opaque",
    "Parser",
    "Proceed",
    "Reply",
    "Sighting",
    "StreamEditor",
    "Tap",
    "Unreadable",
)
