"""Sending a body of any size in one go, as far as the windows allow; the rest follows when they open."""

from typing import Final

from interpose.h2.stream import Stream

_SHARE: Final = 64 * 1024


def send_whole(stream: Stream, body: bytes, end: bool) -> None:
    """Queue the body and send until a window, the transport or the turn's allowance stops it.

    A stream left with an open window and a queue would wait for ever: no peer credits what it has not received.
    """
    stream.send_body(body, end)
    while stream.pump(_SHARE):
        pass
