"""Docker on the relay's socket: HTTP/1.1 between clients and dockerd. Imported with that backend only."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from socket import socket
from typing import TYPE_CHECKING, Final

from interpose.cli.relay.fronts import make_admission, method_rows
from interpose.cli.relay.sockets import Endpoints
from interpose.config.relay.settings import RelaySettings
from interpose.net.h1.heads import Heads
from interpose.relay.api import Backend
from interpose.relay.docker.listener import DockerListener
from interpose.relay.docker.proxy import DockerRelay
from interpose.relay.docker.routes import classify
from interpose.relay.docker.upstream import BackendAwayError, DockerUpstream
from interpose.relay.subscriptions import Subscriptions

if TYPE_CHECKING:
    from interpose.metrics import Collector

_log = logging.getLogger(__name__)

# docker build sends the credentials of every registry in one field, and dockerd takes a megabyte.
_LEAST_HEAD: Final = 256 * 1024


class DockerFront:
    """An HTTP relay and its one backend."""

    def __init__(self, settings: RelaySettings, endpoints: Endpoints) -> None:
        limits = settings.limits
        heads = Heads(limit=max(limits.header_list, _LEAST_HEAD), classify=classify)
        self._upstream = DockerUpstream(
            endpoints.runtime, heads=heads, wait=limits.backend_wait, limit=limits.message, find=endpoints.find
        )
        self._relay = DockerRelay(self._upstream, limit=limits.message, now=asyncio.get_running_loop().time)
        self._listener = DockerListener(
            relay=self._relay, upstream=self._upstream, heads=heads, admission=make_admission(settings)
        )

    @property
    def relay(self) -> Subscriptions:
        return self._relay

    @property
    def backends(self) -> Mapping[str, Backend]:
        return {"runtime": self._upstream}

    async def connect_backends(self) -> None:
        self._upstream.start()
        try:
            (await self._upstream.connect()).abort()
        except BackendAwayError as error:
            _log.warning("Backend is unavailable during take-over", extra={"kv": {"err": str(error)}})

    async def listen(self, sock: socket) -> None:
        await self._listener.start(sock)
        self._upstream.start()

    def tick(self) -> None:
        self._listener.tick()
        self._upstream.tick()

    def stop_accepting(self) -> None:
        self._listener.stop_accepting()

    async def drain(self, grace: float) -> bool:
        return await self._listener.run_drain(grace)

    def end_event_streams(self) -> int:
        return 0  # their messages are not edited

    def connections(self) -> Sequence[Mapping[str, object]]:
        return [
            {
                "pid": link.pid,
                "uid": link.peer.uid if link.peer is not None else None,
                "in_flight": link.in_flight,
                "endless": link.endless,
                "tunnelled": link.tunnelled,
                "bytes_read": link.bytes_read,
                "backlog_bytes": link.backlog,
            }
            for link in self._listener.links
        ]

    def methods(self) -> Sequence[Mapping[str, object]]:
        return [*(endpoint.row() for endpoint in self._relay.endpoints.values()), *method_rows(self._relay)]

    def collectors(self) -> "Sequence[Collector]":
        from interpose.relay.docker.metrics import endpoint_collector
        from interpose.relay.metrics import call_collector, connection_collector

        return [
            endpoint_collector(self._relay, self._listener),
            call_collector(self._relay),
            connection_collector(self._listener),
        ]

    async def close(self) -> None:
        self._listener.stop_accepting()
        self._listener.abort()
        await self._upstream.close()
