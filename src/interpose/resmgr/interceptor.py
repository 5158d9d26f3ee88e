"""The interceptor of the resource manager.

A create is decided and reserved at once, then others give up what the new container gets, then the call goes to the
runtime. If that succeeds, the reservation becomes an allocation; if it fails, the reservation is released; if the
outcome is unknown, it stays until the store knows. Whatever fails here, the container gets CPUs without an exclusive
owner, and the call goes on; a reservation is then confirmed, released or pending, but never forgotten.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from interpose.core.model.cpuset import EMPTY
from interpose.core.model.pod import ContainerState, Pod
from interpose.core.policy.decision import Assignment, Decision, RefusalKind
from interpose.core.policy.names import NONE, WITHOUT_HINTS
from interpose.core.policy.request import Key, Request
from interpose.cri.errors import OpaqueMessageError, UnreadableMessageError
from interpose.cri.store import convert
from interpose.net.grpc.status import Code, RpcError
from interpose.relay.api import CLIENT, Call, Proceed, Reply
from interpose.relay.store_updates import has_unknown_outcome
from interpose.resmgr.allocations import Allocation
from interpose.resmgr.barriers import REFRESH_TIMEOUT, CallBarriers, caller_request
from interpose.resmgr.container_request import make_request
from interpose.resmgr.control.pod_quotas import quota_directory
from interpose.resmgr.counters import PolicyCounters
from interpose.resmgr.existing_containers import container_key
from interpose.resmgr.exports.resource_files import ResourceFiles
from interpose.resmgr.hints.resolver import HintResolver
from interpose.resmgr.request_edits import write_create, write_fallback
from interpose.resmgr.resize import ResizeHandler
from interpose.resmgr.state.grant_annotation import ANNOTATION, grant_note
from interpose.resmgr.tracker import AllocationTracker


class _Reservation(NamedTuple):
    """A create that is decided; its outcome at the runtime is open."""

    request: Request
    decision: Decision
    existed: bool  # it had an allocation already: the outcome of an earlier attempt is unknown


class PolicyInterceptor:
    """Decides about creates and updates of containers. `clock` is the loop's, `now` the time of day."""

    name = "policy"

    def __init__(
        self,
        tracker: AllocationTracker,
        *,
        hints: HintResolver | None = None,
        files: ResourceFiles | None = None,
        clock: Callable[[], float],
        now: Callable[[], float],
    ) -> None:
        """`hints` finds topology hints of new containers, for policies that read them; `files` are for containers."""
        self.tracker = tracker
        self._hints = hints
        self._files = files
        self._clock = clock
        self.counters = PolicyCounters(now)
        self._barriers = CallBarriers(tracker, self.counters, clock)
        self._refreshed_at = -REFRESH_TIMEOUT
        self._handlers: Mapping[str, Callable[[Call, Proceed], Awaitable[Reply]]] = {
            "CreateContainer": self._create,
            "StartContainer": self._start,
            "UpdateContainerResources": ResizeHandler(tracker, self._barriers, self.counters).update,
            "StopContainer": self._stop,
            "RemoveContainer": self._stop,
            "StopPodSandbox": self._stop,
            "RemovePodSandbox": self._stop,
            "UpdatePodSandboxResources": self._update_pod,
        }

    @property
    def methods(self) -> Collection[str]:
        """The methods to intercept; none without a policy."""
        return () if self.tracker.configuration.policy == NONE else tuple(self._handlers)

    async def intercept(self, call: Call, proceed: Proceed) -> Reply:
        """Decide about a call, update other containers, and let it proceed."""
        if call.origin != CLIENT:
            return await proceed()
        return await self._handlers[call.method.name](call, proceed)

    # -- a container is created

    async def _create(self, call: Call, proceed: Proceed) -> Reply:
        reservation: _Reservation | Reply | None = None
        try:
            reservation = await self._reserve(call)
        except OpaqueMessageError as error:
            return self.counters.refuse_unreadable(self.tracker.configuration.policy, call, error)
        except UnreadableMessageError:
            return await proceed()
        except Exception as error:
            return await self._create_undecided(call, proceed, error)
        if reservation is None:
            # Docker creates it all the same, in an unknown pod: the store reports it.
            self._use_fallback(call)
            return await proceed()
        if isinstance(reservation, Reply):
            return reservation
        try:
            return await self._create_reserved(call, proceed, reservation)
        except BaseException:
            self._mark_pending(reservation.request.key)
            raise

    async def _create_reserved(self, call: Call, proceed: Proceed, reservation: _Reservation) -> Reply:
        try:
            written = await self._write_assignment(call, reservation)
        except Exception as error:
            self._release_reservation(call, reservation)
            return await self._create_undecided(call, proceed, error)
        except BaseException:
            self._release_reservation(call, reservation)
            raise
        if written is None:
            # Its pod was stopped meanwhile. If the runtime creates it all the same, the store reports it.
            self._use_fallback(call)
            return await proceed()
        reply = await proceed()
        await self._conclude(call, reservation, written, reply)
        return reply

    async def _create_undecided(self, call: Call, proceed: Proceed, error: Exception) -> Reply:
        self.counters.count_failure(call, error)
        self._use_fallback(call)
        return await proceed()

    def _use_fallback(self, call: Call) -> None:
        """Write the fallback CPUs. A grant annotation is removed: without a decision it is not ours."""
        call.request.config.annotations.pop(ANNOTATION, None)
        write_fallback(call.request, self.tracker.fallback_cpus)

    async def _reserve(self, call: Call) -> _Reservation | Reply | None:
        """The reservation; a reply that refuses; None if the runtime knows no such pod and will say so itself."""
        message = call.request
        if self.tracker.retired:
            raise RpcError(Code.UNAVAILABLE, "a newer relay has taken over")
        await self._barriers.wait_until_ready(call)
        pod = await self.tracker.sync.pod(message.pod_sandbox_id) if message.pod_sandbox_id else None
        if pod is None:
            return None
        container = convert.container_of_request(message, caller_request(call), pod)
        command, args = tuple(message.config.command), tuple(message.config.args)
        # The record of the pod has what hook servers made of it, and no resize that the runtime was not told of.
        whole = convert.to_resources(caller_request(call).sandbox_config.linux.resources)
        result = make_request(
            container,
            replace(pod, resources=whole) if whole.cpu_shares else pod,
            command=command,
            args=args,
            capacity=self.tracker.capacity,
            siblings=self.tracker.allocations.siblings(container_key(container)),
        )
        request = result.request
        self.counters.log_estimate(request.title, result.problems)
        if self._hints is not None and self.tracker.configuration.policy not in WITHOUT_HINTS:
            hints, problems = await self._hints.resolve(request, message.config, self.tracker.topology)
            request = replace(request, hints=hints)
            self.counters.log_missing_hints(request.title, problems)
        await self._barriers.refresh(call, self._find_neighbours(request.key))
        reservation = self._decide(request)
        if reservation.decision.refusal is not None and reservation.decision.refusal.kind is RefusalKind.EXHAUSTED:
            # A container with exclusive CPUs may have ended without an event so far.
            await self._refresh_owners(call)
            reservation = self._decide(request)
        refusal = reservation.decision.refusal
        if refusal is not None:
            return self.counters.refuse(
                self.tracker.configuration.policy, reservation.request, reservation.decision, refusal
            )
        return reservation

    def _decide(self, request: Request) -> _Reservation:
        allocations = self.tracker.allocations
        request = replace(request, key=self.tracker.free_key(request.key))
        existed = request.key in allocations.by_key
        return _Reservation(request, allocations.allocate(request), existed)

    def _find_neighbours(self, key: Key) -> list[str]:
        """Owners of exclusive CPUs in the same pod, and a container with the same key: both may have ended unseen."""
        found = [owner for owner in self._exclusive_owners() if owner.request.key.pod_id == key.pod_id]
        same = self.tracker.allocations.by_key.get(key)
        return list(dict.fromkeys(owner.id for owner in (*found, same) if owner is not None and owner.id))

    def _exclusive_owners(self) -> list[Allocation]:
        """Allocations with exclusive CPUs."""
        allocations = self.tracker.allocations
        grants = allocations.policy.state.grants
        return [
            held for key, held in allocations.by_key.items() if held.id and (own := grants.get(key)) and own.exclusive
        ]

    async def _refresh_owners(self, call: Call) -> None:
        """Refresh all owners of exclusive CPUs, rate-limited: a pod that does not fit is tried again and again."""
        if self._clock() - self._refreshed_at >= REFRESH_TIMEOUT:
            self._refreshed_at = self._clock()
            await self._barriers.refresh(call, [owner.id for owner in self._exclusive_owners()])

    async def _write_assignment(self, call: Call, reservation: _Reservation) -> Assignment | None:
        """Write the assignment once others gave up its CPUs; None if the reservation was released meanwhile."""
        tracker, key = self.tracker, reservation.request.key
        await self._barriers.wait_for_room(call, key)
        if key not in tracker.allocations.by_key:
            return None
        tracker.on_granted(key)
        assignment = tracker.allocations.assignment(key)
        grant = tracker.allocations.policy.state.grants.get(key)
        if grant is None:  # no place under another configuration
            write_fallback(call.request, assignment.cpus or EMPTY)
            return assignment
        note = grant_note(tracker.configuration.policy, reservation.request, grant)
        self.counters.count_overrides(call, write_create(call.request, assignment, grant, ANNOTATION, note))
        if self._files is not None:
            await self._files.add(call.request, key)
        return assignment

    async def _conclude(self, call: Call, reservation: _Reservation, written: Assignment, reply: Reply) -> None:
        tracker, key = self.tracker, reservation.request.key
        tracker.updaters.schedule(reservation.decision.changed)
        if reply.code == Code.OK:
            try:
                container_id = reply.response.container_id
            except UnreadableMessageError:
                tracker.mark_create_pending(key)
            else:
                tracker.confirm(key, container_id, written)
                tracker.on_change()
                await self._barriers.wait_for_excess(call, key)
                await self._barriers.wait_for_quota(call, key)
        elif has_unknown_outcome(reply):
            tracker.mark_create_pending(key)
        else:
            self._release_reservation(call, reservation)

    def _release_reservation(self, call: Call, reservation: _Reservation) -> None:
        """Release a reservation: the container was not created. One of an earlier attempt stays."""
        key = reservation.request.key
        held = self.tracker.allocations.by_key.get(key)
        if reservation.existed or held is None or held.id:
            return
        try:
            self.tracker.enforce_soon(self.tracker.release((key,)))
        except Exception as error:
            self.counters.count_failure(call, error)
            self._mark_pending(key)

    def _mark_pending(self, key: Key) -> None:
        """The outcome is unknown: the reservation is released if the store shows no such container."""
        held = self.tracker.allocations.by_key.get(key)
        if held is not None and not held.id:
            self.tracker.mark_create_pending(key)

    # -- a container is started

    async def _start(self, call: Call, proceed: Proceed) -> Reply:
        """Before it runs, a container loses what others got since it was created."""
        try:
            container = self.tracker.store.container(call.request.container_id)
            key = None if container is None else self.tracker.allocations.by_id.get(container.id)
            if key is not None:
                await self._barriers.wait_for_excess(call, key)
                await self._barriers.wait_for_quota(call, key)
        except UnreadableMessageError:
            pass
        except Exception as error:
            self.counters.count_failure(call, error)
        return await proceed()

    # -- a pod has other amounts

    async def _update_pod(self, call: Call, proceed: Proceed) -> Reply:
        """The kubelet has written the cgroup of the pod before it tells the runtime."""
        reply = await proceed()
        try:
            pod = self.tracker.store.pod(call.request.pod_sandbox_id)
            if pod is not None and reply.code == Code.OK:
                self.tracker.observe_pod(pod, convert.to_resources(caller_request(call).resources))
            if pod is not None:
                self.tracker.pod_quotas.check_soon(quota_directory(pod.cgroup_parent), watch=True)
        except UnreadableMessageError:
            pass
        except Exception as error:
            self.counters.count_failure(call, error)
        return reply

    # -- containers end

    async def _stop(self, call: Call, proceed: Proceed) -> Reply:
        reply = await proceed()
        if reply.code not in (Code.OK, Code.NOT_FOUND):
            return reply
        try:
            keys = self._find_ended(call, reply)
            if keys:
                changed = self.tracker.release(keys)
                await self._barriers.wait_for_growth(call, changed)
        except UnreadableMessageError:
            pass
        except Exception as error:
            self.counters.count_failure(call, error)
        return reply

    def _find_ended(self, call: Call, reply: Reply) -> list[Key]:
        """Keys of the containers that do not run any more."""
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
        # A container that was never started can still be started.
        waits = container is not None and container.state is ContainerState.CREATED
        stopped_early = waits and call.method.name == "StopContainer" and reply.code == Code.OK
        return [] if stopped_early else [key]
