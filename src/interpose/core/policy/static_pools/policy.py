"""The policy static-pools: containers get CPU lists of the pool they name, as CPU Manager for Kubernetes gave them.

A pool never changes while it is in force. Every list of a pool that is not exclusive is a pool of the state, named
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
from interpose.core.policy.decision import Action, Decision, Grant, Refusal, RefusalKind
from interpose.core.policy.request import Key, Request
from interpose.core.policy.state import PolicyState
from interpose.core.policy.static_pools.cmk import ANY_SOCKET, PoolSelection, parse_socket, read_pool_selection
from interpose.core.policy.static_pools.config import check_pools, online_pools
from interpose.core.policy.static_pools.options import PoolCpuList, PoolsOptions
from interpose.core.policy.static_pools.placement import Load, choose_own, choose_shared, own_candidates
from interpose.errors import ConfigError

EXCLUSIVE_CORES: Final = "cmk.intel.com/exclusive-cores"  # the extended resource: how many lists
SHARED: Final = "shared"  # where containers go that name no pool
INFRA: Final = "infra"  # a pool whose lists are not looked at by socket
REST: Final = "rest"  # CPUs of no exclusive pool, if there is no other pool at all

_NUM_CORES: Final = "CMK_NUM_CORES"
_POOL_VARIABLES: Final[Mapping[str, str]] = {INFRA: "CMK_CPUS_INFRA", SHARED: "CMK_CPUS_SHARED"}
_HELD: Final = ("exclusive", "pools", "pinned")  # what is the same in a grant that is kept
# In a grant's details, the selection: the pool that the container named, which need not be where it is, and so on.
_SELECTED: Final = "asked"
_SOCKET: Final = "socket"
_LOOSE: Final[Mapping[str, str]] = {"affinity": "none"}
_SEPARATOR: Final = ";"  # between lists in a grant's details; a comma is within them


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placement:
    """The lists of a pool for a container. `names` are pools of the state, if other containers may have them too."""

    pool: str
    lists: tuple[PoolCpuList, ...] = ()
    names: tuple[str, ...] = ()
    reason: str
    candidates: tuple[Candidate, ...] = ()
    refused: RefusalKind | None = None  # then it goes nowhere, and the reason says why


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
        state = {
            _list_name(name, cpu_list): cpu_list.cpus for name, pool in self._common.items() for cpu_list in pool.lists
        }
        if not state:
            alone = CpuSet.union(cpu_list.cpus for pool in self._pools.values() for cpu_list in pool.lists)
            state[REST] = available - alone
            if not state[REST]:
                raise ConfigError("static-pools: all CPUs are in exclusive pools, none is left for other containers")
        self._state = PolicyState(state)

    @property
    def name(self) -> str:
        """The name of the policy in settings."""
        return "static-pools"

    @property
    def state(self) -> PolicyState:
        """Lists that are shared, and grants."""
        return self._state

    @property
    def fallback(self) -> CpuSet:
        """The CPUs of a container that names no pool."""
        return CpuSet.union(cpu_list.cpus for cpu_list in self._default_placement().lists)

    @property
    def notes(self) -> tuple[str, ...]:
        """CPUs of pools that are offline, lists that are not of the socket they are said to be of."""
        return self._notes

    def capacity(self) -> int:
        """How many exclusive lists there are: the node's amount of the extended resource."""
        return sum(len(pool.lists) for pool in self._pools.values() if pool.exclusive)

    def pools(self) -> Mapping[str, CpuSet]:
        """Pools by their names; of exclusive ones what is free."""
        taken = self._exclusive_cpus()
        found = {
            name: CpuSet.union(cpu_list.cpus for cpu_list in pool.lists) - (taken if pool.exclusive else EMPTY)
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
            selection = read_pool_selection(request, _recorded_selection(request, before))
        except ValueError as error:
            return _decision(action, request.key, _Placement(pool="", refused=RefusalKind.INVALID, reason=str(error)))
        placement = self._choose_placement(request, selection, before)
        if placement.refused is not None:
            return _decision(action, request.key, placement)
        grant = self._grant(request, selection, placement)
        self._state.put(request.key, grant)
        self._state.changes()  # of others there are none: lists do not overlap, and pools stay as they are
        same = before is not None and all(getattr(before, name) == getattr(grant, name) for name in _HELD)
        return _decision(Action.KEEP if same and action is Action.ALLOCATE else action, request.key, placement, grant)

    def _choose_placement(self, request: Request, selection: PoolSelection, before: Grant | None) -> _Placement:
        if not selection.pool and SHARED not in self._common:
            return self._default_placement()
        name = selection.pool or SHARED
        pool = self._pools.get(name)
        if pool is None:
            known = ", ".join(sorted(self._pools))
            return _refuse(name, RefusalKind.INVALID, f"pool {quoted(name)} is unknown; there are {known}")
        if not pool.lists:
            return _refuse(name, RefusalKind.EXHAUSTED, f"all CPUs of pool {name} are offline")
        socket = ANY_SOCKET if name == INFRA else selection.socket
        lists = tuple(cpu_list for cpu_list in pool.lists if socket in (ANY_SOCKET, cpu_list.socket))
        if not lists:
            known = ", ".join(map(str, sorted({cpu_list.socket for cpu_list in pool.lists})))
            return _refuse(name, RefusalKind.INVALID, f"pool {name} has no CPUs on socket {socket}, only on {known}")
        had = self._recorded_lists(before, name) if before is not None else ()
        if pool.exclusive:
            return self._place_exclusive(request, name, lists, had, before.exclusive if before is not None else EMPTY)
        return self._place_shared(request, name, lists, had)

    def _default_placement(self) -> _Placement:
        """The placement of a container that names no pool: all shared pools."""
        common = {SHARED: self._common[SHARED]} if SHARED in self._common else self._common
        lists = tuple(cpu_list for pool in common.values() for cpu_list in pool.lists)
        if not lists:
            rest = self._state.pool(REST)
            cpu_list = PoolCpuList(cpus=rest, text=str(rest), socket=ANY_SOCKET)
            return _Placement(
                pool=REST, lists=(cpu_list,), names=(REST,), reason="names no pool: the CPUs of no exclusive one"
            )
        return _Placement(
            pool=" ".join(common),
            lists=lists,
            names=tuple(_list_name(name, cpu_list) for name, pool in common.items() for cpu_list in pool.lists),
            reason="names no pool: all CPUs of pools that are shared",
        )

    def _place_shared(
        self, request: Request, name: str, lists: tuple[PoolCpuList, ...], had: tuple[PoolCpuList, ...]
    ) -> _Placement:
        """Choose one list of a shared pool."""
        chosen = choose_shared(
            {cpu_list: self._load(_list_name(name, cpu_list), request.key) for cpu_list in lists}, had
        )
        reason = f"pool {name}, list {_join_texts(chosen.lists)}: {chosen.reason}"
        if request.amounts.extended.get(EXCLUSIVE_CORES):
            reason += f"; {EXCLUSIVE_CORES} has no effect there, the pool is shared"
        names = tuple(_list_name(name, cpu_list) for cpu_list in chosen.lists)
        return _Placement(pool=name, lists=chosen.lists, names=names, reason=reason, candidates=chosen.candidates)

    def _place_exclusive(
        self, request: Request, name: str, lists: tuple[PoolCpuList, ...], had: tuple[PoolCpuList, ...], cpus: CpuSet
    ) -> _Placement:
        """Choose as many exclusive lists as the container requests."""
        # A container that runs keeps its lists although the requested number is not known any more.
        count = request.amounts.extended.get(EXCLUSIVE_CORES, 0) or (len(had) if cpus else 0)
        if count < 1:
            return _refuse(
                name,
                RefusalKind.INVALID,
                f"pool {name} is exclusive: the container must request {EXCLUSIVE_CORES}, and the pod must have the "
                "annotation of the resource webhook, as the amount is known only from there",
            )
        taken = self._exclusive_cpus(request.key)
        chosen = choose_own(self._topology, lists, taken, count, had, cpus)
        if chosen is None:
            free = sum(not cpu_list.cpus & taken for cpu_list in lists)
            never = len(lists) < count
            message = f"pool {name}: {count} needed, but {free} of the {len(lists)} lists that fit are free"
            return _refuse(
                name, RefusalKind.INVALID if never else RefusalKind.EXHAUSTED, message, own_candidates(lists, taken)
            )
        texts = ", ".join(cpu_list.text for cpu_list in chosen.lists)
        reason = f"pool {name}, lists of its own {texts}: {chosen.reason}{_describe_mismatch(request, count)}"
        return _Placement(pool=name, lists=chosen.lists, reason=reason, candidates=chosen.candidates)

    # -- grants

    def _grant(self, request: Request, selection: PoolSelection, placement: _Placement) -> Grant:
        envs = {"CMK_CPUS_ASSIGNED": _join_texts(placement.lists)}
        for name, variable in _POOL_VARIABLES.items():
            if pool := self._pools.get(name):
                envs[variable] = _join_texts(pool.lists)
        alone = not placement.names
        return Grant(
            exclusive=CpuSet.union(cpu_list.cpus for cpu_list in placement.lists) if alone else EMPTY,
            pools=placement.names,
            pinned=not selection.no_affinity,
            milli=0 if alone else request.milli,
            envs=envs,
            command=selection.command,
            details={
                _SELECTED: selection.pool,
                _SOCKET: str(selection.socket),
                **(_LOOSE if selection.no_affinity else {}),
                "pool": placement.pool,
                "lists": _SEPARATOR.join(cpu_list.text for cpu_list in placement.lists),
            },
        )

    def _recorded_lists(self, grant: Grant, pool: str) -> tuple[PoolCpuList, ...]:
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
        return tuple(cpu_list for cpu_list in self._pools[pool].lists if cpu_list.cpus in recorded)

    def _exclusive_cpus(self, excluded: Key | None = None) -> CpuSet:
        """Exclusive CPUs of all containers but `excluded`."""
        return CpuSet.union(grant.exclusive for key, grant in self._state.grants.items() if key != excluded)

    def _load(self, title: str, excluded: Key) -> Load:
        """The load of a list without the container `excluded`."""
        grants = self._state.grants
        others = [grants[key].milli for key in self._state.members(title) if key != excluded]
        return Load(sum(others), len(others))


def _recorded_selection(request: Request, grant: Grant | None) -> PoolSelection:
    """The selection of a container when it was created, from its grants; empty if another policy made them."""
    details = grant.details if grant is not None and _SELECTED in grant.details else request.recalled
    try:
        socket = parse_socket(details.get(_SOCKET, ""), "the record of a grant")
    except ValueError:
        socket = ANY_SOCKET  # not ours
    return PoolSelection(pool=details.get(_SELECTED, ""), socket=socket, no_affinity=_LOOSE.items() <= details.items())


def _refuse(pool: str, why: RefusalKind, message: str, candidates: tuple[Candidate, ...] = ()) -> _Placement:
    return _Placement(pool=pool, refused=why, reason=message, candidates=candidates)


def _decision(action: Action, key: Key, placement: _Placement, grant: Grant | None = None) -> Decision:
    loose = grant is not None and not grant.pinned
    return Decision(
        action=action,
        key=key,
        grant=grant,
        refusal=None if placement.refused is None else Refusal(kind=placement.refused, message=placement.reason),
        reason=placement.reason + ("; not bound to them, as it asked for" if loose else ""),
        candidates=placement.candidates,
    )


def _list_name(pool: str, cpu_list: PoolCpuList) -> str:
    """The name of a shared list as a pool of the state."""
    return f"{pool}/{cpu_list.text}"


def _join_texts(lists: Sequence[PoolCpuList]) -> str:
    """The texts of lists as they were configured, for environment variables."""
    return ",".join(cpu_list.text for cpu_list in lists)


def _describe_mismatch(request: Request, count: int) -> str:
    """A remark if CMK's own variable names another amount; it does not decide."""
    text = request.envs.get(_NUM_CORES)
    if text is None or text.strip() == str(count):
        return ""
    return f"; variable {_NUM_CORES} says {quoted(text)}, but {EXCLUSIVE_CORES} is {count}"
