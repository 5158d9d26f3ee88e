"""The options of each policy, as documents have them."""

from typing import Any

import pytest

from interpose.config.documents.fields import Report
from interpose.config.documents.policy_options import OPTIONS, option_values, read_options, read_pools, without_effect
from interpose.config.documents.yaml import parse_document
from interpose.core.cpuallocator.priority import CpuPriority
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.dynamic_pools.options import DynamicPoolsOptions, DynamicPoolType
from interpose.core.policy.names import POLICIES
from interpose.core.policy.podpools.options import FillOrder, InstanceAmount, InstanceUnit, PodPool, PodPoolsOptions
from interpose.core.policy.static.options import StaticOptions, StaticPlusOptions
from interpose.core.policy.static_pools.options import Pool, PoolCpuList, PoolsOptions
from interpose.core.policy.topology_aware.options import PoolLevel, TopologyAwareOptions
from interpose.errors import ConfigError

POOLS = """\
pools:
  exclusive:
    exclusive: true
    cpuLists: [{Cpuset: "8,9", Socket: 1}, {Cpuset: "10,11", Socket: 1}]
  infra.1:
    CPULists:
    - cpuset: 0-7
      SOCKET: 0
    - Cpuset: 12
      Socket: 0
"""
PRIORITIES = "expected 0 (high), 1 (normal), 2 (low) or 3 (none)"
EXPECTED = {
    "exclusive": Pool(
        exclusive=True,
        lists=(
            PoolCpuList(cpus=CpuSet.parse("8-9"), text="8,9", socket=1),
            PoolCpuList(cpus=CpuSet.parse("10-11"), text="10,11", socket=1),
        ),
    ),
    "infra.1": Pool(
        exclusive=False,
        lists=(
            PoolCpuList(cpus=CpuSet.parse("0-7"), text="0-7", socket=0),
            PoolCpuList(cpus=CpuSet.parse("12"), text="12", socket=0),
        ),
    ),
}


def read(policy: str, text: str) -> Any:
    """The options of a policy."""
    report = Report("file f")
    found = read_options(policy, parse_document(text, "file f"), "policy.x", report)
    report.settle()
    return found


def problems(policy: str, text: str) -> list[str]:
    """What is wrong with them."""
    with pytest.raises(ConfigError) as caught:
        read(policy, text)
    return caught.value.problems


def test_every_policy_has_its_table() -> None:
    """None is forgotten."""
    assert list(OPTIONS) == [one.name for one in POLICIES]


@pytest.mark.parametrize(
    ("policy", "text", "options"),
    [
        ("none", "null", None),
        ("none", "{}", None),
        ("static", "null", StaticOptions()),
        ("static", "{RelaxedIsolation: true, PinMemory: yes}", StaticOptions(relaxed_isolation=True, pin_memory=True)),
        ("static", "relaxedisolation: true", StaticOptions(relaxed_isolation=True)),
        (
            "static",
            'CPUManagerPolicyOptions: {full-pcpus-only: "True", align-by-socket: "false", strict-cpu-reservation: on}',
            StaticOptions(full_pcpus_only=True, strict_cpu_reservation=True),
        ),
        ("static-plus", "PinMemory: true", StaticPlusOptions(pin_memory=True)),
        ("static-plus", "disableCPUQuotaWithExclusiveCPUs: false", StaticPlusOptions(lift_quota=False)),
        ("static", "DisableCPUQuotaWithExclusiveCPUs: false", StaticOptions(lift_quota=False)),
        ("static-plus", "null", StaticPlusOptions()),
        ("static-pools", "null", PoolsOptions()),
        ("static-pools", POOLS, PoolsOptions(pools=EXPECTED)),
        (
            "static-pools",
            "{ConfFilePath: /etc/p.yaml, ConfDirPath: '', LabelNode: true, TaintNode: true}",
            PoolsOptions(conf_file="/etc/p.yaml", label_node=True, taint_node=True),
        ),
        ("dynamic-pools", "null", DynamicPoolsOptions()),
        (
            "dynamic-pools",
            "{PinCPU: false, pinmemory: false, ReservedPoolNamespaces: [infra-*], IdleCPUClass: slow}",
            DynamicPoolsOptions(pin_cpu=False, pin_memory=False, reserved_namespaces=("infra-*",)),
        ),
        (
            "dynamic-pools",
            "DynamicPoolTypes: [{Name: a, Namespaces: [x, y*], CPUClass: fast, AllocatorPriority: 2}, {name: b}]",
            DynamicPoolsOptions(
                types=(
                    DynamicPoolType(name="a", namespaces=("x", "y*"), cpu_class="fast", priority=CpuPriority.LOW),
                    DynamicPoolType(name="b"),
                )
            ),
        ),
        ("topology-aware", "null", TopologyAwareOptions()),
        (
            "topology-aware",
            (
                "{PinCPU: false, PinMemory: false, PreferIsolatedCPUs: false, PreferSharedCPUs: true, "
                "ColocatePods: true, ColocateNamespaces: true, ReservedPoolNamespaces: [infra-*], "
                "DisableCPUQuotaWithExclusiveCPUs: false}"
            ),
            TopologyAwareOptions(
                pin_cpu=False,
                pin_memory=False,
                prefer_isolated=False,
                prefer_shared=True,
                colocate_pods=True,
                colocate_namespaces=True,
                reserved_namespaces=("infra-*",),
                lift_quota=False,
            ),
        ),
        # As the resource of the successor has them, with classes that nothing follows from.
        (
            "topology-aware",
            "{pinCPU: true, defaultCPUPriority: high, unlimitedBurstable: l3cache, cpuClasses: [{name: x}]}",
            TopologyAwareOptions(cpu_priority=CpuPriority.HIGH, unlimited_burstable=PoolLevel.L3_CACHE),
        ),
        ("podpools", "null", PodPoolsOptions()),
        ("podpools", "{pinCPU: false, PinMemory: off}", PodPoolsOptions(pin_cpu=False, pin_memory=False)),
        (
            "podpools",
            "Pools: [{Name: a, CPU: '2', MaxPods: 3, Instances: 50 %, FillOrder: Packed}, {name: default, maxpods: 0}]",
            PodPoolsOptions(
                pools=(
                    PodPool(
                        name="a",
                        cpus=2,
                        max_pods=3,
                        instances=InstanceAmount(number=50, unit=InstanceUnit.PERCENT),
                        fill_order=FillOrder.PACKED,
                    ),
                    PodPool(name="default"),
                )
            ),
        ),
    ],
)
def test_options_become_values(policy: str, text: str, options: Any) -> None:
    """What is not said keeps its default; keys count in any case."""
    assert read(policy, text) == options


@pytest.mark.parametrize(
    "name",
    [
        "full-pcpus-only",
        "strict-cpu-reservation",
        "prefer-align-cpus-by-uncorecache",
        "distribute-cpus-across-numa",
        "align-by-socket",
        "distribute-cpus-across-cores",
    ],
)
def test_each_option_of_the_kubelet_is_the_one_of_its_name(name: str) -> None:
    """As it is in the kubelet's own configuration."""
    found = read("static", f"CPUManagerPolicyOptions: {{{name}: true}}")
    assert found == StaticOptions(**{name.replace("-", "_"): True})


def test_all_problems_are_told_with_line_key_and_value() -> None:
    """Mistakes in pools do not hide each other."""
    text = """\
pools:
  a:
    exclusive: maybe
    cpuLists: [{Cpuset: "3-1", Socket: 1}, {Cpuset: "", Socket: -1}, {Cpuset: [1], Socket: 0}, {Socket: 0}]
  b:
  a: {cpuLists: []}
  c: {lists: []}
ConfFilePath: pools.yaml
ConfDirPath: 7
LabelNode: 1
LABELNODE: true
"""
    assert problems("static-pools", text) == [
        "file f line 3: policy.x.pools.a.exclusive: expected true or false, found text ('maybe')",
        "file f line 4: policy.x.pools.a.cpuLists[0].Cpuset: '3-1' is not a list of CPUs: '3-1' ends before it begins",
        "file f line 4: policy.x.pools.a.cpuLists[1].Cpuset: the list of CPUs is empty",
        "file f line 4: policy.x.pools.a.cpuLists[1].Socket: expected a number from 0 to 4095, found '-1'",
        "file f line 4: policy.x.pools.a.cpuLists[2].Cpuset: expected a list of CPUs such as 0-3,8, found a list",
        "file f line 4: policy.x.pools.a.cpuLists[3].Cpuset: is missing",
        "file f line 5: policy.x.pools.b: expected a group of keys, found nothing",
        "file f line 6: policy.x.pools.a: is given twice",
        "file f line 7: policy.x.pools.c.lists: is not a known key, did you mean cpuLists?",
        "file f line 7: policy.x.pools.c.cpuLists: is missing",
        "file f line 8: policy.x.ConfFilePath: expected an absolute path, found 'pools.yaml'",
        "file f line 9: policy.x.ConfDirPath: expected an absolute path, found a number ('7')",
        "file f line 10: policy.x.LabelNode: expected true or false, found a number ('1')",
        "file f line 11: policy.x.LabelNode: is given twice, first in line 10",
    ]


@pytest.mark.parametrize(
    ("policy", "text", "problem"),
    [
        ("none", "a: 1", "file f line 1: policy.x.a: is not a known key"),
        ("static", "true", "file f line 1: policy.x: expected a group of keys, found true or false ('true')"),
        (
            "static",
            "RelaxIsolation: true",
            "policy.x.RelaxIsolation: is not a known key, did you mean RelaxedIsolation?",
        ),
        ("static", "CPUManagerPolicyOptions: {full-pcpus-only: 1}", "full-pcpus-only: expected true or false, found"),
        ("static", "CPUManagerPolicyOptions: {full-pcpus: true}", "did you mean full-pcpus-only?"),
        ("static-pools", "pools: 3", "policy.x.pools: expected a group of keys, found a number ('3')"),
        ("static-pools", '{pools: {"a\\a": 1}}', "policy.x.pools['a\\x07']: expected a group of keys"),
    ],
)
def test_what_cannot_be_used_is_named(policy: str, text: str, problem: str) -> None:
    """Key and value, and what was meant."""
    assert problem in problems(policy, text)[0]


def test_what_does_nothing_is_known() -> None:
    """Somebody may wonder."""
    node = parse_document("{rdt: auto, PinMemory: true}", "file f")
    assert [name for name, _ in without_effect("static", node)] == ["rdt"]
    assert read("static", "Rdt: {any: thing}") == StaticOptions()
    assert without_effect("static-plus", node) == ()


def test_a_file_may_hold_pools_and_nothing_else() -> None:
    """The file of static-pools."""
    assert read_pools(parse_document(POOLS, "file p"), "file p") == EXPECTED


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("LabelNode: true", "file p line 1: LabelNode: is not a known key"),
        ("pools:", "file p line 1: pools: is missing"),
        ("- pools", "file p line 1: expected a group of keys, found a list"),
    ],
)
def test_a_file_without_pools_is_refused(text: str, problem: str) -> None:
    """Nothing would be known of what is meant."""
    with pytest.raises(ConfigError) as caught:
        read_pools(parse_document(text, "file p"), "file p")
    assert caught.value.problems[0] == problem


@pytest.mark.parametrize(
    ("text", "number", "unit"),
    [
        ("10", 10, InstanceUnit.INSTANCES),
        ("'10'", 10, InstanceUnit.INSTANCES),
        ("10 CPUs", 10, InstanceUnit.CPUS),
        ("1 CPUS", 1, InstanceUnit.CPUS),
        ("1 cpu", 1, InstanceUnit.CPUS),
        ("8cpu", 8, InstanceUnit.CPUS),
        ("90 %", 90, InstanceUnit.PERCENT),
        ("90%", 90, InstanceUnit.PERCENT),
    ],
)
def test_instances_of_a_pod_pool(text: str, number: int, unit: InstanceUnit) -> None:
    """All spellings that cri-resmgr knows."""
    (pool,) = read("podpools", f"Pools: [{{Name: a, CPU: 1, Instances: {text}}}]").pools
    assert pool.instances == InstanceAmount(number=number, unit=unit)


def test_empty_instances_of_a_pod_pool_are_not_said() -> None:
    """As in cri-resmgr: it is one."""
    assert read("podpools", "Pools: [{Name: a, CPU: 1, Instances: ''}]").pools[0].instances is None


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        ("CPU: 1", "policy.x.Pools[0].Name: is missing"),
        ("Name: a", "policy.x.Pools: pool 'a': CPU is missing: how many CPUs has an instance?"),
        ("Name: a, CPU: two", "policy.x.Pools[0].CPU: expected a number of CPUs such as 2, found 'two'"),
        ("Name: a, CPU: 0", "policy.x.Pools[0].CPU: expected a number of CPUs such as 2, found '0'"),
        ("Name: a, CPU: [1]", "policy.x.Pools[0].CPU: expected a number of CPUs such as 2, found a list"),
        ("Name: a, CPU: 2500m", "policy.x.Pools[0].CPU: expected a number of CPUs such as 2, found '2500m'"),
        (
            "Name: a, CPU: 1, Instances: 100 % CPUs",
            "policy.x.Pools[0].Instances: expected a number of instances such as 3, 3 CPUs or 50 %, found '100 % CPUs'",
        ),
        (
            "Name: a, CPU: 1, Instances: -10",
            "policy.x.Pools[0].Instances: expected a number of instances such as 3, 3 CPUs or 50 %, found '-10'",
        ),
        (
            "Name: a, CPU: 1, Instances: [1]",
            "policy.x.Pools[0].Instances: expected a number of instances such as 3, 3 CPUs or 50 %, found a list",
        ),
        ("Name: a, CPU: 1, MaxPods: -2", "policy.x.Pools[0].MaxPods: expected a number from -1 to 65536, found '-2'"),
        (
            "Name: a, CPU: 1, FillOrder: packed",
            "policy.x.Pools[0].FillOrder: expected Balanced or Packed or FirstFree, found 'packed'",
        ),
        ("Name: a, CPU: 1, Istances: 2", "policy.x.Pools[0].Istances: is not a known key, did you mean Instances?"),
    ],
)
def test_a_pod_pool_that_cannot_be(pool: str, expected: str) -> None:
    """Key and value are named."""
    assert problems("podpools", f"Pools: [{{{pool}}}]") == [f"file f line 1: {expected}"]


def test_pod_pools_are_shown_key_by_key() -> None:
    """What is not said is not shown."""
    options = read("podpools", "{PinMemory: false, Pools: [{Name: a, CPU: 2, Instances: 3 CPUs}, {Name: default}]}")
    assert dict(option_values(options)) == {
        "PinCPU": "true",
        "PinMemory": "false",
        "Pools.a.CPU": "2",
        "Pools.a.MaxPods": "0",
        "Pools.a.Instances": "3 CPUs",
        "Pools.a.FillOrder": "Balanced",
        "Pools.default.MaxPods": "0",
        "Pools.default.FillOrder": "Balanced",
    }


@pytest.mark.parametrize(
    ("text", "priority"),
    [("0", "high"), ("1", "normal"), ("'2'", "low"), ("3", "none"), ("none", "none"), ("High", "high")],
)
def test_priorities_of_a_dynamic_pool(text: str, priority: str) -> None:
    """By number, as cri-resmgr has them, or by name."""
    (pool,) = read("dynamic-pools", f"DynamicPoolTypes: [{{Name: a, AllocatorPriority: {text}}}]").types
    assert pool.priority == CpuPriority(priority)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DynamicPoolTypes: [{Namespaces: [a]}]", "policy.x.DynamicPoolTypes[0].Name: is missing"),
        ("DynamicPoolTypes: [{Name: a}, {Name: a}]", "policy.x.DynamicPoolTypes: pool 'a' is defined 2 times"),
        (
            "DynamicPoolTypes: [{Name: a, AllocatorPriority: 4}]",
            f"policy.x.DynamicPoolTypes[0].AllocatorPriority: {PRIORITIES}, found '4'",
        ),
        (
            "DynamicPoolTypes: [{Name: a, AllocatorPriority: [1]}]",
            f"policy.x.DynamicPoolTypes[0].AllocatorPriority: {PRIORITIES}, found a list",
        ),
        (
            "DynamicPoolTypes: [{Name: a, Namespaces: [[]]}]",
            "policy.x.DynamicPoolTypes[0].Namespaces[0]: expected a name, found a list",
        ),
        (
            "ReservedPoolNamespaces: {}",
            "policy.x.ReservedPoolNamespaces: expected a list of names such as [batch, team-*], found a group of keys",
        ),
        ("ReservedPoolNamespaces: ['']", "policy.x.ReservedPoolNamespaces[0]: expected a name, found ''"),
        ("ReservedPoolNamespaces: [1]", "policy.x.ReservedPoolNamespaces[0]: expected a name, found a number ('1')"),
    ],
)
def test_a_dynamic_pool_that_cannot_be(text: str, expected: str) -> None:
    """Key and value are named."""
    assert problems("dynamic-pools", text) == [f"file f line 1: {expected}"]


def test_dynamic_pools_are_shown_key_by_key() -> None:
    """Also what has no effect, if it is said."""
    text = "{ReservedPoolNamespaces: [a, b*], DynamicPoolTypes: [{Name: x, Namespaces: [y], CpuClass: z}, {Name: w}]}"
    assert dict(option_values(read("dynamic-pools", text))) == {
        "PinCPU": "true",
        "PinMemory": "true",
        "ReservedPoolNamespaces": "a,b*",
        "DynamicPoolTypes.x.Namespaces": "y",
        "DynamicPoolTypes.x.AllocatorPriority": "high",
        "DynamicPoolTypes.x.CpuClass": "z",
        "DynamicPoolTypes.w.Namespaces": "",
        "DynamicPoolTypes.w.AllocatorPriority": "high",
    }


def test_options_of_a_package_are_shown_as_json() -> None:
    """Nobody here knows its keys."""
    shown = dict(option_values(read("external", "{EntryPoint: mine, Options: {sizes: [1, 2], deep: {on: true}}}")))
    assert shown == {"EntryPoint": "mine", "Options": '{"sizes": [1, 2], "deep": {"on": true}}'}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DefaultCPUPriority: urgent", "DefaultCPUPriority: expected high or normal or low or none, found 'urgent'"),
        (
            "UnlimitedBurstable: core",
            "UnlimitedBurstable: expected system or package or die or numa or l3cache, found 'core'",
        ),
        (
            "ReservedPoolNamespaces: ['infra-[']",
            "ReservedPoolNamespaces: pattern 'infra-[': a class of characters has no end",
        ),
        ("PreferSpreading: true", "PreferSpreading: is not a known key"),
    ],
)
def test_an_option_of_topology_aware_that_cannot_be(text: str, expected: str) -> None:
    """Key and value are named."""
    (problem,) = problems("topology-aware", text)
    assert problem.startswith("file f line 1: policy.x")
    assert expected in problem


def test_options_of_topology_aware_are_shown_key_by_key() -> None:
    """With the words that documents have."""
    shown = dict(option_values(read("topology-aware", "{ReservedPoolNamespaces: [a, b*], PinCPU: false}")))
    assert shown == {
        "PinCPU": "false",
        "PinMemory": "true",
        "PreferIsolatedCPUs": "true",
        "PreferSharedCPUs": "false",
        "ColocatePods": "false",
        "ColocateNamespaces": "false",
        "ReservedPoolNamespaces": "a,b*",
        "DefaultCPUPriority": "none",
        "UnlimitedBurstable": "package",
        "DisableCPUQuotaWithExclusiveCPUs": "true",
    }


def test_what_topology_aware_does_not_act_on_is_told() -> None:
    """Classes of CPUs and of scheduling, and interrupts."""
    text = "{cpuClasses: [], sharedPoolCPUClass: x, ControllableInterrupts: ['*'], PinCPU: true}"
    node = parse_document(text, "file f")
    assert [key for key, _ in without_effect("topology-aware", node)] == [
        "cpuClasses",
        "sharedPoolCPUClass",
        "ControllableInterrupts",
    ]
