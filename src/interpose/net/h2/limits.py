"""How much a peer may ask of us, and how often without progress.

Every number bounds memory or work by construction. The clock is the shell's: it calls `tick` once a second, and the
counters of frames that made no progress start again.
"""

from dataclasses import dataclass

from interpose.net.h2.errors import ConnectionFault, ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one connection is allowed."""

    header_list: int = 64 * 1024
    """Decoded header list, in the bytes of RFC 7541 4.1. Above it the stream is refused."""

    header_block: int = 256 * 1024
    """Encoded header block over all its CONTINUATION frames. Above it the connection ends."""

    streams: int = 1000
    """Streams the peer may have open. A draining node puts hundreds of StopContainer calls in flight at once."""

    stream_window: int = 256 * 1024
    """Bytes of one stream that may wait in memory for a slow reader on the other side."""

    connection_window: int = 16 * 1024 * 1024
    """Credit of the whole connection. It comes back on receipt, so that a stalled stream holds up no other."""

    idle_frames: int = 10_000
    """Frames without progress a second. grpc-go's bandwidth probes reach about 5 000 under full load."""

    resets: int = 2_000
    """Streams the peer may cancel a second (CVE-2023-44487)."""


class Guard:
    """Counts frames without progress; over the limit the peer gets ENHANCE_YOUR_CALM.

    A guard may be shared by the connections of one peer, and may outlive them: then what it counts is the peer's.
    """

    __slots__ = ("_idle", "_idle_limit", "_resets", "_resets_limit")

    def __init__(self, limits: Limits) -> None:
        self._idle_limit = limits.idle_frames
        self._resets_limit = limits.resets
        self._idle = 0
        self._resets = 0

    def idle(self, what: str, weight: int = 1) -> None:
        """One more frame without progress; `weight` is how many cheap ones it costs as much as."""
        self._idle += weight
        if self._idle > self._idle_limit:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, f"too many frames without progress, last: {what}")

    def reset(self) -> None:
        """One more stream cancelled before its answer."""
        self._resets += 1
        if self._resets > self._resets_limit:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many streams cancelled")

    @property
    def exceeded(self) -> bool:
        """Whether the limit was exceeded within this second."""
        return self._idle > self._idle_limit or self._resets > self._resets_limit

    def tick(self) -> None:
        """Called once a second; lowers the counters by what is allowed in one."""
        self._idle = max(self._idle - self._idle_limit, 0)
        self._resets = max(self._resets - self._resets_limit, 0)
