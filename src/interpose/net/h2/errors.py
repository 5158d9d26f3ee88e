"""Errors of the protocol, and the codes that the peer gets.

A ConnectionFault ends the connection with GOAWAY and is the remote peer's doing; our own mistakes are plain bugs and
raise builtins. What concerns one stream only is no exception: the stream is reset where it is noticed.
"""

from enum import IntEnum


class ErrorCode(IntEnum):
    """The error codes of RFC 9113, section 7."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11
    INADEQUATE_SECURITY = 12
    HTTP_1_1_REQUIRED = 13


class ConnectionFault(Exception):  # noqa: N818 - a verdict on the peer, not a failure of ours
    """The peer broke a rule that makes the whole connection unusable."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(f"{code.name}: {reason}")
        self.code = code
        self.reason = reason
