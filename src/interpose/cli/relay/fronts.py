"""What stands on the relay's socket: the part of the process that speaks with clients and backends.

Everything else (hooks, policies, dump, admin socket, the life of the process) is the same for all of them. They are
`relay_cri` and `relay_docker`; the one that is not used is not imported.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from socket import socket
from typing import TYPE_CHECKING, Protocol

from interpose.cli.relay.sockets import Endpoints
from interpose.config.relay.settings import RelaySettings
from interpose.host.peer_credentials import peer_credentials
from interpose.net.grpc.listener import Admission
from interpose.net.grpc.transport import Hub
from interpose.relay.api import Backend
from interpose.relay.stats import MethodStats
from interpose.relay.subscriptions import Subscriptions

if TYPE_CHECKING:
    from interpose.metrics import Collector

_log = logging.getLogger(__name__)


class Front(Protocol):
    """Serves a listening socket with what is behind it."""

    @property
    def relay(self) -> Subscriptions: ...

    @property
    def backends(self) -> Mapping[str, Backend]:
        """By role; `runtime` is always there."""

    async def meet_backends(self) -> None:
        """Connect to them before anybody is served: for a successor that takes over."""

    async def listen(self, sock: socket) -> None:
        """Serve from now on, and connect to the backends."""

    def tick(self) -> None:
        """A second has passed."""

    def stop_accepting(self) -> None:
        """Leave the listening socket to whoever else holds it."""

    async def drain(self, grace: float) -> bool:
        """Wait at most that long for calls in flight. True if all of them ended."""

    def end_event_streams(self) -> int:
        """End streams that never end by themselves, for their clients to begin anew. Returns how many there were."""

    def connections(self) -> Sequence[Mapping[str, object]]:
        """Who is connected, for people."""

    def methods(self) -> Sequence[Mapping[str, object]]:
        """What was called, for people."""

    def collectors(self) -> "Sequence[Collector]":
        """Metrics."""

    async def close(self) -> None:
        """Leave nothing behind."""


def open_front(settings: RelaySettings, endpoints: Endpoints, hub: Hub) -> Front:
    """The front for what is configured. Nothing is connected yet."""
    if settings.backend == "docker":
        from interpose.cli.relay.docker_front import DockerFront

        return DockerFront(settings, endpoints)
    from interpose.cli.relay.cri_front import CriFront

    return CriFront(settings, endpoints, hub)


def admission_of(settings: RelaySettings) -> Admission:
    """Who may connect."""
    return Admission(
        identify=peer_credentials,
        uids=frozenset(settings.socket.allow_uids or (0, os.getuid())),
        connections=settings.socket.max_connections,
        handshake_timeout=settings.limits.handshake_timeout,
    )


def method_rows(relay: Subscriptions) -> list[Mapping[str, object]]:
    """CRI methods that were called."""
    return [_row(stats) for stats in relay.routes.stats() if stats.started]


def _row(stats: MethodStats) -> Mapping[str, object]:
    ended = sum(stats.codes)
    return {
        "service": stats.service,
        "method": stats.method,
        "calls": stats.started,
        "in_flight": stats.in_flight,
        "failed": ended - stats.codes[0],
        "mean_ms": round(stats.backend_sum / ended * 1000, 3) if ended else None,
        "received_bytes": stats.bytes_received,
        "sent_bytes": stats.bytes_sent,
    }
