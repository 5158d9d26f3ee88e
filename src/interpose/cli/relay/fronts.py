"""Fronts of a relay: the part of the process that speaks with clients and backends.

Everything else (hooks, policies, dump, admin socket, the life of the process) is the same for all of them. They are
`cri_front` and `docker_front`; the one that is not used is not imported.
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
    """Serves clients of a listening socket and holds connections to backends."""

    @property
    def relay(self) -> Subscriptions: ...

    @property
    def backends(self) -> Mapping[str, Backend]:
        """Backends by role; `runtime` is always there."""

    async def connect_backends(self) -> None:
        """Connect to all backends before clients are served: for a successor that takes over."""

    async def listen(self, sock: socket) -> None:
        """Serve from now on, and connect to the backends."""

    def tick(self) -> None:
        """Called once a second: time-outs of connections."""

    def stop_accepting(self) -> None:
        """Accept no more clients; another process may hold the listening socket, too."""

    async def drain(self, grace: float) -> bool:
        """Wait at most that long for calls in flight. True if all of them ended."""

    def end_event_streams(self) -> int:
        """End streams that never end by themselves, so that their clients subscribe again. Returns their number."""

    def connections(self) -> Sequence[Mapping[str, object]]:
        """The clients that are connected, as rows for the admin socket."""

    def methods(self) -> Sequence[Mapping[str, object]]:
        """The methods that were called, as rows for the admin socket."""

    def collectors(self) -> "Sequence[Collector]":
        """Collectors of the metrics of clients and backends."""

    async def close(self) -> None:
        """Close connections to clients and backends."""


def open_front(settings: RelaySettings, endpoints: Endpoints, hub: Hub) -> Front:
    """The front for what is configured. Nothing is connected yet."""
    if settings.backend == "docker":
        from interpose.cli.relay.docker_front import DockerFront

        return DockerFront(settings, endpoints)
    from interpose.cli.relay.cri_front import CriFront

    return CriFront(settings, endpoints, hub)


def make_admission(settings: RelaySettings) -> Admission:
    """Rules for connections of clients, from the settings of the socket."""
    return Admission(
        identify=peer_credentials,
        uids=frozenset(settings.socket.allow_uids or (0, os.getuid())),
        connections=settings.socket.max_connections,
        handshake_timeout=settings.limits.handshake_timeout,
    )


def method_rows(relay: Subscriptions) -> list[Mapping[str, object]]:
    """A row for each CRI method that was called."""
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
