"""The agent's service on its socket: what the relay of this node may have done to the Node object.

The relay does not talk to the cluster; it asks here, and what it asks for is checked before anything is sent, whatever
the agent's own rights are. Only this node can be read or changed. A call ends with its caller's deadline, at the latest
with our own; nothing is tried again behind the caller's back, except for a patch that was made for a version of the
node which was outdated when it arrived.
"""

import asyncio
import json
import logging
import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Final

from interpose.core.model.jsonpatch import PatchOperation
from interpose.core.model.kubernetes_names import GET_NODE, PATCH_NODE, UPDATE_NODE_CAPACITY
from interpose.core.model.text import quoted
from interpose.host.peer_credentials import peer_credentials
from interpose.host.unix_sockets import BoundSocket
from interpose.kube.agent.messages import (
    HEALTH_CHECK,
    get_node_reply,
    health_check_reply,
    patch_node_reply,
    read_health_check,
    read_patch_node,
    read_update_node_capacity,
    update_node_capacity_reply,
)
from interpose.kube.agent.node_keys import EVERYTHING, Writable
from interpose.kube.agent.node_patches import (
    JsonPatch,
    PatchStep,
    UnmetError,
    capacity_patch,
    has_writes,
    needs_node,
    node_patch,
    read_steps,
)
from interpose.kube.client.api import NODES, Api, ApiError, Object, PatchKind
from interpose.log import RateLimited
from interpose.net.grpc.handlers import Handlers, ServerContext, Unary
from interpose.net.grpc.listener import Admission
from interpose.net.grpc.served_socket import ServedSocket
from interpose.net.grpc.status import Code, RpcError
from interpose.net.grpc.transport import Hub
from interpose.net.http.errors import UnreachableError

_log = logging.getLogger(__name__)

MAX_MESSAGE: Final = 1 << 20
# There is one relay on a node, and it makes one call after the other.
MAX_RUNNING: Final = 4
MAX_WAITING: Final = 16
_CONNECTIONS: Final = 16
_TRIES: Final = 3
_TIMEOUT: Final = 30.0
_QUERIES: Final = ("", "config-status")

_CODES: Final[Mapping[int, Code]] = MappingProxyType(
    {
        400: Code.INVALID_ARGUMENT,
        401: Code.UNAUTHENTICATED,
        403: Code.PERMISSION_DENIED,
        404: Code.NOT_FOUND,
        409: Code.FAILED_PRECONDITION,
        413: Code.INVALID_ARGUMENT,
        422: Code.FAILED_PRECONDITION,
        429: Code.UNAVAILABLE,
    }
)
# What an API server answers to a patch for another version of the object.
_OUTDATED: Final = frozenset({409, 422})

_Call = Callable[[bytes], Awaitable[bytes]]


class NodeService:
    """Handlers of the agent's service. Counters are plain numbers, read at each scrape."""

    def __init__(
        self,
        api: Api,
        node: str,
        health: Callable[[str], str],
        *,
        followed: Callable[[], Object | None] = lambda: None,
        names: Writable = EVERYTHING,
        timeout: float = _TIMEOUT,
    ) -> None:
        """`health` says what is wrong, for a query. `followed` is the Node object if it is known and up to date.

        `names` are those of labels, annotations, taints and resources that may be changed.
        """
        self.calls: Counter[tuple[str, str]] = Counter()  # method and code
        self._api = api
        self._node = node
        self._health = health
        self._followed = followed
        self._names = names
        self._timeout = timeout
        self._slots = asyncio.Semaphore(MAX_RUNNING)
        self._waiting = 0
        self._written = 0  # version of the node after our last change
        self._limited = RateLimited(_log)

    def handlers(self) -> Handlers:
        """The gRPC handlers by method path."""
        return {
            GET_NODE: Unary(self._handler("GetNode", self._get_node)),
            PATCH_NODE: Unary(self._handler("PatchNode", self._patch_node)),
            UPDATE_NODE_CAPACITY: Unary(self._handler("UpdateNodeCapacity", self._update_capacity)),
            HEALTH_CHECK: Unary(self._handler("HealthCheck", self._health_check)),
        }

    def _handler(self, method: str, call: _Call) -> Callable[[bytes, ServerContext], Awaitable[bytes]]:
        """Counts what becomes of a call, and turns what went wrong into a status."""

        async def handle(data: bytes, _context: ServerContext) -> bytes:
            try:
                reply = await call(data)
            except asyncio.CancelledError:  # by its client, or its deadline
                self.calls[method, Code.CANCELLED.name] += 1
                raise
            except Exception as error:
                refused = _status(method, error)
                self.calls[method, refused.code.name] += 1
                if refused.code is Code.INTERNAL:
                    _log.exception("Node service call failed", extra={"kv": {"method": method}})
                else:
                    text = "Call of the node service was refused"
                    self._limited.log(logging.WARNING, text, key=str(error), method=method, err=refused.message)
                raise refused from error
            self.calls[method, Code.OK.name] += 1
            return reply

        return handle

    # -- calls

    async def _get_node(self, _data: bytes) -> bytes:
        node = self._followed()
        if node is None or _version(node) < self._written:
            async with self._api_slot():
                node = await self._read()
        return get_node_reply(json.dumps(node, separators=(",", ":")))

    async def _patch_node(self, data: bytes) -> bytes:
        steps = read_steps([PatchOperation(*patch) for patch in read_patch_node(data)], self._names)
        async with self._api_slot():
            if not needs_node(steps):
                await self._send(node_patch(steps, {}, self._names))
            else:
                await self._patch_as_read(steps)
        return patch_node_reply()

    async def _patch_as_read(self, steps: Sequence[PatchStep]) -> None:
        """With a patch that is made for the node as it is. Heartbeats change it too: then it is made again."""
        for left in reversed(range(_TRIES)):
            patch = node_patch(steps, await self._read(), self._names)
            try:
                await self._send(patch)
            except ApiError as error:
                if not left or error.code not in _OUTDATED:
                    raise
            else:
                return

    async def _update_capacity(self, data: bytes) -> bytes:
        patch = capacity_patch(read_update_node_capacity(data), self._names)
        async with self._api_slot():
            node = await self._api.patch(NODES, self._node, patch, kind=PatchKind.MERGE, subresource="status")
            self._changed(node, f"/status/capacity: {', '.join(patch['status']['capacity'])}")
        return update_node_capacity_reply()

    async def _health_check(self, data: bytes) -> bytes:
        query = read_health_check(data)
        if query not in _QUERIES:
            known = ", ".join(map(quoted, _QUERIES))
            return health_check_reply(f"unknown query {quoted(query)}: expected one of {known}")
        return health_check_reply(self._health(query))

    # -- what they are made of

    async def _read(self) -> Object:
        return await self._api.get(NODES, self._node)

    async def _send(self, patch: JsonPatch) -> None:
        if not patch:
            return  # it is so already
        node = await self._api.patch(NODES, self._node, patch, kind=PatchKind.JSON)
        paths = ", ".join(operation["path"] for operation in patch if operation["op"] != "test")
        self._changed(node, paths if has_writes(patch) else "")

    def _changed(self, node: Object, paths: str) -> None:
        """The node as it is now; no paths if it was only looked at."""
        self._written = max(self._written, _version(node))
        if paths:
            _log.info("Node patched", extra={"kv": {"node": self._node, "paths": paths}})

    @asynccontextmanager
    async def _api_slot(self) -> AsyncIterator[None]:
        """Limit the number of calls to the API server at a time, and their time. RpcError if too many wait."""
        if self._waiting >= MAX_WAITING:
            raise RpcError(Code.UNAVAILABLE, "too many calls are waiting")
        async with asyncio.timeout(self._timeout):
            self._waiting += 1
            try:
                await self._slots.acquire()
            finally:
                self._waiting -= 1
            try:
                yield
            finally:
                self._slots.release()


def _version(node: Object) -> int:
    """Versions of one object grow. One that is not a number is taken as old: then the API server is asked."""
    text = str(node.get("metadata", {}).get("resourceVersion", ""))
    return int(text) if text.isascii() and text.isdigit() else -1


def _status(method: str, error: Exception) -> RpcError:
    """An error as the status for the caller."""
    match error:
        case RpcError():
            return RpcError(error.code, f"{method}: {error.message}")
        case TimeoutError():
            return RpcError(Code.DEADLINE_EXCEEDED, f"{method}: the API server did not answer in time")
        case UnreachableError():
            return RpcError(Code.UNAVAILABLE, f"{method}: the API server is not reachable: {error}")
        case ApiError():
            code = _CODES.get(error.code, Code.UNAVAILABLE if error.code >= 500 else Code.UNKNOWN)
            return RpcError(code, f"{method}: {error}")
        case UnmetError():
            return RpcError(Code.FAILED_PRECONDITION, f"{method}: {error}")
        case ValueError():
            return RpcError(Code.INVALID_ARGUMENT, f"{method}: {error}")
    return RpcError(Code.INTERNAL, f"{method}: internal error, see the log of the agent")


class AgentSocket(ServedSocket):
    """The service on its socket, for root and ourselves unless others are named."""

    def __init__(
        self,
        bound: BoundSocket,
        service: NodeService,
        *,
        hub: Hub | None = None,
        uids: Collection[int] | None = None,
    ) -> None:
        self.service = service
        allowed = {0, os.getuid()} if uids is None else uids
        admission = Admission(identify=peer_credentials, uids=allowed, connections=_CONNECTIONS)
        super().__init__(bound, service.handlers(), admission=admission, limit=MAX_MESSAGE, hub=hub)
