"""The life of an agent process: the composition root of `interpose agent`.

Sockets come first, so that a second agent on the same ones gets no further. READY=1 means that they listen, not that
the API server or the relay is there: both may come later, go and come back. Only a signal ends the process.
"""

import asyncio
import logging
import os
from collections.abc import Mapping
from contextlib import ExitStack

from interpose import __version__
from interpose.cli.agent.admin import AgentViews
from interpose.cli.agent.parts import AgentParts
from interpose.cli.common.admin_socket import AdminSockets
from interpose.cli.common.daemon import Daemon, run_daemon
from interpose.cli.common.heartbeat import Ticker
from interpose.cli.common.setting_errors import name_setting_in_errors
from interpose.config.agent.settings import AgentSettings
from interpose.host.unix_sockets import bind_unix
from interpose.kube.client.access import Access
from interpose.log import LogControl

_log = logging.getLogger(__name__)


def run(settings: AgentSettings, node: str, access: Access, origins: Mapping[str, str]) -> int:
    """Run an agent until a signal ends it; the exit code."""

    async def open_agent(log: LogControl, _stop: "asyncio.Future[str]") -> AgentDaemon:
        return AgentDaemon(settings, node, access, origins, log)

    return run_daemon(settings.logging, open_agent, on_hangup="the cluster is watched")


class AgentDaemon(Daemon):
    """An agent with its sockets and its admin server."""

    def __init__(
        self, settings: AgentSettings, node: str, access: Access, origins: Mapping[str, str], log: LogControl
    ) -> None:
        super().__init__()
        self._settings = settings
        with ExitStack() as bound:
            with name_setting_in_errors(agent_socket=settings.service.socket):
                sock = bind_unix(settings.service.socket, mode=0o600) if settings.serves else None
            if sock is not None:
                bound.callback(sock.close)
            self._http = AdminSockets.bind(settings.admin.listen, settings.admin.metrics_listen)
            bound.callback(self._http.close)
            self.parts = AgentParts(settings, node, access, sock)
            self._sockets = bound.pop_all()
        self._views = AgentViews(settings, origins, self.parts, log)
        self._ticker = Ticker(self._tick)

    async def start(self) -> None:
        settings, parts = self._settings, self.parts
        self._views.start(self._http)
        await parts.start()
        self._ticker.start()
        kv = {
            "version": __version__,
            "node": parts.node,
            "api": str(parts.api.access.server),
            "access": parts.api.access.source,
            "relay": settings.config.socket,
            "listen": settings.service.socket,
            "node_state": settings.node_state.file,
            "pid": os.getpid(),
        }
        _log.info("Agent is ready", extra={"kv": kv})
        self.announce(f"node {parts.node}")

    async def shut_down(self, reason: str) -> int:
        _log.info("Agent is stopping", extra={"kv": {"reason": reason}})
        return 0

    async def close(self) -> None:
        """Stop watching and reporting; the configuration in force stays."""
        self.notifier.stopping("stopping")
        self._ticker.stop()
        await self._views.close()
        await self.parts.close()
        self._sockets.close()

    def _tick(self) -> None:
        self.parts.tick()
        self.notifier.watchdog()
