"""The life of a webhook process: the composition root of `interpose webhook`.

Certificates are loaded before the socket is bound. At the end we first stop being ready, so that no more requests are
sent here, and only then stop serving; a second signal ends the waiting.
"""

import asyncio
import gc
import logging
import os
import socket
from typing import Any, Final

from interpose import __version__
from interpose.cli.common.admin_socket import bind_address
from interpose.cli.common.daemon import Daemon, run_daemon
from interpose.cli.common.signals import handle_signals
from interpose.config.webhook.settings import WebhookLimitSettings, WebhookSettings
from interpose.errors import ConfigError
from interpose.kube.webhook.certificates import Certificates, TlsFiles
from interpose.kube.webhook.review import AnnotationRules
from interpose.kube.webhook.server import ServerLimits, WebhookServer
from interpose.log import LogControl
from interpose.metrics import build_info, log_collector, process_collector
from interpose.net.httpd.limits import HttpServerLimits
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)
_GC_THRESHOLD = 50_000
_ON_HANGUP: Final = "files are watched"


def run(settings: WebhookSettings) -> int:
    """Run a webhook until a signal ends it; the exit code."""

    async def open_daemon(log: LogControl, _stop: "asyncio.Future[str]") -> WebhookDaemon:
        return WebhookDaemon(settings, log)

    return run_daemon(settings.logging, open_daemon, on_hangup=_ON_HANGUP)


class WebhookDaemon(Daemon):
    """A webhook with its sockets and its certificates."""

    def __init__(self, settings: WebhookSettings, log: LogControl) -> None:
        super().__init__()
        self._settings = settings
        self._log_control = log
        self._tasks = TaskBag()
        tls = settings.tls
        self._certificates = Certificates(TlsFiles(certificate=tls.cert, key=tls.key, client_ca=tls.client_ca))
        listener = bind_address(settings.listen, "--listen")
        if listener is None:
            raise ConfigError("listen: the webhook needs an address")
        try:
            plain = bind_address(settings.metrics_listen, "--metrics-listen")
        except BaseException:
            listener.close()
            raise
        self._addresses = {
            "listen": format_address(listener),
            "metrics": "none" if plain is None else format_address(plain),
        }
        self._server = WebhookServer(
            listener,
            self._certificates,
            AnnotationRules(keys=settings.pods.annotation, deny=settings.pods.on_unreadable == "deny"),
            limits=server_limits(settings.limits),
            needs_certificate=bool(tls.client_ca),
            plain=plain,
            collectors=(build_info, log_collector(log), process_collector()),
        )

    async def start(self) -> None:
        """Serve, and follow the certificates."""
        self._certificates.start()
        self._server.start()
        kv = {
            "version": __version__,
            **self._addresses,
            "annotation": ",".join(self._settings.pods.annotation),
            "certificate": str(self._certificates.validity),
            "pid": os.getpid(),
        }
        _log.info("Webhook is ready", extra={"kv": kv})
        if problem := self._certificates.problem():
            _log.warning("Certificate is not valid for API servers", extra={"kv": {"err": problem}})
        self.announce(f"on {self._addresses['listen']}")
        # Reading a large body makes many objects and no garbage: looking for some all the time takes longer than that.
        gc.set_threshold(_GC_THRESHOLD)

    async def shut_down(self, reason: str) -> int:
        """First not ready, then not accepting, then done; a second signal ends the waiting."""
        again = handle_signals(self._log_control, _ON_HANGUP)
        stop = self._settings.stop
        _log.info("Webhook is stopping", extra={"kv": {"reason": reason, "delay_seconds": stop.shutdown_delay}})
        self.notifier.stopping("stopping")
        self._server.begin_leaving()
        await asyncio.wait([again], timeout=stop.shutdown_delay)
        if not again.done():
            finishing = self._tasks.spawn(self._server.finish(stop.grace), name="finish")
            both: list[asyncio.Future[Any]] = [finishing, again]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        return 0

    async def close(self) -> None:
        """Close sockets and connections; requests that are still under way are cut off."""
        await self._tasks.cancel()
        await self._server.close()
        await self._certificates.close()


def server_limits(limits: WebhookLimitSettings) -> ServerLimits:
    http = HttpServerLimits(
        body=limits.body,
        request_timeout=limits.request_timeout,
        first_timeout=limits.request_timeout,
        write_timeout=limits.request_timeout,
        idle_timeout=limits.idle_timeout,
    )
    return ServerLimits(
        http=http,
        buffered=limits.buffered,
        max_connections=limits.max_connections,
        handshake_timeout=limits.handshake_timeout,
    )


def format_address(listener: socket.socket) -> str:
    """The address of a listening socket, with the port it really has."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
