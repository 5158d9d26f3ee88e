"""Talking to the agent of the node, which talks to the cluster for us.

Each call ends in time, with an answer or an RpcError in words about the agent. A connection is kept while the agent is
there, so that it is noticed when it comes back; one that is away is dialled now and then, which costs nothing. Nothing
is sent to the socket of a user who may not be the agent of this node.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from interpose.core.model.kubernetes_names import GET_NODE, PATCH_NODE, UPDATE_NODE_CAPACITY
from interpose.host.peer_credentials import require_uids
from interpose.net.grpc.client import Client
from interpose.net.grpc.status import Code, RpcError
from interpose.net.grpc.transport import Hub
from interpose.net.grpc.upstream import Upstream, doubling_pause
from interpose.net.h2.limits import Limits
from interpose.resmgr.messages import patch_node_request, read_node, update_node_capacity_request

_log = logging.getLogger(__name__)

# A Node object with the names of all its images; larger ones cannot be stored in a cluster.
_LIMIT: Final = 4 * 1024 * 1024
_TIMEOUT: Final = 10.0  # the agent asks the API server, perhaps twice
_DIAL_WAIT: Final = 1.0  # seconds, for an agent that is away
_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 5.0


class AgentClient:
    """The agent at the other end of a socket. `on_up` is called each time it came (back)."""

    def __init__(
        self,
        path: str,
        *,
        hub: Hub,
        timeout: float = _TIMEOUT,
        dial_wait: float = _DIAL_WAIT,
        uids: Collection[int] | None = None,
    ) -> None:
        """`uids` are those that an agent may run as: root and our own one."""
        self.path = path
        self._timeout = timeout
        self._upstream = Upstream(
            path,
            hub=hub,
            limits=Limits(),
            wait=dial_wait,
            vet=require_uids(uids),
            pace=doubling_pause(_FIRST_PAUSE, _LONGEST_PAUSE),
            dial_timeout=timeout,
            reports=_DebugLog(),
        )
        self._client = Client(self._upstream, hub, limit=_LIMIT)

    @property
    def up(self) -> bool:
        """Whether a connection is there."""
        return self._upstream.up

    def start(self, on_up: Callable[[], None]) -> None:
        """Begin to dial; `on_up` is called at every connect."""
        self._upstream.on_up = on_up
        self._upstream.start()

    def tick(self) -> None:
        """Check timeouts; to be called once a second."""
        self._upstream.tick()

    async def close(self) -> None:
        await self._upstream.close()

    async def get_node(self) -> dict[str, Any]:
        """The Node object of this node."""
        reply = await self._call(GET_NODE, b"")
        try:
            return read_node(reply)
        except ValueError as error:
            raise RpcError(Code.INTERNAL, f"the agent at {self.path} answered what cannot be read: {error}") from None

    async def patch_node(self, operations: Iterable[tuple[str, str, str]]) -> None:
        """Change labels, annotations and taints: all of the operations, or none."""
        await self._call(PATCH_NODE, patch_node_request(operations))

    async def update_node_capacity(self, capacities: Mapping[str, str]) -> None:
        """Publish extended resources with their quantities."""
        await self._call(UPDATE_NODE_CAPACITY, update_node_capacity_request(capacities))

    async def _call(self, method: bytes, message: bytes) -> bytes:
        try:
            return await self._client.unary(method, message, timeout=self._timeout)
        except RpcError as error:
            if error.code is Code.UNAVAILABLE and not self.up:
                reason = self._upstream.last_error or error.message
                raise RpcError(Code.UNAVAILABLE, f"the agent at {self.path} is not reachable: {reason}") from None
            raise


class _DebugLog:
    """Logs the connection at debug level: only a caller knows whether a missing agent matters."""

    def unreachable(self, path: str, error: str) -> None:
        _log.debug("Agent is not reachable", extra={"kv": {"endpoint": path, "err": error}})

    def connected(self, path: str, connections: int) -> None:
        _log.debug("Connected to the agent", extra={"kv": {"endpoint": path, "connections": connections}})

    def lost(self, path: str, fault: str | None) -> None:
        _log.debug("Connection to the agent ended", extra={"kv": {"endpoint": path, "reason": fault or "closed"}})
