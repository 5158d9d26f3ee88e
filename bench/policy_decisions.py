"""What a decision of a policy costs on a large machine: containers come, go and come again, nothing is carried out.

Four sockets with 256 CPUs and 500 containers: some with CPUs of their own, some with a part of one, some with nothing.
Every call is timed by itself, of the policy alone and with allocations around it. It never waits, so what counts is CPU
time: the machine may be busy. The order is the same in every run. Progress goes to stderr, tables to stdout.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Final

from interpose.core.model.cgroup import KubeQos
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.annotations import FAMILIES
from interpose.core.policy.api import Setup
from interpose.core.policy.balloons.container_wishes import TYPE as BALLOONS
from interpose.core.policy.balloons.options import BalloonsOptions, BalloonType, ShareLevel
from interpose.core.policy.dynamic_pools.options import DynamicPoolsOptions, DynamicPoolType
from interpose.core.policy.dynamic_pools.policy import ANNOTATION as DYNAMIC_POOLS
from interpose.core.policy.podpools.options import InstanceAmount, PodPool, PodPoolsOptions
from interpose.core.policy.podpools.policy import ANNOTATION as POD_POOLS
from interpose.core.policy.registry import make
from interpose.core.policy.request import Amounts, Key, Request
from interpose.core.policy.static.options import StaticOptions
from interpose.core.policy.static_pools.options import Pool, PoolCpuList, PoolsOptions
from interpose.core.policy.static_pools.policy import EXCLUSIVE_CORES
from interpose.resmgr.allocations import Allocations
from tests.support.policy.machines import machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from interpose.core.policy.api import Policy
    from interpose.core.policy.decision import Decision
    from interpose.core.topology.topology import Topology

MACHINE: Final = "big"
POD_POOL, DYNAMIC_POOL, BALLOON = (f"{name}.{FAMILIES[0]}" for name in (POD_POOLS, DYNAMIC_POOLS, BALLOONS))
CONTAINERS: Final = 500
GROWTH: Final = (100, 200, 500, 1000)
TURNS: Final = 2000  # containers that go and come again
ROUNDS: Final = 3
P99_LIMIT: Final = 0.002  # seconds
SEED: Final = 1
# Of ten containers: how many have CPUs of their own and how many ask for a part of one; the others ask for nothing.
OWNERS, PARTS = 2, 4
MEMORY: Final = 64 << 20  # bytes that each asks for that asks for CPU; policies that place memory count it
SIZES: Final = (1, 1, 2, 4)  # CPUs of owners; the 100 of 500 containers have 200 of the 256


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """A policy with options."""

    title: str
    name: str
    options: Callable[[Topology], object] = lambda _: None

    def policy(self, topology: Topology) -> Policy:
        """A new one that has decided nothing."""
        reserved = None if self.name == "static-pools" else 1000
        return make(self.name, Setup(topology=topology, reserved=reserved), self.options(topology))


def pools(topology: Topology) -> PoolsOptions:
    """Every CPU is a list for one container, except for the last eight of each package."""
    own: list[PoolCpuList] = []
    shared: list[PoolCpuList] = []
    for package, cpus in topology.packages.items():
        alone = list(cpus)[:-8]
        own += [PoolCpuList(cpus=CpuSet.of((cpu,)), text=str(cpu), socket=package) for cpu in alone]
        rest = cpus - CpuSet.of(alone)
        shared.append(PoolCpuList(cpus=rest, text=str(rest), socket=package))
    return PoolsOptions(
        pools={
            "exclusive": Pool(exclusive=True, lists=tuple(own)),
            "shared": Pool(exclusive=False, lists=tuple(shared[1:])),
            "infra": Pool(exclusive=False, lists=tuple(shared[:1])),
        }
    )


def pod_pools(topology: Topology) -> PodPoolsOptions:
    """Instances of each size that containers ask for, on three quarters of the CPUs; the others go to pool default."""
    share = len(topology.online) // 4
    return PodPoolsOptions(
        pools=tuple(
            PodPool(name=f"cpus-{cpus}", cpus=cpus, max_pods=1, instances=InstanceAmount(number=share // cpus))
            for cpus in sorted(set(SIZES))
        )
    )


def dynamic_pools(_topology: Topology) -> DynamicPoolsOptions:
    """A pool for each size that containers ask for, so that pools grow and shrink with most calls."""
    types = tuple(DynamicPoolType(name=f"cpus-{cpus}") for cpus in sorted(set(SIZES)))
    return DynamicPoolsOptions(types=types)


def balloons(_topology: Topology) -> BalloonsOptions:
    """A type for each size that containers ask for, a balloon for each container of these; the others share one."""
    types = tuple(BalloonType(name=f"cpus-{cpus}", min_cpus=cpus, prefer_new=True) for cpus in sorted(set(SIZES)))
    return BalloonsOptions(types=types)


def shared_balloons(topology: Topology) -> BalloonsOptions:
    """The same with balloons of up to eight containers that share idle CPUs near to them."""
    types = tuple(
        replace(kind, max_cpus=8 * kind.min_cpus, prefer_new=False, spread_pods=True, share_idle=ShareLevel.NUMA)
        for kind in balloons(topology).types
    )
    return BalloonsOptions(types=types, balance=True)


CONTESTANTS: Final = (
    Contestant(title="static", name="static"),
    Contestant(
        title="static, across-numa", name="static", options=lambda _: StaticOptions(distribute_cpus_across_numa=True)
    ),
    Contestant(title="static, full-pcpus", name="static", options=lambda _: StaticOptions(full_pcpus_only=True)),
    Contestant(title="static-plus", name="static-plus"),
    Contestant(title="static-pools", name="static-pools", options=pools),
    Contestant(title="topology-aware", name="topology-aware"),
    Contestant(title="podpools", name="podpools", options=pod_pools),
    Contestant(title="dynamic-pools", name="dynamic-pools", options=dynamic_pools),
    Contestant(title="balloons", name="balloons", options=balloons),
    Contestant(title="balloons, shared", name="balloons", options=shared_balloons),
)


@dataclass(frozen=True, kw_only=True)
class Times:
    """Seconds of each call, sorted; how many were refused."""

    calls: Sequence[float] = field(default_factory=list)
    refused: int = 0

    def at(self, part: float) -> float:
        """The time that this part of all calls did not exceed."""
        return self.calls[min(len(self.calls) - 1, int(part * len(self.calls)))]

    @property
    def met(self) -> bool:
        """Whether the target was reached."""
        return self.at(0.99) <= P99_LIMIT


def containers(count: int, contestant: Contestant, sizes: Sequence[int], owners: int = OWNERS) -> list[Request]:
    """The containers of a node, always the same ones."""
    random = Random(SEED)
    kinds = [place % 10 < owners for place in range(count)]
    random.shuffle(kinds)
    owner = 0
    found = []
    for place, owns in enumerate(kinds):
        key = Key(f"pod-{place}", "app")
        if owns:
            cpus = sizes[owner % len(sizes)]
            owner += 1
            if "full-pcpus" in contestant.title:
                cpus += cpus % 2
            found.append(_owner(key, contestant, cpus))
            continue
        part = random.randrange(100, 900, 100) if random.randrange(10 - owners) < PARTS else 0
        qos = KubeQos.BURSTABLE if part else KubeQos.BEST_EFFORT
        found.append(
            Request(key=key, namespace="default", qos=qos, amounts=Amounts(milli=part, memory=MEMORY if part else 0))
        )
    return found


def _owner(key: Key, contestant: Contestant, cpus: int) -> Request:
    if contestant.name != "static-pools":
        amounts = Amounts(milli=1000 * cpus, memory=MEMORY)
        notes = dict.fromkeys((POD_POOL, DYNAMIC_POOL, BALLOON), f"cpus-{cpus}")
        return Request(key=key, namespace="default", qos=KubeQos.GUARANTEED, amounts=amounts, pod_annotations=notes)
    return Request(
        key=key,
        namespace="default",
        qos=KubeQos.GUARANTEED,
        amounts=Amounts(milli=1000 * cpus, extended={EXCLUSIVE_CORES: cpus}),
        envs={"STP_POOL": "exclusive"},
    )


def calls(decider: Policy | Allocations, wanted: Sequence[Request], turns: int) -> Iterator[Callable[[], Decision]]:
    """All come, then one after the other goes and comes again, at last all go: in an order of chance."""
    random = Random(SEED)
    for request in wanted:
        yield lambda request=request: decider.allocate(request)  # type: ignore[misc]
    for _ in range(turns):
        request = random.choice(wanted)
        yield lambda request=request: decider.release(request.key)  # type: ignore[misc]
        yield lambda request=request: decider.allocate(request)  # type: ignore[misc]
    for request in random.sample(wanted, len(wanted)):
        yield lambda request=request: decider.release(request.key)  # type: ignore[misc]


def measure(decider: Policy | Allocations, wanted: Sequence[Request], turns: int) -> Times:
    """Time each call."""
    clock = time.thread_time  # what other processes do meanwhile is not part of a decision
    found = []
    refused = 0
    for call in calls(decider, wanted, turns):
        began = clock()
        decision = call()
        found.append(clock() - began)
        refused += decision.refusal is not None
    return Times(calls=sorted(found), refused=refused)


def best(rounds: int, once: Callable[[], Times]) -> Times:
    """Of several rounds the one with the best 99 %: what others did on the machine is not what is measured."""
    return min((once() for _ in range(rounds)), key=lambda times: times.at(0.99))


def decisions(topology: Topology, count: int, rounds: int) -> Iterator[tuple[str, str, Times]]:
    """Each policy alone, and with allocations around it."""
    for contestant in CONTESTANTS:
        print(f"{contestant.title}: {count} containers", file=sys.stderr, flush=True)
        wanted = containers(count, contestant, SIZES)

        def alone(contestant: Contestant = contestant, wanted: Sequence[Request] = wanted) -> Times:
            return measure(contestant.policy(topology), wanted, TURNS)

        def in_allocations(contestant: Contestant = contestant, wanted: Sequence[Request] = wanted) -> Times:
            return measure(Allocations(contestant.policy(topology), time.time), wanted, TURNS)

        yield contestant.title, "policy", best(rounds, alone)
        yield contestant.title, "allocations", best(rounds, in_allocations)


def growth(topology: Topology, rounds: int) -> Iterator[tuple[str, Mapping[int, float]]]:
    """Mean seconds of a call with allocations, by number of containers; few have CPUs of their own, so that all fit."""
    for contestant in CONTESTANTS:
        print(f"{contestant.title}: growth", file=sys.stderr, flush=True)
        means = {}
        for count in GROWTH:
            wanted = containers(count, contestant, (1,), owners=1)
            times = [
                measure(Allocations(contestant.policy(topology), time.time), wanted, TURNS).calls for _ in range(rounds)
            ]
            means[count] = min(sum(one) / len(one) for one in times)
        yield contestant.title, means


def as_text(found: Sequence[tuple[str, str, Times]]) -> str:
    """A table of decisions."""
    lines = [f"{'policy':<22}{'through':<9}{'calls':>6}{'refused':>9}{'p50 us':>8}{'p99 us':>8}{'max us':>8}  target"]
    for title, through, times in found:
        p50, p99, most = (f"{seconds * 1e6:.0f}" for seconds in (times.at(0.5), times.at(0.99), times.calls[-1]))
        verdict = f"p99 <= {P99_LIMIT * 1e3:.0f} ms {'met' if times.met else 'MISSED'}"
        lines.append(
            f"{title:<22}{through:<9}{len(times.calls):>6}{times.refused:>9}{p50:>8}{p99:>8}{most:>8}  {verdict}"
        )
    return "\n".join(lines)


def linear(means: Mapping[int, float]) -> bool:
    """Whether the cost of a call grows no faster than the number of containers."""
    least, most = min(means), max(means)
    return means[most] / means[least] <= most / least


def growth_as_text(found: Sequence[tuple[str, Mapping[int, float]]]) -> str:
    """A table of growth: mean of a call, and the ratio to the fewest containers."""
    lines = [f"{'policy':<22}" + "".join(f"{f'{count} us':>9}{'':>8}" for count in GROWTH) + "  target"]
    for title, means in found:
        cells = "".join(
            f"{seconds * 1e6:>9.0f}{f'({seconds / means[GROWTH[0]]:.1f}x)':>8}" for seconds in means.values()
        )
        lines.append(f"{title:<22}{cells}  <= linear {'met' if linear(means) else 'MISSED'}")
    return "\n".join(lines)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench/policy_decisions.py", description=__doc__.splitlines()[0])
    parser.add_argument("--containers", type=int, default=CONTAINERS, help=f"on the machine ({CONTAINERS})")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"of which the best counts ({ROUNDS})")
    args = parser.parse_args(argv)
    topology = machine(MACHINE)
    found = list(decisions(topology, args.containers, args.rounds))
    grown = list(growth(topology, args.rounds))
    print(as_text(found))
    print()
    print(growth_as_text(grown))
    return 0 if all(times.met for _, _, times in found) and all(linear(means) for _, means in grown) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
