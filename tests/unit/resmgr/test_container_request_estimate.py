"""What is guessed from CRI's numbers."""

import pytest

from interpose.core.model.cgroup import KubeQos
from interpose.core.model.resources import LinuxResources
from interpose.core.policy.request import Amounts
from interpose.resmgr.container_request import estimate, estimate_qos, limit_of, memory_of, milli_of

GIB = 1 << 30
B, G, N = KubeQos.BURSTABLE, KubeQos.GUARANTEED, KubeQos.BEST_EFFORT


@pytest.mark.parametrize(
    ("shares", "milli"),
    [(0, 0), (2, 0), (-1, 0), (3, 3), (10, 10), (33, 33), (102, 100), (512, 500), (1024, 1000), (262_144, 256_000)],
)
def test_shares_give_back_the_request(shares: int, milli: int) -> None:
    """The least there is stands for none; 33 is what rounding to the nearest gets wrong."""
    assert milli_of(shares) == milli


@pytest.mark.parametrize(
    ("quota", "period", "limit"),
    [(0, 100_000, None), (-1, 100_000, None), (150_000, 100_000, 1500), (10_000, 20_000, 500), (50_000, 0, 500)],
)
def test_quota_and_period_give_back_the_limit(quota: int, period: int, limit: int | None) -> None:
    """Without a period the kernel's own counts."""
    assert limit_of(quota, period) == limit


@pytest.mark.parametrize("score", [-998, -997, 0, 2, 1000])
def test_scores_that_are_given_by_class_tell_no_memory(score: int) -> None:
    """Nor does any score without the machine's memory."""
    assert memory_of(score, 64 * GIB) is None
    assert memory_of(500, 0) is None


@pytest.mark.parametrize(("score", "memory"), [(999, 1000), (500, 500_000), (3, 997_000)])
def test_scores_of_burstable_containers_tell_memory(score: int, memory: int) -> None:
    """As thousandths of the machine's."""
    assert memory_of(score, 1_000_000) == memory


@pytest.mark.parametrize(
    ("asked", "qos", "amounts"),
    [
        (LinuxResources(cpu_shares=2, oom_score_adj=1000), N, Amounts()),
        (
            LinuxResources(
                cpu_shares=2048, cpu_quota=200_000, cpu_period=100_000, memory_limit_in_bytes=GIB, oom_score_adj=-997
            ),
            G,
            Amounts(milli=2000, limit_milli=2000, memory=GIB, memory_limit=GIB, quota=True),
        ),
        (
            LinuxResources(cpu_shares=2048, cpu_quota=-1, memory_limit_in_bytes=GIB),
            G,
            Amounts(milli=2000, limit_milli=2000, memory=GIB, memory_limit=GIB),
        ),
        (
            LinuxResources(cpu_shares=262_144, cpu_quota=30_000_000, cpu_period=100_000, memory_limit_in_bytes=GIB),
            G,
            Amounts(milli=300_000, limit_milli=300_000, memory=GIB, memory_limit=GIB, quota=True),
        ),
        (
            LinuxResources(cpu_shares=262_144, cpu_quota=30_000_000, cpu_period=100_000),
            B,
            Amounts(milli=256_000, limit_milli=300_000, quota=True),
        ),
        (LinuxResources(cpu_shares=262_144), G, Amounts(milli=256_000, limit_milli=256_000)),
        (LinuxResources(), G, Amounts()),
        (LinuxResources(cpu_shares=512, oom_score_adj=999), B, Amounts(milli=500, memory=1000)),
        (
            LinuxResources(cpu_shares=512, oom_score_adj=999, memory_limit_in_bytes=1001),
            B,
            Amounts(milli=500, memory=1000, memory_limit=1001),
        ),
        (
            LinuxResources(cpu_shares=512, oom_score_adj=999, memory_limit_in_bytes=1000),
            B,
            Amounts(milli=500, memory_limit=1000),
        ),
        (LinuxResources(cpu_shares=512, oom_score_adj=1000), B, Amounts(milli=500)),
        (LinuxResources(cpu_shares=512, memory_limit_in_bytes=-1), N, Amounts(milli=500)),
    ],
)
def test_amounts(asked: LinuxResources, qos: KubeQos, amounts: Amounts) -> None:
    """Guaranteed: limit and request are the same, also where shares tell no more.

    Burstable: a memory request that is above the limit is none.
    """
    assert estimate(asked, qos, 1_000_000) == amounts


@pytest.mark.parametrize(
    ("asked", "qos"),
    [
        (LinuxResources(), N),
        (LinuxResources(cpu_shares=2, cpu_quota=-1, oom_score_adj=1000), N),
        (LinuxResources(cpu_shares=2, oom_score_adj=997), B),
        (LinuxResources(cpu_shares=512), B),
        (LinuxResources(cpu_quota=50_000), B),
        (LinuxResources(memory_limit_in_bytes=1), B),
        (LinuxResources(cpu_shares=512, cpu_quota=50_000), B),
        (LinuxResources(cpu_shares=512, cpu_quota=60_000, memory_limit_in_bytes=1), B),
        (LinuxResources(cpu_shares=512, cpu_quota=50_000, memory_limit_in_bytes=1), G),
        (LinuxResources(cpu_shares=512, cpu_quota=50_000, memory_limit_in_bytes=1, oom_score_adj=-997), G),
        (LinuxResources(cpu_shares=512, cpu_quota=50_000, memory_limit_in_bytes=1, oom_score_adj=3), B),
        (LinuxResources(cpu_shares=262_144, cpu_quota=30_000_000, memory_limit_in_bytes=1), G),
        (LinuxResources(cpu_shares=262_144, cpu_quota=10_000_000, memory_limit_in_bytes=1), B),
    ],
)
def test_a_class_without_a_directory(asked: LinuxResources, qos: KubeQos) -> None:
    """Request and limit the same: Guaranteed. Nothing: BestEffort."""
    assert estimate_qos(asked) is qos
