"""Amounts that a pod asks for as a whole (`spec.resources` of the pod), beside those of its containers.

The kubelet asks the runtime for more than a container asks for itself: a limit that it does not have is that of its
pod, and a request that it does not have is that limit. Policies see what a container asks for itself, with the limits
that hold for it, and what its pod asks for in all.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from interpose.core.policy.decision import Grant
from interpose.core.policy.request import Amounts, Key, Request


def limited_by_pod(own: Amounts, pod: Amounts | None) -> Amounts:
    """Amounts of a container with the limits of its pod where it has none of its own."""
    if pod is None:
        return own
    limit = pod.limit_milli if own.limit_milli is None else own.limit_milli
    memory_limit = pod.memory_limit if own.memory_limit is None else own.memory_limit
    return replace(own, limit_milli=limit, memory_limit=memory_limit)


def sent_requests(own: Amounts, pod: Amounts | None) -> tuple[int, ...]:
    """The CPU requests that the kubelet may ask the runtime for, for a container that asks for its `own`."""
    inherited = None if pod is None or own.milli else pod.limit_milli
    return (own.milli,) if inherited is None else (own.milli, inherited)


def own_amounts(sent: Amounts, pod: Amounts) -> Amounts:
    """What a container asks for itself, of what the kubelet asked the runtime for: not what its pod may have in all."""
    inherits_memory = sent.memory_limit is not None and sent.memory_limit == pod.memory_limit == sent.memory
    return replace(
        sent,
        milli=0 if _inherits_cpu(sent, pod) else sent.milli,
        memory=None if inherits_memory else sent.memory,
    )


def have_pod_amounts(requests: Iterable[Request], pod: Amounts) -> bool:
    """Whether a pod must have amounts of its own: its containers ask for more than it does, and one for just its limit.

    Those of a container that was resized in place may be more than the runtime was told of its pod.
    """
    requests = tuple(requests)
    if any(request.pod_amounts is not None for request in requests):
        return True
    too_much = sum(request.milli for request in requests) > pod.milli
    return too_much and any(_inherits_cpu(request.amounts, pod) for request in requests)


def _inherits_cpu(sent: Amounts, pod: Amounts) -> bool:
    return sent.milli == (pod.limit_milli or pod.milli) and sent.limit_milli in (None, pod.limit_milli)


def exclusive_room(request: Request, grants: Mapping[Key, Grant]) -> int | None:
    """How many exclusive CPUs a container may have at most, by what its pod asks for in all; None: any number."""
    if request.pod_amounts is None:
        return None
    others = sum(len(grant.exclusive) for key, grant in grants.items() if _is_sibling(key, request.key))
    return max(request.pod_amounts.milli // 1000 - others, 0)


def _is_sibling(key: Key, other: Key) -> bool:
    return key.pod_id == other.pod_id and key != other


class PodTotals:
    """What containers count for in pools that are as large as their requests: those of a pod in all as much as it.

    A container counts for what its pod asks for and no other one of it counts for, in `milli` of its grant.
    """

    def __init__(self) -> None:
        self._pods: set[str] = set()  # those with amounts of their own

    def count(self, request: Request, grants: Mapping[Key, Grant]) -> int:
        """What a container counts for, in thousandths of a CPU."""
        if request.pod_amounts is None:
            return request.milli
        others = sum(grant.milli for key, grant in grants.items() if _is_sibling(key, request.key))
        return max(request.pod_amounts.milli - others, 0)

    def add(self, request: Request) -> None:
        """Remember a container that has a grant now."""
        if request.pod_amounts is not None:
            self._pods.add(request.key.pod_id)

    def heir(self, key: Key, released: Grant, grants: Mapping[Key, Grant]) -> Key | None:
        """The container that counts for what a released one did: another one of its pod in the same pools."""
        if key.pod_id not in self._pods:
            return None
        others = [other for other in grants if other.pod_id == key.pod_id]
        if not others:
            self._pods.discard(key.pod_id)
        return next((other for other in others if grants[other].pools == released.pools), None)
