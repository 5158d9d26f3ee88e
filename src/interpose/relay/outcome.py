"""What a reply tells about what the runtime did."""

from interpose.net.grpc.status import DOUBTFUL
from interpose.relay.api import Reply


def is_doubtful(reply: Reply) -> bool:
    """Whether the runtime may have done it, although it did not say so."""
    return reply.code in DOUBTFUL or (reply.raw is not None and reply.raw.failure is not None)
