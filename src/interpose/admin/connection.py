"""One client's conversation: bytes to requests and answers to bytes, by h11.

Imported with the first connection, so that a relay nobody asks does not carry h11. The socket is used raw
(`sock_recv`, `sock_sendall`): no transport owns it, so a handler can have it for passing descriptors.
Invariant: `serve` never raises but for cancellation, and always closes the socket.
"""

import asyncio
import logging
import socket
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, unquote

import h11

from interpose import __version__
from interpose.admin.routes import (
    BadRequestError,
    Hijack,
    Match,
    Request,
    Response,
    RouteTable,
    error_response,
    find,
)
from interpose.host.peers import PeerCredentials, peer_credentials
from interpose.instrumentation.logging import kv

_log = logging.getLogger(__name__)
_CHUNK = 65536
_LINGER = 2.0  # seconds a client we turned away has to read the answer
_LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """What one client may cost. Sizes in bytes, times in seconds."""

    head: int = 16384  # request line and headers; curl and Prometheus send a few hundred
    body: int = 1 << 20  # the largest body we expect is a settings document
    request_timeout: float = 10.0  # from the first byte of a request to its last
    idle_timeout: float = 90.0  # between requests; above the usual scrape interval of 60
    write_timeout: float = 30.0  # for a reader that stopped reading


class BodyTooLargeError(Exception):
    """The request body is above the limit: answer 413 and close."""


async def serve(sock: socket.socket, routes: RouteTable, limits: HttpLimits) -> None:
    """Answer requests until the client leaves, misbehaves, is too slow or is handed over; then close."""
    conversation = _Conversation(sock, routes, limits)
    try:
        while await conversation.one_request():
            pass
    except (OSError, TimeoutError) as error:
        # A client that went away or stalled is everyday; nothing here needs an operator.
        _log.debug("Admin connection ended", extra=kv(err=f"{type(error).__name__}: {error}"))
    except Exception:
        _log.exception("Admin connection failed")
    finally:
        sock.close()


class _Conversation:
    def __init__(self, sock: socket.socket, routes: RouteTable, limits: HttpLimits) -> None:
        self._sock = sock
        self._routes = routes
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.head)
        self._peer = _peer_of(sock)

    async def one_request(self) -> bool:
        """Read and answer one request; False when the connection is finished."""
        try:
            request = await self._read_request()
        except h11.RemoteProtocolError as error:
            await self._turn_away(error_response(error.error_status_hint, str(error)))
            return False
        except BodyTooLargeError:
            message = f"the body is larger than {self._limits.body} bytes"
            await self._turn_away(error_response(413, message))
            return False
        if request is None:
            return False
        answer = await self._answer(request)
        if isinstance(answer, Hijack):
            await answer.callback(self._sock)
            return False
        await self._send(answer, head_only=request.method == "HEAD")
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    async def _read_request(self) -> Request | None:
        """The next request, or None when the client closed between two."""
        if self._http.trailing_data[0] == b"":
            async with asyncio.timeout(self._limits.idle_timeout):
                self._http.receive_data(await self._loop.sock_recv(self._sock, _CHUNK))
        async with asyncio.timeout(self._limits.request_timeout):
            head = await self._next_event()
            if not isinstance(head, h11.Request):
                return None
            body = bytearray()
            while isinstance(event := await self._next_event(), h11.Data):
                body += event.data
                if len(body) > self._limits.body:
                    raise BodyTooLargeError
            if not isinstance(event, h11.EndOfMessage):
                return None
        return _to_request(head, bytes(body), self._peer)

    async def _next_event(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                await self._write(self._http.send(h11.InformationalResponse(status_code=100, headers=[])))
            self._http.receive_data(await self._loop.sock_recv(self._sock, _CHUNK))
        return event

    async def _answer(self, request: Request) -> Response | Hijack:
        if self._peer is None and not _is_loopback_host(request.headers.get("host", "")):
            # A page in a browser on this machine could reach a loopback address under a name of its own.
            return error_response(403, "the Host header must name a loopback address")
        chosen = find(self._routes, request.method, request.path)
        if not isinstance(chosen, Match):
            return chosen
        try:
            return await chosen.handler(_with_rest(request, chosen.rest))
        except BadRequestError as error:
            return error_response(400, str(error))
        except Exception:
            _log.exception("Admin handler failed", extra=kv(method=request.method, path=request.path))
            return error_response(500, "internal error, see the log")

    async def _turn_away(self, response: Response) -> None:
        """Answer and close. What the client still sends is read away for a moment: closing with unread bytes would
        reset the connection and the client might never see the answer."""
        await self._send(response, close=True)
        self._sock.shutdown(socket.SHUT_WR)
        async with asyncio.timeout(_LINGER):
            while await self._loop.sock_recv(self._sock, _CHUNK):
                pass

    async def _send(self, response: Response, *, close: bool = False, head_only: bool = False) -> None:
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return  # the answer is under way already; only closing is left
        headers = [
            ("server", f"interpose/{__version__}"),
            ("content-type", response.content_type),
            ("content-length", str(len(response.body))),
            *response.headers.items(),
        ]
        if close:
            headers.append(("connection", "close"))
        data = self._http.send(h11.Response(status_code=response.status, headers=headers))
        if response.body and not head_only:
            data += self._http.send(h11.Data(data=response.body))
        data += self._http.send(h11.EndOfMessage())
        await self._write(data)

    async def _write(self, data: bytes) -> None:
        async with asyncio.timeout(self._limits.write_timeout):
            await self._loop.sock_sendall(self._sock, data)


def _to_request(head: h11.Request, body: bytes, peer: PeerCredentials | None) -> Request:
    # By hand: a URL parser would read //x as a host, and http://x/y must give /y.
    path, _, query = head.target.decode("latin-1").partition("?")
    if "://" in path and not path.startswith("/"):
        path = "/" + path.partition("://")[2].partition("/")[2]
    return Request(
        method=head.method.decode("latin-1"),
        path=unquote(path),
        query=tuple(parse_qsl(query, keep_blank_values=True)),
        headers={name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers},
        body=body,
        peer=peer,
    )


def _with_rest(request: Request, rest: str) -> Request:
    return replace(request, rest=rest) if rest else request


def _peer_of(sock: socket.socket) -> PeerCredentials | None:
    if sock.family != socket.AF_UNIX:
        return None
    return peer_credentials(sock)


def _is_loopback_host(host: str) -> bool:
    name = host if host.startswith("[") and host.endswith("]") else host.rpartition(":")[0] or host
    return name.lower() in _LOOPBACK_HOSTS
