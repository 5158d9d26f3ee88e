"""CRI on the relay's socket: HTTP/2 streams between clients and a runtime. Imported with that backend only."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from socket import socket
from typing import TYPE_CHECKING, Final

from interpose.cli.relay.fronts import make_admission, method_rows
from interpose.cli.relay.sockets import Endpoints
from interpose.config.relay.settings import LimitSettings, RelaySettings
from interpose.config.values import NONE
from interpose.net.grpc.listener import Listener
from interpose.net.grpc.raw_client import RawClient
from interpose.net.grpc.status import RpcError
from interpose.net.grpc.transport import Hub
from interpose.net.grpc.upstream import Upstream
from interpose.net.h2.limits import Limits
from interpose.relay.api import Backend
from interpose.relay.passthrough import CallRecorder
from interpose.relay.proxy import Relay
from interpose.relay.restart.drain import Drain, end_event_streams
from interpose.relay.restart.start_connections import StartConnectionKeeper
from interpose.relay.routes import Routes
from interpose.relay.subscriptions import Subscriptions

if TYPE_CHECKING:
    from interpose.metrics import Collector

_log = logging.getLogger(__name__)

_NO_IMAGES: Final = "image calls are not relayed here: --image-endpoint is none (-image-socket - of cri-resmgr)"


def client_limits(limits: LimitSettings) -> Limits:
    """Limits of HTTP/2 for connections of clients."""
    return Limits(
        header_list=limits.header_list,
        header_block=limits.header_list * 4,
        streams=limits.max_streams,
        stream_window=limits.stream_window,
        idle_frames=limits.idle_frames,
        resets=limits.resets,
    )


def backend_limits(limits: LimitSettings) -> Limits:
    """Limits of HTTP/2 for a backend. It is trusted more: losing its connection costs every call."""
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
    return {"runtime": runtime} | (
        {"image": make(endpoints.image)} if endpoints.image not in (endpoints.runtime, NONE) else {}
    )


class CriFront:
    """HTTP/2 streams between clients and a CRI runtime."""

    def __init__(self, settings: RelaySettings, endpoints: Endpoints, hub: Hub) -> None:
        self._hub = hub
        self._upstreams = _upstreams(endpoints, hub, settings.limits)
        runtime = self._upstreams["runtime"]
        refusal = _NO_IMAGES if endpoints.image == NONE else ""
        self._start_connections = StartConnectionKeeper()
        # A runtime in this process ends with it, whatever connections are held.
        self._starts = None if settings.embedded else self._open_start_upstream(endpoints, hub, settings.limits)
        routes = Routes(runtime, self._upstreams.get("image", runtime), refusal, starts=self._starts)
        self._relay = Relay(routes, CallRecorder(time.monotonic), header_list=settings.limits.header_list)
        self._listener = Listener(
            hub=hub,
            limits=client_limits(settings.limits),
            admission=make_admission(settings),
            accept=self._relay.accept,
        )
        hub.relieve = self._listener.relieve

    def _open_start_upstream(self, endpoints: Endpoints, hub: Hub, limits: LimitSettings) -> Upstream:
        """A connection for StartContainer, opened and held before the first such call."""
        return Upstream(
            endpoints.runtime,
            hub=hub,
            limits=backend_limits(limits),
            wait=limits.backend_wait,
            find=endpoints.find,
            vet=self._start_connections.keep,
            reports=self._start_connections,
        )

    @property
    def relay(self) -> Subscriptions:
        return self._relay

    @property
    def backends(self) -> Mapping[str, Backend]:
        return self._upstreams

    async def connect_backends(self) -> None:
        for upstream in self._upstreams.values():
            upstream.start()
            try:
                await RawClient(upstream, self._hub, limit=0).connection()
            except RpcError as error:
                _log.warning("Backend is unavailable during take-over", extra={"kv": {"err": error.message}})

    async def listen(self, sock: socket) -> None:
        await self._listener.start(sock)
        for upstream in self._upstreams.values():
            upstream.start()
        if self._starts is not None:
            self._starts.start()

    def tick(self) -> None:
        self._listener.tick()
        for upstream in self._upstreams.values():
            upstream.tick()
        if self._starts is not None:
            self._starts.tick()
            self._start_connections.tick()

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
        if self._starts is not None:
            busy = self._starts.busy
            await self._starts.close()
            await self._start_connections.close(busy=busy)
