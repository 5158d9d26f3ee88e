"""What people are told of the pools of a policy: where they are, what is free and granted in them, and who is there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.policy.api import Policy
from interpose.core.policy.request import Key


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolReport:
    """A pool as its policy speaks of it. What a policy does not know or have stays empty."""

    name: str
    kind: str = ""  # its level, or the type of a balloon
    parent: str = ""  # the name of the pool that it is inside of
    cpus: CpuSet = EMPTY  # that its containers share
    own: CpuSet = EMPTY  # CPUs of it that containers have alone
    idle: CpuSet = EMPTY  # further CPUs that its containers may use as long as nobody else does
    isolated: CpuSet = EMPTY  # isolated ones that nobody has
    mems: CpuSet = EMPTY  # nodes with its memory
    granted: int | None = None  # thousandths of its shared CPUs that containers in it, and in pools inside of it, have
    free: int | None = None  # thousandths that a container more could have
    containers: tuple[Key, ...] = ()  # that are in this very pool, not in one inside of it


@runtime_checkable
class PoolReporter(Policy, Protocol):
    """A policy that tells more of its pools than their CPUs. Most policies do not, and have none of this."""

    def report_pools(self) -> Sequence[PoolReport]:
        """All pools, each before those inside of it."""


def report_pools(policy: Policy) -> Sequence[PoolReport]:
    """The pools of a policy as it reports them; of one that does not, what its pools and grants say.

    A pool of a grant that is called after another one and a blank is a part of that.
    """
    if isinstance(policy, PoolReporter):
        return policy.report_pools()
    pools = policy.pools()
    members: dict[str, dict[Key, None]] = {name: {} for name in pools}
    for key, grant in policy.state.grants.items():
        for name in grant.pools:
            members.setdefault(name if name in pools else name.partition(" ")[0], {})[key] = None
    return [PoolReport(name=name, cpus=cpus, containers=tuple(members[name])) for name, cpus in pools.items()]


def pool_record(report: PoolReport, titles: Mapping[Key, str]) -> dict[str, Any]:
    """A report as plain values; `titles` are the display names of containers."""
    return {
        "name": report.name,
        "kind": report.kind,
        "parent": report.parent,
        "cpus": str(report.cpus),
        "own": str(report.own),
        "idle": str(report.idle),
        "isolated": str(report.isolated),
        "mems": str(report.mems),
        "granted_milli": report.granted,
        "free_milli": report.free,
        "containers": [titles.get(key, str(key)) for key in report.containers],
    }
