"""Ending a client's stream with a status of ours."""

from interpose.net.grpc.framing import RESPONSE_HEADERS, status_trailers
from interpose.net.grpc.status import Code
from interpose.net.h2.errors import ErrorCode
from interpose.net.h2.states import HEAD
from interpose.net.h2.stream import NOWHERE, Stream


def answer(stream: Stream, code: Code, message: str, trailers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
    """Send the status: alone if nothing was sent yet, else as trailers. A client that is still sending gets a reset."""
    wire = status_trailers(code, message, trailers)
    stream.send_headers(RESPONSE_HEADERS + wire if stream.sending == HEAD else wire, True)
    stop_upload(stream)


def stop_upload(stream: Stream) -> None:
    """The answer is complete: what the client still sends is of no use (RFC 9113 8.1)."""
    if not stream.closed and not stream.queued:
        stream.sink = NOWHERE
        stream.reset(ErrorCode.NO_ERROR)
