"""The resource manager in the way of calls: an interceptor.

A create is decided and booked at once, then others give up what the new container gets, then the runtime is asked. It
said yes: the booking stands. It said no: the booking goes. Nobody knows: the booking stays until the store has found
out. Whatever fails here, the container gets CPUs that nobody holds alone, and the call goes on; what is booked is then
confirmed, taken back or in doubt, but never forgotten.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from interpose.core.model.cpuset import EMPTY
from interpose.core.model.pod import ContainerState, Pod
from interpose.core.policy.decision import Assignment, Decision, RefusalKind
from interpose.core.policy.names import NONE
from interpose.core.policy.request import Key, Request
from interpose.cri.errors import OpaqueMessageError, UnreadableMessageError
from interpose.cri.store import convert
from interpose.net.grpc.status import Code, RpcError
from interpose.relay.api import CLIENT, Call, Proceed, Reply
from interpose.relay.store_updates import has_unknown_outcome
from interpose.resmgr.allocations import Allocation
from interpose.resmgr.barriers import LOOKING, CallBarriers, asked_by_caller
from interpose.resmgr.container_request import make_request
from interpose.resmgr.counters import PolicyCounters
from interpose.resmgr.request_edits import write_create, write_fallback
from interpose.resmgr.resize import ResizeHandler
from interpose.resmgr.state.grant_annotation import ANNOTATION, grant_note
from interpose.resmgr.tracker import AllocationTracker


class _Booked(NamedTuple):
    """A create that is decided."""

    request: Request
    decision: Decision
    before: bool  # it was in the books already: an earlier attempt is in doubt


class PolicyInterceptor:
    """The interceptor. `clock` is the loop's, `now` the time of day."""

    name = "policy"

    def __init__(self, tracker: AllocationTracker, *, clock: Callable[[], float], now: Callable[[], float]) -> None:
        self.tracker = tracker
        self._clock = clock
        self.counters = PolicyCounters(now)
        self._barriers = CallBarriers(tracker, self.counters, clock)
        self._looked = -LOOKING
        self._acts: Mapping[str, Callable[[Call, Proceed], Awaitable[Reply]]] = {
            "CreateContainer": self._create,
            "StartContainer": self._start,
            "UpdateContainerResources": ResizeHandler(tracker, self._barriers, self.counters).update,
            "StopContainer": self._end,
            "RemoveContainer": self._end,
            "StopPodSandbox": self._end,
            "RemovePodSandbox": self._end,
        }

    @property
    def methods(self) -> Collection[str]:
        """None, as long as there is no policy."""
        return () if self.tracker.configuration.policy == NONE else tuple(self._acts)

    async def intercept(self, call: Call, proceed: Proceed) -> Reply:
        """Decide, carry out, let the call pass."""
        if call.origin != CLIENT:
            return await proceed()
        return await self._acts[call.method.name](call, proceed)

    # -- a container comes

    async def _create(self, call: Call, proceed: Proceed) -> Reply:
        booked: _Booked | Reply | None = None
        try:
            booked = await self._book(call)
        except OpaqueMessageError as error:
            return self.counters.unread(self.tracker.configuration.policy, call, error)
        except UnreadableMessageError:
            return await proceed()
        except Exception as error:
            return await self._create_undecided(call, proceed, error)
        if booked is None:
            # Docker makes it all the same, in a pod that nobody knows: the store will tell.
            self._use_fallback(call)
            return await proceed()
        if isinstance(booked, Reply):
            return booked
        try:
            return await self._create_booked(call, proceed, booked)
        except BaseException:
            self._doubt(booked.request.key)
            raise

    async def _create_booked(self, call: Call, proceed: Proceed, booked: _Booked) -> Reply:
        try:
            written = await self._write(call, booked)
        except Exception as error:
            self._undo(call, booked)
            return await self._create_undecided(call, proceed, error)
        except BaseException:
            self._undo(call, booked)
            raise
        if written is None:
            # Its pod was stopped meanwhile. If the runtime makes it all the same, the store will tell.
            self._use_fallback(call)
            return await proceed()
        reply = await proceed()
        await self._conclude(call, booked, written, reply)
        return reply

    async def _create_undecided(self, call: Call, proceed: Proceed, error: Exception) -> Reply:
        self.counters.failed(call, error)
        self._use_fallback(call)
        return await proceed()

    def _use_fallback(self, call: Call) -> None:
        """Nobody decides about it. Notes of a grant are written where one is given: such a one is not ours."""
        call.request.config.annotations.pop(ANNOTATION, None)
        write_fallback(call.request, self.tracker.fallback_cpus)

    async def _book(self, call: Call) -> _Booked | Reply | None:
        """The decision; a refusal; None if the runtime knows no such pod and will say so itself."""
        message = call.request
        if self.tracker.retired:
            raise RpcError(Code.UNAVAILABLE, "a newer relay has taken over")
        await self._barriers.for_books(call)
        pod = await self.tracker.sync.pod(message.pod_sandbox_id) if message.pod_sandbox_id else None
        if pod is None:
            return None
        container = convert.container_of_request(message, asked_by_caller(call), pod)
        command, args = tuple(message.config.command), tuple(message.config.args)
        made = make_request(container, pod, command=command, args=args, capacity=self.tracker.capacity)
        request = made.request
        self.counters.estimated(request.title, made.problems)
        await self._barriers.for_a_look(call, self._neighbours(request.key))
        booked = self._decided(request)
        if booked.decision.refusal is not None and booked.decision.refusal.kind is RefusalKind.EXHAUSTED:
            # Somebody who holds CPUs may have ended without anybody having told us yet.
            await self._look_at_all(call)
            booked = self._decided(request)
        refusal = booked.decision.refusal
        if refusal is not None:
            return self.counters.refuse(self.tracker.configuration.policy, booked.request, booked.decision, refusal)
        return booked

    def _decided(self, request: Request) -> _Booked:
        allocations = self.tracker.allocations
        request = replace(request, key=self.tracker.free_key(request.key))
        before = request.key in allocations.by_key
        return _Booked(request, allocations.allocate(request), before)

    def _neighbours(self, key: Key) -> list[str]:
        """Who holds CPUs in the same pod, and who is booked like a new container: both may have ended unseen."""
        found = [one for one in self._holders() if one.request.key.pod_id == key.pod_id]
        same = self.tracker.allocations.by_key.get(key)
        return list(dict.fromkeys(one.id for one in (*found, same) if one is not None and one.id))

    def _holders(self) -> list[Allocation]:
        """Containers that hold CPUs of their own."""
        allocations = self.tracker.allocations
        grants = allocations.policy.state.grants
        return [
            held for key, held in allocations.by_key.items() if held.id and (own := grants.get(key)) and own.exclusive
        ]

    async def _look_at_all(self, call: Call) -> None:
        """Once in a while: a pod that does not fit is tried again and again."""
        if self._clock() - self._looked >= LOOKING:
            self._looked = self._clock()
            await self._barriers.for_a_look(call, [one.id for one in self._holders()])

    async def _write(self, call: Call, booked: _Booked) -> Assignment | None:
        """Others give up what this container gets; then the request says it. None: it is not in the books any more."""
        tracker, key = self.tracker, booked.request.key
        await self._barriers.for_room(call, key)
        if key not in tracker.allocations.by_key:
            return None
        assignment = tracker.allocations.assignment(key)
        grant = tracker.allocations.policy.state.grants.get(key)
        if grant is None:  # another configuration has no place for it
            write_fallback(call.request, assignment.cpus or EMPTY)
            return assignment
        note = grant_note(tracker.configuration.policy, booked.request, grant)
        self.counters.overridden(call, write_create(call.request, assignment, grant, ANNOTATION, note))
        return assignment

    async def _conclude(self, call: Call, booked: _Booked, written: Assignment, reply: Reply) -> None:
        tracker, key = self.tracker, booked.request.key
        tracker.updaters.schedule(booked.decision.changed)
        if reply.code == Code.OK:
            try:
                container_id = reply.response.container_id
            except UnreadableMessageError:
                tracker.mark_create_pending(key)
            else:
                tracker.confirm(key, container_id, written)
                tracker.on_change()
                await self._barriers.for_itself(call, key)
        elif has_unknown_outcome(reply):
            tracker.mark_create_pending(key)
        else:
            self._undo(call, booked)

    def _undo(self, call: Call, booked: _Booked) -> None:
        """The container was not made. What another attempt booked under the same name stays: it may have been."""
        key = booked.request.key
        held = self.tracker.allocations.by_key.get(key)
        if booked.before or held is None or held.id:
            return
        try:
            self.tracker.enforce_soon(self.tracker.release((key,)))
        except Exception as error:
            self.counters.failed(call, error)
            self._doubt(key)

    def _doubt(self, key: Key) -> None:
        """Whatever has happened, what is booked goes if there turns out to be no such container."""
        held = self.tracker.allocations.by_key.get(key)
        if held is not None and not held.id:
            self.tracker.mark_create_pending(key)

    # -- a container begins to run

    async def _start(self, call: Call, proceed: Proceed) -> Reply:
        """What others got since it was made, it loses before it runs."""
        try:
            container = self.tracker.store.container(call.request.container_id)
            key = None if container is None else self.tracker.allocations.by_id.get(container.id)
            if key is not None:
                await self._barriers.for_itself(call, key)
        except UnreadableMessageError:
            pass
        except Exception as error:
            self.counters.failed(call, error)
        return await proceed()

    # -- containers go

    async def _end(self, call: Call, proceed: Proceed) -> Reply:
        reply = await proceed()
        if reply.code not in (Code.OK, Code.NOT_FOUND):
            return reply
        try:
            keys = self._ended(call, reply)
            if keys:
                changed = self.tracker.release(keys)
                await self._barriers.for_growth(call, changed)
        except UnreadableMessageError:
            pass
        except Exception as error:
            self.counters.failed(call, error)
        return reply

    def _ended(self, call: Call, reply: Reply) -> list[Key]:
        """Who does not run any more."""
        allocations, store = self.tracker.allocations, self.tracker.store
        if call.method.name in ("StopPodSandbox", "RemovePodSandbox"):
            if call.alone:
                return []
            pod: Pod | None = store.pod(call.request.pod_sandbox_id)
            pod_id = pod.id if pod is not None else call.request.pod_sandbox_id
            return [key for key in allocations.by_key if key.pod_id == pod_id]
        container = store.container(call.request.container_id)
        key = allocations.by_id.get(container.id if container is not None else call.request.container_id)
        if key is None:
            return []
        # One that was never started can still be.
        waits = container is not None and container.state is ContainerState.CREATED
        stopped_early = waits and call.method.name == "StopContainer" and reply.code == Code.OK
        return [] if stopped_early else [key]
