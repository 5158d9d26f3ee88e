"""The webhook over HTTPS: reviews on some paths, health and metrics beside them.

A review is answered on the event loop, one at a time: it takes a fraction of a millisecond, and whatever somebody
sends, only one body at a time is taken apart. (In a thread it would hold up the loop all the same: the parser does not
let go of the interpreter. What a body may cost is bounded instead, see `review`.)

Invariant: from `begin_leaving` on we are not ready and each connection ends with its next answer, but nobody who still
comes is refused before `finish`.
"""

import logging
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from interpose.kube.webhook.certificates import Certificates
from interpose.kube.webhook.metrics import ERROR, Stats, certificate_collector, connection_collector, request_collector
from interpose.kube.webhook.review import OTHER, AnnotationRules, BadReviewError, ReviewResult, TooMuchError, review
from interpose.log import RateLimited, kv
from interpose.metrics import Collector
from interpose.net.httpd.health import Check, health_routes, metrics_route
from interpose.net.httpd.limits import BodyBudget, HttpServerLimits
from interpose.net.httpd.routes import JSON, Handler, RouteTable, ServerRequest, ServerResponse, error_response
from interpose.net.httpd.server import AdminServer
from interpose.net.httpd.transports import StreamPipe, accept_tls

_log = logging.getLogger(__name__)

# The one of the older program, and two that say what they do.
PATHS = ("/", "/mutate", "/annotate")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """What clients may cost. Times in seconds."""

    http: HttpServerLimits = field(default_factory=HttpServerLimits)
    buffered: int = 16 << 20  # bytes of bodies, all connections together
    max_connections: int = 128
    handshake_timeout: float = 5.0


class WebhookServer:
    """Serves a listening socket, and a plain one for health and metrics if there is one; owns both."""

    def __init__(
        self,
        listener: socket.socket,
        certificates: Certificates,
        rules: AnnotationRules,
        *,
        limits: ServerLimits,
        needs_certificate: bool = False,
        plain: socket.socket | None = None,
        collectors: Sequence[Collector] = (),
    ) -> None:
        self._certificates = certificates
        self._rules = rules
        self._limits = limits
        self._needs_certificate = needs_certificate
        self._leaving = False
        self._limited = RateLimited(_log)
        self.stats = Stats()
        self._collectors = [
            request_collector(self.stats),
            connection_collector(self.stats, lambda: self._server),
            certificate_collector(certificates),
            *collectors,
        ]
        status_routes = self.status_routes()
        reviews: dict[tuple[str, str], Handler] = {("POST", path): self._review for path in PATHS}
        self._server = AdminServer(
            listener,
            {**status_routes, **reviews},
            max_connections=limits.max_connections,
            any_host=True,
            limits=limits.http,
            budget=BodyBudget(limits.buffered),
            handshake=self._accept_tls,
            title="Webhook",
        )
        self._plain = None if plain is None else AdminServer(plain, status_routes, any_host=True)

    def start(self) -> None:
        """Start accepting connections on both sockets."""
        self._server.start()
        if self._plain is not None:
            self._plain.start()

    def begin_leaving(self) -> None:
        """Not ready from now on, so that Kubernetes sends requests elsewhere; those that come are served."""
        self._leaving = True
        self._server.begin_drain()

    async def finish(self, grace: float) -> None:
        """Accept no more; what is under way has so many seconds to end."""
        self.begin_leaving()
        await self._server.finish(grace)

    async def close(self) -> None:
        """Close both servers and their connections."""
        await self._server.close()
        if self._plain is not None:
            await self._plain.close()

    def status_routes(self) -> RouteTable:
        """Routes of health checks and metrics."""
        certificate = Check("certificate", self._certificates.problem, self._certificates.remark)
        leaving = Check("shutdown", lambda: "the webhook is shutting down" if self._leaving else None)
        return {
            **health_routes([Check("loop", lambda: None)], [certificate, leaving]),
            **metrics_route(self._collectors),
        }

    async def _accept_tls(self, sock: socket.socket) -> StreamPipe | None:
        try:
            return await accept_tls(sock, self._certificates.context, timeout=self._limits.handshake_timeout)
        except (OSError, TimeoutError) as error:
            # Port scans, checks of load balancers, clients that do not trust us: the last is worth a line.
            self.stats.handshake_failures += 1
            reason = getattr(error, "reason", None) or f"{type(error).__name__}: {error}"
            self._limited.log(logging.INFO, "TLS handshake failed", key=str(reason), err=reason)
            return None

    async def _review(self, request: ServerRequest) -> ServerResponse:
        began = time.perf_counter()
        try:
            return self._answer(request, began)
        except BadReviewError as error:
            return self._refuse(413 if isinstance(error, TooMuchError) else 400, str(error), began)
        except Exception:
            self._count(OTHER, ERROR, began)
            raise

    def _answer(self, request: ServerRequest, began: float) -> ServerResponse:
        if self._needs_certificate and not request.certified:
            return self._refuse(403, "a client certificate is needed", began)
        kind = request.headers.get("content-type", "")
        if kind.partition(";")[0].strip().lower() != JSON:
            return self._refuse(415, f"expected {JSON}, not {kind[:80]!r}", began)
        answer = review(request.body, self._rules)
        self._count(answer.operation, answer.result, began, dry_run=answer.dry_run)
        fields = kv(uid=answer.uid, pod=answer.subject, operation=answer.operation, result=answer.result)
        if answer.result is ReviewResult.UNREADABLE or answer.remark:
            self._limited.log(
                logging.WARNING, "Pod was not annotated", key=answer.result, **fields["kv"], why=answer.remark
            )
        _log.debug("Review was answered", extra=fields)
        return ServerResponse(body=answer.body, content_type=JSON)

    def _refuse(self, status: int, reason: str, began: float) -> ServerResponse:
        self._count(OTHER, ERROR, began)
        self._limited.log(logging.WARNING, "Request was refused", key=str(status), status=status, why=reason)
        return error_response(status, reason)

    def _count(self, operation: str, result: str, began: float, *, dry_run: bool = False) -> None:
        self.stats.count(operation, str(result), time.perf_counter() - began, dry_run=dry_run)
