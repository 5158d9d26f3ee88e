"""The life of a runtime process: the composition root of `interpose runtime`.

Sockets come first, so that a second runtime on the same ones gets no further; then what a predecessor left is put in
order; only then calls are answered. Containers outlive the process: their shims own them.
"""

import asyncio
import logging
import os
from collections.abc import Mapping
from contextlib import ExitStack

from interpose import __version__
from interpose.cli.common.admin_socket import AdminSockets
from interpose.cli.common.daemon import Daemon, run_daemon
from interpose.cli.common.heartbeat import Heartbeat
from interpose.cli.common.setting_errors import name_setting_in_errors
from interpose.cli.runtime.admin import RuntimeViews
from interpose.cli.runtime.serve import runtime_options, serve_runtime, warn_not_isolated
from interpose.config.endpoint import parse_endpoint
from interpose.config.runtime.settings import RuntimeSettings
from interpose.cri.wrappers import InstrumentedCaller
from interpose.host.rlimits import descriptors_needed, raise_file_limit
from interpose.host.unix_sockets import bind_unix
from interpose.log import LogControl
from interpose.node.runtime.service.wiring import open_runtime

_log = logging.getLogger(__name__)


def run(settings: RuntimeSettings, origins: Mapping[str, str]) -> int:
    """Run a runtime until a signal ends it; the exit code."""

    async def open_daemon(log: LogControl, _stop: "asyncio.Future[str]") -> RuntimeDaemon:
        return RuntimeDaemon(settings, origins, log)

    return run_daemon(settings.logging, open_daemon, on_hangup="settings are read at the start")


class RuntimeDaemon(Daemon):
    """A runtime with its sockets and its admin server."""

    def __init__(self, settings: RuntimeSettings, origins: Mapping[str, str], log: LogControl) -> None:
        super().__init__()
        self._settings = settings
        connections = settings.socket.max_connections
        if (allowed := raise_file_limit(descriptors_needed(connections))) < descriptors_needed(connections):
            _log.warning(
                "Open file limit is too low for the maximum number of clients", extra={"kv": {"allowed": allowed}}
            )
        path = parse_endpoint(settings.listen, "--listen")
        with ExitStack() as undo:
            with name_setting_in_errors(listen=path):
                bound = bind_unix(path, mode=settings.socket.mode)
            undo.callback(bound.close)
            self._http = AdminSockets.bind(settings.admin.listen, settings.admin.metrics_listen)
            undo.callback(self._http.close)
            with name_setting_in_errors(root=settings.root, state=settings.state):
                self._runtime = open_runtime(runtime_options(settings))
            undo.pop_all()
        self._calls = InstrumentedCaller(self._runtime)
        uids = settings.socket.allow_uids or (0, os.getuid())
        methods = self._runtime.METHODS
        self._served = serve_runtime(bound, self._calls, methods, uids=uids, connections=connections)
        self._heartbeat = Heartbeat([self._served.tick, self.notifier.watchdog])
        self._views = RuntimeViews(settings, origins, self._runtime, self._calls, self._heartbeat, log)

    async def start(self) -> None:
        """Put pods of an earlier process in order, then answer calls."""
        self._views.start(self._http)
        await self._runtime.start()
        await self._served.start()
        self._views.serving = True
        self._heartbeat.start()
        kv = {"version": __version__, "listen": self._settings.listen, **self._runtime.describe(), "pid": os.getpid()}
        _log.info("Runtime is listening", extra={"kv": kv})
        warn_not_isolated(self._runtime.not_isolated)
        self.announce(f"listening on {self._settings.listen}")

    async def shut_down(self, reason: str) -> int:
        """Answer no more calls; those in flight have the time of --grace to end."""
        _log.info("Runtime is stopping", extra={"kv": {"reason": reason, "grace_seconds": self._settings.grace}})
        self.notifier.stopping("stopping")
        self._views.serving = False
        done = await self._served.drain(self._settings.grace)
        _log.info("Runtime stopped, containers keep running", extra={"kv": {"complete": done}})
        return 0 if done else 1

    async def close(self) -> None:
        """Close sockets and connections; containers keep running."""
        self._heartbeat.stop()
        await self._served.close()
        await self._runtime.close()
        await self._views.close()
        self._http.close()
