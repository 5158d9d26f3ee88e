"""What a policy would have decided about a node whose calls were made long ago.

The policy is the one a relay runs, and calls come to it as they come through the resource manager: a create and an
update are decided when they are asked for and undone if the runtime said no; who ended is released. What happened then
happened: a container that is refused now ran all the same, it is just not in the books; one that was refused then and
is not now holds what it gets until its pod goes. The kubelet would have tried again what is refused now; no call tells
of that. No IO and no clock. Nothing that stands in a message makes anything here fail.
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
from interpose.net.grpc.status import OUTCOME_UNKNOWN, Code
from interpose.relay.api import CLIENT
from interpose.resmgr.allocations import Allocations
from interpose.resmgr.container_request import make_request, resize_amounts
from interpose.resmgr.existing_containers import container_key, find_candidates, is_live
from interpose.resmgr.whatif.compare import Verdict, compared, effective, given
from interpose.resmgr.whatif.events import CallRecord, MessageEvent, ReplyEvent, RequestEvent
from interpose.resmgr.whatif.node_history import METHODS_OF_NODES, Bygone
from interpose.resmgr.whatif.timeline import Retrospect, TimelineOutcome, What

# How the status of a call begins that a policy has refused.
_REFUSED: Final = "policy "
# Calls in flight that are kept: more than a relay lets in.
_MOST_CALLS: Final = 10_000
_NOTHING: Final = Assignment()
_CREATE: Final = "CreateContainer"
_UPDATE: Final = "UpdateContainerResources"
# Methods whose calls tell something.
TELLING: Final = frozenset((_CREATE, _UPDATE, *METHODS_OF_NODES))


class _End(StrEnum):
    """How a call ended."""

    DONE = "done"
    REFUSED = "refused by a policy"
    DOUBTFUL = "nobody knows"
    FAILED = "failed"


@dataclass(slots=True)
class _Open:
    """A call in flight."""

    asked: RequestEvent
    place: int  # in the order of what happened
    mark: int  # of the store, when it came
    message: Any = None
    booked: Request | None = None  # what was decided on for it
    before: Request | None = None  # what was in the books before that
    assigned: Assignment = _NOTHING  # what followed


class Hindsight:
    """Tells a policy what happened. `capacity` is the machine's memory in bytes, 0 if it is not known."""

    def __init__(self, policy: Policy, *, capacity: int = 0) -> None:
        self.policy = policy
        self._capacity = capacity
        self._now = 0
        self._place = 0  # of what happens, in its order
        self._node = Bygone()
        self._store = self._node.store
        self._store.on_container = self._seen
        self._allocations = Allocations(policy, lambda: self._now / 1e9)
        self._retrospect = Retrospect(policy)
        self._counts = self._retrospect.counts
        self._calls: dict[int, _Open] = {}
        self._refused: dict[Key, str] = {}  # who is not in the books, and why not
        self._denied: dict[Key, str] = {}  # whose last update was refused, and why
        self._doubtful: dict[Key, tuple[int, Container]] = {}  # creates whose outcome nobody knows, since when

    def feed(self, happening: CallRecord) -> None:
        """The next thing that happened."""
        self._now = max(self._now, happening.time_ns)
        self._place += 1
        self._retrospect.pass_until(self._now)
        try:
            if isinstance(happening, RequestEvent):
                self._counts.calls += 1
                self._asked(happening)
            elif (call := self._calls.get(happening.number)) is not None:
                if isinstance(happening, MessageEvent):
                    self._node.told(call.asked, happening.reply, call.mark)
                else:
                    del self._calls[happening.number]
                    self._answered(call, happening)
        except (UnreadableMessageError, ValueError):
            self._counts.unreadable += 1

    def outcome(self) -> TimelineOutcome:
        """What it came to, so far."""
        return self._retrospect.outcome(
            strangers=len(self._node.strangers),
            guessed=len(self._node.guessed),
            without_place=len(self._allocations.without_place),
        )

    # -- calls

    def _asked(self, asked: RequestEvent) -> None:
        call = self._calls[asked.number] = _Open(asked, self._place, self._store.mark())
        if len(self._calls) > _MOST_CALLS:  # nobody told how the oldest of them ended
            del self._calls[next(iter(self._calls))]
        if asked.origin != CLIENT:
            return
        if asked.method == _CREATE:
            call.message = CriParser("CreateContainerRequest").parse(asked.request)
            self._create(call)
        elif asked.method == _UPDATE:
            call.message = CriParser("UpdateContainerResourcesRequest").parse(asked.request)
            self._resize(call)

    def _answered(self, call: _Open, answer: ReplyEvent) -> None:
        method = call.asked.method
        if method == _CREATE and call.message is not None:
            self._created(call, answer)
        elif method == _UPDATE:
            self._updated(call, answer)
        else:
            self._node.answered(call.asked, answer, call.mark)
            if answer.code == Code.OK and method == "ListContainers" and answer.reply is not None:
                self._settle(call, answer.reply)
            elif answer.code in (Code.OK, Code.NOT_FOUND) and method in ("StopPodSandbox", "RemovePodSandbox"):
                self._pod_ended(call)

    # -- a container comes

    def _create(self, call: _Open) -> None:
        message = call.message
        pod = self._node.pod_of_create(message)
        container = convert.container_of_request(message, message, pod)
        command, args = tuple(message.config.command), tuple(message.config.args)
        request = make_request(container, pod, command=command, args=args, capacity=self._capacity).request
        held = self._allocations.by_key.get(request.key)
        call.before = None if held is None else held.request
        decision = self._decided(What.CREATE, request)
        call.booked = request if decision.refusal is None else None
        call.assigned = self._allocations.assignment(request.key)

    def _decided(self, what: What, request: Request) -> Decision:
        """A decision about a container that comes or wants something else; written down."""
        allocations, key = self._allocations, request.key
        again = key in allocations.by_key and what is What.CREATE
        before = allocations.assignment(key)
        try:
            decision = allocations.resize(request) if what is What.RESIZE else allocations.allocate(request)
        except Exception as error:  # a policy's own mistake is an outcome, too
            self._counts.failures += 1
            refusal = Refusal(kind=RefusalKind.INVALID, message=f"the policy failed: {type(error).__name__}: {error}")
            decision = Decision(action=Action.ALLOCATE, key=key, refusal=refusal, reason=refusal.message)
        told = self._refused if what is What.CREATE else self._denied
        if decision.refusal is None:
            told.pop(key, None)
            if again and not decision.changed and before == allocations.assignment(key):
                return decision  # tried again, and nothing is new
        else:
            if told.get(key) == decision.refusal.message:
                return decision  # a kubelet tries again and again
            told[key] = decision.refusal.message
        self._note(what, decision, request, before)
        return decision

    def _created(self, call: _Open, answer: ReplyEvent) -> None:
        message = call.message
        pod = self._store.pod(message.pod_sandbox_id)  # it may have gone meanwhile
        sent = message
        if answer.forwarded is not None:
            sent = CriParser("CreateContainerRequest").parse(answer.forwarded)
        container = convert.container_of_request(sent, message, pod)
        key, end, container_id = container_key(container), _end(answer), ""
        if end is _End.DONE:
            try:
                container_id = CriParser("CreateContainerResponse").parse(answer.reply or b"").container_id
            except UnreadableMessageError:
                self._counts.unreadable += 1
            end = end if container_id else _End.DOUBTFUL
        if end is _End.DONE:
            container = replace(container, id=container_id)
            if call.booked is not None:
                self._allocations.confirm(key, container_id)
            self._compare_created(call, container)
            self._store.put_container(container)
        elif end is _End.REFUSED:
            now = None if call.booked is None else effective(call.assigned, container)
            self._retrospect.created(key, self._title(container), compared(None, now))
        elif end is _End.DOUBTFUL:
            if call.booked is not None:
                self._doubtful[key] = (self._place, container)
        elif call.booked is not None and call.before is None:
            self._release(key, What.UNDO)

    def _settle(self, call: _Open, reply: bytes) -> None:
        """A list of everything tells what became of creates that nobody knew about."""
        if not self._doubtful or not self._node.complete(call.asked):
            return
        listed = {Key(one.pod_id, one.name, one.attempt): one for one in convert.listed_containers(reply)}
        for key, (since, container) in tuple(self._doubtful.items()):
            if (found := listed.get(key)) is not None:
                del self._doubtful[key]
                self._node.strangers.pop(found.id, None)
                self._allocations.confirm(key, found.id)
                self._store.put_container(replace(container, id=found.id, state=found.state))
            elif call.place > since:
                self._release(key, What.UNDO)

    # -- a container wants something else

    def _resize(self, call: _Open) -> None:
        container = self._store.container(call.message.container_id)
        held = None if container is None else self._allocations.find(container.id)
        if container is None or held is None or call.asked.amends:
            return
        amounts = resize_amounts(held.request, convert.to_resources(call.message.linux), container.requested)
        if amounts == held.request.amounts:
            return
        before, request = held.request, replace(held.request, amounts=amounts)
        if self._decided(What.RESIZE, request).refusal is None:
            call.before, call.booked = before, request

    def _updated(self, call: _Open, answer: ReplyEvent) -> None:
        end = _end(answer)
        if end is _End.DONE:
            self._write_update(call, answer)
        elif end is _End.FAILED and call.before is not None and call.booked is not None:
            held = self._allocations.by_key.get(call.booked.key)
            if held is not None and held.request is call.booked:
                self._decided(What.RESIZE, call.before)

    def _write_update(self, call: _Open, answer: ReplyEvent) -> None:
        """What the container has now, whoever wrote it; and what its caller asked for, if it did."""
        parser = CriParser("UpdateContainerResourcesRequest")
        asked = parser.parse(call.asked.request)
        sent = asked if answer.forwarded is None else parser.parse(answer.forwarded)
        container = self._store.container(asked.container_id)
        if container is None:
            return
        after = replace(container, resources=container.resources.overlay(convert.to_resources(sent.linux)))
        if call.asked.origin == CLIENT and not call.asked.amends:
            after = replace(after, requested=container.requested.overlay(convert.to_resources(asked.linux)))
        if container.state is ContainerState.RUNNING and given(container).cpus != given(after).cpus:
            self._counts.moves_then += 1
        self._store.put_container(after)

    # -- containers go, or turn out to be there

    def _pod_ended(self, call: _Open) -> None:
        """Whoever is booked in a pod goes with it, also if nobody ever made the container."""
        request = "StopPodSandboxRequest" if call.asked.method == "StopPodSandbox" else "RemovePodSandboxRequest"
        ref = CriParser(request).parse(call.asked.request).pod_sandbox_id
        pod = self._store.pod(ref)
        pod_id = ref if pod is None else pod.id
        for key in [key for key in self._allocations.by_key if key.pod_id == pod_id]:
            self._release(key, What.RELEASE)

    def _seen(self, old: Container | None, new: Container | None) -> None:
        """The record of a container is another one."""
        if new is None or not is_live(new, self._store.pods.get(new.pod_id)):
            gone = new or old
            key = None if gone is None else self._allocations.by_id.get(gone.id)
            if key is not None:
                self._release(key, What.RELEASE)
            if new is None and gone is not None:
                self._refused.pop(container_key(gone), None)
            return
        key = container_key(new)
        held = self._allocations.by_key.get(key)
        if held is None:
            if key not in self._refused:
                self._adopt(new)
            return
        if held.id != new.id and (not held.id or held.id not in self._store.containers):
            self._allocations.confirm(key, new.id)
        self._compare(key)

    def _adopt(self, container: Container) -> None:
        """It ran before anybody told of it: as if the policy were new on the node."""
        pod = self._store.pods[container.pod_id]
        (one,) = find_candidates([(container, pod)], {}, self.policy.name, self._capacity)
        try:
            decision = self._allocations.admit(one)
        except Exception as error:  # a policy's own mistake is an outcome, too
            self._counts.failures += 1
            decision = self._allocations.admit_without_place(one, error)
        self._note(What.TAKE_OVER, decision, one.request, _NOTHING)

    def _release(self, key: Key, what: What) -> None:
        held = self._allocations.by_key.get(key)
        if held is None:
            return
        self._doubtful.pop(key, None)
        self._denied.pop(key, None)
        before = self._allocations.assignment(key)
        try:
            decision = self._allocations.release(key)
        except Exception:  # as everywhere; it stays in the books
            self._counts.failures += 1
            return
        self._note(what, decision, held.request, before)

    # -- what is written down

    def _note(self, what: What, decision: Decision, request: Request, before: Assignment) -> None:
        allocations = self._allocations
        others = {
            key: (held.request.title, self._runs(held.id))
            for key in (request.key, *decision.changed)
            if (held := allocations.by_key.get(key)) is not None
        }
        for key in (
            request.key,
            *self._retrospect.add(what, decision, request, before, allocations.assignment, others),
        ):
            self._compare(key)

    def _runs(self, container_id: str) -> bool:
        container = self._store.containers.get(container_id)
        return container is not None and container.state is ContainerState.RUNNING

    def _compare_created(self, call: _Open, container: Container) -> None:
        """As it was decided, or as it is by the time it is there: others came while it was being made."""
        key, then = container_key(container), given(container)
        if call.booked is None:
            self._retrospect.created(key, self._title(container), compared(then, None))
            return
        ways = [compared(then, effective(one, container)) for one in (call.assigned, self._allocations.assignment(key))]
        self._retrospect.created(key, call.booked.title, min(ways, key=lambda one: one.verdict is not Verdict.SAME))

    def _compare(self, key: Key) -> None:
        """A container has something else, then or now."""
        held = self._allocations.by_key.get(key)
        container = None if held is None else self._store.containers.get(held.id)
        if container is not None:
            now = effective(self._allocations.assignment(key), container)
            self._retrospect.has(key, compared(given(container), now).verdict)
        elif held is None:
            self._retrospect.gone(key)

    def _title(self, container: Container) -> str:
        pod = self._store.pods.get(container.pod_id)
        return f"{pod.namespace}/{pod.name}/{container.name}" if pod is not None else container.name


def look_back(policy: Policy, happenings: Iterable[CallRecord], *, capacity: int = 0) -> TimelineOutcome:
    """Everything at once."""
    hindsight = Hindsight(policy, capacity=capacity)
    for one in happenings:
        hindsight.feed(one)
    return hindsight.outcome()


def _end(answer: ReplyEvent) -> _End:
    if answer.code == Code.OK:
        return _End.DONE
    if answer.code in OUTCOME_UNKNOWN:
        return _End.DOUBTFUL
    return _End.REFUSED if answer.message.startswith(_REFUSED) else _End.FAILED
