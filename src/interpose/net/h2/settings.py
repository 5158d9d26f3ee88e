"""SETTINGS (RFC 9113 6.5): ours, and those of the peer."""

from interpose.net.h2 import frames
from interpose.net.h2.errors import ConnectionFault, ErrorCode
from interpose.net.h2.hpack import TABLE_SIZE
from interpose.net.h2.limits import Limits


def settings_frame(limits: Limits, role: dict[int, int]) -> bytes:
    """Our settings: the role's own, and those both roles announce."""
    return frames.settings(
        role
        | {
            frames.INITIAL_WINDOW_SIZE: limits.stream_window,
            frames.MAX_HEADER_LIST_SIZE: limits.header_list,
        }
    )


class PeerSettings:
    """The peer's settings in force. `update` checks every value before it takes any."""

    __slots__ = ("initial_window", "max_header_list", "max_streams", "table_lowered", "table_size")

    def __init__(self) -> None:
        self.initial_window = frames.DEFAULT_WINDOW
        self.max_streams = frames.LARGEST_STREAM_ID
        self.max_header_list = frames.LARGEST_WINDOW
        self.table_size = TABLE_SIZE
        self.table_lowered = False

    def update(self, payload: bytes) -> int:
        """Take a SETTINGS payload. Returns by how much the initial window changed."""
        if len(payload) % 6:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "SETTINGS is not a multiple of 6 bytes")
        before = self.initial_window
        for key, value in frames.read_settings(payload):
            if key == frames.HEADER_TABLE_SIZE:
                if value < self.table_size:
                    self.table_lowered = True
                    self.table_size = value
            elif key == frames.ENABLE_PUSH:
                if value > 1:
                    raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"ENABLE_PUSH is {value}")
            elif key == frames.MAX_CONCURRENT_STREAMS:
                self.max_streams = value
            elif key == frames.INITIAL_WINDOW_SIZE:
                if value > frames.LARGEST_WINDOW:
                    raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, f"INITIAL_WINDOW_SIZE is {value}")
                self.initial_window = value
            elif key == frames.MAX_FRAME_SIZE:
                if not frames.DEFAULT_FRAME_SIZE <= value <= frames.LARGEST_FRAME_SIZE:
                    raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"MAX_FRAME_SIZE is {value}")
            elif key == frames.MAX_HEADER_LIST_SIZE:
                self.max_header_list = value
        return self.initial_window - before
