"""The resource manager in the way of calls: an interceptor.

A create is decided and booked at once, then others give up what the new container gets, then the runtime is asked. It
said yes: the booking stands. It said no: the booking goes. Nobody knows: the booking stays until the store has found
out. Updates of the kubelet are honoured and then constrained; they pass the writer of their container, so that two
updates never race. Whatever fails here, the container gets CPUs that nobody holds alone, and the call goes on.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, NamedTuple

from interpose.instrumentation.logging import RateLimited
from interpose.model.pod import Container, ContainerState, Pod
from interpose.policy.decision import Decision, Refusal, Why
from interpose.policy.names import NONE
from interpose.policy.request import Key, Request
from interpose.relay.interceptor import CLIENT, Call, Proceed, Reply, Unreadable, refusal
from interpose.resmgr.books import Books
from interpose.resmgr.edits import Override, write_create, write_fallback, write_update
from interpose.resmgr.grants import ANNOTATION, grant_note
from interpose.resmgr.ledger import Held
from interpose.resmgr.requests import make_request, resized
from interpose.resmgr.writers import DOUBTFUL, Writer
from interpose.rpc.status import Code, RpcError
from interpose.store import convert
from interpose.store.requested import NOT_REQUESTED

_log = logging.getLogger(__name__)

# Seconds a call may wait: for the books to be made at the start, for a look at others, for others to shrink, for others
# to grow. Never more than half of what its caller has left.
_BEGINNING: Final = 5.0
_LOOKING: Final = 1.0
_SHRINKING: Final = 2.0
_GROWING: Final = 0.5
_REFUSALS: Final = 50
_CODES: Final[Mapping[Why, Code]] = {Why.EXHAUSTED: Code.RESOURCE_EXHAUSTED, Why.INVALID: Code.INVALID_ARGUMENT}


class Refused(NamedTuple):
    """A container that did not get what it asked for: the last time, and how often."""

    at: float
    request: Request
    decision: Decision
    refusal: Refusal
    times: int = 1

    @property
    def title(self) -> str:
        """What people call the container."""
        return self.request.title


class _Booked(NamedTuple):
    """A create that is decided."""

    request: Request
    decision: Decision
    before: bool  # it was in the books already: an earlier attempt is in doubt


class Manager:
    """The interceptor. `clock` is the loop's, `now` the time of day."""

    name = "policy"

    def __init__(self, books: Books, *, clock: Callable[[], float], now: Callable[[], float]) -> None:
        self.books = books
        self.overrides: Counter[tuple[str, str]] = Counter()  # (field, who wanted something else)
        self.failures: Counter[str] = Counter()  # by method: deciding itself failed
        self.late = 0  # creates that did not wait until others had shrunk
        self.refused: deque[Refused] = deque(maxlen=_REFUSALS)
        self._clock = clock
        self._now = now
        self._remarks = RateLimited(_log)
        self._looked = -_LOOKING
        self._acts: Mapping[str, Callable[[Call, Proceed], Awaitable[Reply]]] = {
            "CreateContainer": self._create,
            "UpdateContainerResources": self._update,
            "StopContainer": self._end,
            "RemoveContainer": self._end,
            "StopPodSandbox": self._end,
            "RemovePodSandbox": self._end,
        }

    @property
    def methods(self) -> Collection[str]:
        """None, as long as there is no policy."""
        return () if self.books.configuration.policy == NONE else tuple(self._acts)

    async def intercept(self, call: Call, proceed: Proceed) -> Reply:
        """Decide, carry out, let the call pass."""
        if call.origin != CLIENT:
            return await proceed()
        return await self._acts[call.method.name](call, proceed)

    def _budget(self, call: Call, most: float) -> float:
        return most if call.deadline is None else min(most, max(call.deadline - self._clock(), 0.0) / 2)

    # -- a container comes

    async def _create(self, call: Call, proceed: Proceed) -> Reply:
        booked: _Booked | Reply | None = None
        try:
            booked = await self._book(call)
        except Unreadable:
            return await proceed()
        except Exception as error:
            return await self._create_undecided(call, proceed, error)
        if booked is None:
            return await proceed()
        if isinstance(booked, Reply):
            return booked
        try:
            written = await self._write(call, booked)
        except Exception as error:
            self._undo(booked)
            return await self._create_undecided(call, proceed, error)
        except BaseException:
            self._undo(booked)
            raise
        key = booked.request.key
        try:
            reply = await proceed()
        except BaseException:
            self.books.doubt(key)
            raise
        self._conclude(booked, written, reply)
        return reply

    async def _create_undecided(self, call: Call, proceed: Proceed, error: Exception) -> Reply:
        self._note_failure(call, error)
        write_fallback(call.request, self.books.shelter)
        return await proceed()

    async def _book(self, call: Call) -> _Booked | Reply | None:
        """The decision; a refusal; None if the runtime knows no such pod and will say so itself."""
        if self.books.retired:
            raise RpcError(Code.UNAVAILABLE, "a successor keeps the books")
        await self._wait_for_books(call)
        message = call.request
        pod = await self.books.sync.pod(message.pod_sandbox_id)
        if pod is None:
            return None
        asked = message if call.body.received == call.body.data() else call.body.original()
        container = convert.container_of_request(message, asked, pod)
        command, args = tuple(message.config.command), tuple(message.config.args)
        made = make_request(container, pod, command=command, args=args, capacity=self.books.capacity)
        for problem in made.problems:
            text = "What a container asks for was estimated"
            self._remarks.log(logging.WARNING, text, key=made.request.title, container=made.request.title, err=problem)
        request = made.request
        await self._look_again(call, [one.id for one in self._holders() if one.request.key.pod_id == pod.id])
        before = request.key in self.books.ledger.held
        decision = self.books.ledger.allocate(request)
        if decision.refusal is not None and decision.refusal.why is Why.EXHAUSTED:
            # Somebody who holds CPUs may have ended without anybody having told us yet.
            await self._look_at_all(call)
            before = request.key in self.books.ledger.held
            decision = self.books.ledger.allocate(request)
        if decision.refusal is not None:
            return self._refuse(request, decision, decision.refusal)
        return _Booked(request, decision, before)

    async def _wait_for_books(self, call: Call) -> None:
        if not self.books.ready.is_set():
            try:
                await asyncio.wait_for(self.books.ready.wait(), self._budget(call, _BEGINNING))
            except TimeoutError:
                raise RpcError(Code.UNAVAILABLE, "the runtime has not told what runs") from None

    def _holders(self) -> list[Held]:
        """Containers that hold CPUs of their own."""
        ledger = self.books.ledger
        grants = ledger.policy.book.grants
        return [held for key, held in ledger.held.items() if held.id and (own := grants.get(key)) and own.exclusive]

    async def _look_again(self, call: Call, ids: list[str]) -> None:
        if ids:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._budget(call, _LOOKING)):
                    await self.books.sync.refresh(*ids)

    async def _look_at_all(self, call: Call) -> None:
        """Once in a while: a pod that does not fit is tried again and again."""
        if self._clock() - self._looked >= _LOOKING:
            self._looked = self._clock()
            await self._look_again(call, [one.id for one in self._holders()])

    def _refuse(self, request: Request, decision: Decision, why: Refusal) -> Reply:
        # The kubelet tries again and again: one container must not push out all others.
        before = next((one for one in self.refused if one.title == request.title), None)
        if before is not None:
            self.refused.remove(before)
        times = 1 if before is None else before.times + 1
        self.refused.append(Refused(self._now(), request, decision, why, times))
        kv = {"container": request.title, "why": why.message}
        _log.warning("Container was refused by the policy", extra={"kv": kv})
        return refusal(_CODES[why.why], f"policy {self.books.configuration.policy}: {why.message}")

    async def _write(self, call: Call, booked: _Booked) -> Any:
        """Others give up what this container gets; then the request says it. Returns what it says."""
        books, key = self.books, booked.request.key
        others = dict.fromkeys((*booked.decision.changed, *books.in_the_way(key)))
        if not await books.writers.shrink(others, self._budget(call, _SHRINKING)):
            self.late += 1
        grant = books.ledger.policy.book.grants[key]
        assignment = books.ledger.assignment(key)
        note = grant_note(books.configuration.policy, booked.request, grant)
        self._note_overrides(call, write_create(call.request, assignment, grant, ANNOTATION, note))
        return assignment

    def _conclude(self, booked: _Booked, written: Any, reply: Reply) -> None:
        books, key = self.books, booked.request.key
        books.writers.want(booked.decision.changed)
        if reply.code == Code.OK:
            try:
                container_id = reply.response.container_id
            except Unreadable:
                books.doubt(key)
            else:
                books.confirm(key, container_id, written)
                books.on_change()
        elif reply.code in DOUBTFUL or (reply.raw is not None and reply.raw.failure is not None):
            books.doubt(key)
        else:
            self._undo(booked)

    def _undo(self, booked: _Booked) -> None:
        """The container was not made. What another attempt booked under the same name stays: it may have been."""
        held = self.books.ledger.held.get(booked.request.key)
        if not booked.before and held is not None and not held.id:
            self.books.carry_out_soon(self.books.release((booked.request.key,)))

    # -- a container gets other amounts

    async def _update(self, call: Call, proceed: Proceed) -> Reply:
        try:
            known = await self._known(call)
        except (RpcError, Unreadable):
            known = None
        if known is None:
            return await proceed()
        container, writer = known
        changed: tuple[Key, ...] = ()
        before = self.books.ledger.held[writer.key].request
        try:
            decision = self._resize(call, container, before)
            if isinstance(decision, Reply):
                return decision
            if decision is not None:
                changed = decision.changed
                await self.books.writers.shrink(changed, self._budget(call, _SHRINKING))
        except Exception as error:
            self._note_failure(call, error)
        except BaseException:
            self.books.carry_out_soon((*changed, *self._resize_back(before)))
            raise
        try:
            reply = await self._constrained(call, proceed, writer)
        except BaseException:
            self.books.carry_out_soon((writer.key, *changed))
            raise
        if changed or before is not self._request(writer.key):
            if reply.code in DOUBTFUL:
                # It may still have what it should give up: others get that when it certainly has not.
                self.books.carry_out_soon((writer.key, *changed))
                changed = ()
            elif reply.code != Code.OK:
                changed = (*changed, *self._resize_back(before))
            await self.books.writers.reach(changed, self._budget(call, _GROWING))
            self.books.on_change()
        return reply

    async def _known(self, call: Call) -> tuple[Container, Writer] | None:
        await self._wait_for_books(call)
        found = await self.books.sync.container(call.request.container_id)
        if found is None:
            return None
        key = self.books.ledger.by_id.get(found[0].id)
        writer = None if key is None else self.books.writers.all.get(key)
        return None if writer is None else (found[0], writer)

    def _request(self, key: Key) -> Request | None:
        held = self.books.ledger.held.get(key)
        return None if held is None else held.request

    def _resize(self, call: Call, container: Container, before: Request) -> Decision | Reply | None:
        """A decision if the caller wants other amounts, a refusal if it cannot have them."""
        if NOT_REQUESTED in call.metadata:
            return None  # somebody puts values of their own right: nobody wants more or less
        amounts = resized(before, convert.to_resources(call.request.linux), container.requested)
        if amounts == before.amounts:
            return None
        request = replace(before, amounts=amounts)
        decision = self.books.ledger.resize(request)
        return decision if decision.refusal is None else self._refuse(request, decision, decision.refusal)

    def _resize_back(self, before: Request) -> tuple[Key, ...]:
        """The runtime did not take it: neither do we."""
        decision = self.books.ledger.resize(before) if before.key in self.books.ledger.held else None
        return () if decision is None else (before.key, *decision.changed)

    async def _constrained(self, call: Call, proceed: Proceed, writer: Writer) -> Reply:
        """Send the caller's update with the policy's values in it, while nobody else writes."""
        async with writer.lock:
            wanted = self.books.wanted(writer.key)
            if wanted is not None:
                self._note_overrides(call, write_update(call.request, wanted))
            writer.sending = wanted
            try:
                reply = await proceed()
            except BaseException:
                writer.written = None
                raise
            finally:
                writer.sending = None
            if reply.code == Code.OK and wanted is not None:
                writer.written = wanted
                self.books.touch(writer.key, wanted)
                self.books.writers.recovered(writer)
            elif reply.code in DOUBTFUL:
                writer.written = None
        self.books.writers.want((writer.key,))
        return reply

    # -- containers go

    async def _end(self, call: Call, proceed: Proceed) -> Reply:
        reply = await proceed()
        if reply.code not in (Code.OK, Code.NOT_FOUND):
            return reply
        try:
            keys = self._ended(call, reply)
            if keys:
                changed = self.books.release(keys)
                await self.books.writers.reach(changed, self._budget(call, _GROWING))
        except Unreadable:
            pass
        except Exception as error:
            self._note_failure(call, error)
        return reply

    def _ended(self, call: Call, reply: Reply) -> list[Key]:
        """Who does not run any more."""
        ledger, store = self.books.ledger, self.books.store
        if call.method.name in ("StopPodSandbox", "RemovePodSandbox"):
            pod: Pod | None = store.pod(call.request.pod_sandbox_id)
            pod_id = pod.id if pod is not None else call.request.pod_sandbox_id
            return [key for key in ledger.held if key.pod_id == pod_id]
        container = store.container(call.request.container_id)
        key = ledger.by_id.get(container.id if container is not None else call.request.container_id)
        if key is None:
            return []
        # One that was never started can still be.
        waits = container is not None and container.state is ContainerState.CREATED
        stopped_early = waits and call.method.name == "StopContainer" and reply.code == Code.OK
        return [] if stopped_early else [key]

    # -- trouble

    def _note_overrides(self, call: Call, overrides: list[Override]) -> None:
        for one in overrides:
            who = call.claims.get(one.field, "the caller")
            self.overrides[one.field, who] += 1
            text = "The policy's value replaced another one"
            kv = {"field": one.field, "wanted_by": who, "wanted": one.asked, "given": one.given}
            self._remarks.log(logging.WARNING, text, key=f"{who} {one.field}", **kv)

    def _note_failure(self, call: Call, error: Exception) -> None:
        self.failures[call.method.name] += 1
        if isinstance(error, RpcError):
            text = "The policy could not decide, shared CPUs were given"
            self._remarks.log(logging.WARNING, text, key=call.method.name, method=call.method.name, err=str(error))
        else:
            _log.error("Resource manager failed", extra={"kv": {"method": call.method.name}}, exc_info=error)
