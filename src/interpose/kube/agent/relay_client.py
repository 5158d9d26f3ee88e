"""The relay's config socket, seen from the agent: one connection that is kept, and one call.

Where the socket belongs to somebody who may not be the relay of this node, nothing is sent to it.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Final

from interpose.core.model.kubernetes_names import SET_CONFIG
from interpose.host.peer_credentials import require_uids
from interpose.kube.agent.messages import read_set_config_reply, set_config_request
from interpose.log import RateLimited
from interpose.net.grpc.client import Client
from interpose.net.grpc.status import Code, RpcError
from interpose.net.grpc.transport import Hub
from interpose.net.grpc.upstream import LOG_BURST, Upstream
from interpose.net.h2.limits import Limits

_log = logging.getLogger(__name__)

# The relay may be busy with another configuration for 10 s before it begins with ours.
TIMEOUT: Final = 15.0
# A call is only made when the relay is there; it may be gone again this very moment.
_WAIT: Final = 1.0
_REPLY_LIMIT: Final = 1 << 20


class RelayClient:
    """Keeps a connection from `start` on. `on_change` is called when the relay comes or goes."""

    def __init__(self, path: str, *, hub: Hub, timeout: float = TIMEOUT, uids: Collection[int] | None = None) -> None:
        """`uids` are those that a relay may run as: root and our own one."""
        self.path = path
        self.on_change: Callable[[], None] | None = None
        self.sessions = 0  # connections so far: whoever answers on another one may have forgotten everything
        self._timeout = timeout
        self._upstream = Upstream(
            path, hub=hub, limits=Limits(), wait=_WAIT, vet=require_uids(uids), reports=_ConnectionLog(self)
        )
        self._upstream.on_up = self.notify
        self._client = Client(self._upstream, hub, limit=_REPLY_LIMIT)

    @property
    def up(self) -> bool:
        """Whether the relay is connected."""
        return self._upstream.up

    @property
    def last_error(self) -> str:
        """Why the relay is not connected; empty if it is."""
        return self._upstream.last_error

    def start(self) -> None:
        """Start dialling the relay's config socket."""
        self._upstream.start()

    def tick(self) -> None:
        """Called once a second: dial again if that is due."""
        self._upstream.tick()

    async def close(self) -> None:
        """Drop the connection; a call in flight fails."""
        self.on_change = None
        await self._upstream.close()

    async def send(self, node: str, data: Mapping[str, str]) -> list[str]:
        """Hand a configuration over. The reasons against it; none: it is in force. RpcError: nobody knows."""
        try:
            message = set_config_request(node, data)
        except ValueError as error:
            raise RpcError(Code.INVALID_ARGUMENT, str(error)) from None
        reply = await self._client.unary(SET_CONFIG, message, timeout=self._timeout)
        try:
            return read_set_config_reply(reply)
        except ValueError as error:
            raise RpcError(Code.INTERNAL, f"the relay's answer cannot be read: {error}") from None

    def notify(self) -> None:
        """Call `on_change`: the relay connected or disconnected."""
        if self.on_change is not None:
            self.on_change()


class _ConnectionLog:
    """Logs the state of the connection and notifies the client of changes."""

    def __init__(self, client: RelayClient) -> None:
        self._client = client
        self._limited = RateLimited(_log, burst=LOG_BURST)

    def unreachable(self, path: str, error: str) -> None:
        self._limited.log(logging.WARNING, "Relay is not reachable", key=error, socket=path, err=error)
        self._client.notify()

    def connected(self, path: str, connections: int) -> None:
        self._client.sessions += 1
        self._limited.log(logging.INFO, "Connected to the relay", socket=path)

    def lost(self, path: str, fault: str | None) -> None:
        level, why = (logging.INFO, "closed") if fault is None else (logging.ERROR, fault)
        self._limited.log(level, "Connection to the relay ended", key=why, socket=path, err=why)
        self._client.notify()
