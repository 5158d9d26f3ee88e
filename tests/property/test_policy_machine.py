"""A node lives: containers come, change and go, the relay restarts, the policy and the machine change.

One machine for every policy. After each step the laws that all policies keep are looked at, and a second policy that
was told the same has decided the same.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import TestCase

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from interpose.core.cpuallocator.priority import CpuPriority
from interpose.core.model.cgroup import KubeQos
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.policy.annotations import FAMILIES
from interpose.core.policy.api import ColdStarter, LoadFollower, Policy, Setup
from interpose.core.policy.balloons.container_wishes import TYPE as BALLOON_TYPE
from interpose.core.policy.balloons.options import (
    BalloonsOptions,
    BalloonType,
    ComponentCreation,
    CoreType,
    LoadClass,
    LoadLevel,
    ShareLevel,
)
from interpose.core.policy.balloons.policy import BalloonsPolicy
from interpose.core.policy.decision import NO_QUOTA, Assignment, Decision, Grant
from interpose.core.policy.dynamic_pools.options import DynamicPoolsOptions, DynamicPoolType
from interpose.core.policy.dynamic_pools.policy import ANNOTATION as DYNAMIC_POOL
from interpose.core.policy.podpools.options import FillOrder, InstanceAmount, PodPool, PodPoolsOptions
from interpose.core.policy.podpools.policy import ANNOTATION as POD_POOL
from interpose.core.policy.registry import make
from interpose.core.policy.request import Amounts, Key, Request
from interpose.core.policy.static.options import StaticOptions, StaticPlusOptions
from interpose.core.policy.static.policy import exclusive_count
from interpose.core.policy.static_pools.options import Pool, PoolCpuList, PoolsOptions
from interpose.core.policy.static_pools.policy import EXCLUSIVE_CORES
from interpose.core.policy.topology_aware.options import PoolLevel, TopologyAwareOptions
from interpose.core.topology.hints import TopologyHint
from interpose.core.topology.topology import Topology
from interpose.errors import ConfigError
from interpose.resmgr.allocations import AllocationCandidate, Allocations
from tests.support.policy.machines import machine
from tests.support.policy.scenarios import admit, unplugged

MACHINES = tuple(
    machine(text)
    for text in (
        "laptop",
        "n4c16",
        "2 sockets x 2 numa x 2 cores x 2 threads; isolated 8-9,14",
        "2 sockets x 2 numa x 2 cores x 2 threads; offline 3,8-9; isolated 5",
        "smt8",
        "hybrid",
        "chiplets",
        "2-socket-4-node-40-core",
        "c4pmem4",
    )
)
STEPS = 30
pytestmark = pytest.mark.timeout(1800)  # of the deep profile; the usual one takes seconds
NAMES = tuple("abcdefghij")
FLAGS = ("relaxed_isolation", "pin_memory", "lift_quota", "strict_cpu_reservation", "align_by_socket")
# Those of the kubelet's options that do not go with each other.
WAYS: tuple[tuple[str, ...], ...] = (
    (),
    ("full_pcpus_only",),
    ("prefer_align_cpus_by_uncorecache",),
    ("full_pcpus_only", "prefer_align_cpus_by_uncorecache"),
    ("distribute_cpus_across_numa",),
    ("full_pcpus_only", "distribute_cpus_across_numa"),
    ("distribute_cpus_across_cores",),
)
ISOLATED = "cri-resource-manager.intel.com/prefer-isolated-cpus"
NODES = "interpose/numa-nodes"
POOLS = ("exclusive", "special", "shared", "infra")
POD_POOLS = tuple(f"{POD_POOL}.{family}{scope}" for scope in ("/pod", "") for family in FAMILIES)
DYNAMIC_POOLS = tuple(f"{DYNAMIC_POOL}.{family}" for family in FAMILIES)
DYNAMIC_POOL_NAMES = ("shared", "reserved", "batch", "team", "spare")
BALLOON_NAMES = ("default", "reserved", "one", "two", "pair", "either")
BALLOON = f"{BALLOON_TYPE}.resource-policy.nri.io"
WIDEST = ("root", "socket #0")  # pools of topology-aware
APART = ("reserved", "isolated", "idle siblings")  # those that are in no other pool
POD_POOL_NAMES = ("default", "reserved", "small", "large")


PRESERVE = "cpu.preserve.resource-policy.nri.io"
TOPOLOGY_NOTES = {
    "prefer-isolated-cpus.resource-policy.nri.io": ("true", "false", "nonsense"),
    "require-isolated-cpus.resource-policy.nri.io": ("true", "false"),
    "prefer-shared-cpus.resource-policy.nri.io": ("true", "false"),
    "prefer-reserved-cpus.resource-policy.nri.io": ("true", "false"),
    "hide-hyperthreads.resource-policy.nri.io": ("true",),
    "prefer-cpu-priority.resource-policy.nri.io": ("high", "low"),
    "unlimited-burstable.resource-policy.nri.io": ("numa", "system"),
    PRESERVE: ("true",),
    "memory.preserve.resource-policy.nri.io": ("true",),
    "memory-type.resource-policy.nri.io": ("dram,pmem", "pmem", "mixed", "nonsense"),
    "cold-start.resource-policy.nri.io": ("{duration: 60s}", "{duration: 2h}"),
    "resource-policy.nri.io/affinity": (
        "a: [b, c]",
        "b: [{match: {key: name, operator: In, values: [a, d]}}]",
        "nonsense",
    ),
    "resource-policy.nri.io/anti-affinity": ("a: [b]",),
    "strict.topologyhints.resource-policy.nri.io": ("true",),
    "pick-resources-by-hints.resource-policy.nri.io": ("true",),
}


class Made:
    """How a policy is made, so that it can be made again."""

    def __init__(self, name: str, setup: Setup, options: object) -> None:
        self.name, self.setup, self.options = name, setup, options

    def __repr__(self) -> str:
        setup = self.setup
        return f"{self.name} on {setup.topology.name}, {setup.available=} {setup.reserved=} {self.options}"

    def policy(self) -> Policy:
        """A new one."""
        return make(self.name, self.setup, self.options)


# -- what may come


@st.composite
def static_options(draw: st.DrawFn) -> StaticOptions:
    """Every combination that is allowed."""
    on = {name: draw(st.booleans()) for name in FLAGS} | dict.fromkeys(draw(st.sampled_from(WAYS)), True)
    return StaticOptions(**on)


@st.composite
def pools_options(draw: st.DrawFn, topology: Topology, usable: CpuSet) -> PoolsOptions:
    """Pools of lists that do not overlap; the first CPU is in none of the exclusive ones."""
    first, *others = usable
    size = draw(st.integers(1, 3))
    parts = [others[start : start + size] for start in range(0, len(others), size)]
    owners = draw(st.lists(st.sampled_from((*POOLS, "")), min_size=len(parts), max_size=len(parts)))
    lists: dict[str, list[PoolCpuList]] = {}
    for owner, cpus in [("last" if draw(st.booleans()) else "", [first]), *zip(owners, parts, strict=True)]:
        if owner:
            one = CpuSet.of(cpus)
            socket = min(topology.packages_of(one) or CpuSet.of((0,)))
            lists.setdefault(owner, []).append(PoolCpuList(cpus=one, text=str(one), socket=socket))
    lists = lists or {"last": [PoolCpuList(cpus=CpuSet.of((first,)), text=str(first), socket=0)]}
    return PoolsOptions(
        pools={name: Pool(exclusive=name in POOLS[:2], lists=tuple(found)) for name, found in lists.items()}
    )


@st.composite
def pod_pools_options(draw: st.DrawFn, free: int) -> PodPoolsOptions:
    """Pools that fit on so many CPUs, in any order."""
    pools = []
    for name in draw(st.permutations(POD_POOL_NAMES).flatmap(lambda names: st.sampled_from([names, names[:2], []]))):
        cpus = draw(st.integers(1, 3))
        count = 1 if name == "default" else draw(st.integers(1, 3))
        max_pods = draw(st.sampled_from((-1, 0, 1, 1, 2)))
        if name == "reserved" or cpus * count > free:
            if name in ("reserved", "default"):
                pools.append(PodPool(name=name, max_pods=max_pods))
            continue
        free -= cpus * count
        order = draw(st.sampled_from(FillOrder))
        if order is FillOrder.PACKED and not max_pods:
            max_pods = 1
        amount = InstanceAmount(number=count)
        pools.append(PodPool(name=name, cpus=cpus, max_pods=max_pods, instances=amount, fill_order=order))
    return PodPoolsOptions(pin_cpu=draw(st.integers(0, 5)) < 5, pin_memory=draw(st.booleans()), pools=tuple(pools))


@st.composite
def dynamic_pools_options(draw: st.DrawFn) -> DynamicPoolsOptions:
    """Some pools, perhaps with namespaces."""
    return DynamicPoolsOptions(
        pin_cpu=draw(st.integers(0, 5)) < 5,
        pin_memory=draw(st.booleans()),
        reserved_namespaces=draw(st.sampled_from(((), ("sys*",)))),
        types=tuple(
            DynamicPoolType(
                name=name,
                namespaces=draw(st.sampled_from(((), ("default",), ("d*", "other")))),
                priority=draw(st.sampled_from(CpuPriority)),
            )
            for name in draw(st.lists(st.sampled_from(DYNAMIC_POOL_NAMES), unique=True))
        ),
    )


@st.composite
def balloon_types(draw: st.DrawFn, name: str, room: int) -> BalloonType:
    """A type of which so many CPUs are kept at most."""
    least = draw(st.integers(0, min(3, room)))
    most = draw(st.sampled_from((0, 0, least, least + 1, least + 4)))
    return BalloonType(
        name=name,
        namespaces=draw(st.sampled_from(((), (), ("default",), ("d*",)))),
        group_by=draw(st.sampled_from(("", "", "${pod/name}"))),
        min_cpus=least,
        max_cpus=most,
        min_balloons=draw(st.integers(0, 2)) if 2 * least <= room else 0,
        max_balloons=draw(st.sampled_from((0, 0, 2, 3))),
        priority=draw(st.sampled_from(CpuPriority)),
        spread_on_cores=draw(st.sampled_from((None, None, True))),
        balance=draw(st.sampled_from((None, True, False))),
        hide_hyperthreads=draw(st.integers(0, 4)) == 4,
        loads=draw(st.sampled_from(((), (), ("hot",), ("hot", "wide")))),
        spread_pods=draw(st.booleans()),
        per_namespace=draw(st.booleans()),
        prefer_new=draw(st.booleans()),
        share_idle=draw(st.sampled_from((None, None, *ShareLevel))),
        prefer_isolated=draw(st.integers(0, 4)) == 4,
        core_type=draw(st.sampled_from((None, None, *CoreType))),
    )


@st.composite
def balloons_options(draw: st.DrawFn, free: int) -> BalloonsOptions:
    """Types that fit on so many CPUs, two of them made of two others."""
    types = []
    for name in draw(st.sampled_from((("one", "two"), ("two", "one"), ("one",), ()))):
        kind = draw(balloon_types(name, free))
        free -= kind.min_balloons * kind.min_cpus
        types.append(kind)
    if len(types) == 2:
        ways = (("pair", ComponentCreation.ALL), ("either", ComponentCreation.BALANCE))
        types += [
            BalloonType(name=name, components=("one", "two"), component_creation=way, spread_pods=draw(st.booleans()))
            for name, way in draw(st.sampled_from((ways, ways[:1], ())))
        ]
    return BalloonsOptions(
        pin_cpu=draw(st.integers(0, 5)) < 5,
        pin_memory=draw(st.booleans()),
        lift_quota=draw(st.booleans()),
        balance=draw(st.booleans()),
        types=tuple(types),
        load_classes=(
            LoadClass(name="hot", level=LoadLevel.CORE, overloads_in_balloon=draw(st.booleans())),
            LoadClass(name="wide", level=LoadLevel.L2_CACHE),
        ),
    )


@st.composite
def topology_aware_options(draw: st.DrawFn) -> TopologyAwareOptions:
    """Every combination."""
    return TopologyAwareOptions(
        pin_cpu=draw(st.integers(0, 5)) < 5,
        pin_memory=draw(st.booleans()),
        prefer_isolated=draw(st.booleans()),
        prefer_shared=draw(st.integers(0, 3)) == 3,
        colocate_pods=draw(st.booleans()),
        colocate_namespaces=draw(st.booleans()),
        reserved_namespaces=draw(st.sampled_from(((), ("sys*",)))),
        cpu_priority=draw(st.sampled_from(CpuPriority)),
        unlimited_burstable=draw(st.sampled_from(PoolLevel)),
        lift_quota=draw(st.booleans()),
    )


@st.composite
def made(draw: st.DrawFn, name: str, topology: Topology) -> Made:
    """A policy on a machine, perhaps with a part of it only."""
    ordinary = topology.online - topology.isolated
    available = None
    if len(ordinary) > 4 and draw(st.booleans()):
        available = topology.online - CpuSet.of(draw(st.sets(st.sampled_from(list(ordinary)), max_size=2)))
        ordinary &= available
    reserved: CpuSet | int | None
    if name == "static-pools":
        usable = topology.online if available is None else available
        reserved = draw(st.sampled_from((None, CpuSet.of((min(usable),)))))
        return Made(
            name,
            Setup(topology=topology, available=available, reserved=reserved),
            draw(pools_options(topology, usable)),
        )
    reserved = draw(st.integers(1, min(1500, 1000 * len(ordinary))) | st.just(CpuSet.of((min(ordinary),))))
    if name == "podpools":
        free = len(ordinary) - (-(-reserved // 1000) if isinstance(reserved, int) else len(reserved))
        setup = Setup(topology=topology, available=available, reserved=reserved)
        return Made(name, setup, draw(pod_pools_options(free)))
    if name == "dynamic-pools":
        return Made(
            name, Setup(topology=topology, available=available, reserved=reserved), draw(dynamic_pools_options())
        )
    if name == "balloons":
        free = len(ordinary) - (-(-reserved // 1000) if isinstance(reserved, int) else len(reserved))
        setup = Setup(topology=topology, available=available, reserved=reserved)
        return Made(name, setup, draw(balloons_options(free)))
    if name == "topology-aware":
        return Made(
            name, Setup(topology=topology, available=available, reserved=reserved), draw(topology_aware_options())
        )
    options: Any = draw(
        static_options()
        if name == "static"
        else st.builds(StaticPlusOptions, pin_memory=st.booleans(), lift_quota=st.booleans())
    )
    if len(ordinary) <= 2 and name == "static":
        options = replace(options, strict_cpu_reservation=False)
    return Made(name, Setup(topology=topology, available=available, reserved=reserved), options)


hints = st.builds(
    TopologyHint,
    provider=st.sampled_from(("device", "podresourceapi:device")),
    cpus=st.sampled_from((EMPTY, CpuSet.parse("0-1"), CpuSet.parse("2,4"))),
    nodes=st.sampled_from((EMPTY, CpuSet.parse("0"), CpuSet.parse("1-2"))),
    packages=st.just(CpuSet.parse("0")),
)


# What pods ask for as a whole, if they do: more, as much or less than their containers.
whole_pods = st.sampled_from((None, None, None, 0, 500, 1000, 2000, 3500, 6000, 12000)).map(
    lambda milli: None if milli is None else Amounts(milli=milli, limit_milli=milli or None)
)


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """What a container may say, sensible or not. Each of the policies looks at a part of it."""
    name = draw(st.sampled_from(NAMES))
    milli = draw(st.sampled_from((0, 1, 500, 600, 999, 1000, 1500, 1600, 2000, 2999, 3000, 4000, 6600, 11000)))
    notes = {}
    if said := draw(st.sampled_from(("",) * 5 + ("true", "false", "nonsense"))):
        notes[ISOLATED] = said
    if said := draw(st.sampled_from(("",) * 5 + ("0", "0-1", "77"))):
        notes[NODES] = said
    for key, words in TOPOLOGY_NOTES.items():
        if not draw(st.integers(0, 9)):
            notes[key] = draw(st.sampled_from(words))
    if said := draw(st.sampled_from(("", "", *POD_POOL_NAMES, "nonsense"))):
        notes[draw(st.sampled_from(POD_POOLS))] = said
    if said := draw(st.sampled_from(("",) * 4 + (*DYNAMIC_POOL_NAMES, "nonsense"))):
        notes[draw(st.sampled_from(DYNAMIC_POOLS))] = said
    if said := draw(st.sampled_from(("",) * 3 + (*BALLOON_NAMES, "nonsense"))):
        notes[BALLOON] = said
    envs = {}
    if pool := draw(st.sampled_from(("", *POOLS, *POOLS[:2], "nonsense"))):
        envs["STP_POOL"] = pool
    if socket := draw(st.sampled_from(("", "", "", "0", "1", "x"))):
        envs["STP_SOCKET_ID"] = socket
    if draw(st.integers(0, 5)) == 5:
        envs["STP_NO_AFFINITY"] = "1"
    return Request(
        key=Key(f"pod-{ord(name) // 2}", name),  # two containers in each pod
        namespace=draw(st.sampled_from(("default", "default", "default", "kube-system"))),
        qos=draw(st.sampled_from((KubeQos.GUARANTEED, KubeQos.GUARANTEED, KubeQos.BURSTABLE, KubeQos.BEST_EFFORT))),
        amounts=Amounts(
            milli=milli,
            limit_milli=draw(st.sampled_from((None, milli, milli + 1000))),
            extended={EXCLUSIVE_CORES: min(4, milli // 1000)} if milli >= 1000 else {},
            quota=draw(st.booleans()),
        ),
        pod_amounts=draw(whole_pods),
        pod_annotations=notes,
        envs=envs,
        hints=draw(st.just(()) | st.just(()) | st.tuples(hints)),
    )


# -- the node


class Node(RuleBasedStateMachine):
    """Two policies that are told the same, and what the containers in them want."""

    policy_name = ""  # the one that it starts with

    def __init__(self) -> None:
        super().__init__()
        self.wanted: dict[Key, Request] = {}

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        """An empty machine."""
        self._use(data.draw(made(self.policy_name, data.draw(st.sampled_from(MACHINES)))))

    def _use(self, made: Made) -> None:
        self.made = made
        self.one, self.two = made.policy(), made.policy()
        self.start = dict(self.one.pools())

    # -- what happens

    @rule(some=st.lists(requests(), min_size=1, max_size=5))
    def create(self, some: list[Request]) -> None:
        """Containers come; or some that are known come again."""
        for request in some:
            self._create(request)

    def _create(self, request: Request) -> None:
        if (known := self.wanted.get(request.key)) is not None:
            request = replace(known, amounts=request.amounts)  # all else of a container stays as long as it lives
        elif sibling := next((one for one in self.wanted.values() if one.key.pod_id == request.key.pod_id), None):
            request = replace(
                request,
                namespace=sibling.namespace,
                pod_annotations=sibling.pod_annotations,
                pod_amounts=sibling.pod_amounts,
            )
        decision = self._both(request.key, lambda policy: policy.allocate(request))
        self._decided(request, decision)

    @rule(request=requests(), left=st.integers(-1, 2))
    def fill(self, request: Request, left: int) -> None:
        """One that wants nearly everything: what is left is what the others have to do with."""
        pools = self.one.pools()
        names = ("assignable", "idle", "shared", *WIDEST)
        free = next((pools[name] for name in names if name in pools), EMPTY)
        whole = 1000 * max(1, len(free) - left)
        amounts = replace(request.amounts, milli=whole + request.milli % 1000)
        self._create(replace(request, amounts=amounts, pod_annotations={}))

    @precondition(lambda self: self.wanted)
    @rule(data=st.data())
    def resize(self, data: st.DataObject) -> None:
        """One of them wants another amount."""
        old = self._some(data)
        amounts = data.draw(requests()).amounts
        request = replace(old, amounts=amounts)
        had = self.one.state.grants[old.key]
        decision = self._both(old.key, lambda policy: policy.resize(request))
        self._decided(request, decision)
        if decision.refusal is not None:
            assert self.one.state.grants[old.key] == had

    @precondition(lambda self: any(request.pod_amounts is not None for request in self.wanted.values()))
    @rule(data=st.data(), amounts=whole_pods.filter(bool))
    def resize_pod(self, data: st.DataObject, amounts: Amounts) -> None:
        """A pod wants another amount as a whole; each of its containers is told, and may have to wait for it."""
        whole = [request for request in self.wanted.values() if request.pod_amounts is not None]
        pod = data.draw(st.sampled_from(whole)).key.pod_id
        for old in [request for request in whole if request.key.pod_id == pod]:
            request = replace(old, pod_amounts=amounts)
            self._decided(request, self._both(old.key, lambda policy, request=request: policy.resize(request)))  # type: ignore[misc]

    @precondition(lambda self: self.wanted)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        """One of them goes."""
        key = self._some(data).key
        self._both(key, lambda policy: policy.release(key))
        del self.wanted[key]
        assert self.one.state.assignment(key) == Assignment()

    @rule(name=st.sampled_from(NAMES))
    def release_unknown(self, name: str) -> None:
        """One goes that never was: nothing happens."""
        key = Key("nobody", name)
        before = self._tracker()
        assert not self._both(key, lambda policy: policy.release(key)).changed
        assert self._tracker() == before

    @precondition(lambda self: self.wanted)
    @rule()
    def restart(self) -> None:
        """The same policy on the same machine; what happens then happens to the new one."""
        assert not self._rebuild(self.made, same=True)

    @precondition(lambda self: self.wanted)
    @rule(data=st.data())
    def switch(self, data: st.DataObject) -> None:
        """Another policy, or other options. Who finds no place there is gone."""
        name = data.draw(st.sampled_from(tuple(DUE)))
        other = data.draw(made(name, self.made.setup.topology))
        for key in self._rebuild(other, same=name == self.made.name):
            del self.wanted[key]

    @precondition(lambda self: self.wanted)
    @rule(data=st.data())
    def unplug(self, data: st.DataObject) -> None:
        """A CPU or two go offline, if the policy can do without. Nobody has them any more."""
        online = list(self.made.setup.topology.online)
        gone = CpuSet.of(data.draw(st.sets(st.sampled_from(online), min_size=1, max_size=2)))
        if gone >= self.made.setup.topology.online:
            return
        setup = replace(self.made.setup, topology=unplugged(self.made.setup.topology, gone))
        other = Made(self.made.name, setup, self.made.options)
        try:
            other.policy()
        except ConfigError:
            return  # the last reserved CPU, for example: a node goes on with what it had
        for key in self._rebuild(other, same=True):
            del self.wanted[key]

    @precondition(lambda self: isinstance(getattr(self, "one", None), LoadFollower))
    @rule(data=st.data())
    def follow_load(self, data: st.DataObject) -> None:
        """Some CPUs are busy. Who has others now is told, and nobody else has."""
        online = list(self.made.setup.topology.online)
        busy = data.draw(st.dictionaries(st.sampled_from(online), st.floats(0, 1), max_size=len(online)))
        before = self._assignments()
        assert isinstance(self.one, LoadFollower)
        assert isinstance(self.two, LoadFollower)
        changed = self.one.rebalance(busy)
        assert self.two.rebalance(busy) == changed
        assert self._tracker() == self._tracker(self.two)
        now = self._assignments()
        assert changed == tuple(key for key in now if now[key] != before[key])

    @precondition(lambda self: isinstance(getattr(self, "one", None), ColdStarter) and self.one.cold_starts())
    @rule(data=st.data())
    def end_cold_start(self, data: st.DataObject) -> None:
        """A container has started: it has more memory nodes, and whoever has others now is told."""
        assert isinstance(self.one, ColdStarter)
        assert isinstance(self.two, ColdStarter)
        key = data.draw(st.sampled_from(list(self.one.cold_starts())))
        before = self._assignments()
        changed = self.one.end_cold_start(key)
        assert self.two.end_cold_start(key) == changed
        assert self._tracker() == self._tracker(self.two)
        assert key not in self.one.cold_starts()
        now = self._assignments()
        assert changed == tuple(one for one in now if now[one] != before[one])

    def teardown(self) -> None:
        """All go: everything is free again."""
        for key in list(self.wanted):
            self._both(key, lambda policy, key=key: policy.release(key))  # type: ignore[misc]
        if hasattr(self, "start"):
            assert not self.one.state.grants
            assert self.one.pools() == self.start

    # -- what always holds

    @invariant()
    def nobody_shares_what_somebody_has_alone(self) -> None:
        """CPUs of one's own are in no other set, neither reserved nor free, and inside of what there is."""
        topology, setup = self.made.setup.topology, self.made.setup
        grants = self.one.state.grants
        available = topology.online if setup.available is None else setup.available & topology.online
        alone = CpuSet.union(grant.exclusive for grant in grants.values())
        assert sum(len(grant.exclusive) for grant in grants.values()) == len(alone)
        assert alone <= available
        reserved = self.one.state.pool("reserved")
        if isinstance(setup.reserved, CpuSet):
            reserved |= setup.reserved
        assert not alone & reserved
        for key, grant in grants.items():
            cpus = self.one.state.assignment(key).cpus
            assert (cpus is not None) == grant.pinned
            if cpus is not None:
                assert cpus
                assert cpus <= available
                assert not cpus & (alone - grant.exclusive)
        assert self.one.fallback
        assert self.one.fallback <= available
        assert not self.one.fallback & alone

    @invariant()
    def every_cpu_is_in_one_place(self) -> None:
        """What is free and what is held are all CPUs, each once."""
        topology, setup = self.made.setup.topology, self.made.setup
        available = topology.online if setup.available is None else setup.available & topology.online
        pools = {name: cpus for name, cpus in self.one.pools().items() if name != "assignable"}
        if self.made.name == "static" and not self.made.options.strict_cpu_reservation:  # type: ignore[attr-defined]
            assert pools.pop("reserved") <= pools["shared"]
        if self.made.name == "topology-aware":  # the others are parts of the widest one
            root = next(name for name in pools if name != "reserved")
            assert all(pools[name] <= pools[root] for name in pools if name not in APART)
            pools = {name: cpus for name, cpus in pools.items() if name in (*APART, root)}
        if self.made.name == "dynamic-pools":
            available -= topology.isolated
            if pools["shared"] == pools["reserved"]:
                del pools["shared"]
        if self.made.name == "podpools":  # the built-in pools have the same CPUs if none are left for two
            available -= topology.isolated
            if pools["default"] == pools["reserved"]:
                del pools["default"]
        parts = [*pools.values(), *(grant.exclusive for grant in self.one.state.grants.values())]
        together = CpuSet.union(parts)
        assert sum(map(len, parts)) == len(together)
        assert together <= available if self.made.name == "static-pools" else together == available

    @invariant()
    def everybody_has_what_was_asked_for(self) -> None:
        """As many CPUs of one's own as are due; whoever holds something is known."""
        assert set(self.one.state.grants) == set(self.wanted)
        due = DUE[self.made.name]
        for key, request in self.wanted.items():
            grant = self.one.state.grants[key]
            assert due(self.made, request, grant)

    @invariant()
    def pods_have_no_more_alone_than_they_ask_for(self) -> None:
        """Whatever their containers ask for themselves. Lists of `static-pools` are as long as their owner said."""
        if self.made.name == "static-pools":
            return
        grants = self.one.state.grants
        for pod, requests in self._whole_pods().items():
            own = sum(_own_count(grants[request.key]) for request in requests)
            most = max(request.pod_amounts.milli for request in requests if request.pod_amounts is not None)
            assert 1000 * own <= most, pod

    @invariant()
    def pods_are_booked_once(self) -> None:
        """In pools of topology-aware: for what the pod asks for, or its containers if that is more."""
        if self.made.name != "topology-aware":
            return
        grants = self.one.state.grants
        for pod, requests in self._whole_pods().items():
            booked = sum(1000 * _own_count(grants[request.key]) + grants[request.key].milli for request in requests)
            most = max(request.pod_amounts.milli for request in requests if request.pod_amounts is not None)
            assert booked <= max(most, sum(request.milli for request in requests)), pod

    @invariant()
    def pods_are_in_one_place(self) -> None:
        """And a pool has no more of them than its owner said."""
        if not isinstance(options := self.made.options, PodPoolsOptions):
            return
        pods: dict[str, set[str]] = {}
        for key, grant in self.one.state.grants.items():
            pods.setdefault(grant.pools[0], set()).add(key.pod_id)
        assert sum(map(len, pods.values())) == len({key.pod_id for key in self.wanted})
        limits = {pool.name: pool.max_pods for pool in options.pools}
        for instance, found in pods.items():
            limit = limits.get(instance.partition("[")[0], 0)
            assert not limit or len(found) <= limit

    @invariant()
    def dynamic_pools_have_what_is_requested(self) -> None:
        """And those without containers have nothing."""
        if self.made.name != "dynamic-pools":
            return
        requested: dict[str, int] = {}
        for grant in self.one.state.grants.values():
            requested[grant.pools[0]] = requested.get(grant.pools[0], 0) + grant.milli
        for name, cpus in self.one.pools().items():
            if name not in ("reserved", "shared"):
                assert bool(cpus) == (name in requested)
            if name != "reserved" and cpus != self.one.pools()["reserved"]:
                assert 1000 * len(cpus) >= requested.get(name, 0)

    @invariant()
    def balloons_have_what_is_requested(self) -> None:
        """One CPU at least, as many as their types allow; and those without containers are those that are kept."""
        if not isinstance(options := self.made.options, BalloonsOptions):
            return
        requested: dict[str, int] = {}
        for key, grant in self.one.state.grants.items():
            name = grant.details.get("balloon", "left alone")
            asks = self.wanted[key].pod_amounts is None  # otherwise its pod does, be that more or less
            requested[name] = requested.get(name, 0) + (grant.milli if asks else 0)
        requested.pop("left alone", None)
        sizes = {name: len(cpus) for name, cpus in self.one.pools().items() if name != "idle"}
        assert set(requested) <= set(sizes)
        assert all(1000 * sizes[name] >= max(1, milli) for name, milli in requested.items())
        for kind in options.types:
            mine = [name for name in sizes if name.partition("[")[0] == kind.name]
            assert len(mine) >= kind.min_balloons
            assert not kind.max_balloons or len(mine) <= max(kind.min_balloons, kind.max_balloons)
            if not kind.components:
                assert all(sizes[name] >= kind.min_cpus for name in mine)
                assert not kind.max_cpus or all(sizes[name] <= kind.max_cpus for name in mine)
                empty = [name for name in mine if name not in requested]
                assert len(empty) == max(0, kind.min_balloons - (len(mine) - len(empty)))
                assert all(sizes[name] == kind.min_cpus for name in empty)

    @invariant()
    def nobody_has_what_others_could_use_without_a_quota(self) -> None:
        """A quota is lifted where there is one, on CPUs of one's own only, and if the option says so."""
        lifts = getattr(self.made.options, "lift_quota", False)
        balloons = isinstance(self.made.options, BalloonsOptions)
        for key, grant in self.one.state.grants.items():
            alone = bool(grant.exclusive) and not grant.pools and grant.pinned
            alone = _is_alone_in_balloon(self.one, key) if balloons else alone
            lifted = NO_QUOTA if lifts and alone and self.wanted[key].amounts.quota else None
            assert grant.quota == self.one.state.assignment(key).quota == lifted

    @invariant()
    def a_restart_would_move_nobody(self) -> None:
        """Everybody would have the same, and the same would be free."""
        again = self.made.policy()
        self._take_over(again, self._coming(same=True))
        assert {key: again.state.assignment(key) for key in again.state.grants} == self._assignments()
        assert again.pools() == self.one.pools()
        assert again.fallback == self.one.fallback

    # -- how

    def _whole_pods(self) -> dict[str, list[Request]]:
        """The containers of pods that ask for amounts as a whole."""
        pods: dict[str, list[Request]] = {}
        for request in self.wanted.values():
            if request.pod_amounts is not None:
                pods.setdefault(request.key.pod_id, []).append(request)
        return pods

    def _some(self, data: st.DataObject) -> Request:
        return data.draw(st.sampled_from(list(self.wanted.values())))

    def _both(self, key: Key, call: Callable[[Policy], Decision]) -> Decision:
        """Tell both policies; what is told of the others is what happened to them."""
        before, tracker = self._assignments(), self._tracker()
        decision = call(self.one)
        assert call(self.two) == decision
        assert self._tracker() == self._tracker(self.two)
        assert decision.key == key
        assert decision.reason
        now = self._assignments()
        assert decision.changed == tuple(one for one in now if one != key and now[one] != before[one])
        if decision.refusal is not None:
            assert decision.grant is None
            assert decision.refusal.message
            assert self._tracker() == tracker
        else:
            assert decision.grant == self.one.state.grants.get(key)
        return decision

    def _decided(self, request: Request, decision: Decision) -> None:
        if decision.refusal is None:
            self.wanted[request.key] = request

    def _rebuild(self, made: Made, *, same: bool) -> tuple[Key, ...]:
        """As after a restart or a change of the configuration; returns who found no place."""
        coming = self._coming(same=same)
        self._use(made)
        lost = self._take_over(self.one, coming)
        assert self._take_over(self.two, coming) == lost
        assert self._tracker() == self._tracker(self.two)
        return lost

    def _coming(self, *, same: bool) -> list[AllocationCandidate]:
        """Everybody with what they hold; to another policy their own CPUs are all that it is told."""
        return [
            AllocationCandidate(
                request=self.wanted[key], id=key.name, held=grant if same else Grant(exclusive=grant.exclusive)
            )
            for key, grant in self.one.state.grants.items()
        ]

    def _take_over(self, policy: Policy, coming: list[AllocationCandidate]) -> tuple[Key, ...]:
        allocations = Allocations(policy, lambda: 0.0)
        admit(allocations, coming)
        return allocations.without_place

    def _assignments(self) -> dict[Key, Assignment]:
        return {key: self.one.state.assignment(key) for key in self.one.state.grants}

    def _tracker(self, policy: Policy | None = None) -> tuple[object, ...]:
        policy = policy or self.one
        return dict(policy.state.grants), dict(policy.state.pools), dict(policy.pools()), policy.fallback


def _own_count(grant: Grant) -> int:
    """How many CPUs a container has alone, those that it does not run on included."""
    return len(grant.exclusive) + len(CpuSet.parse(grant.details.get("hidden", "")))


def _static_due(made: Made, request: Request, grant: Grant) -> bool:
    topology, options = made.setup.topology, made.options
    assert isinstance(options, StaticOptions)
    whole = not options.full_pcpus_only or topology.with_siblings(grant.exclusive) == grant.exclusive
    return whole and len(grant.exclusive) == exclusive_count(request)


def _static_plus_due(made: Made, request: Request, grant: Grant) -> bool:
    if request.namespace == "kube-system":
        return grant.pools == ("reserved",) and not grant.exclusive
    full, part = divmod(request.milli, 1000)
    if request.pod_amounts is not None and not grant.exclusive:
        return "shared" in grant.pools
    return len(grant.exclusive) == full and ("shared" in grant.pools) == bool(part or not full)


def _static_pools_due(made: Made, request: Request, grant: Grant) -> bool:
    options = made.options
    assert isinstance(options, PoolsOptions)
    pool = options.pools.get(request.envs.get("STP_POOL", ""))
    if pool is None or not pool.exclusive:
        return grant.exclusive == EMPTY and bool(grant.pools)
    whole = [one.cpus & made.setup.topology.online for one in pool.lists]
    mine = [cpus for cpus in whole if cpus and cpus <= grant.exclusive]
    return bool(mine) and CpuSet.union(mine) == grant.exclusive


def _pod_pools_due(made: Made, request: Request, grant: Grant) -> bool:
    options = made.options
    assert isinstance(options, PodPoolsOptions)
    known = {"default", "reserved", *(pool.name for pool in options.pools)}
    named = next((request.pod_annotations[key] for key in POD_POOLS if key in request.pod_annotations), None)
    usual = "reserved" if request.namespace == "kube-system" and named is None else "default"
    wanted = named if named in known else usual
    (instance,) = grant.pools
    there = instance.partition("[")[0]
    return not grant.exclusive and (there == wanted or (there == "default" and grant.details["full"] == wanted))


def _dynamic_pools_due(made: Made, request: Request, grant: Grant) -> bool:
    options = made.options
    assert isinstance(options, DynamicPoolsOptions)
    (pool,) = grant.pools
    system = request.namespace == "kube-system" or (request.namespace == "sys" and bool(options.reserved_namespaces))
    amounts = request.amounts if request.pod_amounts is None else request.pod_amounts
    if not system and not amounts.milli and not amounts.limit_milli:
        return pool == "shared"
    named = next((request.pod_annotations[key] for key in DYNAMIC_POOLS if key in request.pod_annotations), None)
    if named is not None:
        return pool == named
    if system:
        return pool == "reserved"
    places = [one.name for one in options.types if any(name in ("default", "d*") for name in one.namespaces)]
    first = [name for name in ("reserved", "shared") if name in places]
    return pool == [*first, *places, "shared"][0]


def _balloons_due(made: Made, request: Request, grant: Grant) -> bool:
    options = made.options
    assert isinstance(options, BalloonsOptions)
    if request.pod_annotations.get("cpu.preserve.resource-policy.nri.io") == "true":
        return not grant.pools and not grant.pinned
    there = grant.details["balloon"].partition("[")[0]
    if (named := request.pod_annotations.get(BALLOON)) is not None:
        return there == named
    if request.namespace == "kube-system":
        return there == "reserved"
    return there == next((kind.name for kind in options.types if kind.namespaces), "default")


def _is_alone_in_balloon(policy: Policy, key: Key) -> bool:
    """Whether nobody else can use the CPUs of a container, and they are no more than its limit."""
    grants = policy.state.grants
    if not grants[key].pinned:
        return False
    mine = grants[key].details["balloon"]
    same = [one for one, grant in grants.items() if grant.details.get("balloon") == mine]
    assert isinstance(policy, BalloonsPolicy)
    limit = policy._placed[key].request.amounts.limit_milli
    cpus = policy.state.assignment(key).cpus
    shares = policy._placed[key].wishes.kind.share_idle is not None
    return same == [key] and not shares and limit is not None and cpus is not None and 1000 * len(cpus) <= limit


def _topology_aware_due(made: Made, request: Request, grant: Grant) -> bool:
    """Whole CPUs for Guaranteed containers that may have some; nobody else has any."""
    options = made.options
    assert isinstance(options, TopologyAwareOptions)
    own = _own_count(grant)
    notes = {
        key.removesuffix(".resource-policy.nri.io"): text == "true" for key, text in request.pod_annotations.items()
    }
    reserved = notes.get("prefer-reserved-cpus", request.namespace == "kube-system")
    preserved = notes.get("cpu.preserve", False)
    if preserved:
        return not own and not grant.pools and not grant.pinned
    full, part = divmod(request.milli, 1000)
    shared = notes.get("prefer-shared-cpus")
    usual = bool(options.prefer_shared) or (full > 1 and part > 0)
    shares = usual if shared is None else shared
    if reserved or request.qos is not KubeQos.GUARANTEED or not full or shares:
        return not own and bool(grant.pools)
    if request.pod_amounts is not None and not own:
        return bool(grant.pools)
    return own == full and bool(grant.pools) == bool(part)


DUE: dict[str, Callable[[Made, Request, Grant], bool]] = {
    "static": _static_due,
    "static-plus": _static_plus_due,
    "static-pools": _static_pools_due,
    "podpools": _pod_pools_due,
    "dynamic-pools": _dynamic_pools_due,
    "balloons": _balloons_due,
    "topology-aware": _topology_aware_due,
}


def _lives_with(policy: str) -> type[TestCase]:
    """Nodes that start with this policy."""
    case: type[TestCase] = type("Node", (Node,), {"policy_name": policy}).TestCase  # type: ignore[attr-defined]
    case.settings = settings(stateful_step_count=STEPS)  # type: ignore[attr-defined]
    return case


TestStatic = _lives_with("static")
TestStaticPlus = _lives_with("static-plus")
TestStaticPools = _lives_with("static-pools")
TestPodPools = _lives_with("podpools")
TestDynamicPools = _lives_with("dynamic-pools")
TestBalloons = _lives_with("balloons")
TestTopologyAware = _lives_with("topology-aware")
