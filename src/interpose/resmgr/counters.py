"""Counters and log lines of the resource manager about calls: refusals, failures, replaced values, late updates.

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
        """The display name of the container."""
        return self.request.title


class PolicyCounters:
    """Counters of calls, and the last refusals. `now` is the time of day."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.overrides: Counter[tuple[str, str]] = Counter()  # (field, who wanted something else)
        self.failures: Counter[str] = Counter()  # by method: calls without a decision
        self.late = 0  # containers that got CPUs before all others had given them up
        self.refused: deque[RefusedRequest] = deque(maxlen=_REFUSALS)
        self._now = now
        self._rate_limited = RateLimited(_log)

    def refuse(self, policy: str, request: Request, decision: Decision, reason: Refusal) -> Reply:
        """Record a refusal, and return the reply for the caller."""
        # The kubelet tries again and again: one container must not push out all others.
        before = next((refused for refused in self.refused if refused.title == request.title), None)
        if before is not None:
            self.refused.remove(before)
        times = 1 if before is None else before.times + 1
        self.refused.append(RefusedRequest(self._now(), request, decision, reason, times))
        kv = {"container": request.title, "why": reason.message}
        _log.warning("Policy rejected container", extra={"kv": kv})
        return refusal(_CODES[reason.kind], f"policy {policy}: {reason.message}")

    def refuse_unreadable(self, policy: str, call: Call, error: Exception) -> Reply:
        """The reply to a call that cannot be read: what it would take from other containers is unknown."""
        kv = {"method": call.method.name, "why": str(error)}
        self._rate_limited.log(
            logging.WARNING, "Call was refused: the policy cannot read it", key=call.method.name, **kv
        )
        return refusal(Code.INVALID_ARGUMENT, f"policy {policy}: the request cannot be read: {error}")

    def count_late(self, container: str, others: int) -> None:
        """Count a container that got CPUs although others may still have them."""
        self.late += 1
        text = "Container did not wait any longer for others to give up its CPUs"
        self._rate_limited.log(logging.WARNING, text, key=container, container=container, others=others)

    def log_estimate(self, container: str, problems: Iterable[str]) -> None:
        """Log what could not be used of the annotation of a container."""
        for problem in problems:
            text = "What a container asks for was estimated"
            self._rate_limited.log(logging.WARNING, text, key=container, container=container, err=problem)

    def log_missing_hints(self, container: str, problems: Iterable[str]) -> None:
        """Log why it is not known what a container is near to."""
        for problem in problems:
            text = "Topology hints of a container are missing"
            self._rate_limited.log(logging.WARNING, text, key=container, container=container, err=problem)

    def count_overrides(self, call: Call, overrides: Iterable[Override]) -> None:
        """Count and log values that the policy replaced."""
        for override in overrides:
            who = call.claims.get(override.field, "the caller")
            self.overrides[override.field, who] += 1
            text = "The policy's value replaced another one"
            kv = {"field": override.field, "wanted_by": who, "wanted": override.requested, "given": override.written}
            self._rate_limited.log(logging.WARNING, text, key=f"{who} {override.field}", **kv)

    def count_failure(self, call: Call, error: Exception) -> None:
        """Count and log a call without a decision."""
        self.failures[call.method.name] += 1
        if isinstance(error, RpcError):
            text = "The policy could not decide, shared CPUs were given"
            self._rate_limited.log(logging.WARNING, text, key=call.method.name, method=call.method.name, err=str(error))
        else:
            _log.error("Resource manager failed", extra={"kv": {"method": call.method.name}}, exc_info=error)
