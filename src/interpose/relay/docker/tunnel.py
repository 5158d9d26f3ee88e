"""Raw bytes both ways, once dockerd has turned a call into a stream: attach, exec, buildkit's session.

Each half ends by itself: the end of one direction is passed to the other side, and the other half goes on. A
side that is gone altogether takes the other one with it, after what it had said is delivered.
"""

from typing import Protocol

from interpose.relay.docker.connection import DockerConnection
from interpose.relay.docker.socket import DockerSocket
from interpose.relay.docker.stats import EndpointStats


class TunnelOwner(Protocol):
    """The owner, called when the tunnel has ended."""

    def tunnel_ended(self) -> None: ...


class Tunnel:
    """A client's socket and dockerd's. The user of the latter."""

    __slots__ = ("_backend", "_client", "_ends", "_stats")

    def __init__(
        self, client: DockerSocket, backend: DockerConnection, stats: EndpointStats, ends: TunnelOwner
    ) -> None:
        self._client = client
        self._backend = backend
        self._stats = stats
        self._ends = ends
        backend.user = self

    def from_client(self, data: bytes) -> None:
        backend = self._backend
        self._stats.bytes_received += len(data)
        backend.write(data)
        if backend.blocked:
            self._client.read(False)

    def on_data(self, data: bytes) -> None:
        client = self._client
        self._stats.bytes_sent += len(data)
        client.write(data)
        if client.blocked:
            self._backend.read(False)

    def client_eof(self) -> None:
        """The client has said all it will say."""
        if self._backend.eof or self._client.hung_up:
            self.end()
        else:
            self._backend.write_eof()

    def on_eof(self) -> bool:
        if self._client.eof or self._backend.hung_up:
            self.end()
            return False
        self._client.write_eof()
        return True

    def tick(self) -> None:
        """Called once a second: a dockerd that closed its sending side before it left does not show that it left."""
        if self._backend.eof and self._backend.hung_up:
            self.end()

    def end(self) -> None:
        """Close both sides after what was said is out."""
        if self._backend.user is self:
            self._backend.user = None
            self._backend.close()
            self._client.close()
            self._ends.tunnel_ended()

    def on_lost(self, why: str) -> None:
        self._client.close()
        self._ends.tunnel_ended()

    def on_blocked(self) -> None:
        self._client.read(False)

    def on_writable(self) -> None:
        self._client.read(True)
