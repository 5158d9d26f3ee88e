"""Updates of the kubelet: honoured, then constrained.

Other amounts are decided and booked first, others give up what the container gets, and then the update passes the
writer of its container with the policy's values in it, so that two updates never race. The runtime said no: everything
is as before. Nobody knows: what is booked stays, until the record of the container shows what became of it.
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
from interpose.resmgr.barriers import CallBarriers, asked_by_caller
from interpose.resmgr.container_request import resized
from interpose.resmgr.control.pending_updates import PendingUpdate, evidence_fields
from interpose.resmgr.control.updaters import ContainerUpdater
from interpose.resmgr.counters import PolicyCounters
from interpose.resmgr.existing_containers import FIELDS, to_assignment
from interpose.resmgr.request_edits import write_update
from interpose.resmgr.tracker import AllocationTracker


class ResizeHandler:
    """What the manager does about updates."""

    def __init__(self, tracker: AllocationTracker, barriers: CallBarriers, counters: PolicyCounters) -> None:
        self._tracker = tracker
        self._barriers = barriers
        self._counters = counters

    async def update(self, call: Call, proceed: Proceed) -> Reply:
        """Decide, carry out, let the update pass."""
        try:
            known = await self._known(call)
        except OpaqueMessageError as error:
            return self._counters.unread(self._tracker.configuration.policy, call, error)
        except (RpcError, UnreadableMessageError):
            known = None
        if known is None:
            return await proceed()
        with self._tracker.updates.under_way(known[1].key):
            return await self._update(call, proceed, *known)

    async def _update(self, call: Call, proceed: Proceed, container: Container, updater: ContainerUpdater) -> Reply:
        tracker, key = self._tracker, updater.key
        changed: tuple[Key, ...] = ()
        held = tracker.allocations.by_key[key]
        before = booked = held.request
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
                changed, booked = decision.changed, held.request
                await self._barriers.for_room(call, key)
        except Exception as error:
            self._counters.failed(call, error)
        except BaseException:
            tracker.enforce_soon((key, *changed, *self._back(before, booked, runtime_request)))
            raise
        try:
            reply = await self._constrained(call, send, updater)
        except BaseException:
            if sent:
                self._doubt(call, container, runtime_request)
                tracker.enforce_soon((key, *changed))
            else:
                tracker.enforce_soon((key, *changed, *self._back(before, booked, runtime_request)))
            raise
        if reply.code == Code.OK:
            tracker.updates.drop(key)
            changed = (*changed, *self._confirm(call, container, key))
        elif reply.code in OUTCOME_UNKNOWN:
            self._doubt(call, container, runtime_request)
        if changed or before is not self._request(key):
            if reply.code in OUTCOME_UNKNOWN:
                # It may still have what it should give up: others get that when it certainly has not.
                tracker.enforce_soon((key, *changed))
                changed = ()
            elif reply.code != Code.OK:
                changed = (key, *changed, *self._back(before, booked, runtime_request))
            await self._barriers.for_growth(call, changed)
            tracker.on_change()
        return reply

    async def _known(self, call: Call) -> tuple[Container, ContainerUpdater] | None:
        await self._barriers.for_books(call)
        found = await self._tracker.sync.container(call.request.container_id)
        if found is None:
            return None
        key = self._tracker.allocations.by_id.get(found[0].id)
        updater = None if key is None else self._tracker.updaters.by_key.get(key)
        return None if updater is None else (found[0], updater)

    def _request(self, key: Key) -> Request | None:
        held = self._tracker.allocations.by_key.get(key)
        return None if held is None else held.request

    def _asked(self, call: Call, container: Container, runtime_request: Request) -> Request:
        """What the container asks for with this update."""
        if NOT_REQUESTED in call.metadata:
            return runtime_request  # somebody puts values of their own right: nobody wants more or less
        # What hook servers made of it is for the runtime; who has CPUs alone is not theirs to decide.
        update = convert.to_resources(asked_by_caller(call).linux)
        return replace(runtime_request, amounts=resized(runtime_request, update, container.requested))

    def _resize(
        self, call: Call, container: Container, before: Request, runtime_request: Request
    ) -> Decision | Reply | None:
        """A decision if the caller wants other amounts, a refusal if it cannot have them."""
        request = self._asked(call, container, runtime_request)
        if request.amounts in (before.amounts, runtime_request.amounts):
            return None
        decision = self._tracker.allocations.resize(request)
        if decision.refusal is None:
            return decision
        return self._counters.refuse(self._tracker.configuration.policy, request, decision, decision.refusal)

    def _confirm(self, call: Call, container: Container, key: Key) -> tuple[Key, ...]:
        """The runtime took it, after others perhaps that were decided later: the last one that it took counts."""
        held = self._tracker.allocations.by_key.get(key)
        if held is None:
            return ()
        decision = self._tracker.allocations.observe(self._asked(call, container, held.runtime_request))
        return () if decision is None or decision.refusal is not None else (key, *decision.changed)

    def _back(self, before: Request, booked: Request, runtime_request: Request) -> tuple[Key, ...]:
        """The runtime did not take it: neither do we. What another update has booked meanwhile stays."""
        now = self._request(before.key)
        if now is None or now is before or now is not booked:
            return ()
        decisions = [self._tracker.allocations.observe(one) for one in (before, runtime_request)]
        return (before.key, *(key for one in decisions if one is not None for key in one.changed))

    def _doubt(self, call: Call, container: Container, runtime_request: Request) -> None:
        """Nobody knows whether the runtime took it."""
        tracker = self._tracker
        if NOT_REQUESTED in call.metadata or runtime_request.key not in tracker.allocations.by_key:
            return
        asked, sent = (convert.to_resources(one.linux) for one in (call.body.original(), call.request))
        wanted = tracker.desired(runtime_request.key)
        ours = [field for name, field in FIELDS.items() if wanted is not None and getattr(wanted, name) is not None]
        tracker.updates.add(
            PendingUpdate(
                before=runtime_request,
                requested=container.requested,
                had=container.resources,
                asked=asked,
                evidence=evidence_fields(asked, sent, container.resources, ours),
            )
        )

    async def _constrained(self, call: Call, proceed: Proceed, updater: ContainerUpdater) -> Reply:
        """Send the caller's update with the policy's values in it, while nobody else writes."""
        tracker, key = self._tracker, updater.key
        async with updater.lock:
            asking = convert.to_resources(call.request.linux)
            wanted = tracker.desired(key, asking)
            if wanted is not None:
                self._counters.overridden(call, write_update(call.request, wanted))
            updater.sending = wanted
            updater.sent += 1
            lost, updater.lost = updater.lost, False
            try:
                reply = await proceed()
            except BaseException:
                updater.written = None
                raise
            finally:
                updater.sending = None
            if reply.code != Code.OK:
                updater.lost |= lost
            if reply.code == Code.OK and wanted is not None:
                updater.written = wanted
                tracker.mark_managed(key, wanted)
                tracker.release_fields(key, to_assignment(asking))
                tracker.cgroups.soon(key)
                tracker.updaters.mark_recovered(updater)
            elif reply.code in OUTCOME_UNKNOWN:
                updater.written = None
        tracker.updaters.schedule((key,))
        return reply
