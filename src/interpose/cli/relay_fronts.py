"""What stands on the relay's socket: the part of the process that speaks with clients and backends.

Everything else (hooks, policies, dump, admin socket, the life of the process) is the same for all of them. The one for
CRI is here; the one for Docker is in `relay_docker` and imported only with that backend.
"""

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from socket import socket
from typing import TYPE_CHECKING, Protocol

from interpose.cli.relay_sockets import Endpoints
from interpose.config.settings import LimitSettings, RelaySettings
from interpose.h2.limits import Limits
from interpose.host.peers import peer_credentials
from interpose.relay.backend import Backend
from interpose.relay.drain import Drain, end_event_streams
from interpose.relay.passthrough import Ledger
from interpose.relay.relay import Relay
from interpose.relay.routes import Routes
from interpose.relay.stats import MethodStats
from interpose.relay.switchboard import Switchboard
from interpose.rpc.client import Client
from interpose.rpc.listener import Admission, Listener
from interpose.rpc.status import RpcError
from interpose.rpc.transport import Hub
from interpose.rpc.upstream import Upstream

if TYPE_CHECKING:
    from interpose.instrumentation.metrics import Collector

_log = logging.getLogger(__name__)


class Front(Protocol):
    """Serves a listening socket with what is behind it."""

    @property
    def relay(self) -> Switchboard: ...

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
        from interpose.cli.relay_docker import DockerFront

        return DockerFront(settings, endpoints)
    return CriFront(settings, endpoints, hub)


def admission_of(settings: RelaySettings) -> Admission:
    """Who may connect."""
    return Admission(
        identify=peer_credentials,
        uids=frozenset(settings.socket.allow_uids or (0, os.getuid())),
        connections=settings.socket.max_connections,
        handshake_timeout=settings.limits.handshake_timeout,
    )


def client_limits(limits: LimitSettings) -> Limits:
    """What a client may do."""
    return Limits(
        header_list=limits.header_list,
        header_block=limits.header_list * 4,
        streams=limits.max_streams,
        stream_window=limits.stream_window,
        idle_frames=limits.idle_frames,
        resets=limits.resets,
    )


def backend_limits(limits: LimitSettings) -> Limits:
    """What a backend may do. It is trusted more: losing its connection costs every call."""
    return Limits(
        header_list=limits.backend_header_list,
        header_block=limits.backend_header_list * 4,
        streams=limits.max_total_streams,
        stream_window=limits.stream_window,
        idle_frames=limits.idle_frames * 10,
        resets=limits.resets * 10,
    )


def _upstreams(endpoints: Endpoints, hub: Hub, limits: LimitSettings) -> dict[str, Upstream]:
    def make(path: str, find: Callable[[], str] | None = None) -> Upstream:
        return Upstream(path, hub=hub, limits=backend_limits(limits), wait=limits.backend_wait, find=find)

    runtime = make(endpoints.runtime, endpoints.find)
    return {"runtime": runtime} | ({"image": make(endpoints.image)} if endpoints.image != endpoints.runtime else {})


def method_rows(relay: Switchboard) -> list[Mapping[str, object]]:
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


class CriFront:
    """HTTP/2 streams between clients and a CRI runtime."""

    def __init__(self, settings: RelaySettings, endpoints: Endpoints, hub: Hub) -> None:
        self._hub = hub
        self._upstreams = _upstreams(endpoints, hub, settings.limits)
        runtime = self._upstreams["runtime"]
        routes = Routes(runtime, self._upstreams.get("image", runtime))
        self._relay = Relay(routes, Ledger(time.monotonic), header_list=settings.limits.header_list)
        self._listener = Listener(
            hub=hub,
            limits=client_limits(settings.limits),
            admission=admission_of(settings),
            accept=self._relay.accept,
        )

    @property
    def relay(self) -> Switchboard:
        return self._relay

    @property
    def backends(self) -> Mapping[str, Backend]:
        return self._upstreams

    async def meet_backends(self) -> None:
        for upstream in self._upstreams.values():
            upstream.start()
            try:
                await Client(upstream, self._hub).connection()
            except RpcError as error:
                _log.warning("Backend is away while we take over", extra={"kv": {"err": error.message}})

    async def listen(self, sock: socket) -> None:
        await self._listener.start(sock)
        for upstream in self._upstreams.values():
            upstream.start()

    def tick(self) -> None:
        self._listener.tick()
        for upstream in self._upstreams.values():
            upstream.tick()

    def stop_accepting(self) -> None:
        self._listener.stop_accepting()

    async def drain(self, grace: float) -> bool:
        return await Drain(self._listener, self._hub).run(grace)

    def end_event_streams(self) -> int:
        return end_event_streams(self._listener, self._hub)

    def connections(self) -> Sequence[Mapping[str, object]]:
        return [
            {
                "pid": link.pid,
                "uid": link.peer.uid if link.peer is not None else None,
                "streams": len(link.conn.streams),
                "bytes_read": link.bytes_read,
                "backlog_bytes": link.backlog,
            }
            for link in self._listener.links
        ]

    def methods(self) -> Sequence[Mapping[str, object]]:
        return method_rows(self._relay)

    def collectors(self) -> "Sequence[Collector]":
        from interpose.relay.metrics import call_collector, connection_collector

        return [call_collector(self._relay), connection_collector(self._listener)]

    async def close(self) -> None:
        self._listener.stop_accepting()
        for upstream in self._upstreams.values():
            await upstream.close()
