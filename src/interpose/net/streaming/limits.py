"""What a client of the streaming server may cost, and how long it may take."""

from dataclasses import dataclass, field

from interpose.net.spdy.connection import SpdyLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLimits:
    """Limits of the streaming server; times are in seconds."""

    idle: float = 4 * 3600.0  # without a byte either way; as kubelets and other runtimes have it
    creation: float = 30.0  # for all streams of a session to be there
    head: float = 10.0  # for the request
    linger: float = 2.0  # for the client to read the end and to leave
    connections: int = 1024
    outstanding: int = 1000  # URLs that were given out and not fetched
    lifetime: float = 60.0  # of a URL
    spdy: SpdyLimits = field(default_factory=SpdyLimits)
