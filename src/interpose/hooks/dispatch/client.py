"""Client of one hook server: a kept connection, calls with time-outs, and a circuit breaker in front of both.

Whatever a hook server does, a call ends with its answer or with a HookCallError that says what kind of failure it was.
The breaker counts failures that show that the hook server does not work; an error status is an answer.
"""

import asyncio
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Final

from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.dispatch.breaker import Breaker, BreakerState
from interpose.hooks.dispatch.connection import ConnectionState, DialPolicy
from interpose.hooks.dispatch.deadlines import Deadlines
from interpose.hooks.dispatch.hook_server import Metadata
from interpose.net.grpc.exchange import Exchange, RawReply
from interpose.net.grpc.framing import PREFIX, frame, request_headers
from interpose.net.grpc.raw_client import RawClient
from interpose.net.grpc.status import Code, RpcError, code_of_reset
from interpose.net.grpc.transport import Hub
from interpose.net.grpc.upstream import Upstream
from interpose.net.h2.client import ClientConnection
from interpose.net.h2.limits import Limits
from interpose.net.h2.stream import Stream

# An answer repeats at most what was asked: annotations and environment of one container.
_ANSWER_LIMIT: Final = 4 * 1024 * 1024
# Seconds that a call waits for a hook server that is not connected: enough for one that is being restarted.
_CONNECT_WAIT: Final = 0.25
# Until a peer that took the connection has shown that it speaks HTTP/2.
_DIAL_TIMEOUT: Final = 2.0
# Each call has a time-out of its own; this one is never reached.
_FOREVER: Final = 24 * 3600.0
# A hook server's text ends up in logs and in events of pods.
_TEXT_LIMIT: Final = 1000


class FailureReason(StrEnum):
    """Why a call of a hook server failed."""

    UNREACHABLE = "unreachable"  # no process listens
    TIMEOUT = "timeout"  # no answer in time
    REFUSED = "refused"  # it answered a status other than OK
    BROKEN = "broken"  # it was lost during the call, or does not speak the protocol
    OPEN = "open"  # it was not called, because it failed too often lately


class HookCallError(Exception):
    """A hook server did not answer as it should. `message` is its own text, or ours about it."""

    def __init__(self, code: Code, message: str, reason: FailureReason) -> None:
        super().__init__(f"{code.name}: {message}")
        self.code = code
        self.message = message
        self.reason = reason

    @property
    def is_answer(self) -> bool:
        """Whether the hook server works and answered this status. One that shuts down answers UNAVAILABLE."""
        return self.reason is FailureReason.REFUSED and self.code is not Code.UNAVAILABLE


class HookClient:
    """Client of one hook server. `endpoint` is its socket path, dialled from `start` or the first call on."""

    def __init__(
        self,
        endpoint: str,
        *,
        name: str,
        hub: Hub,
        now: Callable[[], float] = time.monotonic,
        connect_wait: float = _CONNECT_WAIT,
    ) -> None:
        self.name = name
        self.endpoint = endpoint
        self.breaker = Breaker()
        self._hub = hub
        self._now = now
        self._dial_policy = DialPolicy(endpoint)
        self._connection_state = ConnectionState(name, breaker=self.breaker, dial_policy=self._dial_policy, now=now)
        self._upstream = Upstream(
            endpoint,
            hub=hub,
            limits=Limits(),
            wait=_FOREVER,
            find=self._dial_policy.find,
            pace=self._dial_policy.pace,
            dial_timeout=_DIAL_TIMEOUT,
            reports=self._connection_state,
        )
        self._client = RawClient(self._upstream, hub, limit=_ANSWER_LIMIT)
        self.deadlines = Deadlines()
        self.connect_wait = connect_wait
        self._users = 0  # calls in flight, and callers that may make one
        self._idle = asyncio.Event()
        self._idle.set()
        self._started = False
        self._closed = False

    def start(self) -> None:
        """Start dialling, and keep a connection from now on."""
        if not self._started and not self._closed:
            self._started = True
            self._upstream.start()

    def tick(self) -> None:
        """Called once a second: dial again or replace the connection if that is due."""
        if not self._started or self._closed:
            return
        if self.breaker.state is BreakerState.OPEN and self._upstream.up and self._dial_policy.is_replaced:
            # The process at the other end has stopped working, and its successor has made a new socket.
            self._upstream.hang_up()
        self._upstream.tick()
        self._connection_state.state(self._upstream.up)

    async def retire(self) -> None:
        """Close the client after its last user has released it, which takes no longer than the time-outs."""
        try:
            await self._idle.wait()
        finally:  # also when our own process is being shut down
            await self.close()

    async def close(self) -> None:
        """Drop the connection; calls in flight fail."""
        self._closed = True
        self.deadlines.close()
        await self._upstream.close()

    # -- calls

    def hold(self) -> None:
        """Keep the client from being retired until `release`: a caller may still use it."""
        self._users += 1
        self._idle.clear()

    def release(self) -> None:
        """End a `hold` of one caller."""
        self._users -= 1
        if not self._users:
            self._idle.set()

    async def call(
        self, point: HookPoint, message: bytes, *, metadata: Metadata = (), timeout: float, hurried: bool = False
    ) -> bytes:
        """Call the hook and return its answer; HookCallError for every other outcome. `timeout` is in seconds.

        A `hurried` call has less time than the hook server may take: the breaker then ignores a time-out.
        """
        self.start()
        ticket = self.breaker.enter(self._now())
        if ticket is None:
            raise HookCallError(Code.UNAVAILABLE, self._open_breaker_text(), FailureReason.OPEN)
        self.hold()
        try:
            answer = await self._ask(point, message, metadata, timeout)
        except HookCallError as error:
            if error.is_answer:
                self.breaker.record_success(ticket)
            elif hurried and error.reason is FailureReason.TIMEOUT:
                self.breaker.record_abandoned(ticket)
            else:
                self.breaker.record_failure(ticket, self._now())
            self._note_error(str(error))
            raise
        except BaseException:
            self.breaker.record_abandoned(ticket)
            raise
        finally:
            self.release()
        self.breaker.record_success(ticket)
        return answer

    def note_unreadable_answer(self, why: str) -> None:
        """Count the answer that `call` has just returned as a failure: it cannot be read."""
        self.breaker.retract_success(self._now())
        self._note_error(f"its answer cannot be read: {why}")

    async def _ask(self, point: HookPoint, message: bytes, metadata: Metadata, timeout: float) -> bytes:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        exchange = _HookExchange(_ANSWER_LIMIT + PREFIX)
        try:
            conn = self._ready() or await self._connection(deadline)
            # Not asyncio.timeout: there is one thing to wait for, and this is in the path of every pod.
            self.deadlines.add(exchange, deadline)
            wire = request_headers(point.rpc, metadata, max(deadline - loop.time(), 0.0))
            reply = await self._client.exchange_on(conn, wire, frame(message), exchange)
        except TimeoutError:
            silent = ", not even HTTP/2 settings" if self._upstream.greeting else ""
            text = f"no answer within {timeout:.3g} s{silent}"
            raise HookCallError(Code.DEADLINE_EXCEEDED, text, FailureReason.TIMEOUT) from None
        finally:
            self.deadlines.remove(exchange)
        return _read_answer(reply)

    def _ready(self) -> ClientConnection | None:
        """A connection with room for a stream; None if there is none now."""
        return None if self._closed else self._upstream.connection()

    async def _connection(self, deadline: float) -> ClientConnection:
        """A connection with room. A server that is away gets a short wait, a slow one the time until the deadline."""
        if self._closed:
            raise self._unreachable_error("the client is closed")
        short_deadline = min(deadline, asyncio.get_running_loop().time() + self.connect_wait)
        for until in (short_deadline, deadline):
            try:
                async with asyncio.timeout_at(until):
                    return await self._client.connection()
            except TimeoutError:
                if not self._upstream.greeting and not self._upstream.up:
                    raise self._unreachable_error(self._connection_state.problem) from None
            except RpcError:
                raise self._unreachable_error("the client is closed") from None
        raise TimeoutError

    def _unreachable_error(self, why: str) -> HookCallError:
        return HookCallError(Code.UNAVAILABLE, f"{self.endpoint} is not reachable: {why}", FailureReason.UNREACHABLE)

    def _open_breaker_text(self) -> str:
        seconds = self.breaker.retry_in(self._now())
        when = f"for another {seconds:.1f} s" if seconds else "while another call tries it"
        return f"not asked {when}, because it failed too often; its last error: {self.last_error}"

    # -- views

    @property
    def state(self) -> str:
        """`idle` before the first dial has ended, `connected`, `unreachable`, or `broken`: connected and not used."""
        return self._connection_state.state(self._upstream.up)

    @property
    def state_seconds(self) -> float:
        """Seconds since the state last changed."""
        return self._connection_state.state_seconds(self._upstream.up)

    @property
    def last_error(self) -> str:
        """The last error of a call or dial; empty if there was none."""
        return self._connection_state.last_error

    @property
    def last_error_age(self) -> float | None:
        """Seconds since the last error; None if there was none."""
        return self._connection_state.last_error_age

    def _note_error(self, error: str) -> None:
        self._connection_state.note_error(error)
        self._connection_state.state(self._upstream.up)


class _HookExchange(Exchange):
    """The exchange of a call, with error texts about a hook server."""

    def on_reset(self, stream: Stream, code: int) -> None:
        self._finish(None, RpcError(code_of_reset(code), f"it reset the call (HTTP/2 error {code})"))

    def on_lost(self, stream: Stream) -> None:
        self._finish(None, RpcError(Code.UNAVAILABLE, "its connection was lost during the call"))


def _read_answer(reply: RawReply) -> bytes:
    """The message of a reply; HookCallError if it has none."""
    if (failure := reply.failure) is not None:
        raise HookCallError(failure.code, failure.message, FailureReason.BROKEN)
    if reply.trailers is None or reply.trailers.grpc_status is None:
        http = (reply.trailers.get(b":status") if reply.trailers is not None else None) or b"none"
        text = f"its reply has no gRPC status (HTTP status: {http.decode('latin-1')})"
        raise HookCallError(Code.INTERNAL, text, FailureReason.BROKEN)
    if (status := reply.status) is not None:
        # Its server gives up at our deadline, sometimes a moment earlier than we do.
        reason = FailureReason.TIMEOUT if status.code is Code.DEADLINE_EXCEEDED else FailureReason.REFUSED
        raise HookCallError(status.code, status.message[:_TEXT_LIMIT], reason)
    try:
        return reply.message_of_ok(_ANSWER_LIMIT)
    except RpcError as error:
        raise HookCallError(error.code, error.message, FailureReason.BROKEN) from None
