"""The life of a runtime process: the composition root of `interpose runtime`.

Sockets come first, so that a second runtime on the same ones gets no further; then what a predecessor left is put in
order; only then calls are answered. Stopping leaves containers alone: their shims own them.
"""

import asyncio
import gc
import logging
import os
from collections.abc import Mapping

import uvloop

from interpose import __version__
from interpose.cli.common.admin_socket import bind_address, bind_admin
from interpose.cli.common.heartbeat import Heartbeat
from interpose.cli.common.setting_errors import about_setting
from interpose.cli.common.signals import handle_signals
from interpose.cli.runtime.admin import RuntimeViews
from interpose.cli.runtime.serve import runtime_options, serve_runtime, warn_of
from interpose.config.endpoint import parse_endpoint
from interpose.config.runtime.settings import RuntimeSettings
from interpose.cri.wrappers import InstrumentedCaller
from interpose.host.rlimits import allow, needed_for
from interpose.host.systemd import Notifier
from interpose.host.unix_sockets import bind_unix
from interpose.log import LogControl, setup
from interpose.node.runtime.service.wiring import open_runtime

_log = logging.getLogger(__name__)


def run(settings: RuntimeSettings, origins: Mapping[str, str]) -> int:
    """Run until told to stop."""
    log = setup(settings.logging.level, settings.logging.format, debug=settings.logging.debug)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_main(settings, origins, log))


async def _main(settings: RuntimeSettings, origins: Mapping[str, str], log: LogControl) -> int:
    stop = handle_signals(log, "settings are read at the start")
    daemon = RuntimeDaemon(settings, origins, log)
    try:
        await daemon.start()
        return await daemon.leave(await stop)
    finally:
        await daemon.close()


class RuntimeDaemon:
    """A runtime with everything around it."""

    def __init__(self, settings: RuntimeSettings, origins: Mapping[str, str], log: LogControl) -> None:
        self._settings = settings
        self._notifier = Notifier(os.environ)
        connections = settings.socket.max_connections
        if (allowed := allow(needed_for(connections))) < needed_for(connections):
            _log.warning(
                "Open file limit is too low for the maximum number of clients", extra={"kv": {"allowed": allowed}}
            )
        path = parse_endpoint(settings.listen, "--listen")
        with about_setting(listen=path):
            bound = bind_unix(path, mode=settings.socket.mode)
        self._admin = self._metrics = None
        try:
            self._admin = bind_admin(settings.admin.listen)
            self._metrics = bind_address(settings.admin.metrics_listen, "--metrics-listen")
            with about_setting(root=settings.root, state=settings.state):
                self._runtime = open_runtime(runtime_options(settings))
        except BaseException:
            bound.close()
            self._close_sockets()
            raise
        self._calls = InstrumentedCaller(self._runtime)
        uids = settings.socket.allow_uids or (0, os.getuid())
        methods = self._runtime.METHODS
        self._served = serve_runtime(bound, self._calls, methods, uids=uids, connections=connections)
        self._heartbeat = Heartbeat([self._served.tick, self._pat])
        self._views = RuntimeViews(settings, origins, self._runtime, self._calls, self._heartbeat, log)

    async def start(self) -> None:
        """Put in order what is there, then answer calls."""
        self._views.start(self._admin, self._metrics)
        await self._runtime.start()
        await self._served.start()
        self._views.serving = True
        self._heartbeat.start()
        kv = {"version": __version__, "listen": self._settings.listen, **self._runtime.describe(), "pid": os.getpid()}
        _log.info("Runtime is listening", extra={"kv": kv})
        warn_of(self._runtime.not_isolated)
        self._notifier.ready(f"listening on {self._settings.listen}", mainpid=os.getpid())
        gc.collect()
        gc.freeze()

    async def leave(self, why: str) -> int:
        """Answer no more calls; those in flight may end."""
        _log.info("Runtime is stopping", extra={"kv": {"reason": why, "grace_seconds": self._settings.grace}})
        self._notifier.stopping("stopping")
        self._views.serving = False
        done = await self._served.drain(self._settings.grace)
        _log.info("Runtime stopped, containers keep running", extra={"kv": {"complete": done}})
        return 0 if done else 1

    async def close(self) -> None:
        """Leave nothing of this process behind."""
        self._heartbeat.stop()
        await self._served.close()
        await self._runtime.close()
        await self._views.close()
        self._close_sockets()

    def _pat(self) -> None:
        if self._notifier.watchdog_interval is not None:
            self._notifier.watchdog()

    def _close_sockets(self) -> None:
        for sock in (self._admin, self._metrics):
            if sock is not None:
                sock.close()
