"""One connection of a client: bytes to requests and responses to bytes, by h11.

Imported with the first connection, so that a relay without admin clients does not carry h11. The bytes go through a
`Pipe`: a raw socket, or a stream with TLS. Invariant: `serve` never raises but for cancellation, and always closes the
pipe.
"""

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl, unquote

import h11

from interpose import __version__
from interpose.log import kv
from interpose.net.httpd.limits import BodyBudget, HttpServerLimits, HttpSession
from interpose.net.httpd.routes import (
    BadRequestError,
    Hijack,
    RouteMatch,
    Router,
    ServerRequest,
    ServerResponse,
    error_response,
)
from interpose.net.httpd.transports import Pipe

_log = logging.getLogger(__name__)
_CHUNK = 65536
_PIECES_PER_TURN = 64  # pieces of a body that are read before other connections have their turn
_LINGER = 2.0  # seconds a refused client has to read the answer
# Optional in HTTP/1.1, but some clients need them.
_PHRASES: Final = {int(status): status.phrase.encode("ascii") for status in HTTPStatus}
_LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]", "::1")


class BodyTooLargeError(Exception):
    """The request body is above the limit: answer 413 and close."""


class TooManyPiecesError(Exception):
    """The request body comes in too many parts: answer 413 and close."""


class NoRoomError(Exception):
    """All requests together are above the limit: answer 503 and close."""


async def serve(
    pipe: Pipe,
    router: Router,
    limits: HttpServerLimits,
    *,
    any_host: bool = False,
    session: HttpSession | None = None,
    budget: BodyBudget | None = None,
) -> None:
    """Answer requests until the client leaves, misbehaves, is too slow or is handed over; then close.

    `session` is the state that the server sees and ends the connection with; `budget` is shared by connections.
    """
    connection = _HttpConnection(
        pipe,
        router,
        limits,
        any_host=any_host,
        session=session or HttpSession(),
        budget=budget or BodyBudget(limits.body),
    )
    try:
        while await connection.serve_request():
            pass
    except (OSError, TimeoutError) as error:
        # A client that went away or stalled is everyday; nothing here needs an operator.
        _log.debug("Connection ended", extra=kv(err=f"{type(error).__name__}: {error}"))
    except Exception:
        _log.exception("Connection failed")
    finally:
        connection.release()
        if connection.session.cut:
            pipe.abort()
        else:
            await pipe.close()


class _HttpConnection:
    def __init__(
        self,
        pipe: Pipe,
        router: Router,
        limits: HttpServerLimits,
        *,
        any_host: bool,
        session: HttpSession,
        budget: BodyBudget,
    ) -> None:
        self._pipe = pipe
        self._router = router
        self._limits = limits
        self._any_host = any_host or pipe.peer is not None
        self.session = session
        self._budget = budget
        self._now = asyncio.get_running_loop().time
        self._held = 0  # bytes of the body at hand, as the budget knows them
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.head)

    async def serve_request(self) -> bool:
        """Read and answer one request; False when the connection is finished."""
        try:
            request = await self._read_request()
        except h11.RemoteProtocolError as error:
            await self._refuse(error_response(error.error_status_hint, str(error)))
            return False
        except BodyTooLargeError:
            message = f"the body is larger than {self._limits.body} bytes"
            await self._refuse(error_response(413, message))
            return False
        except TooManyPiecesError:
            message = f"the body comes in more than {self._limits.pieces} pieces"
            await self._refuse(error_response(413, message))
            return False
        except NoRoomError:
            await self._refuse(error_response(503, "too many large requests at once", {"retry-after": "1"}))
            return False
        if request is None:
            return False
        self.session.on_request_complete(self._now())
        answer = await self._answer(request)
        self.release()
        if isinstance(answer, Hijack):
            if self._pipe.raw is None:
                answer = error_response(400, "this needs a plain socket")
            else:
                await answer.callback(self._pipe.raw)
                return False
        self.session.on_response(self._now())
        await self._send(answer, head_only=request.method == "HEAD", close=self.session.last)
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return not self.session.last

    def release(self) -> None:
        """Give the bytes of the request body back to the budget."""
        self._budget.give_back(self._held)
        self._held = 0

    async def _read_request(self) -> ServerRequest | None:
        """The next request, or None when the client closed between two."""
        if self._http.trailing_data[0] != b"":
            await asyncio.sleep(0)  # many small requests in one piece are not answered at one go
        else:
            timeout = self._limits.first_timeout
            if self.session.requests:
                self.session.on_idle(self._now())
                timeout = self._limits.idle_timeout
            async with asyncio.timeout(timeout):
                self._http.receive_data(await self._pipe.recv(_CHUNK))
        self.session.on_request(self._now())
        async with asyncio.timeout(self._limits.request_timeout):
            head = await self._next_event()
            if not isinstance(head, h11.Request):
                return None
            body = bytearray()
            pieces = 0
            while isinstance(event := await self._next_event(), h11.Data):
                pieces += 1
                body += event.data
                if len(body) > self._limits.body:
                    raise BodyTooLargeError
                if pieces > self._limits.pieces:
                    raise TooManyPiecesError
                if pieces % _PIECES_PER_TURN == 0:
                    await asyncio.sleep(0)  # small ones come by the thousand, without a wait in between
                if not self._budget.take(len(event.data)):
                    raise NoRoomError
                self._held += len(event.data)
            if not isinstance(event, h11.EndOfMessage):
                return None
        return _to_request(head, bytes(body), self._pipe)

    async def _next_event(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                go_on = h11.InformationalResponse(status_code=100, reason=_PHRASES[100], headers=[])
                await self._write(self._http.send(go_on))
            self._http.receive_data(await self._pipe.recv(_CHUNK))
        return event

    async def _answer(self, request: ServerRequest) -> ServerResponse | Hijack:
        if not self._any_host and not _is_loopback_host(request.headers.get("host", "")):
            # A page in a browser on this machine could reach a loopback address under a name of its own.
            return error_response(403, "the Host header must name a loopback address")
        match = self._router.find(request.method, request.path)
        if not isinstance(match, RouteMatch):
            return match
        try:
            return await match.handler(_with_rest(request, match.rest))
        except BadRequestError as error:
            return error_response(400, str(error))
        except Exception:
            _log.exception("Handler failed", extra=kv(method=request.method, path=request.path))
            return error_response(500, "internal error, see the log")

    async def _refuse(self, response: ServerResponse) -> None:
        """Answer and close. What the client still sends is read for a moment: closing with unread bytes would
        reset the connection and the client might never see the answer."""
        self.release()
        await self._send(response, close=True)
        self._pipe.finish()
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINGER):
                while await self._pipe.recv(_CHUNK):
                    pass

    async def _send(self, response: ServerResponse, *, close: bool = False, head_only: bool = False) -> None:
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return  # the answer is under way already; only closing is left
        status = response.status
        headers = [
            ("server", f"interpose/{__version__}"),
            ("content-type", response.content_type),
            ("content-length", str(len(response.body))),
            *response.headers.items(),
        ]
        if close:
            headers.append(("connection", "close"))
        data = self._http.send(h11.Response(status_code=status, reason=_PHRASES.get(status, b""), headers=headers))
        if response.body and not head_only:
            data += self._http.send(h11.Data(data=response.body))
        data += self._http.send(h11.EndOfMessage())
        await self._write(data)

    async def _write(self, data: bytes) -> None:
        async with asyncio.timeout(self._limits.write_timeout):
            await self._pipe.send_all(data)


def _to_request(head: h11.Request, body: bytes, pipe: Pipe) -> ServerRequest:
    # By hand: a URL parser would read //x as a host, and http://x/y must give /y.
    path, _, query = head.target.decode("latin-1").partition("?")
    if "://" in path and not path.startswith("/"):
        path = "/" + path.partition("://")[2].partition("/")[2]
    return ServerRequest(
        method=head.method.decode("latin-1"),
        path=unquote(path),
        query=tuple(parse_qsl(query, keep_blank_values=True)),
        headers={name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers},
        body=body,
        peer=pipe.peer,
        certified=pipe.certified,
    )


def _with_rest(request: ServerRequest, rest: str) -> ServerRequest:
    return replace(request, rest=rest) if rest else request


def _is_loopback_host(host: str) -> bool:
    name = host if host.startswith("[") and host.endswith("]") else host.rpartition(":")[0] or host
    return name.lower() in _LOOPBACK_HOSTS
