"""What a policy would have decided about the calls of a recording.

The policy is the one a relay runs, and calls come to it as they come through the resource manager: creates and updates
are decided at the request and undone if the runtime refused; containers that ended are released. The past stays as it
was: a container that is refused now ran all the same, it just has no allocation; one that was refused then and is not
now holds what it gets until its pod is gone. The kubelet would have tried again what is refused now; no recorded call
shows that. No IO and no clock. No content of a message makes anything here fail.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from interpose.core.model.pod import Container, ContainerState
from interpose.core.policy.api import Policy
from interpose.core.policy.decision import Action, Assignment, Decision, Refusal, RefusalKind
from interpose.core.policy.request import Key, Request
from interpose.cri.errors import UnreadableMessageError
from interpose.cri.parser import CriParser
from interpose.cri.store import convert
from interpose.cri.store.convert import ListedContainer
from interpose.net.grpc.status import OUTCOME_UNKNOWN, Code
from interpose.relay.api import CLIENT
from interpose.resmgr.allocations import Allocations
from interpose.resmgr.container_request import make_request, resize_amounts
from interpose.resmgr.existing_containers import container_key, find_candidates, is_live
from interpose.resmgr.key_allocator import KeyAllocator
from interpose.resmgr.whatif.compare import ComparisonResult, compare, effective, recorded_assignment
from interpose.resmgr.whatif.events import CallRecord, MessageEvent, ReplyEvent, RequestEvent
from interpose.resmgr.whatif.node_history import METHODS_OF_NODES, NodeHistory
from interpose.resmgr.whatif.timeline import Timeline, TimelineOutcome, TimelineStepKind

# How the status of a call begins that a policy has refused.
_REFUSED: Final = "policy "
# Calls in flight that are stored: more than a relay lets in.
_MOST_CALLS: Final = 10_000
_NOTHING: Final = Assignment()
_CREATE: Final = "CreateContainer"
_UPDATE: Final = "UpdateContainerResources"
# Methods whose calls are replayed.
REPLAYED_METHODS: Final = frozenset((_CREATE, _UPDATE, *METHODS_OF_NODES))


class _CallOutcome(StrEnum):
    """How a recorded call ended."""

    DONE = "done"
    REFUSED = "refused by a policy"
    UNKNOWN = "unknown"
    FAILED = "failed"


@dataclass(slots=True)
class _OpenCall:
    """A call in flight."""

    event: RequestEvent
    position: int  # among all events
    mark: int  # of the store, when the call began
    message: Any = None
    key: Key | None = None  # of the container that it creates
    reserved: Request | None = None  # what was granted for it
    before: Request | None = None  # what the container had before that
    assigned: Assignment = _NOTHING  # what the container gets by it


class PolicyReplay:
    """Feeds recorded calls to a policy. `capacity` is the machine's memory in bytes, 0 if it is not known."""

    def __init__(self, policy: Policy, *, capacity: int = 0) -> None:
        self.policy = policy
        self._capacity = capacity
        self._now = 0
        self._position = 0  # of the last event
        self._node = NodeHistory()
        self._store = self._node.store
        self._store.on_container = self._on_container
        self._allocations = Allocations(policy, lambda: self._now / 1e9)
        self._keys = KeyAllocator(self._has_owner)
        self._timeline = Timeline(policy)
        self._counts = self._timeline.counts
        self._calls: dict[int, _OpenCall] = {}
        self._refused: dict[Key, str] = {}  # containers without an allocation, and why
        self._refused_updates: dict[Key, str] = {}  # containers whose last update was refused, and why
        self._pending: dict[Key, tuple[int, Container]] = {}  # creates whose outcome is unknown, and their positions

    def feed(self, event: CallRecord) -> None:
        """The next event of the recording; bytes that cannot be read are counted."""
        self._now = max(self._now, event.time_ns)
        self._position += 1
        self._timeline.advance(self._now)
        try:
            if isinstance(event, RequestEvent):
                self._counts.calls += 1
                self._on_request(event)
            elif (call := self._calls.get(event.number)) is not None:
                if isinstance(event, MessageEvent):
                    self._node.on_message(call.event, event.reply, call.mark)
                else:
                    del self._calls[event.number]
                    self._on_reply(call, event)
        except (UnreadableMessageError, ValueError):
            self._counts.unreadable += 1

    def outcome(self) -> TimelineOutcome:
        """The decisions and their summary, so far."""
        return self._timeline.outcome(
            strangers=len(self._node.unknown),
            guessed=len(self._node.guessed),
            without_place=len(self._allocations.without_place),
        )

    # -- calls

    def _on_request(self, event: RequestEvent) -> None:
        call = self._calls[event.number] = _OpenCall(event, self._position, self._store.mark())
        if len(self._calls) > _MOST_CALLS:  # the end of the oldest one is not in the recording
            del self._calls[next(iter(self._calls))]
        if event.origin != CLIENT:
            return
        if event.method == _CREATE:
            call.message = CriParser("CreateContainerRequest").parse(event.request)
            self._create(call)
        elif event.method == _UPDATE:
            call.message = CriParser("UpdateContainerResourcesRequest").parse(event.request)
            self._resize(call)

    def _on_reply(self, call: _OpenCall, reply: ReplyEvent) -> None:
        method = call.event.method
        if method == _CREATE:
            if call.message is not None:
                self._on_created(call, reply)
        elif method == _UPDATE:
            self._on_updated(call, reply)
        else:
            self._node.on_reply(call.event, reply, call.mark)
            if reply.code == Code.OK and method == "ListContainers" and reply.reply is not None:
                self._settle_creates(call, reply.reply)
            elif reply.code in (Code.OK, Code.NOT_FOUND) and method in ("StopPodSandbox", "RemovePodSandbox"):
                self._on_pod_ended(call)

    # -- a container is created

    def _create(self, call: _OpenCall) -> None:
        message = call.message
        pod = self._node.pod_of_create(message)
        container = convert.container_of_request(message, message, pod)
        command, args = tuple(message.config.command), tuple(message.config.args)
        siblings = self._allocations.siblings(container_key(container))
        request = make_request(
            container, pod, command=command, args=args, capacity=self._capacity, siblings=siblings
        ).request
        # A live container keeps what it has, even if the runtime has yet to refuse another one of its name.
        call.key = self._keys.first_free(request.key)
        request = replace(request, key=call.key)
        held = self._allocations.by_key.get(request.key)
        call.before = None if held is None else held.request
        decision = self._decide(TimelineStepKind.CREATE, request)
        call.reserved = request if decision.refusal is None else None
        call.assigned = self._allocations.assignment(request.key)

    def _decide(self, kind: TimelineStepKind, request: Request) -> Decision:
        """Decide about a new container or other amounts, and add that to the time line."""
        allocations, key = self._allocations, request.key
        again = key in allocations.by_key and kind is TimelineStepKind.CREATE
        before = allocations.assignment(key)
        try:
            decision = allocations.resize(request) if kind is TimelineStepKind.RESIZE else allocations.allocate(request)
        except Exception as error:  # a failure of the policy is a result, too
            self._counts.failures += 1
            refusal = Refusal(kind=RefusalKind.INVALID, message=f"the policy failed: {type(error).__name__}: {error}")
            decision = Decision(action=Action.ALLOCATE, key=key, refusal=refusal, reason=refusal.message)
        refusals = self._refused if kind is TimelineStepKind.CREATE else self._refused_updates
        if decision.refusal is None:
            refusals.pop(key, None)
            if again and not decision.changed and before == allocations.assignment(key):
                return decision  # tried again, and nothing is new
        else:
            if refusals.get(key) == decision.refusal.message:
                return decision  # a kubelet tries again and again
            refusals[key] = decision.refusal.message
        self._add_step(kind, decision, request, before)
        return decision

    def _on_created(self, call: _OpenCall, reply: ReplyEvent) -> None:
        message = call.message
        pod = self._store.pod(message.pod_sandbox_id)  # it may be gone meanwhile
        sent = message
        if reply.forwarded is not None:
            sent = CriParser("CreateContainerRequest").parse(reply.forwarded)
        container = convert.container_of_request(sent, message, pod)
        key, outcome, container_id = call.key or container_key(container), _outcome_of(reply), ""
        if outcome is _CallOutcome.DONE:
            try:
                container_id = CriParser("CreateContainerResponse").parse(reply.reply or b"").container_id
            except UnreadableMessageError:
                self._counts.unreadable += 1
            outcome = outcome if container_id else _CallOutcome.UNKNOWN
        if outcome is _CallOutcome.DONE:
            container = replace(container, id=container_id)
            if call.reserved is not None and not self._has_owner(key):
                self._allocations.confirm(key, container_id)
            self._compare_created(call, key, container)
            self._node.on_reply(call.event, reply, call.mark)
        elif outcome is _CallOutcome.REFUSED:
            now = None if call.reserved is None else effective(call.assigned, container)
            self._timeline.add_created(key, self._title(container), compare(None, now))
        elif outcome is _CallOutcome.UNKNOWN:
            if call.reserved is not None:
                self._pending[key] = (self._position, container)
        elif call.reserved is not None and call.before is None and not self._has_owner(key):
            self._release(key, TimelineStepKind.UNDO)

    def _settle_creates(self, call: _OpenCall, reply: bytes) -> None:
        """Take over the outcome of pending creates from a complete list."""
        if not self._pending or not self._node.is_complete(call.event):
            return
        by_id = self._allocations.by_id
        known: dict[Key, ListedContainer] = {}
        others: dict[Key, ListedContainer] = {}  # by their names
        for listed in convert.listed_containers(reply):
            if (owner := by_id.get(listed.id)) is not None:
                known[owner] = listed
            else:
                others[Key(listed.pod_id, listed.name, listed.attempt)] = listed
        for key, (since, container) in tuple(self._pending.items()):
            if (found := known.get(key) or others.pop(key._replace(duplicate=0), None)) is not None:
                del self._pending[key]
                self._node.unknown.pop(found.id, None)
                self._allocations.confirm(key, found.id)
                self._store.put_container(replace(container, id=found.id, state=found.state))
            elif call.position > since:
                self._release(key, TimelineStepKind.UNDO)

    # -- a container is resized

    def _resize(self, call: _OpenCall) -> None:
        container = self._store.container(call.message.container_id)
        held = None if container is None else self._allocations.find(container.id)
        if container is None or held is None or call.event.amends:
            return
        amounts = resize_amounts(held.request, convert.to_resources(call.message.linux), container.requested)
        if amounts == held.request.amounts:
            return
        before, request = held.request, replace(held.request, amounts=amounts)
        if self._decide(TimelineStepKind.RESIZE, request).refusal is None:
            call.before, call.reserved = before, request

    def _on_updated(self, call: _OpenCall, reply: ReplyEvent) -> None:
        outcome = _outcome_of(reply)
        if outcome is _CallOutcome.DONE:
            self._write_update(call, reply)
        elif outcome is _CallOutcome.FAILED and call.before is not None and call.reserved is not None:
            held = self._allocations.by_key.get(call.reserved.key)
            if held is not None and held.request is call.reserved:
                self._decide(TimelineStepKind.RESIZE, call.before)

    def _write_update(self, call: _OpenCall, reply: ReplyEvent) -> None:
        """Update the record of a container, whichever part sent the update."""
        ref = CriParser("UpdateContainerResourcesRequest").parse(call.event.request).container_id
        before = self._store.container(ref)
        self._node.on_reply(call.event, reply, call.mark)
        after = self._store.container(ref)
        if before is None or after is None or before.state is not ContainerState.RUNNING:
            return
        if recorded_assignment(before).cpus != recorded_assignment(after).cpus:
            self._counts.moves_then += 1

    # -- containers end, or are found

    def _on_pod_ended(self, call: _OpenCall) -> None:
        """Release all containers of a pod, also those that were never created."""
        request = "StopPodSandboxRequest" if call.event.method == "StopPodSandbox" else "RemovePodSandboxRequest"
        ref = CriParser(request).parse(call.event.request).pod_sandbox_id
        pod = self._store.pod(ref)
        pod_id = ref if pod is None else pod.id
        for key in [key for key in self._allocations.by_key if key.pod_id == pod_id]:
            self._release(key, TimelineStepKind.RELEASE)

    def _on_container(self, old: Container | None, new: Container | None) -> None:
        """Called by the store when the record of a container changed."""
        if new is None or not is_live(new, self._store.pods.get(new.pod_id)):
            gone = new or old
            key = None if gone is None else self._allocations.by_id.get(gone.id)
            if key is not None:
                self._release(key, TimelineStepKind.RELEASE)
            if new is None and gone is not None:
                self._refused.pop(container_key(gone), None)
            return
        key = self._allocations.by_id.get(new.id) or self._keys.first_free(container_key(new))
        held = self._allocations.by_key.get(key)
        if held is None:
            if key not in self._refused:
                self._adopt(new, key)
            return
        if held.id != new.id and (not held.id or held.id not in self._store.containers):
            self._allocations.confirm(key, new.id)
        self._compare(key)

    def _has_owner(self, key: Key) -> bool:
        """Whether a live container has this key."""
        held = self._allocations.by_key.get(key)
        container = None if held is None else self._store.containers.get(held.id)
        return container is not None and is_live(container, self._store.pods.get(container.pod_id))

    def _adopt(self, container: Container, key: Key) -> None:
        """Admit a container that ran before the recording, as if the policy were new on the node."""
        pod = self._store.pods[container.pod_id]
        (found,) = find_candidates([(container, pod)], {}, self.policy.name, self._capacity)
        candidate = replace(found, request=replace(found.request, key=key))
        try:
            decision = self._allocations.admit(candidate)
        except Exception as error:  # a failure of the policy is a result, too
            self._counts.failures += 1
            decision = self._allocations.admit_without_place(candidate, error)
        self._add_step(TimelineStepKind.TAKE_OVER, decision, candidate.request, _NOTHING)

    def _release(self, key: Key, kind: TimelineStepKind) -> None:
        held = self._allocations.by_key.get(key)
        if held is None:
            return
        self._pending.pop(key, None)
        self._refused_updates.pop(key, None)
        before = self._allocations.assignment(key)
        try:
            decision = self._allocations.release(key)
        except Exception:  # as everywhere; the container keeps its allocation
            self._counts.failures += 1
            return
        self._keys.release(key)
        self._add_step(kind, decision, held.request, before)

    # -- the time line

    def _add_step(self, kind: TimelineStepKind, decision: Decision, request: Request, before: Assignment) -> None:
        allocations = self._allocations
        others = {
            key: (held.request.title, self._runs(held.id))
            for key in (request.key, *decision.changed)
            if (held := allocations.by_key.get(key)) is not None
        }
        for key in (
            request.key,
            *self._timeline.add(kind, decision, request, before, allocations.assignment, others),
        ):
            self._compare(key)

    def _runs(self, container_id: str) -> bool:
        container = self._store.containers.get(container_id)
        return container is not None and container.state is ContainerState.RUNNING

    def _compare_created(self, call: _OpenCall, key: Key, container: Container) -> None:
        """Compare what was decided, or what it is at the reply: others may have been created meanwhile."""
        then = recorded_assignment(container)
        if call.reserved is None:
            self._timeline.add_created(key, self._title(container), compare(then, None))
            return
        assignments = (call.assigned, self._allocations.assignment(key))
        results = [compare(then, effective(assignment, container)) for assignment in assignments]
        self._timeline.add_created(
            key, call.reserved.title, min(results, key=lambda result: result.result is not ComparisonResult.SAME)
        )

    def _compare(self, key: Key) -> None:
        """Compare what a container had and what it would have, from now on."""
        held = self._allocations.by_key.get(key)
        container = None if held is None else self._store.containers.get(held.id)
        if container is not None:
            now = effective(self._allocations.assignment(key), container)
            self._timeline.set_result(key, compare(recorded_assignment(container), now).result)
        elif held is None:
            self._timeline.remove(key)

    def _title(self, container: Container) -> str:
        pod = self._store.pods.get(container.pod_id)
        return f"{pod.namespace}/{pod.name}/{container.name}" if pod is not None else container.name


def replay_calls(policy: Policy, events: Iterable[CallRecord], *, capacity: int = 0) -> TimelineOutcome:
    """Feed all events of a recording to a policy; `capacity` is the machine's memory in bytes."""
    replay = PolicyReplay(policy, capacity=capacity)
    for event in events:
        replay.feed(event)
    return replay.outcome()


def _outcome_of(reply: ReplyEvent) -> _CallOutcome:
    if reply.code == Code.OK:
        return _CallOutcome.DONE
    if reply.code in OUTCOME_UNKNOWN:
        return _CallOutcome.UNKNOWN
    return _CallOutcome.REFUSED if reply.message.startswith(_REFUSED) else _CallOutcome.FAILED
