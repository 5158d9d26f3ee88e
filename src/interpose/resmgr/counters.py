"""What the resource manager counts and says about calls: refusals, failures, values of others, and who came too early.

Nothing here decides anything. What can be repeated by a caller that tries again and again is logged once in a while.
"""

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from interpose.core.policy.decision import Decision, Refusal, RefusalKind
from interpose.core.policy.request import Request
from interpose.log import RateLimited
from interpose.net.grpc.status import Code, RpcError
from interpose.relay.api import Call, Reply, refusal
from interpose.resmgr.request_edits import Override

_log = logging.getLogger(__name__)

_REFUSALS: Final = 50
_CODES: Final[Mapping[RefusalKind, Code]] = {
    RefusalKind.EXHAUSTED: Code.RESOURCE_EXHAUSTED,
    RefusalKind.INVALID: Code.INVALID_ARGUMENT,
}


class RefusedRequest(NamedTuple):
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


class PolicyCounters:
    """Counts, and remembers the last refusals. `now` is the time of day."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.overrides: Counter[tuple[str, str]] = Counter()  # (field, who wanted something else)
        self.failures: Counter[str] = Counter()  # by method: deciding itself failed
        self.late = 0  # containers that got CPUs before all others had given them up
        self.refused: deque[RefusedRequest] = deque(maxlen=_REFUSALS)
        self._now = now
        self._remarks = RateLimited(_log)

    def refuse(self, policy: str, request: Request, decision: Decision, why: Refusal) -> Reply:
        """Remember a refusal, and make the reply of it."""
        # The kubelet tries again and again: one container must not push out all others.
        before = next((one for one in self.refused if one.title == request.title), None)
        if before is not None:
            self.refused.remove(before)
        times = 1 if before is None else before.times + 1
        self.refused.append(RefusedRequest(self._now(), request, decision, why, times))
        kv = {"container": request.title, "why": why.message}
        _log.warning("Policy rejected container", extra={"kv": kv})
        return refusal(_CODES[why.kind], f"policy {policy}: {why.message}")

    def unread(self, policy: str, call: Call, error: Exception) -> Reply:
        """The reply to a call that only the runtime understands: nobody can say what it would take from others."""
        kv = {"method": call.method.name, "why": str(error)}
        self._remarks.log(logging.WARNING, "Call was refused: the policy cannot read it", key=call.method.name, **kv)
        return refusal(Code.INVALID_ARGUMENT, f"policy {policy}: the request cannot be read: {error}")

    def too_early(self, container: str, others: int) -> None:
        """A container got CPUs although others may still have them."""
        self.late += 1
        text = "Container did not wait any longer for others to give up its CPUs"
        self._remarks.log(logging.WARNING, text, key=container, container=container, others=others)

    def estimated(self, container: str, problems: Iterable[str]) -> None:
        """What a container says of itself could not be used."""
        for problem in problems:
            text = "What a container asks for was estimated"
            self._remarks.log(logging.WARNING, text, key=container, container=container, err=problem)

    def overridden(self, call: Call, overrides: Iterable[Override]) -> None:
        """The policy's values replaced others."""
        for one in overrides:
            who = call.claims.get(one.field, "the caller")
            self.overrides[one.field, who] += 1
            text = "The policy's value replaced another one"
            kv = {"field": one.field, "wanted_by": who, "wanted": one.asked, "given": one.given}
            self._remarks.log(logging.WARNING, text, key=f"{who} {one.field}", **kv)

    def failed(self, call: Call, error: Exception) -> None:
        """Nobody could decide about a call."""
        self.failures[call.method.name] += 1
        if isinstance(error, RpcError):
            text = "The policy could not decide, shared CPUs were given"
            self._remarks.log(logging.WARNING, text, key=call.method.name, method=call.method.name, err=str(error))
        else:
            _log.error("Resource manager failed", extra={"kv": {"method": call.method.name}}, exc_info=error)
