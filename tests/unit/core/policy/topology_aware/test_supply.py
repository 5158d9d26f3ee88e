"""The CPUs of pools: what is left, and what can be taken without leaving somebody with too little."""

from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.policy.topology_aware.pool_tree import PoolTree
from interpose.core.policy.topology_aware.supply import CpuSupply
from tests.support.policy.machines import machine


class Bench:
    """The supply of a machine whose first CPU is reserved, with pools by name."""

    def __init__(self, name: str = "n4c16", isolated: str = "") -> None:
        topology = machine(name)
        self.tree = PoolTree.of(topology, topology.online)
        self.isolated = CpuSet.parse(isolated)
        self.supply = CpuSupply(topology, self.tree, self.isolated, topology.online - self.isolated - CpuSet.of((0,)))

    def add(self, pool: str, cpus: str = "", milli: int = 0) -> None:
        """A container in a pool."""
        self.supply.add(self.tree.by_name[pool], CpuSet.parse(cpus), milli)

    def remove(self, pool: str, cpus: str = "", milli: int = 0) -> None:
        """It goes."""
        self.supply.remove(self.tree.by_name[pool], CpuSet.parse(cpus), milli)

    def capacities(self) -> dict[str, int]:
        """What can be used of each pool."""
        found = self.supply.shared_capacities(self.supply.balances())
        return {pool.name: found[pool.id] for pool in self.tree.pools}

    def slice(self, pool: str, milli: int = 0) -> tuple[str, int]:
        """What can be taken of it."""
        cpus, most = self.supply.slice(self.tree.by_name[pool], milli)
        return str(cpus), most


def test_a_share_is_used_of_the_pools_above_too() -> None:
    """And of no others."""
    bench = Bench()
    bench.add("NUMA node #1", milli=1500)
    found = bench.capacities()
    assert found["NUMA node #1"] == 2500
    assert found["socket #0"] == 5500
    assert found["root"] == 13500
    assert found["NUMA node #2"] == 4000


def test_a_pool_has_no_more_than_those_above() -> None:
    """A container of the socket uses what its nodes could have had."""
    bench = Bench()
    bench.add("socket #0", milli=6500)
    assert bench.capacities()["NUMA node #1"] == 500


def test_cpus_of_ones_own_leave_all_pools() -> None:
    """And come back to the kind they were of."""
    bench = Bench(isolated="4")
    bench.add("socket #0", "4-5", 100)
    assert (str(bench.supply.isolated), str(bench.supply.sharable)) == ("", "1-3,6-15")
    assert str(bench.supply.free) == "1-3,6-15"
    bench.remove("socket #0", "4-5", 100)
    assert (str(bench.supply.isolated), str(bench.supply.sharable)) == ("4", "1-3,5-15")
    assert bench.capacities()["socket #0"] == 6000
    assert bench.supply.containers == [0] * 7


def test_a_pool_that_is_in_use_keeps_a_cpu() -> None:
    """Three of four can be taken, whichever; all four as soon as nobody shares them."""
    bench = Bench()
    bench.add("NUMA node #1", milli=1)
    assert bench.slice("NUMA node #1") == ("4-7", 3)
    bench.remove("NUMA node #1", milli=1)
    assert bench.slice("NUMA node #1") == ("4-7", 4)


def test_what_a_container_shares_itself_is_left_too() -> None:
    """Half a CPU of four: three are its own at most."""
    assert Bench().slice("NUMA node #1", 500) == ("4-7", 3)


def test_pools_inside_keep_what_is_used_there() -> None:
    """Of the socket with six free CPUs besides: two of node 0, and of node 1 only as many as nobody needs."""
    bench = Bench()
    bench.add("NUMA node #1", milli=2500)
    cpus, most = bench.slice("socket #0")
    assert most == 4
    assert len(CpuSet.parse(cpus) & CpuSet.parse("4-7")) == 1
    assert CpuSet.parse(cpus) & CpuSet.parse("0-3") == CpuSet.parse("1-3")


def test_pools_above_limit_what_can_be_taken() -> None:
    """The socket needs six of its seven CPUs for those that share it as a whole."""
    bench = Bench()
    bench.add("socket #0", milli=5100)
    assert bench.slice("NUMA node #1") == ("4-7", 1)
    assert bench.slice("root")[1] == 9


def test_nothing_can_be_taken_where_all_is_used() -> None:
    """Not even a single one."""
    bench = Bench()
    bench.add("root", milli=15000)
    assert bench.slice("NUMA node #1")[1] == 0
    assert bench.supply.is_legal()
    bench.add("NUMA node #3", milli=1)
    assert not bench.supply.is_legal()
    assert bench.slice("NUMA node #3")[1] == 0


def test_cpus_of_no_narrower_pool_can_be_taken_as_well() -> None:
    """A node without a pool: its CPUs are those of the socket only."""
    bench = Bench("2 sockets x 2 numa x 2 cores x 2 threads")
    bench.add("NUMA node #0", milli=3000)
    assert bench.slice("socket #0") == ("4-7", 4)
    assert bench.supply.slice(bench.tree.root, 0).cpus & CpuSet.parse("0-3") == EMPTY
