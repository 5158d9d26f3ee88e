"""Grants of the policy topology-aware: what a container gets for its place, and what is read from a grant later.

The details of a grant have what a restart needs: the pool, its own CPUs that it does not run on, whether it has not
started yet, whether it shares a pool only because the reserved CPUs are in use, and what it carries of the rest of its
pod.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from interpose.core.model.cgroup import shares_of
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.policy.decision import NO_QUOTA, Grant
from interpose.core.policy.request import Request
from interpose.core.policy.topology_aware.options import TopologyAwareOptions
from interpose.core.policy.topology_aware.placement import CpuSource, Placement
from interpose.core.policy.topology_aware.preferences import ContainerWish, CpuOffer
from interpose.core.topology.topology import Topology

RESERVED: Final = "reserved"
_POOL: Final = "pool"
_HIDDEN: Final = "hidden"
_COLD: Final = "cold-start"
_OVERFLOW: Final = "overflow"
_UNBOUND: Final = "unbound"
_REST: Final = "pod-rest"
_THINNED: Final = ", a thread of each core"  # behind the name of a pool


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldGrant:
    """What an earlier grant says."""

    grant: Grant
    pool: str = ""  # empty: the grant is another policy's
    own: CpuSet = EMPTY  # its own CPUs, those that it does not run on included
    mems: CpuSet | None = None  # memory nodes that were chosen for it
    cold: bool = False
    overflow: bool = False
    rest: int = 0  # what it carries of the rest of its pod

    @classmethod
    def of(cls, grant: Grant) -> "HeldGrant":
        details = grant.details
        return cls(
            grant=grant,
            pool=details.get(_POOL, ""),
            own=grant.exclusive | _parse(details.get(_HIDDEN, "")),
            mems=None if _UNBOUND in details else grant.mems,
            cold=_COLD in details,
            overflow=_OVERFLOW in details,
            rest=int(text) if (text := details.get(_REST, "0")).isdecimal() else 0,
        )

    @property
    def is_reserved(self) -> bool:
        """Whether it has the reserved CPUs and no others."""
        return self.grant.pools in ((RESERVED,), (thinned_name(RESERVED),))

    @property
    def is_spilled(self) -> bool:
        """Whether it has the reserved CPUs only because no pool had one to share."""
        return len(self.grant.pools) > 1


def make_grant(
    topology: Topology,
    options: TopologyAwareOptions,
    request: Request,
    wish: ContainerWish,
    place: Placement,
    mems: CpuSet | None,
    *,
    unbound: bool,
) -> Grant:
    """The grant for a place; `mems`: memory nodes, None: not written; `unbound`: all of them, as none are chosen."""
    pools = _pools(place, wish)
    visible = thinned(topology, place.cpus) if wish.hide_siblings else place.cpus
    whole = bool(place.cpus) and not pools
    lifts = options.lift_quota and options.pin_cpu and whole and request.amounts.quota
    preserved = place.source is CpuSource.PRESERVED
    overflow = wish.cpu.offer is CpuOffer.RESERVED and place.source is CpuSource.POOL
    return Grant(
        exclusive=visible,
        pools=pools,
        pinned=options.pin_cpu and not preserved,
        mems=mems,
        shares=_shares(request, wish, place) if options.pin_cpu and not preserved else None,
        quota=NO_QUOTA if lifts else None,
        milli=wish.cpu.part + wish.cpu.rest,
        details={
            _POOL: place_name(place),
            **({_HIDDEN: str(place.cpus - visible)} if place.cpus != visible else {}),
            **({_COLD: "true"} if wish.memory.cold_start else {}),
            **({_OVERFLOW: RESERVED} if overflow else {}),
            **({_UNBOUND: "true"} if unbound else {}),
            **({_REST: str(wish.cpu.rest)} if wish.cpu.rest else {}),
        },
    )


def thinned(topology: Topology, cpus: CpuSet) -> CpuSet:
    """The lowest of these CPUs of each core."""
    lowest: dict[int, int] = {}
    for cpu in cpus:
        lowest.setdefault(topology.by_id[cpu].core, cpu)
    return CpuSet.of(lowest.values())


def thinned_name(pool: str) -> str:
    """The name of the part of a pool that containers have which do not run on siblings."""
    return f"{pool}{_THINNED}"


def place_name(place: Placement) -> str:
    """What a grant remembers of where a container is: its pool, if it has CPUs of one."""
    return place.source.value if place.source in (CpuSource.RESERVED, CpuSource.PRESERVED) else place.pool.name


def with_rest(grant: Grant, rest: int) -> Grant:
    """The grant of a container that carries so much of the rest of its pod now."""
    details = {name: text for name, text in grant.details.items() if name != _REST}
    milli = grant.milli - HeldGrant.of(grant).rest + rest
    return replace(grant, milli=milli, details={**details, **({_REST: str(rest)} if rest else {})})


def without_cold_start(details: Mapping[str, str]) -> dict[str, str]:
    """The details of a container that has started."""
    return {name: text for name, text in details.items() if name != _COLD}


def _pools(place: Placement, wish: ContainerWish) -> tuple[str, ...]:
    names: tuple[str, ...] = ()
    if place.source is CpuSource.RESERVED:
        names = (RESERVED,)
    elif place.source is CpuSource.SPILLED:
        names = (place.pool.name, RESERVED)
    elif place.source is CpuSource.POOL and wish.cpu.shares:
        names = (place.pool.name,)
    return tuple(map(thinned_name, names)) if wish.hide_siblings else names


def _shares(request: Request, wish: ContainerWish, place: Placement) -> int | None:
    """CPU shares for what it shares, else for its own CPUs; those of the kubelet if only its pod asks for CPU."""
    if request.pod_amounts is not None and not request.milli:
        return None
    return shares_of(wish.cpu.part or 1000 * len(place.cpus))


def _parse(text: str) -> CpuSet:
    try:
        return CpuSet.parse(text)
    except ValueError:
        return EMPTY  # not ours
