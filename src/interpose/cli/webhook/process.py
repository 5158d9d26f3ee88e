"""The life of a webhook process: the composition root of `interpose webhook`.

Certificates are loaded before anybody listens. At the end we first stop being ready, so that nobody is sent here any
more, and only then stop serving; a second signal ends the waiting.
"""

import asyncio
import gc
import logging
import os
import socket
from typing import Any

import uvloop

from interpose import __version__
from interpose.cli.common.admin_socket import bind_address
from interpose.cli.common.signals import handle_signals
from interpose.config.webhook.settings import WebhookLimitSettings, WebhookSettings
from interpose.errors import ConfigError
from interpose.host.systemd import Notifier
from interpose.kube.webhook.certificates import Certificates, TlsFiles
from interpose.kube.webhook.review import AnnotationRules
from interpose.kube.webhook.server import ServerLimits, WebhookServer
from interpose.log import LogControl, setup
from interpose.metrics import build_info, log_collector, process_collector
from interpose.net.httpd.limits import HttpServerLimits
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)
_GC_THRESHOLD = 50_000


def run(settings: WebhookSettings) -> int:
    """Run until told to stop."""
    log = setup(settings.logging.level, settings.logging.format, debug=settings.logging.debug)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_main(settings, log))


async def _main(settings: WebhookSettings, log: LogControl) -> int:
    stop = handle_signals(log, "files are watched")
    webhook = WebhookDaemon(settings, log)
    try:
        webhook.start()
        why = await stop
        # Set up anew: whoever sends another one does not want to wait.
        await webhook.leave(why, handle_signals(log, "files are watched"))
        return 0
    finally:
        await webhook.close()


class WebhookDaemon:
    """A webhook with everything around it."""

    def __init__(self, settings: WebhookSettings, log: LogControl) -> None:
        self._settings = settings
        self._notifier = Notifier(os.environ)
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
        self._places = {"listen": shown(listener), "metrics": "none" if plain is None else shown(plain)}
        self._server = WebhookServer(
            listener,
            self._certificates,
            AnnotationRules(keys=settings.pods.annotation, deny=settings.pods.on_unreadable == "deny"),
            limits=server_limits(settings.limits),
            needs_certificate=bool(tls.client_ca),
            plain=plain,
            collectors=(build_info, log_collector(log), process_collector()),
        )

    def start(self) -> None:
        """Serve, and follow the certificates."""
        self._certificates.start()
        self._server.start()
        kv = {
            "version": __version__,
            **self._places,
            "annotation": ",".join(self._settings.pods.annotation),
            "certificate": str(self._certificates.validity),
            "pid": os.getpid(),
        }
        _log.info("Webhook is ready", extra={"kv": kv})
        if problem := self._certificates.problem():
            _log.warning("Certificate is not valid for API servers", extra={"kv": {"err": problem}})
        self._notifier.ready(f"on {self._places['listen']}", mainpid=os.getpid())
        gc.collect()
        gc.freeze()
        # Reading a large body makes many objects and no garbage: looking for some all the time takes longer than that.
        gc.set_threshold(_GC_THRESHOLD)

    async def leave(self, why: str, again: "asyncio.Future[str]") -> None:
        """First not ready, then not accepting, then done; `again` is the signal that ends the waiting."""
        stop = self._settings.stop
        _log.info("Webhook is stopping", extra={"kv": {"reason": why, "delay_seconds": stop.shutdown_delay}})
        self._notifier.stopping("stopping")
        self._server.begin_leaving()
        await asyncio.wait([again], timeout=stop.shutdown_delay)
        if not again.done():
            finishing = self._tasks.spawn(self._server.finish(stop.grace), name="finish")
            both: list[asyncio.Future[Any]] = [finishing, again]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)

    async def close(self) -> None:
        """Leave nothing behind; what is still under way is cut."""
        await self._tasks.cancel()
        await self._server.close()
        await self._certificates.close()


def server_limits(limits: WebhookLimitSettings) -> ServerLimits:
    """As the server takes them."""
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


def shown(listener: socket.socket) -> str:
    """The address of a listening socket, with the port it really has."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
