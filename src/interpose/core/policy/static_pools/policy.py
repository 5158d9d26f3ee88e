"""The policy static-pools: containers get CPU lists of the pool they name, as CPU Manager for Kubernetes gave them.

A pool never changes while it is in force. Every list of a pool that is not exclusive is a pool of the book, named
`POOL/LIST`; the lists of an exclusive pool are the `exclusive` CPUs of one grant each, or of none. Invariant: CPUs of
an exclusive pool are in no other grant, whatever a container asks for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from interpose.core.cpuallocator.cost import Candidate
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.model.text import quoted
from interpose.core.policy.api import Setup
from interpose.core.policy.decision import Action, Decision, Grant, Refusal, Why
from interpose.core.policy.request import Key, Request
from interpose.core.policy.state import PolicyState
from interpose.core.policy.static_pools.cmk import ANY_SOCKET, PoolSelection, parse_socket, read_wish
from interpose.core.policy.static_pools.config import check_pools, online_pools
from interpose.core.policy.static_pools.options import PoolCpuList, PoolsOptions
from interpose.core.policy.static_pools.placement import Load, choose_own, choose_shared, own_candidates
from interpose.errors import ConfigError

EXCLUSIVE_CORES: Final = "cmk.intel.com/exclusive-cores"  # the extended resource: how many lists
SHARED: Final = "shared"  # where containers go that name no pool
INFRA: Final = "infra"  # a pool whose lists are not looked at by socket
REST: Final = "rest"  # CPUs of no exclusive pool, if there is no other pool at all

_NUM_CORES: Final = "CMK_NUM_CORES"
_TOLD: Final[Mapping[str, str]] = {INFRA: "CMK_CPUS_INFRA", SHARED: "CMK_CPUS_SHARED"}
_HELD: Final = ("exclusive", "pools", "pinned")  # what is the same in a grant that is kept
# In a grant's details, what the container said: the pool it named, which need not be where it is, and so on.
_ASKED: Final = "asked"
_SOCKET: Final = "socket"
_LOOSE: Final[Mapping[str, str]] = {"affinity": "none"}
_SEPARATOR: Final = ";"  # between lists in a grant's details; a comma is within them


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a container goes: lists of a pool. `names` are those of the book if others may have them too."""

    pool: str
    lists: tuple[PoolCpuList, ...] = ()
    names: tuple[str, ...] = ()
    reason: str
    candidates: tuple[Candidate, ...] = ()
    refused: Why | None = None  # then it goes nowhere, and the reason says why


class StaticPoolsPolicy:
    """Decides by the pool a container names in its command or its variables."""

    def __init__(self, setup: Setup, options: PoolsOptions) -> None:
        topology = setup.topology
        reserved = setup.reserved if isinstance(setup.reserved, CpuSet) else EMPTY
        if problems := check_pools(options.pools, topology, setup.available, reserved):
            raise ConfigError(problems)
        available = topology.online if setup.available is None else setup.available & topology.online
        self._topology = topology
        self._pools, self._notes = online_pools(options.pools, topology)
        self._common = {name: pool for name, pool in self._pools.items() if pool.lists and not pool.exclusive}
        state = {_title(name, one): one.cpus for name, pool in self._common.items() for one in pool.lists}
        if not state:
            alone = CpuSet.union(one.cpus for pool in self._pools.values() for one in pool.lists)
            state[REST] = available - alone
            if not state[REST]:
                raise ConfigError("static-pools: all CPUs are in exclusive pools, none is left for other containers")
        self._state = PolicyState(state)

    @property
    def name(self) -> str:
        """As in settings."""
        return "static-pools"

    @property
    def state(self) -> PolicyState:
        """Lists that are shared, and grants."""
        return self._state

    @property
    def fallback(self) -> CpuSet:
        """What a container gets that names no pool."""
        return CpuSet.union(one.cpus for one in self._unnamed().lists)

    @property
    def notes(self) -> tuple[str, ...]:
        """CPUs of pools that are offline, lists that are not of the socket they are said to be of."""
        return self._notes

    def capacity(self) -> int:
        """How many lists there are for containers that want some alone: what the node has of the extended resource."""
        return sum(len(pool.lists) for pool in self._pools.values() if pool.exclusive)

    def pools(self) -> Mapping[str, CpuSet]:
        """Pools by their names; of exclusive ones what is free."""
        taken = self._taken()
        found = {
            name: CpuSet.union(one.cpus for one in pool.lists) - (taken if pool.exclusive else EMPTY)
            for name, pool in self._pools.items()
        }
        return {**found, REST: self._state.pool(REST)} if REST in self._state.pools else found

    def allocate(self, request: Request, held: Grant | None = None) -> Decision:
        """Lists of the pool it names; those it has, if they are still there."""
        return self._decide(Action.ALLOCATE, request, held)

    def resize(self, request: Request) -> Decision:
        """It stays where it is: amounts of CPU do not choose lists."""
        return self._decide(Action.RESIZE, request, None)

    def release(self, key: Key) -> Decision:
        """Its lists are free again."""
        grant = self._state.drop(key)
        if grant is None:
            reason = "it held nothing"
        elif grant.exclusive:
            reason = f"lists {grant.details['lists'].replace(_SEPARATOR, ', ')} are free again"
        else:
            reason = "it had no lists of its own"
        return Decision(action=Action.RELEASE, key=key, reason=reason)

    # -- deciding

    def _decide(self, action: Action, request: Request, held: Grant | None) -> Decision:
        before = self._state.grants.get(request.key) or held
        try:
            wish = read_wish(request, _remembered(request, before))
        except ValueError as error:
            return _decision(action, request.key, _Place(pool="", refused=Why.INVALID, reason=str(error)))
        place = self._place(request, wish, before)
        if place.refused is not None:
            return _decision(action, request.key, place)
        grant = self._grant(request, wish, place)
        self._state.put(request.key, grant)
        self._state.changes()  # of others there are none: lists do not overlap, and pools stay as they are
        same = before is not None and all(getattr(before, name) == getattr(grant, name) for name in _HELD)
        return _decision(Action.KEEP if same and action is Action.ALLOCATE else action, request.key, place, grant)

    def _place(self, request: Request, wish: PoolSelection, before: Grant | None) -> _Place:
        if not wish.pool and SHARED not in self._common:
            return self._unnamed()
        name = wish.pool or SHARED
        pool = self._pools.get(name)
        if pool is None:
            known = ", ".join(sorted(self._pools))
            return _no(name, Why.INVALID, f"pool {quoted(name)} is unknown; there are {known}")
        if not pool.lists:
            return _no(name, Why.EXHAUSTED, f"all CPUs of pool {name} are offline")
        socket = ANY_SOCKET if name == INFRA else wish.socket
        lists = tuple(one for one in pool.lists if socket in (ANY_SOCKET, one.socket))
        if not lists:
            known = ", ".join(map(str, sorted({one.socket for one in pool.lists})))
            return _no(name, Why.INVALID, f"pool {name} has no CPUs on socket {socket}, only on {known}")
        had = self._recorded(before, name) if before is not None else ()
        if pool.exclusive:
            return self._alone(request, name, lists, had, before.exclusive if before is not None else EMPTY)
        return self._together(request, name, lists, had)

    def _unnamed(self) -> _Place:
        """For a container that names no pool: a node must run those of people who know nothing of pools."""
        common = {SHARED: self._common[SHARED]} if SHARED in self._common else self._common
        lists = tuple(one for pool in common.values() for one in pool.lists)
        if not lists:
            rest = self._state.pool(REST)
            one = PoolCpuList(cpus=rest, text=str(rest), socket=ANY_SOCKET)
            return _Place(pool=REST, lists=(one,), names=(REST,), reason="names no pool: the CPUs of no exclusive one")
        return _Place(
            pool=" ".join(common),
            lists=lists,
            names=tuple(_title(name, one) for name, pool in common.items() for one in pool.lists),
            reason="names no pool: all CPUs of pools that are shared",
        )

    def _together(
        self, request: Request, name: str, lists: tuple[PoolCpuList, ...], had: tuple[PoolCpuList, ...]
    ) -> _Place:
        """One list, with others."""
        chosen = choose_shared({one: self._load(_title(name, one), request.key) for one in lists}, had)
        reason = f"pool {name}, list {_joined(chosen.lists)}: {chosen.how}"
        if request.amounts.extended.get(EXCLUSIVE_CORES):
            reason += f"; {EXCLUSIVE_CORES} has no effect there, the pool is shared"
        names = tuple(_title(name, one) for one in chosen.lists)
        return _Place(pool=name, lists=chosen.lists, names=names, reason=reason, candidates=chosen.candidates)

    def _alone(
        self, request: Request, name: str, lists: tuple[PoolCpuList, ...], had: tuple[PoolCpuList, ...], cpus: CpuSet
    ) -> _Place:
        """As many lists as it wants, for itself."""
        # One that runs already keeps what it has although nobody can tell any more how much that should be.
        count = request.amounts.extended.get(EXCLUSIVE_CORES, 0) or (len(had) if cpus else 0)
        if count < 1:
            return _no(
                name,
                Why.INVALID,
                f"pool {name} is exclusive: the container must request {EXCLUSIVE_CORES}, and the pod must have the "
                "annotation of the resource webhook, as the amount is known only from there",
            )
        taken = self._taken(request.key)
        chosen = choose_own(self._topology, lists, taken, count, had, cpus)
        if chosen is None:
            free = sum(not one.cpus & taken for one in lists)
            never = len(lists) < count
            message = f"pool {name}: {count} needed, but {free} of the {len(lists)} lists that fit are free"
            return _no(name, Why.INVALID if never else Why.EXHAUSTED, message, own_candidates(lists, taken))
        texts = ", ".join(one.text for one in chosen.lists)
        reason = f"pool {name}, lists of its own {texts}: {chosen.how}{_mismatch(request, count)}"
        return _Place(pool=name, lists=chosen.lists, reason=reason, candidates=chosen.candidates)

    # -- the book

    def _grant(self, request: Request, wish: PoolSelection, place: _Place) -> Grant:
        envs = {"CMK_CPUS_ASSIGNED": _joined(place.lists)}
        for name, variable in _TOLD.items():
            if pool := self._pools.get(name):
                envs[variable] = _joined(pool.lists)
        alone = not place.names
        return Grant(
            exclusive=CpuSet.union(one.cpus for one in place.lists) if alone else EMPTY,
            pools=place.names,
            pinned=not wish.no_affinity,
            milli=0 if alone else request.milli,
            envs=envs,
            command=wish.command,
            details={
                _ASKED: wish.pool,
                _SOCKET: str(wish.socket),
                **(_LOOSE if wish.no_affinity else {}),
                "pool": place.pool,
                "lists": _SEPARATOR.join(one.text for one in place.lists),
            },
        )

    def _recorded(self, grant: Grant, pool: str) -> tuple[PoolCpuList, ...]:
        """The lists of a pool that a grant was made of, as far as they are still there.

        CPUs that went offline are in the record and in no list.
        """
        if grant.details.get("pool") != pool:
            return ()
        recorded = set()
        for text in grant.details.get("lists", "").split(_SEPARATOR):
            try:
                recorded.add(CpuSet.parse(text) & self._topology.online)
            except ValueError:
                continue  # not ours; its CPUs speak for themselves
        return tuple(one for one in self._pools[pool].lists if one.cpus in recorded)

    def _taken(self, but: Key | None = None) -> CpuSet:
        """CPUs that somebody else has alone."""
        return CpuSet.union(grant.exclusive for key, grant in self._state.grants.items() if key != but)

    def _load(self, title: str, but: Key) -> Load:
        """What the others use of a list."""
        grants = self._state.grants
        others = [grants[key].milli for key in self._state.members(title) if key != but]
        return Load(sum(others), len(others))


def _remembered(request: Request, grant: Grant | None) -> PoolSelection:
    """What a container said when it was created, as its grants tell; nothing if they are of another policy."""
    details = grant.details if grant is not None and _ASKED in grant.details else request.recalled
    try:
        socket = parse_socket(details.get(_SOCKET, ""), "the record of a grant")
    except ValueError:
        socket = ANY_SOCKET  # not ours
    return PoolSelection(pool=details.get(_ASKED, ""), socket=socket, no_affinity=_LOOSE.items() <= details.items())


def _no(pool: str, why: Why, message: str, candidates: tuple[Candidate, ...] = ()) -> _Place:
    return _Place(pool=pool, refused=why, reason=message, candidates=candidates)


def _decision(action: Action, key: Key, place: _Place, grant: Grant | None = None) -> Decision:
    loose = grant is not None and not grant.pinned
    return Decision(
        action=action,
        key=key,
        grant=grant,
        refusal=None if place.refused is None else Refusal(why=place.refused, message=place.reason),
        reason=place.reason + ("; not bound to them, as it asked for" if loose else ""),
        candidates=place.candidates,
    )


def _title(pool: str, one: PoolCpuList) -> str:
    """The name of a shared list in the book."""
    return f"{pool}/{one.text}"


def _joined(lists: Sequence[PoolCpuList]) -> str:
    """As containers are told: the texts as they were written."""
    return ",".join(one.text for one in lists)


def _mismatch(request: Request, count: int) -> str:
    """CMK's own variable for the same amount does not decide, but whoever set it meant something."""
    text = request.envs.get(_NUM_CORES)
    if text is None or text.strip() == str(count):
        return ""
    return f"; variable {_NUM_CORES} says {quoted(text)}, but {EXCLUSIVE_CORES} is {count}"
