"""The table of policies."""

import subprocess
import sys
from types import NoneType

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.api import Setup
from interpose.core.policy.balloons.options import BalloonsOptions
from interpose.core.policy.dynamic_pools.options import DynamicPoolsOptions
from interpose.core.policy.external import ExternalOptions
from interpose.core.policy.names import NAMES, POLICIES
from interpose.core.policy.podpools.options import PodPoolsOptions
from interpose.core.policy.registry import make, options_type
from interpose.core.policy.static.options import StaticOptions, StaticPlusOptions
from interpose.core.policy.static_pools.options import Pool, PoolCpuList, PoolsOptions
from interpose.core.policy.topology_aware.options import TopologyAwareOptions
from interpose.core.topology.topology import Cpu, NumaNode, Topology
from interpose.errors import ConfigError
from tests.support.policy.one_pool import OnePoolPolicy

ALL = CpuSet.parse("0-3")
SETUP = Setup(
    topology=Topology(
        cpus=tuple(Cpu(id=number, core=number) for number in ALL),
        nodes=(NumaNode(id=0, cpus=ALL, memory_bytes=1, distances={0: 10}),),
    ),
    reserved=1000,
)
POOLS = PoolsOptions(pools={"shared": Pool(exclusive=False, lists=(PoolCpuList(cpus=ALL, text="0-3", socket=0),))})

OTHERS = ExternalOptions(entry_point="one-pool", maker=OnePoolPolicy)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_and_alias_makes_its_policy(name: str) -> None:
    """With default options, but for those that have no good default."""
    options = {"static-pools": POOLS, "external": OTHERS}.get(NAMES[name])
    expected = "one-pool" if name == "external" else NAMES[name]
    assert make(name, SETUP, options).name == expected


def test_the_options_of_every_policy_are_known() -> None:
    """Also by an alias."""
    assert [options_type(policy.name) for policy in POLICIES] == [
        NoneType,
        StaticOptions,
        StaticPlusOptions,
        PoolsOptions,
        TopologyAwareOptions,
        PodPoolsOptions,
        DynamicPoolsOptions,
        BalloonsOptions,
        ExternalOptions,
    ]
    assert options_type("stp") is PoolsOptions


def test_options_reach_the_policy() -> None:
    """A contradiction in them is found there."""
    wrong = StaticOptions(full_pcpus_only=True, distribute_cpus_across_cores=True)
    with pytest.raises(ConfigError, match="full-pcpus-only"):
        make("static", SETUP, wrong)


def test_a_name_there_is_not_is_refused_with_those_there_are() -> None:
    """For making and for asking."""
    problem = "policy: 'statik' is none of none, static, static-plus, static-pools"
    with pytest.raises(ConfigError, match=problem):
        make("statik", SETUP)
    with pytest.raises(ConfigError, match=problem):
        options_type("statik")


def test_options_of_another_policy_are_a_mistake_of_the_caller() -> None:
    """Not of who configures."""
    with pytest.raises(TypeError, match="policy static takes StaticOptions, not StaticPlusOptions"):
        make("static", SETUP, StaticPlusOptions())


def test_a_policy_that_is_not_used_is_not_loaded() -> None:
    """A relay pays for its own one only."""
    program = (
        "import sys\n"
        "from interpose.core.policy.api import Setup\n"
        "from interpose.core.policy.registry import make, options_type\n"
        "from interpose.core.topology.topology import Topology\n"
        "make('none', Setup(topology=Topology(cpus=(), nodes=())))\n"
        "options_type('static')\n"
        "print(*sorted(name for name in sys.modules if name.startswith('interpose.core.policy.')))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "interpose.core.policy.none" in done.stdout.split()
    assert not {
        "static.policy",
        "static_plus",
        "static_pools.policy",
        "podpools.policy",
        "dynamic_pools.policy",
        "balloons.policy",
    } & {name.removeprefix("interpose.core.policy.") for name in done.stdout.split()}
