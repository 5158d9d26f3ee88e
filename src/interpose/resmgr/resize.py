"""Updates of the kubelet: honoured, then constrained.

Other amounts are decided and reserved first, others give up what the container gets, and then the update is sent under
the lock of its container with the policy's values in it, so that two updates never race. If the runtime refuses,
everything is as before. If the outcome is unknown, the reservation stays until the record of the container shows it.
"""

from dataclasses import replace

from interpose.core.model.pod import Container
from interpose.core.policy.decision import Decision
from interpose.core.policy.request import Key, Request
from interpose.cri.errors import OpaqueMessageError, UnreadableMessageError
from interpose.cri.store import convert
from interpose.cri.store.requested import NOT_REQUESTED
from interpose.net.grpc.status import OUTCOME_UNKNOWN, Code, RpcError
from interpose.relay.api import Call, Proceed, Reply
from interpose.resmgr.barriers import CallBarriers, caller_request
from interpose.resmgr.container_request import resize_amounts
from interpose.resmgr.control.pending_updates import PendingUpdate, evidence_fields
from interpose.resmgr.control.updaters import ContainerUpdater
from interpose.resmgr.counters import PolicyCounters
from interpose.resmgr.existing_containers import FIELDS, to_assignment
from interpose.resmgr.request_edits import write_update
from interpose.resmgr.tracker import AllocationTracker


class ResizeHandler:
    """Handles UpdateContainerResources calls of clients."""

    def __init__(self, tracker: AllocationTracker, barriers: CallBarriers, counters: PolicyCounters) -> None:
        self._tracker = tracker
        self._barriers = barriers
        self._counters = counters

    async def update(self, call: Call, proceed: Proceed) -> Reply:
        """Decide about an update, update other containers, and let it proceed."""
        try:
            found_updater = await self._find_updater(call)
        except OpaqueMessageError as error:
            return self._counters.refuse_unreadable(self._tracker.configuration.policy, call, error)
        except (RpcError, UnreadableMessageError):
            found_updater = None
        if found_updater is None:
            return await proceed()
        with self._tracker.updates.track(found_updater[1].key):
            return await self._update(call, proceed, *found_updater)

    async def _update(self, call: Call, proceed: Proceed, container: Container, updater: ContainerUpdater) -> Reply:
        tracker, key = self._tracker, updater.key
        changed: tuple[Key, ...] = ()
        held = tracker.allocations.by_key[key]
        before = reserved = held.request
        runtime_request = held.runtime_request
        sent = False

        async def send() -> Reply:
            nonlocal sent
            sent = True
            return await proceed()

        try:
            decision = self._resize(call, container, before, runtime_request)
            if isinstance(decision, Reply):
                return decision
            if decision is not None:
                changed, reserved = decision.changed, held.request
                await self._barriers.wait_for_room(call, key)
        except Exception as error:
            self._counters.count_failure(call, error)
        except BaseException:
            tracker.enforce_soon((key, *changed, *self._roll_back(before, reserved, runtime_request)))
            raise
        try:
            reply = await self._send_constrained(call, send, updater)
        except BaseException:
            if sent:
                self._mark_pending(call, container, runtime_request)
                tracker.enforce_soon((key, *changed))
            else:
                tracker.enforce_soon((key, *changed, *self._roll_back(before, reserved, runtime_request)))
            raise
        if reply.code == Code.OK:
            tracker.updates.drop(key)
            changed = (*changed, *self._confirm(call, container, key))
        elif reply.code in OUTCOME_UNKNOWN:
            self._mark_pending(call, container, runtime_request)
        if changed or before is not self._request(key):
            if reply.code in OUTCOME_UNKNOWN:
                # It may still have what it should give up: others get that when it certainly has not.
                tracker.enforce_soon((key, *changed))
                changed = ()
            elif reply.code != Code.OK:
                changed = (key, *changed, *self._roll_back(before, reserved, runtime_request))
            await self._barriers.wait_for_growth(call, changed)
            await self._barriers.wait_for_quota(call, key, watch=True)
            tracker.on_change()
        return reply

    async def _find_updater(self, call: Call) -> tuple[Container, ContainerUpdater] | None:
        await self._barriers.wait_until_ready(call)
        found = await self._tracker.sync.container(call.request.container_id)
        if found is None:
            return None
        key = self._tracker.allocations.by_id.get(found[0].id)
        updater = None if key is None else self._tracker.updaters.by_key.get(key)
        return None if updater is None else (found[0], updater)

    def _request(self, key: Key) -> Request | None:
        held = self._tracker.allocations.by_key.get(key)
        return None if held is None else held.request

    def _requested(self, call: Call, container: Container, runtime_request: Request) -> Request:
        """The request of the container after this update."""
        if NOT_REQUESTED in call.metadata:
            return runtime_request  # a hook server corrects its own values: the amounts do not change
        # Changes of hook servers are for the runtime; they do not decide about exclusive CPUs.
        update = convert.to_resources(caller_request(call).linux)
        return replace(runtime_request, amounts=resize_amounts(runtime_request, update, container.requested))

    def _resize(
        self, call: Call, container: Container, before: Request, runtime_request: Request
    ) -> Decision | Reply | None:
        """A decision if the caller asks for other amounts, a reply that refuses if it cannot have them, else None."""
        request = self._requested(call, container, runtime_request)
        if request.amounts in (before.amounts, runtime_request.amounts):
            return None
        decision = self._tracker.allocations.resize(request)
        if decision.refusal is None:
            return decision
        return self._counters.refuse(self._tracker.configuration.policy, request, decision, decision.refusal)

    def _confirm(self, call: Call, container: Container, key: Key) -> tuple[Key, ...]:
        """Allocate what the runtime took, perhaps after updates that were decided later: its last update counts."""
        held = self._tracker.allocations.by_key.get(key)
        if held is None:
            return ()
        decision = self._tracker.allocations.observe(self._requested(call, container, held.runtime_request))
        return () if decision is None or decision.refusal is not None else (key, *decision.changed)

    def _roll_back(self, before: Request, reserved: Request, runtime_request: Request) -> tuple[Key, ...]:
        """Roll back a resize that the runtime refused. What another update has reserved meanwhile stays."""
        now = self._request(before.key)
        if now is None or now is before or now is not reserved:
            return ()
        decisions = [self._tracker.allocations.observe(request) for request in (before, runtime_request)]
        return (before.key, *(key for decision in decisions if decision is not None for key in decision.changed))

    def _mark_pending(self, call: Call, container: Container, runtime_request: Request) -> None:
        """Record an update whose outcome is unknown."""
        tracker = self._tracker
        if NOT_REQUESTED in call.metadata or runtime_request.key not in tracker.allocations.by_key:
            return
        update, sent = (convert.to_resources(message.linux) for message in (call.body.original(), call.request))
        desired = tracker.desired(runtime_request.key)
        ours = [field for name, field in FIELDS.items() if desired is not None and getattr(desired, name) is not None]
        tracker.updates.add(
            PendingUpdate(
                before=runtime_request,
                requested_before=container.requested,
                resources_before=container.resources,
                update=update,
                evidence=evidence_fields(update, sent, container.resources, ours),
            )
        )

    async def _send_constrained(self, call: Call, proceed: Proceed, updater: ContainerUpdater) -> Reply:
        """Send the caller's update with the policy's values in it, while no other update is sent."""
        tracker, key = self._tracker, updater.key
        async with updater.lock:
            requested = convert.to_resources(call.request.linux)
            desired = tracker.desired(key, requested)
            if desired is not None:
                self._counters.count_overrides(call, write_update(call.request, desired))
            updater.sending = desired
            updater.sent += 1
            lost, updater.lost = updater.lost, False
            try:
                if desired is not None:
                    await tracker.updaters.prepare(updater, desired)
                reply = await proceed()
            except BaseException:
                updater.written = None
                raise
            finally:
                updater.sending = None
            if reply.code != Code.OK:
                updater.lost |= lost
            if reply.code == Code.OK and desired is not None:
                updater.written = desired
                tracker.mark_managed(key, desired)
                tracker.release_fields(key, replace(to_assignment(requested), quota=requested.cpu_quota or None))
                tracker.cgroups.check_soon(key)
                tracker.updaters.mark_recovered(updater)
            elif reply.code in OUTCOME_UNKNOWN:
                updater.written = None
        tracker.updaters.schedule((key,))
        return reply
