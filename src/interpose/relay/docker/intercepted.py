"""Calls of Docker's API that are about containers of Kubernetes, on their way through the chain.

Interceptors, taps and counters see the CRI call it is (see `translate.to_cri`); dockerd gets the call that came, with a
body in which only the changed members differ, and the caller gets the bytes dockerd answered. They are dockerd's also
if an interceptor changed the reply: Docker's answer has no room for what CRI has in its own. An answer is made here
only where dockerd gave none.

The caller leaving cancels the task, and with it hooks and the call. What is to be done afterwards is done then, too.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from interpose.cri.methods import METHODS, Method
from interpose.cri.parser import CriParser
from interpose.log import RateLimited
from interpose.net.grpc.status import Code, RpcError
from interpose.net.h1.heads import RequestHead
from interpose.relay.api import Body, Call, Direction, Reply
from interpose.relay.chain import Chain
from interpose.relay.docker.cri_adapter import DockerAnswer, DockerRuntime, read_object
from interpose.relay.docker.http_call import DockerHttpCall
from interpose.relay.docker.routes import DockerOperation
from interpose.relay.docker.translate import errors
from interpose.relay.docker.translate.identity_cache import CacheMark
from interpose.relay.docker.translate.json_edit import BodyTooLargeToReadError
from interpose.relay.docker.translate.to_cri import CriCall, aside, to_cri_call
from interpose.relay.docker.upstream import BackendAwayError
from interpose.relay.internal_calls import CallRunner, method_of
from interpose.relay.routes import Route, Routes
from interpose.relay.taps import TapRegistry

_log = logging.getLogger(__name__)

_LEFT: Final = 499  # how a proxy writes down that the caller did not wait
_TOO_LARGE: Final = 413
_BAD_GATEWAY: Final = 502
_STOPPED: Final = "StopPodSandbox"


class ObservedCall(Protocol):
    """A passing call that taps look at."""

    def end(self, status: int, why: str = "") -> None:
        """It is over; 0 stands for no answer."""


def _unseen(_head: RequestHead, _peer: Any) -> ObservedCall | None:
    return None


class DockerCallRunner(CallRunner):
    """Runs wanted calls. One per relay."""

    def __init__(
        self,
        *,
        chain: Chain,
        tap_registry: TapRegistry,
        runtime: DockerRuntime,
        routes: Routes,
        limit: int,
        now: Callable[[], float],
    ) -> None:
        super().__init__(chain=chain, tap_registry=tap_registry, limit=limit, now=now, ask=self._call_runtime)
        self.runtime = runtime
        self.routes = routes
        # The view for taps of a call that is not about a container of Kubernetes.
        self.sight: Callable[[RequestHead, Any], ObservedCall | None] = _unseen
        # Told when only the container of a sandbox was stopped: its neighbours live on, unlike after a StopPodSandbox.
        self.on_sandbox_stopped: Callable[[], None] = lambda: None
        self.remarks = RateLimited(_log)

    async def handle(self, call: DockerHttpCall) -> bytes:
        """Run a call of a client; the whole answer."""
        try:
            try:
                cri_call = await to_cri_call(call, self.runtime)
            except BodyTooLargeToReadError as error:
                return self._too_large(call, str(error))
            if cri_call is None:
                return await self._pass(call)
            return await InterceptedHttpCall(self, call, cri_call).run()
        except BaseException:
            # There will be no answer after which the rest could be done.
            afterwards, call.afterwards[:] = tuple(call.afterwards), ()
            for act in afterwards:
                act()
            raise

    def _too_large(self, call: DockerHttpCall, why: str) -> bytes:
        """Pass the call on without interceptors and taps."""
        sighted = self.sight(call.head, call.peer)
        if sighted is not None:
            sighted.end(_TOO_LARGE, why)
        return errors.error_answer(_TOO_LARGE, why)

    async def _pass(self, call: DockerHttpCall) -> bytes:
        """Pass a call that is not about a container of Kubernetes to dockerd."""
        sighted = self.sight(call.head, call.peer)
        status, why = _LEFT, ""
        try:
            answered = DockerAnswer(await call.forward())
            if answered.failure is not None or answered.http.head is None:
                status, why = 0, answered.message
                return errors.error_answer(_BAD_GATEWAY, why, close=True)
            status = answered.http.head.status
            return answered.http.raw
        except BackendAwayError as error:
            status, why = errors.status_of_code(Code.UNAVAILABLE), str(error)
            return errors.error_answer(status, why)
        finally:
            if sighted is not None:
                sighted.end(status, why)

    async def _call_runtime(self, route: Route, path: bytes, message: bytes, timeout: float) -> Reply:
        return await self.runtime.call(method_of(route).name, message, timeout)


class InterceptedHttpCall:
    """One call on its way through the chain."""

    def __init__(self, owner: DockerCallRunner, http: DockerHttpCall, cri_call: CriCall) -> None:
        self._owner = owner
        self._http = http
        self._cri_call = cri_call
        self._method = METHODS[cri_call.methods[-1]]
        self._path = _path_of(self._method)
        route = owner.routes.known[self._path]
        self._stats = route.stats
        self._since = owner.now()
        self._watched = bool(route.taps)
        line = {b"docker": http.head.raw.partition(b" HTTP/")[0]}
        self._view = owner.view(route, self._path, peer=http.peer, headers=line) if route.taps else None
        self._call = self._called(self._method)

    def _called(self, method: Method) -> Call:
        head, cri_call = self._http.head, self._cri_call
        return Call(
            method=method,
            path=_path_of(method),
            body=Body(
                cri_call.message,
                CriParser(method.request),
                unreadable=cri_call.unreadable,
                understood=cri_call.understood,
            ),
            metadata=lambda: head.headers,
            peer=self._http.peer,
            afterwards=self._http.afterwards,
            watched=self._watched,
            alone=True,  # whatever becomes of a sandbox, dockerd leaves its neighbours alone
        )

    async def run(self) -> bytes:
        """The whole answer to the caller."""
        self._stats.started += 1
        self._stats.bytes_received += len(self._http.body)
        code, why = int(Code.CANCELLED), ""
        try:
            reply = await self._through_chain()
            answer = self._answer(reply)
            code, why = reply.code, reply.message
            self._stats.bytes_sent += len(answer)
            if self._view is not None:
                self._owner.show_reply(self._view, reply)
            return answer
        except Exception:
            code, why = Code.INTERNAL, "internal error"
            raise
        finally:
            self._end(code, why)

    async def _through_chain(self) -> Reply:
        view, cri_call = self._view, self._cri_call
        if view is not None:
            if cri_call.unreadable:
                view.unseen(Direction.REQUEST, len(self._http.body), cri_call.unreadable)
            else:
                view.show(Direction.REQUEST, cri_call.message)
        calls = [*map(self._called, map(METHODS.__getitem__, cri_call.methods[:-1])), self._call]
        try:
            reply = await self._step(calls)
        except RpcError as error:
            return Reply(code=error.code, message=error.message)
        if reply.code == Code.OK and self._method.name == _STOPPED:
            self._http.afterwards.append(self._owner.on_sandbox_stopped)
        return reply

    async def _step(self, calls: Sequence[Call]) -> Reply:
        """Run one chain after the other where the method is ambiguous: each of them may refuse."""
        if not calls:
            return await self._forward()
        return await self._owner.chain.run(calls[0], lambda _: self._step(calls[1:]))

    async def _forward(self) -> Reply:
        owner = self._owner
        now = owner.now()
        self._stats.spent(now - self._since)
        self._since = now
        mark = owner.runtime.known.mark()
        try:
            answered = DockerAnswer(await self._http.forward(await self._edited()))
        except BackendAwayError as error:
            return Reply(code=Code.UNAVAILABLE, message=str(error))
        reply = self._understood(answered, mark)
        if self._view is not None:
            self._view.on_runtime_reply(reply)
        return reply

    async def _edited(self) -> bytes | None:
        """The body for dockerd, if it is another one."""
        cri_call, body = self._cri_call, self._call.body
        if cri_call.edit is None or (data := body.data()) == cri_call.message:
            return None
        if self._view is not None:
            self._view.show(Direction.FORWARDED, data)
        edit, after = cri_call.edit, self._call.request
        edited = await aside(self._http.body, lambda: edit(after))
        if edited.without_effect:
            fields = ", ".join(edited.without_effect)
            self._owner.remarks.log(
                logging.WARNING,
                "Docker has no place for something that was changed",
                key=fields,
                method=self._method.name,
                fields=fields,
            )
        return None if edited.body is self._http.body else edited.body

    def _understood(self, answered: DockerAnswer, mark: CacheMark) -> Reply:
        """dockerd's answer as interceptors see it."""
        cri_call, known = self._cri_call, self._owner.runtime.known
        code = answered.code(creating=cri_call.operation is DockerOperation.CREATE)
        identity = cri_call.identity
        if identity is not None and (
            code is Code.NOT_FOUND or (cri_call.operation is DockerOperation.REMOVE and code is Code.OK)
        ):
            known.remove(identity.id)
        if code is not Code.OK:
            return Reply(code=code, message=answered.message, raw=answered)
        parser = CriParser(self._method.response)
        if cri_call.unreadable:
            return Reply(code=code, body=Body(b"", parser, unreadable=cri_call.unreadable), raw=answered)
        message = parser.parse(b"")
        if cri_call.operation is DockerOperation.CREATE and identity is not None:
            made = _created(answered)
            if not made:
                return Reply(code=code, body=Body(b"", parser, unreadable="dockerd named no id"), raw=answered)
            known.add(replace(identity, id=made), mark)
            if identity.sandbox:
                message.pod_sandbox_id = made
            else:
                message.container_id = made
        return Reply(code=code, body=Body(parser.serialize(message), parser), raw=answered)

    def _answer(self, reply: Reply) -> bytes:
        """The bytes for the caller: dockerd's own if there are any."""
        raw = reply.raw
        if isinstance(raw, DockerAnswer):
            if raw.failure is None:
                return raw.http.raw
            return errors.error_answer(_BAD_GATEWAY, raw.failure, close=True)
        if reply.code:
            return errors.error_answer(errors.status_of_code(reply.code), reply.message)
        return _SYNTHESIZED.get(self._cri_call.operation, _nothing)(reply)

    def _end(self, code: int, why: str) -> None:
        if self._view is not None:
            self._view.changed_by = self._call.changed_by or ()
            self._view.end(code, why)
        self._stats.finish(code, self._owner.now() - self._since)


def _path_of(method: Method) -> bytes:
    return method.paths[0].encode()


def _created(answered: DockerAnswer) -> str:
    """The id of what was created; empty if dockerd does not say."""
    made = read_object(answered.http.body).get("Id")
    return made if isinstance(made, str) else ""


# -- answers to calls that an interceptor answered in place of dockerd


def _new(reply: Reply) -> bytes:
    response = reply.response
    made = getattr(response, "pod_sandbox_id", "") or getattr(response, "container_id", "")
    return errors.answer(201, b'{"Id":"%s","Warnings":[]}\n' % made.encode())


def _changed(_reply: Reply) -> bytes:
    return errors.answer(200, b'{"Warnings":[]}\n')


def _nothing(_reply: Reply) -> bytes:
    return errors.answer(204)


_SYNTHESIZED: Final = {DockerOperation.CREATE: _new, DockerOperation.UPDATE: _changed}
