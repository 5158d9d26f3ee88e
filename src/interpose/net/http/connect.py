"""A connection to a server: names, addresses, proxies, TLS. Errors have texts that an operator can act on.

Invariant: a dial that fails or is cancelled leaves no socket behind.
"""

import asyncio
import socket
import ssl
from collections.abc import Mapping
from typing import Any, Final

from interpose.net.http.address import Proxy, Server
from interpose.net.http.errors import UnreachableError, shortened

# A peer that vanished is noticed after a minute, also on an idle connection.
_KEEPALIVE: Final[Mapping[int, int]] = {
    socket.TCP_KEEPIDLE: 30,
    socket.TCP_KEEPINTVL: 10,
    socket.TCP_KEEPCNT: 3,
    socket.TCP_USER_TIMEOUT: 60_000,  # milliseconds that sent bytes may stay unanswered
}
_MAX_PROXY_HEAD: Final = 16384


class CountingReader(asyncio.StreamReader):
    """A reader that knows whether there is something to read."""

    def __init__(self) -> None:
        super().__init__(loop=asyncio.get_running_loop())
        self.unread = 0

    def feed_data(self, data: Any) -> None:
        self.unread += len(data)
        super().feed_data(data)

    async def read(self, n: int = -1) -> bytes:
        data = await super().read(n)
        self.unread -= len(data)
        return data


async def dial(
    server: Server, context: ssl.SSLContext | None, *, timeout: float, proxy: Proxy | None = None, server_name: str = ""
) -> tuple[CountingReader, asyncio.StreamWriter]:
    """Streams to the server, within `timeout` seconds; else UnreachableError."""
    try:
        async with asyncio.timeout(timeout):
            sock = await (
                _tunnel(server, proxy, timeout) if proxy is not None else _connect(server.host, server.port, timeout)
            )
            try:
                return await _streams(sock, context, server_name or server.host)
            except BaseException:
                sock.close()
                raise
    except TimeoutError:
        through = f" through proxy {proxy.authority}" if proxy is not None else ""
        raise UnreachableError(f"{server}: no connection{through} within {timeout:g} s") from None
    except (OSError, ValueError) as error:
        raise UnreachableError(f"{server}: {describe(error)}") from None


async def dial_unix(path: str, *, timeout: float) -> tuple[CountingReader, asyncio.StreamWriter]:
    """Streams to a unix socket, within `timeout` seconds; else UnreachableError."""
    loop = asyncio.get_running_loop()
    reader = CountingReader()
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    try:
        async with asyncio.timeout(timeout):
            transport, _ = await loop.create_unix_connection(lambda: protocol, path)
    except TimeoutError:
        raise UnreachableError(f"unix://{path}: no connection within {timeout:g} s") from None
    except OSError as error:
        raise UnreachableError(f"unix://{path}: {describe(error)}") from None
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


async def _streams(
    sock: socket.socket, context: ssl.SSLContext | None, name: str
) -> tuple[CountingReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = CountingReader()
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    hostname = name if context is not None else None
    transport, _ = await loop.create_connection(lambda: protocol, sock=sock, ssl=context, server_hostname=hostname)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


async def _connect(host: str, port: int, timeout: float) -> socket.socket:
    """Connect to the first address of a name that accepts; each has its share of the time."""
    loop = asyncio.get_running_loop()
    addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    problem: OSError = OSError(f"{host} has no address")
    for family, kind, protocol, _name, address in addresses:
        sock = socket.socket(family, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, protocol)
        try:
            async with asyncio.timeout(timeout / len(addresses)):
                await loop.sock_connect(sock, address)
            _keep_alive(sock)
        except TimeoutError:
            sock.close()
            problem = TimeoutError(f"no connection within {timeout:g} s")
        except OSError as error:
            sock.close()
            problem = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise problem


def _keep_alive(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE.items():
        sock.setsockopt(socket.IPPROTO_TCP, option, value)


async def _tunnel(server: Server, proxy: Proxy, timeout: float) -> socket.socket:
    """A connection that a proxy passes on."""
    loop = asyncio.get_running_loop()
    try:
        sock = await _connect(proxy.host, proxy.port, timeout)
    except OSError as error:
        raise UnreachableError(f"{server}: proxy {proxy.authority}: {describe(error)}") from None
    try:
        words = [f"CONNECT {server.authority} HTTP/1.1", f"Host: {server.authority}"]
        if proxy.authorization:
            words.append(f"Proxy-Authorization: {proxy.authorization}")
        await loop.sock_sendall(sock, ("\r\n".join(words) + "\r\n\r\n").encode())
        head = b""
        while b"\r\n\r\n" not in head:
            # Byte by byte would be right too: what follows the head belongs to the server, but it waits for us.
            data = await loop.sock_recv(sock, 4096)
            head += data
            if not data or len(head) > _MAX_PROXY_HEAD:
                raise UnreachableError(f"{server}: proxy {proxy.authority} gave no answer to CONNECT")
        first = head.partition(b"\r\n")[0]
        words = first.decode("latin-1").split(maxsplit=2)
        if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].startswith("2"):
            raise UnreachableError(f"{server}: proxy {proxy.authority} refused the way: {shortened(first)}")
    except BaseException:
        sock.close()
        raise
    return sock


def describe(error: Exception) -> str:
    """Why a connection could not be made or broke."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the server cannot be trusted: {getattr(error, 'verify_message', error)}"
    if isinstance(error, ssl.SSLError):
        reason = getattr(error, "reason", None) or str(error)  # not all of them are OpenSSL's own
        return f"TLS failed: {reason.replace('_', ' ').lower()}"
    if isinstance(error, socket.gaierror):
        return f"the name cannot be resolved: {error.strerror}"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        return "the connection was reset"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
