"""The transport of an HTTP connection: a raw socket, or a stream with TLS.

Raw sockets have no transport, so a handler can have one for passing descriptors. Invariant: the owner of a pipe owns
what is below it, and after `close` nothing of it is left, whatever the other side does.
"""

import asyncio
import socket
from typing import TYPE_CHECKING, Protocol

from interpose.host.peer_credentials import PeerCredentials, peer_credentials

if TYPE_CHECKING:
    import ssl

# Seconds the other side has to close a TLS connection.
_SHUTDOWN_TIMEOUT = 2.0
_PIECE = 65536
# What is read from a client with TLS before it is needed. On its way it is in the kernel, encrypted, and in the
# clear, and libraries take four times as much of each by default: too much for a few hundred unknown clients.
_READ_AHEAD = 32768


class Pipe(Protocol):
    """A connection that carries bytes in both directions."""

    peer: PeerCredentials | None  # the process at the other end of a unix socket
    certified: bool  # whether the other side has shown a certificate that we trust
    raw: socket.socket | None  # what descriptors can be passed through

    async def recv(self, size: int) -> bytes:
        """At most so many bytes, at least one; none at all at the end."""

    async def send_all(self, data: bytes) -> None:
        """Send bytes; returns when all of them are on their way and few are held here."""

    def finish(self) -> None:
        """Half-close the connection, if the transport can."""

    async def close(self) -> None:
        """Close the connection and free what it holds."""

    def abort(self) -> None:
        """Close at once, without telling the other side."""


class SocketPipe:
    """A connected, non-blocking socket."""

    certified = False

    def __init__(self, sock: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self.raw: socket.socket | None = sock
        self._sock = sock
        self.peer = peer_credentials(sock) if sock.family == socket.AF_UNIX else None

    async def recv(self, size: int) -> bytes:
        return await self._loop.sock_recv(self._sock, size)

    async def send_all(self, data: bytes) -> None:
        await self._loop.sock_sendall(self._sock, data)

    def finish(self) -> None:
        """Half-close: the other side sees the end and may still send."""
        self._sock.shutdown(socket.SHUT_WR)

    async def close(self) -> None:
        self._sock.close()

    def abort(self) -> None:
        self._sock.close()


class StreamPipe:
    """The two ends of a stream that has a transport, such as one with TLS."""

    peer: PeerCredentials | None = None
    raw: socket.socket | None = None

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        # So that `drain` waits, and a time limit for writing means something. With a limit of 0, uvloop's TLS would
        # take an empty buffer for a full one.
        writer.transport.set_write_buffer_limits(high=1, low=0)
        if limit := getattr(writer.transport, "set_read_buffer_limits", None):  # those with TLS have it
            limit(high=_READ_AHEAD)
        self.certified = bool(writer.get_extra_info("peercert"))

    async def recv(self, size: int) -> bytes:
        return await self._reader.read(size)

    async def send_all(self, data: bytes) -> None:
        """Send in pieces: one is encrypted as soon as it is written, and `drain` knows only of the next."""
        for start in range(0, len(data), _PIECE):
            self._writer.write(data[start : start + _PIECE])
            await self._writer.drain()

    def finish(self) -> None:
        """Nothing: TLS cannot half-close a connection."""

    async def close(self) -> None:
        """Close TLS, and abort if the other side does not answer."""
        self._writer.close()
        try:
            async with asyncio.timeout(_SHUTDOWN_TIMEOUT):
                await self._writer.wait_closed()
        except (OSError, TimeoutError):
            return  # it was broken, or is now
        finally:
            self.abort()

    def abort(self) -> None:
        """Close at once, without the closing message of TLS."""
        self._writer.transport.abort()


async def accept_tls(sock: socket.socket, context: "ssl.SSLContext", *, timeout: float) -> StreamPipe:
    """The TLS handshake with a client that has just connected; OSError (ssl.SSLError too) or TimeoutError if it fails.

    The socket is ours from here on, and closed if this fails.
    """
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_READ_AHEAD // 2, loop=loop)  # it means half of what it takes
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _READ_AHEAD)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _READ_AHEAD)
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol, sock, ssl=context, ssl_handshake_timeout=timeout, ssl_shutdown_timeout=_SHUTDOWN_TIMEOUT
        )
    except BaseException:
        sock.close()
        raise
    return StreamPipe(reader, asyncio.StreamWriter(transport, protocol, reader, loop))
