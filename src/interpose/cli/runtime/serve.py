"""A runtime on a socket: for everybody who runs one."""

import logging
from collections.abc import Collection
from typing import Final

from interpose.cri.caller import Caller
from interpose.cri.server import handlers
from interpose.host.peer_credentials import peer_credentials
from interpose.host.unix_sockets import BoundSocket
from interpose.net.grpc.listener import Admission
from interpose.net.grpc.servedsocket import ServedSocket

_log = logging.getLogger(__name__)

# What a kubelet's client accepts and containerd takes.
MESSAGE_LIMIT: Final = 16 * 1024 * 1024


def serve_runtime(
    bound: BoundSocket, caller: Caller, methods: Collection[str], *, uids: Collection[int], connections: int
) -> ServedSocket:
    """Not started yet."""
    admission = Admission(identify=peer_credentials, uids=frozenset(uids), connections=connections)
    return ServedSocket(bound, handlers(caller, methods=methods), admission=admission, limit=MESSAGE_LIMIT)


def warn_of(not_isolated: Collection[str]) -> None:
    """Whoever starts a runtime has to hear what it does not keep apart."""
    if not_isolated:
        _log.warning("Containers are not fully isolated", extra={"kv": {"missing": ", ".join(not_isolated)}})
