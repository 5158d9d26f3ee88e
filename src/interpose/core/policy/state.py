"""The state of a policy: named pools of CPUs, and the grants of containers.

A policy moves CPUs between pools and grants; the state derives what each container has, and reports which of them have
something else than before. Grants are in the order in which they were made. Cost: what a change touches, not what there
is.
"""

from collections.abc import Mapping
from types import MappingProxyType

from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.policy.decision import Assignment, Grant
from interpose.core.policy.request import Key

_NOTHING = Assignment()


class PolicyState:
    """Pools and grants of one policy, which is the only one to write in it."""

    def __init__(self, pools: Mapping[str, CpuSet] = MappingProxyType({})) -> None:
        self._pools = dict(pools)
        self._grants: dict[Key, Grant] = {}
        self._members: dict[str, dict[Key, None]] = {}  # pool -> containers that share it, in order
        self._reported: dict[Key, Assignment] = {}  # what `changes` last reported
        self._dirty: set[Key] = set()
        self._order: dict[Key, int] = {}
        self._count = 0

    @property
    def pools(self) -> Mapping[str, CpuSet]:
        """The CPUs of each pool by its name."""
        return MappingProxyType(self._pools)

    @property
    def grants(self) -> Mapping[Key, Grant]:
        """Grants in the order in which they were made."""
        return MappingProxyType(self._grants)

    def pool(self, name: str) -> CpuSet:
        """The CPUs of a pool; empty if there is none of that name."""
        return self._pools.get(name, EMPTY)

    def members(self, pool: str) -> tuple[Key, ...]:
        """Containers that share a pool, in the order in which they joined it."""
        return tuple(self._members.get(pool, ()))

    def assignment(self, key: Key) -> Assignment:
        """What a container has by its grant; nothing without one."""
        grant = self._grants.get(key)
        return _NOTHING if grant is None else self._derive(grant)

    def set_pool(self, name: str, cpus: CpuSet) -> None:
        """Set the CPUs of a pool."""
        if self._pools.get(name) != cpus:
            self._pools[name] = cpus
            self._dirty.update(self._members.get(name, ()))

    def remove_pool(self, name: str) -> None:
        """Forget a pool, if there is one of that name; nobody shares it any more."""
        self._pools.pop(name, None)
        self._members.pop(name, None)

    def put(self, key: Key, grant: Grant) -> None:
        """Set the grant of a container; it replaces an earlier one."""
        old = self._grants.get(key)
        if old is None:
            self._count += 1
            self._order[key] = self._count
        elif old.pools != grant.pools:
            self._leave(key, old)
        self._grants[key] = grant
        self._dirty.add(key)
        if old is None or old.pools != grant.pools:
            for name in grant.pools:
                self._members.setdefault(name, {})[key] = None

    def drop(self, key: Key) -> Grant | None:
        """Remove the grant of a container and return it. The policy puts its CPUs back into a pool."""
        grant = self._grants.pop(key, None)
        if grant is not None:
            self._leave(key, grant)
            del self._order[key]
            self._reported.pop(key, None)
            self._dirty.discard(key)
        return grant

    def changes(self) -> tuple[Key, ...]:
        """Containers whose assignment is another one than at the last call, in the order in which they were created."""
        changed = []
        # Most containers share CPUs, and many of them the same: computed once.
        alike: dict[tuple[object, ...], Assignment] = {}
        for key in sorted(self._dirty, key=self._order.__getitem__):
            grant = self._grants[key]
            if grant.exclusive:
                now = self._derive(grant)
            else:
                shape = grant.pools, grant.pinned, grant.mems, grant.shares, grant.quota
                found = alike.get(shape)
                now = alike[shape] = self._derive(grant) if found is None else found
            if self._reported.get(key) != now:
                self._reported[key] = now
                changed.append(key)
        self._dirty.clear()
        return tuple(changed)

    def _derive(self, grant: Grant) -> Assignment:
        cpus = CpuSet.union((grant.exclusive, *(self.pool(name) for name in grant.pools))) if grant.pinned else None
        return Assignment(cpus=cpus, mems=grant.mems, shares=grant.shares, quota=grant.quota)

    def _leave(self, key: Key, grant: Grant) -> None:
        for name in grant.pools:
            self._members[name].pop(key, None)
