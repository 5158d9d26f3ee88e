"""The life of one stream, as tables.

Each side of a stream is HEAD (no header block yet), BODY or DONE. A stream is closed when both sides are DONE. What
arrives is an event: a header block by its shape, or DATA, each with or without END_STREAM. The tables say the next
state, or, as a negative number, the error code the peer gets. This file does not know what is sent or who we are.
"""

from typing import Final

from interpose.net.h2.errors import ErrorCode
from interpose.net.h2.headers import HeaderShape

HEAD: Final = 0
BODY: Final = 1
DONE: Final = 2

# Events: shape * 2 + END_STREAM for header blocks, and two more for DATA.
DATA_EVENT: Final = (max(HeaderShape) + 1) * 2
EVENTS: Final = DATA_EVENT + 2

_WRONG: Final = -int(ErrorCode.PROTOCOL_ERROR)
_CLOSED: Final = -int(ErrorCode.STREAM_CLOSED)


def _row(default: int, allowed: dict[int, int]) -> tuple[int, ...]:
    return tuple(allowed.get(event, default) for event in range(EVENTS))


RECEIVING: Final = (
    # HEAD: only a client waits here, for the response. Interim responses (1xx) do not end the wait.
    _row(
        _WRONG,
        {
            HeaderShape.INTERIM * 2: HEAD,
            HeaderShape.RESPONSE * 2: BODY,
            HeaderShape.RESPONSE * 2 + 1: DONE,
        },
    ),
    # BODY: trailers have to end the stream (RFC 9113 8.1).
    _row(
        _WRONG,
        {
            HeaderShape.TRAILERS * 2 + 1: DONE,
            DATA_EVENT: BODY,
            DATA_EVENT + 1: DONE,
        },
    ),
    _row(_CLOSED, {}),
)
