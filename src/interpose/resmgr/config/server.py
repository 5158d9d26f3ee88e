"""The config socket: an agent hands over the configuration of the cluster.

A configuration is put in force as a whole or refused with every reason against it; how, is the business of `apply`.
Invariants: one is applied at a time, in the order of coming; once begun it is carried through, also if the agent goes
away meanwhile, so that nothing is ever left half applied; and what is in force already is not applied again.

A refusal is no failed call: the reasons are in the reply, where agents look for them. A call fails if it makes no sense
(INVALID_ARGUMENT), if it cannot be applied at the moment or too many others are waiting (UNAVAILABLE: try again), or by
a mistake of ours (INTERNAL).
"""

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from enum import StrEnum
from typing import Final

from interpose.core.model.kubernetes_names import SET_CONFIG
from interpose.errors import ConfigError, NotReadyError
from interpose.host.peer_credentials import peer_credentials
from interpose.host.unix_sockets import BoundSocket, bind_unix
from interpose.log import RateLimited
from interpose.net.grpc.handlers import Handlers, ServerContext, Unary
from interpose.net.grpc.listener import Admission
from interpose.net.grpc.served_socket import ServedSocket
from interpose.net.grpc.status import Code, RpcError
from interpose.net.grpc.transport import Hub
from interpose.resmgr.config.configuration import AgentConfig
from interpose.resmgr.messages import (
    SET_ADJUSTMENT,
    read_set_adjustment,
    read_set_config,
    set_adjustment_reply,
    set_config_reply,
)
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)

# A ConfigMap has at most this many bytes.
MAX_MESSAGE: Final = 1 << 20
# There is one agent on a node. It tries again after 5 s, so a few calls may pile up behind a slow one.
MAX_WAITING: Final = 4
WAIT: Final = 10.0
_CONNECTIONS: Final = 16
_MAX_LOGGED: Final = 5  # problems in one line of the log; the agent gets all of them
_NO_ADJUSTMENTS: Final = "adjustments are not supported"

# Puts a configuration in force; ConfigError with all reasons if it cannot be, NotReadyError if it cannot be just now.
# Nothing has changed then.
Apply = Callable[[Mapping[str, str], str], Awaitable[None]]


class ConfigOutcome(StrEnum):
    """How a call of SetConfig ended."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    UNCHANGED = "unchanged"  # it is in force already
    FORCED = "forced"  # a file on the node counts, not the agent
    UNREADABLE = "unreadable"
    BUSY = "busy"
    NOT_READY = "not_ready"  # not at the moment
    FAILED = "failed"  # a mistake of ours


class ConfigServer:
    """Handlers of the config service, on one loop. Counters are plain numbers, read at a scrape."""

    def __init__(
        self,
        apply: Apply,
        *,
        forced: str = "",
        accepted: AgentConfig | None = None,
        wait: float = WAIT,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`forced` is the file that counts instead; `accepted` what is in force from an earlier run."""
        self.outcomes: Counter[ConfigOutcome] = Counter()
        self.accepted = accepted
        self.accepted_at: float | None = None  # seconds of the wall clock, as is the next one
        self.last_at: float | None = None
        self.last_error = ""  # of the last call; empty if what it brought is in force
        self._apply = apply
        self._forced = forced
        self._wait = wait
        self._now = now
        self._lock = asyncio.Lock()
        self._waiting = 0
        self._tasks = TaskBag()
        self._limited = RateLimited(_log)

    def handlers(self) -> Handlers:
        """The methods of the config service, for a gRPC server."""
        return {SET_CONFIG: Unary(self._set_config), SET_ADJUSTMENT: Unary(self._set_adjustment)}

    async def close(self) -> None:
        """No configuration is applied after this."""
        await self._tasks.cancel()

    async def _set_config(self, data: bytes, _context: ServerContext) -> bytes:
        try:
            sent = read_set_config(data)
        except ValueError as error:
            self._record(ConfigOutcome.UNREADABLE, str(error))
            raise RpcError(Code.INVALID_ARGUMENT, f"SetConfig: {error}") from error
        if self._forced:
            problem = f"configuration is forced by {self._forced}"
            self._record(ConfigOutcome.FORCED, problem)
            self._limited.log(logging.WARNING, "Configuration of the agent was refused", err=problem)
            return set_config_reply([problem])
        await self._acquire_lock()
        # In a task of its own: the call ends with its deadline or its client, what was begun does not.
        task = self._tasks.spawn(self._apply_config(sent), name="apply configuration of the agent")
        task.add_done_callback(lambda _: self._lock.release())
        result = await asyncio.shield(task)
        if isinstance(result, RpcError):
            raise result
        return set_config_reply(result)

    async def _acquire_lock(self) -> None:
        """Wait for the lock, not too long and not with too many others."""
        if self._waiting >= MAX_WAITING:
            raise self._busy()
        self._waiting += 1
        try:
            async with asyncio.timeout(self._wait):
                await self._lock.acquire()
        except TimeoutError:
            raise self._busy() from None
        finally:
            self._waiting -= 1

    def _busy(self) -> RpcError:
        self._record(ConfigOutcome.BUSY, "another configuration is being applied")
        return RpcError(Code.UNAVAILABLE, "SetConfig: another configuration is being applied")

    async def _apply_config(self, sent: AgentConfig) -> list[str] | RpcError:
        """Put a configuration in force; returns the reasons against it, or an error for the agent."""
        if sent == self.accepted:
            self._record(ConfigOutcome.UNCHANGED)
            return []
        kv: dict[str, object] = {"node": sent.node_name, "keys": len(sent.data)}
        try:
            await self._apply(sent.data, sent.node_name)
        except NotReadyError as error:
            self._record(ConfigOutcome.NOT_READY, str(error))
            return RpcError(Code.UNAVAILABLE, f"SetConfig: {error}")
        except ConfigError as error:
            self._record(ConfigOutcome.REJECTED, "; ".join(error.problems))
            problems = "; ".join(error.problems[:_MAX_LOGGED])
            if (more := len(error.problems) - _MAX_LOGGED) > 0:
                problems += f"; and {more} more"
            # An agent sends the same one again and again.
            self._limited.log(
                logging.ERROR, "Configuration of the agent was rejected", key=problems, **kv, problems=problems
            )
            return error.problems or ["it was rejected"]
        except Exception as error:
            self._record(ConfigOutcome.FAILED, f"{type(error).__name__}: {error}")
            _log.exception("Failed to apply agent configuration", extra={"kv": kv})
            return RpcError(Code.INTERNAL, "SetConfig: internal error, see the log of the relay")
        self.accepted, self.accepted_at = sent, self._now()
        self._record(ConfigOutcome.ACCEPTED)
        _log.info("Agent configuration applied", extra={"kv": kv})
        return []

    def _record(self, outcome: ConfigOutcome, error: str = "") -> None:
        self.outcomes[outcome] += 1
        self.last_at, self.last_error = self._now(), error

    async def _set_adjustment(self, data: bytes, _context: ServerContext) -> bytes:
        """Each adjustment is refused by name, which is how its status learns of it; none is a success."""
        try:
            names = read_set_adjustment(data)
        except ValueError as error:
            raise RpcError(Code.INVALID_ARGUMENT, f"SetAdjustment: {error}") from error
        if names:
            self._limited.log(logging.WARNING, "Adjustments of the agent were refused", err=_NO_ADJUSTMENTS)
        return set_adjustment_reply(dict.fromkeys(names, _NO_ADJUSTMENTS))


def bind_config_socket(path: str) -> BoundSocket:
    """The socket an agent connects to; SocketInUseError if another relay has it."""
    return bind_unix(path, mode=0o600)


class ConfigSocket(ServedSocket):
    """A config server on its socket, for root and ourselves."""

    def __init__(
        self,
        bound: BoundSocket,
        server: ConfigServer,
        *,
        hub: Hub | None = None,
        uids: Collection[int] | None = None,
    ) -> None:
        self.server = server
        allowed = {0, os.getuid()} if uids is None else uids
        admission = Admission(identify=peer_credentials, uids=allowed, connections=_CONNECTIONS)
        super().__init__(bound, server.handlers(), admission=admission, limit=MAX_MESSAGE, hub=hub)

    async def close(self) -> None:
        """Stop at once. What is being applied is cancelled as well."""
        await self._local.close()
        await self.server.close()
        self._bound.close()  # last: the next owner of the socket must not meet what we still apply
