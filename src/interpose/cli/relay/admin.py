"""The admin socket of the relay: health, metrics, and JSON for views and tools."""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from socket import socket
from typing import TYPE_CHECKING, Final

from interpose import __version__
from interpose.cli.relay.fronts import Front
from interpose.cli.relay.interception import Interception
from interpose.config.effective import config_answer
from interpose.config.relay.settings import RelaySettings
from interpose.config.relay.table import RELAY
from interpose.host.unix_sockets import BoundSocket
from interpose.log import LogControl
from interpose.metrics import Collector
from interpose.net.httpd.health import Check, health_routes, log_level_routes, metrics_route
from interpose.net.httpd.routes import (
    Handler,
    Hijack,
    RouteTable,
    ServerRequest,
    ServerResponse,
    error_response,
    json_response,
)
from interpose.relay.api import Backend
from interpose.relay.restart import takeover

if TYPE_CHECKING:
    from interpose.cli.relay.dump import DumpPart
    from interpose.resmgr.service import PolicyService

DUMP: Final = "/v1/dump"


class AdminViews:
    """Handlers over the parts of a running relay."""

    def __init__(
        self,
        *,
        settings: RelaySettings,
        origins: Mapping[str, str],
        front: Front,
        log: LogControl,
        listen_path: str,
        interception: Interception | None,
        dump: "Callable[[], DumpPart | None]",
        attach: Handler,
    ) -> None:
        self._settings = settings
        self._origins = origins
        self._front = front
        self._log = log
        self._listen_path = listen_path
        self._interception = interception
        self._dump = dump
        self._attach = attach
        self._started = time.time()

    @property
    def _hooks(self) -> Interception | None:
        return self._interception if self._interception is not None and self._interception.hooks else None

    @property
    def _policy(self) -> "PolicyService | None":
        return None if self._interception is None else self._interception.policy

    def _policy_routes(self) -> RouteTable:
        if self._policy is None:
            return {}
        from interpose.cli.relay.policy import policy_routes  # a relay without a policy loads none of it

        return policy_routes(self._policy)

    def routes(self, collectors: list[Collector], take_over: Handler) -> RouteTable:
        """Everything the admin socket answers."""
        ready = [Check(f"backend-{role}", _backend_check(upstream)) for role, upstream in self._front.backends.items()]
        return {
            **health_routes([Check("loop", lambda: None)], ready),
            **metrics_route(collectors),
            ("GET", "/v1/status"): self._status,
            ("GET", "/v1/methods"): self._methods,
            ("GET", "/v1/connections"): self._connections,
            ("GET", "/v1/hooks"): self._show_hooks,
            ("GET", "/v1/config"): self._config,
            **self._policy_routes(),
            **log_level_routes(self._log),
            ("GET", DUMP): self._attach,
            ("POST", takeover.PATH): take_over,
        }

    async def _status(self, _request: ServerRequest) -> ServerResponse:
        calls, failed = self._front.relay.totals()
        return json_response(
            {
                "version": __version__,
                "pid": os.getpid(),
                "uptime_seconds": round(time.time() - self._started, 1),
                "listen": self._listen_path,
                "backends": {
                    role: {
                        "endpoint": upstream.path,
                        "up": upstream.up,
                        "connections": upstream.connections,
                        "since_seconds": round(upstream.state_age, 1),
                        **({} if upstream.up else {"error": upstream.last_error}),
                    }
                    for role, upstream in self._front.backends.items()
                },
                "backend": self._settings.backend,
                "clients": len(self._front.connections()),
                "calls": {"in_flight": self._front.relay.in_flight, "total": calls, "failed": failed},
                **({} if self._hooks is None else {"hooks": self._hooks.summary()}),
                **({} if self._policy is None else {"policy": self._policy.summary()}),
                **({} if (part := self._dump()) is None else {"dump": part.summary()}),
                "log_level": self._log.level,
            }
        )

    async def _methods(self, _request: ServerRequest) -> ServerResponse:
        return json_response(list(self._front.methods()))

    async def _connections(self, _request: ServerRequest) -> ServerResponse:
        return json_response(list(self._front.connections()))

    async def _show_hooks(self, _request: ServerRequest) -> ServerResponse:
        if self._hooks is None:
            return error_response(404, "hooks are turned off (hooks.enabled)")
        return json_response(self._hooks.view())

    async def _config(self, _request: ServerRequest) -> ServerResponse:
        return json_response(config_answer(RELAY, self._settings, self._origins))


def _backend_check(upstream: Backend) -> Callable[[], str | None]:
    return lambda: None if upstream.up else upstream.last_error or "not connected"


def make_takeover_handler(
    listen: BoundSocket,
    admin: object,
    *,
    watchdog: Callable[[], float | None],
    memory: Callable[[], Mapping[str, object]],
    metrics: tuple[str, socket] | None,
    lock: Callable[[], takeover.HeldLock | None],
    on_handed_over: Callable[[], None],
) -> Handler:
    """A handler that hands the sockets to a successor; calls `on_handed_over` when the successor accepts calls."""
    busy = asyncio.Lock()

    async def handler(request: ServerRequest) -> ServerResponse | Hijack:
        if request.peer is None or not isinstance(admin, BoundSocket):
            return error_response(403, "take-over needs a unix admin socket")
        if busy.locked():
            return error_response(409, "another take-over is going on")
        return Hijack(give)

    async def give(sock: socket) -> None:
        async with busy:
            if not isinstance(admin, BoundSocket):
                return
            # In a thread: the state to hand over may be more than the socket takes at once.
            await asyncio.to_thread(takeover.hand_over, sock, listen, admin, watchdog(), memory(), metrics, lock())
            answer = await asyncio.get_running_loop().sock_recv(sock, 64)
            if answer == takeover.READY:
                on_handed_over()

    return handler
