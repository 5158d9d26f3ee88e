"""The options of each policy, as documents have them."""

from typing import Any

import pytest

from interpose.config.documents.fields import Report
from interpose.config.documents.policy_options import OPTIONS, read_options, read_pools, without_effect
from interpose.config.documents.yaml import parse_document
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.names import POLICIES
from interpose.core.policy.static.options import StaticOptions, StaticPlusOptions
from interpose.core.policy.static_pools.options import Pool, PoolCpuList, PoolsOptions
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
        ("static-plus", "null", StaticPlusOptions()),
        ("static-pools", "null", PoolsOptions()),
        ("static-pools", POOLS, PoolsOptions(pools=EXPECTED)),
        (
            "static-pools",
            "{ConfFilePath: /etc/p.yaml, ConfDirPath: '', LabelNode: true, TaintNode: true}",
            PoolsOptions(conf_file="/etc/p.yaml", label_node=True, taint_node=True),
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
