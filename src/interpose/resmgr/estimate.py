"""What a container asked for, guessed from what CRI carries: CPU shares, quota, memory limit, OOM score.

Each formula undoes one of the kubelet's. Shares give back every CPU request from three thousandths of a CPU up exactly,
as far as they go: all requests of 256 CPUs and more have the same, and only the limit of a Guaranteed container tells
more. A memory request is known to a thousandth of the machine's memory, and of Burstable containers only. Pure.
"""

from typing import Final

from interpose.core.model.cgroup import MAX_SHARES, MIN_SHARES, PERIOD, KubeQos, shares_of
from interpose.core.model.resources import LinuxResources
from interpose.core.policy.request import Amounts, Source

# OOM scores that depend on the memory request. Everything below is given by class or priority, 1000 is BestEffort.
_LOWEST_SCORE: Final = 3
_HIGHEST_SCORE: Final = 999
# The lowest that was ever given to a Burstable container, by kubelets before 1.22.
_LOWEST_BURSTABLE: Final = 2


def milli_of(shares: int) -> int:
    """Thousandths of a CPU behind CPU shares. The least there can be, and none at all, are no request.

    Rounded up: the kubelet has rounded down, and no two requests above the least have the same shares.
    """
    return 0 if shares <= MIN_SHARES else -(-shares * 1000 // 1024)


def limit_of(quota: int, period: int) -> int | None:
    """Thousandths of a CPU behind a CFS quota; None without one. A period that is not given is the kernel's own."""
    return None if quota <= 0 else -(-quota * 1000 // (period if period > 0 else PERIOD))


def memory_of(score: int, capacity: int) -> int | None:
    """The least memory request that gives this OOM score on a machine with so much memory; None: nobody knows."""
    if capacity <= 0 or not _LOWEST_SCORE <= score <= _HIGHEST_SCORE:
        return None
    return -(-capacity * (1000 - score) // 1000)


def estimate(asked: LinuxResources, qos: KubeQos, capacity: int = 0) -> Amounts:
    """What a container of this class asked for; `capacity` is the machine's memory in bytes, 0 if it is not known."""
    milli = milli_of(asked.cpu_shares)
    limit = limit_of(asked.cpu_quota, asked.cpu_period)
    memory_limit = asked.memory_limit_in_bytes if asked.memory_limit_in_bytes > 0 else None
    memory = None
    if qos is KubeQos.GUARANTEED:
        if limit is not None and _beyond_shares(asked, limit):
            milli = limit
        # The quota of a container with CPUs of its own is taken away by newer kubelets; its limit is still there.
        limit = milli or None if limit is None else limit
        memory = memory_limit
    elif qos is KubeQos.BURSTABLE:
        memory = memory_of(asked.oom_score_adj, capacity)
        if memory is not None and memory_limit is not None and memory >= memory_limit:
            memory = None
    return Amounts(milli=milli, limit_milli=limit, memory=memory, memory_limit=memory_limit, source=Source.ESTIMATE)


def estimated_qos(asked: LinuxResources) -> KubeQos:
    """The class of a container that is in no directory of a class, by what it asked for.

    Its memory request is not known; only the OOM score of a Burstable container tells that it is below the limit.
    """
    milli, limit = milli_of(asked.cpu_shares), limit_of(asked.cpu_quota, asked.cpu_period)
    burstable = _LOWEST_BURSTABLE <= asked.oom_score_adj <= _HIGHEST_SCORE
    same = limit is not None and (milli == limit or _beyond_shares(asked, limit))
    if not burstable and milli and same and asked.memory_limit_in_bytes > 0:
        return KubeQos.GUARANTEED
    something = burstable or milli or limit is not None or asked.memory_limit_in_bytes > 0
    return KubeQos.BURSTABLE if something else KubeQos.BEST_EFFORT


def _beyond_shares(asked: LinuxResources, limit: int) -> bool:
    """Whether a limit is so large that shares of a request that equals it say no more than that."""
    return asked.cpu_shares == shares_of(limit) == MAX_SHARES
