"""The life of an agent process: the composition root of `interpose agent`.

Sockets come first, so that a second agent on the same ones gets no further. READY=1 means that they listen, not that
the API server or the relay is there: both may come later, go and come back. The process ends only when it is told to.
"""

import asyncio
import gc
import logging
import os
from collections.abc import Mapping
from typing import Final

import uvloop

from interpose import __version__
from interpose.cli.agent.admin import AgentViews
from interpose.cli.agent.parts import AgentParts
from interpose.cli.common.admin_socket import bind_address, bind_admin
from interpose.cli.common.setting_errors import about_setting
from interpose.cli.common.signals import handle_signals
from interpose.config.agent.settings import AgentSettings
from interpose.host.systemd import Notifier
from interpose.host.unix_sockets import BoundSocket, bind_unix
from interpose.kube.client.access import Access
from interpose.log import LogControl, setup

_log = logging.getLogger(__name__)

_TICK: Final = 1.0


def run(settings: AgentSettings, node: str, access: Access, origins: Mapping[str, str]) -> int:
    """Run until told to stop."""
    log = setup(settings.logging.level, settings.logging.format, debug=settings.logging.debug)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_main(settings, node, access, origins, log))


async def _main(settings: AgentSettings, node: str, access: Access, origins: Mapping[str, str], log: LogControl) -> int:
    stop = handle_signals(log, "the cluster is watched")
    daemon = AgentDaemon(settings, node, access, origins, log)
    try:
        await daemon.start()
        why = await stop
        _log.info("Agent is stopping", extra={"kv": {"reason": why}})
        return 0
    finally:
        await daemon.close()


class AgentDaemon:
    """An agent with everything around it."""

    def __init__(
        self, settings: AgentSettings, node: str, access: Access, origins: Mapping[str, str], log: LogControl
    ) -> None:
        self._settings = settings
        self._notifier = Notifier(os.environ)
        self._socket: BoundSocket | None = None
        self._admin = self._metrics = None
        try:
            with about_setting(agent_socket=settings.service.socket):
                self._socket = bind_unix(settings.service.socket, mode=0o600) if settings.serves else None
            self._admin = bind_admin(settings.admin.listen)
            self._metrics = bind_address(settings.admin.metrics_listen, "--metrics-listen")
            self.parts = AgentParts(settings, node, access, self._socket)
        except BaseException:
            self._close_sockets()
            raise
        self._views = AgentViews(settings, origins, self.parts, log)
        self._ticker: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Listen, then look at the cluster."""
        settings, parts = self._settings, self.parts
        self._views.start(self._admin, self._metrics)
        await parts.start()
        self._tick()
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
        self._notifier.ready(f"node {parts.node}", mainpid=os.getpid())
        gc.collect()
        gc.freeze()

    async def close(self) -> None:
        """Stop looking and telling; what is in force stays."""
        self._notifier.stopping("stopping")
        if self._ticker is not None:
            self._ticker.cancel()
        await self._views.close()
        await self.parts.close()
        self._close_sockets()

    def _tick(self) -> None:
        self._ticker = asyncio.get_running_loop().call_later(_TICK, self._tick)
        self.parts.tick()
        if self._notifier.watchdog_interval is not None:
            self._notifier.watchdog()

    def _close_sockets(self) -> None:
        for sock in (self._socket, self._admin, self._metrics):
            if sock is not None:
                sock.close()
