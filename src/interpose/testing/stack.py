"""A relay inside the test's own event loop: listener, relay and upstreams on sockets of a scratch folder.

The same parts as the process has, without admin socket, signals and heartbeat: a test ticks by itself.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from interpose.cli.relay.cri_front import backend_limits, client_limits
from interpose.config.relay.settings import LimitSettings
from interpose.host.peer_credentials import peer_credentials
from interpose.host.unix_sockets import bind_unix
from interpose.net.grpc.listener import Admission, Listener
from interpose.net.grpc.transport import Hub
from interpose.net.grpc.upstream import Upstream
from interpose.relay.api import Interceptor, StreamEditor, Tap
from interpose.relay.passthrough import CallRecorder
from interpose.relay.proxy import Relay
from interpose.relay.restart.drain import end_event_streams
from interpose.relay.routes import Routes
from interpose.relay.stats import MethodStats


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """The parts of a running relay."""

    socket: Path
    hub: Hub
    runtime: Upstream
    image: Upstream
    recorder: CallRecorder
    relay: Relay
    listener: Listener

    def stats(self, path: str) -> MethodStats:
        """The counters of a path."""
        return (self.relay.routes.known.get(path.encode()) or self.relay.routes.find(path.encode())).stats

    def end_event_streams(self) -> int:
        """What a relay does when hooks come to be."""
        return end_event_streams(self.listener, self.hub)

    @property
    def queued(self) -> int:
        """Bytes that wait in the relay for a slow reader."""
        connections = [link.conn for link in self.listener.links]
        return sum(stream.queued for conn in connections for stream in conn.streams.values()) + sum(
            link.backlog for link in self.listener.links
        )


@asynccontextmanager
async def relay_stack(
    socket: Path,
    runtime: Path,
    *,
    image: Path | None = None,
    interceptors: Sequence[Interceptor] = (),
    taps: Sequence[Tap] = (),
    editors: Sequence[StreamEditor] = (),
    limits: LimitSettings | None = None,
    message_limit: int | None = None,
) -> AsyncIterator[Stack]:
    """A relay on `socket` in front of `runtime` inside the block. `message_limit` may be below what settings allow."""
    limits = limits or LimitSettings()
    loop = asyncio.get_running_loop()
    hub = Hub(buffered=limits.buffered)

    def make_upstream(path: Path) -> Upstream:
        return Upstream(str(path), hub=hub, limits=backend_limits(limits), wait=limits.backend_wait)

    upstreams = [make_upstream(runtime)] + ([make_upstream(image)] if image is not None else [])
    recorder = CallRecorder(time.monotonic)
    relay = Relay(Routes(upstreams[0], upstreams[-1]), recorder, header_list=limits.header_list)
    if interceptors or taps or editors:
        relay.subscribe(
            interceptors,
            taps,
            hub=hub,
            message_limit=message_limit or limits.message,
            now=loop.time,
            editors=editors,
        )
    admission = Admission(
        identify=peer_credentials, uids=(os.getuid(),), connections=64, handshake_timeout=limits.handshake_timeout
    )
    listener = Listener(hub=hub, limits=client_limits(limits), admission=admission, accept=relay.accept)
    hub.relieve = listener.relieve
    bound = bind_unix(str(socket))
    await listener.start(bound.sock)
    for upstream in upstreams:
        upstream.start()
    try:
        yield Stack(
            socket=socket,
            hub=hub,
            runtime=upstreams[0],
            image=upstreams[-1],
            recorder=recorder,
            relay=relay,
            listener=listener,
        )
    finally:
        listener.stop_accepting()
        bound.close()
        listener.abort()
        if relay.call_runner is not None:
            await relay.call_runner.tasks.cancel()
        for upstream in upstreams:
            await upstream.close()
