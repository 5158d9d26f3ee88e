"""What the reference says of policies: every metric, with one of everything that is counted."""

from collections.abc import Iterable
from pathlib import Path

from interpose.core.policy.static.options import StaticOptions
from interpose.core.topology.synthetic import parse_text
from interpose.cri.store.starts import StartTracker
from interpose.cri.store.store import Store
from interpose.cri.store.sync import Synchronizer
from interpose.host.cgroup.files import KernelFiles
from interpose.host.cgroup.tree import CgroupTree
from interpose.metrics import Family
from interpose.net.grpc.transport import Hub
from interpose.resmgr.config.configuration import Configuration
from interpose.resmgr.control.cold_starts import ColdStarts
from interpose.resmgr.control.memory_watch import MemoryWatch
from interpose.resmgr.interceptor import PolicyInterceptor
from interpose.resmgr.metrics import load_collector, policy_collector, publishing_collector, state_collector
from interpose.resmgr.pool_balancer import PoolBalancer
from interpose.resmgr.publish.agent_client import AgentClient
from interpose.resmgr.publish.publisher import Publisher
from interpose.resmgr.service import make_policy
from interpose.resmgr.state.checkpoint import Checkpoint
from interpose.resmgr.tracker import AllocationTracker


async def _send(_method: str, _message: bytes) -> bytes:
    return b""


def _zero() -> float:
    return 0.0


def _no_cgroups() -> CgroupTree:
    return CgroupTree(KernelFiles(), version=2)


def policy_families(store: Store, sync: Synchronizer) -> Iterable[Family]:
    """The families of a resource manager that has done one of everything."""
    configuration, topology = (
        Configuration(policy="static", reserved=1000, options=StaticOptions()),
        parse_text("1 socket x 2 cores"),
    )
    tracker = AllocationTracker(
        configuration=configuration,
        topology=topology,
        policy=make_policy(configuration, topology),
        store=store,
        sync=sync,
        send=_send,
        starts=StartTracker(),
        capacity=0,
        clock=_zero,
        now=_zero,
    )
    interceptor = PolicyInterceptor(tracker, clock=_zero, now=_zero)
    tracker.allocations.outcomes["allocate", "granted"] += 1
    tracker.updaters.results["ok"] += 1
    interceptor.counters.failures["CreateContainer"] += 1
    interceptor.counters.overrides["cpuset_cpus", "the caller"] += 1
    yield from policy_collector(interceptor)()
    yield from state_collector(Checkpoint("policy-state.json", now=_zero), None)()
    yield from load_collector(PoolBalancer(Path(), 0), MemoryWatch(dict, _no_cgroups), ColdStarts())()
    yield from publishing_collector(Publisher(AgentClient("agent.sock", hub=Hub())))()
