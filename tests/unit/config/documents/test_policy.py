"""Policy documents in files and ConfigMaps."""

from collections.abc import Mapping

import pytest

from interpose.config.documents.amounts import CpuAmount
from interpose.config.documents.policy import PolicyDocument, policy_values, read_config_map, read_policy_document
from interpose.config.documents.yaml import parse_document
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.static.options import StaticOptions, StaticPlusOptions
from interpose.core.policy.static_pools.options import Pool, PoolCpuList, PoolsOptions
from interpose.errors import ConfigError

NODE = "node1.example.com"
FULL = PolicyDocument(
    active="static",
    available=CpuAmount(cpus=CpuSet.parse("1-7")),
    reserved=CpuAmount(milli=1000),
    options={"static": StaticOptions(relaxed_isolation=True)},
)


def read(text: str) -> PolicyDocument:
    """A document of a file."""
    return read_policy_document(parse_document(text, "file f"), "file f")


def problems(text: str) -> list[str]:
    """What is wrong with a document."""
    with pytest.raises(ConfigError) as caught:
        read(text)
    return caught.value.problems


def map_problems(data: Mapping[str, str]) -> list[str]:
    """What is wrong with a ConfigMap."""
    with pytest.raises(ConfigError) as caught:
        read_config_map(data, NODE)
    return caught.value.problems


@pytest.mark.parametrize(
    "text",
    [
        """
policy:
  Active: static
  ReservedResources: {CPU: 1}
  AvailableResources: {CPU: "cpuset:1-7"}
  static: {RelaxedIsolation: true}
""",
        """
policy.Active: static
policy.ReservedResources.CPU: 1000m
policy.AvailableResources: {cpu: 1-7}
policy.static: {RelaxedIsolation: true}
""",
        """
policy:
  active: static
  static.relaxedisolation: true
policy.reservedresources: {Cpu: 1.0}
policy.availableresources.cpu: '#1-7'
""",
    ],
)
def test_nested_and_dotted_keys_say_the_same(text: str) -> None:
    """In any case of the letters."""
    assert read(text) == FULL


def test_aliases_are_the_policies_they_stand_for() -> None:
    """In Active and as keys."""
    text = "policy: {Active: stp, stp: {pools: {a.b: {cpuLists: [{Cpuset: 1, Socket: 0}]}}}}"
    one = Pool(exclusive=False, lists=(PoolCpuList(cpus=CpuSet.of([1]), text="1", socket=0),))
    assert read(text) == PolicyDocument(
        active="static-pools", options={"static-pools": PoolsOptions(pools={"a.b": one})}
    )
    assert read("policy: {Active: 'null'}").active == "none"


def test_cpus_may_be_excluded() -> None:
    """Available: all but these. Reserved: all available ones but these."""
    document = read(
        "policy: {AvailableResources: {cpu: 'exclude-cpuset:0'}, ReservedResources: {CPU: exclude-cpuset:2-7}}"
    )
    assert document.available == CpuAmount(excluded=CpuSet.parse("0"))
    assert document.reserved == CpuAmount(excluded=CpuSet.parse("2-7"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("policy: {MigrateMemory: true}", True),
        ("policy.migratememory: false", False),
        ("policy: {Active: static}", None),
    ],
)
def test_pages_may_follow_memory_nodes(text: str, expected: bool | None) -> None:
    """Whatever the policy; in a ConfigMap it has a key of its own."""
    assert read(text).migrate_memory is expected
    if expected is not None:
        assert read_config_map({"policy.MigrateMemory": str(expected).lower()}, "n").migrate_memory is expected


def test_whether_pages_follow_is_yes_or_no() -> None:
    """Anything else is a problem with its line."""
    assert problems("policy:\n  MigrateMemory: sometimes\n") == [
        "file f line 2: policy.MigrateMemory: expected true or false, found text ('sometimes')"
    ]


@pytest.mark.parametrize("text", ["policy:", "{}", "policy: {Active: , static: }"])
def test_a_document_may_say_nothing(text: str) -> None:
    """Everything may be left out."""
    assert read(text) == PolicyDocument()


def test_parts_of_other_software_are_named() -> None:
    """They are accepted, whatever is in them."""
    text = """\
logger: {Debug: [policy]}
dump.Config: full:.*
policy:
  Active: static-plus
  eda: {anything: goes}
  ReservedResources: {CPU: 1, Memory: 1Gi}
  static: {Rdt: auto}
resource-manager.control: {}
"""
    document = read(text)
    assert document.active == "static-plus"
    assert document.warnings == (
        "file f line 1: logger: has no effect here",
        "file f line 2: dump: has no effect here",
        "file f line 5: policy.eda: has no effect here",
        "file f line 6: policy.ReservedResources.Memory: has no effect here",
        "file f line 7: policy.static.Rdt: has no effect here",
        "file f line 8: resource-manager: has no effect here",
    )


def test_all_problems_are_told_at_once() -> None:
    """With line, key and value."""
    text = """\
polici: {}
policy:
  Active: eda
  Activ: static
  ReservedResources: {CPU: lots, RAM: 1}
  AvailableResources: {CPU: 4}
  static: {RelaxedIsolation: 1}
  stp: {}
  static-pools: {}
policy.static.RelaxedIsolation: true
policy.ReservedResources.CPU: [1]
"""
    assert problems(text) == [
        "file f line 11: policy.ReservedResources.CPU: is given twice, first in line 5",
        "file f line 10: policy.static.RelaxedIsolation: is given twice, first in line 7",
        "file f line 1: polici: is not a known key, did you mean policy?",
        (
            "file f line 3: policy.Active: expected none or null or static or static-plus or static-pools or stp "
            "or topology-aware or memtier or podpools or dynamic-pools or balloons or external, found 'eda'"
        ),
        "file f line 4: policy.Activ: is not a known key, did you mean Active?",
        (
            "file f line 5: policy.ReservedResources.cpu: 'lots' is not a quantity such as 500m, 1.5 or 1Gi; expected "
            "an amount (2, 750m), CPUs (0-3, cpuset:2, #2), all but some (exclude-cpuset:0) or a cgroup (cgroup:DIR, "
            "/DIR)"
        ),
        "file f line 5: policy.ReservedResources.RAM: is not a known key",
        "file f line 6: policy.AvailableResources.cpu: '4' is an amount, say which CPUs: cpuset:0-7 or cgroup:DIR",
        "file f line 7: policy.static.RelaxedIsolation: expected true or false, found a number ('1')",
        "file f line 9: policy.static-pools: is given twice, first in line 8",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("policy: static", "file f line 1: policy: expected a group of keys, found text ('static')"),
        ("[]", "file f line 1: expected a group of keys, found a list"),
        ("policy.ReservedResources: {CPU: [1]}", "cpu: expected an amount of CPU or a list of CPUs, found a list"),
    ],
)
def test_what_is_no_document_is_refused(text: str, problem: str) -> None:
    """A word or a list."""
    assert problem in problems(text)[0]


# -- ConfigMaps


def test_a_key_holds_the_options_of_one_policy() -> None:
    """The example of the old documentation, and a document of which nothing is said."""
    document = read_config_map({"policy.static": "RelaxedIsolation: true\n", "policy.static-plus": "# none\n\n"}, NODE)
    assert document == PolicyDocument(
        options={"static": StaticOptions(relaxed_isolation=True), "static-plus": StaticPlusOptions()}
    )


def test_what_is_meant_for_this_node_wins() -> None:
    """Names of nodes have dots; what is meant for others, or overridden, is not even read."""
    data = {
        "policy.static": "RelaxedIsolation: [broken",
        f"policy.static.{NODE}": "PinMemory: true",
        "policy.static.node2.example.com": "broken: [",
        "policy.stp.node2": "broken: [",
    }
    assert read_config_map(data, NODE).options == {"static": StaticOptions(pin_memory=True)}


def test_a_whole_document_may_stand_in_a_map() -> None:
    """Under `policy`, in several keys, and with options of a node on top."""
    data = {
        "policy": "Active: static\nAvailableResources.CPU: 1-7\nstatic-plus: {PinMemory: true}\nstatic: {}\n",
        "policy.ReservedResources": "CPU: 1",
        f"policy.static.{NODE}": "relaxedIsolation: true",
    }
    document = read_config_map(data, NODE)
    assert document == PolicyDocument(
        active="static",
        available=FULL.available,
        reserved=FULL.reserved,
        options={"static-plus": StaticPlusOptions(pin_memory=True), "static": StaticOptions(relaxed_isolation=True)},
    )
    assert read_config_map({"policy.Active": "stp", "policy": ""}, NODE).active == "static-pools"


def test_other_keys_are_named_in_warnings() -> None:
    """They are somebody else's."""
    data = {
        "logger": "Debug: x",
        "policy.eda": "broken: [",
        "other": "",
        "policy": "eda: {}",
        "policy.static": "PinMemory: false\nRdt: auto",
    }
    assert read_config_map(data, NODE).warnings == (
        "ConfigMap key logger: has no effect here",
        "ConfigMap key other: has no effect here",
        "ConfigMap key policy.eda: has no effect here",
        "ConfigMap key policy line 1: eda: has no effect here",
        "ConfigMap key policy.static line 2: Rdt: has no effect here",
    )


def test_all_problems_of_all_keys_are_told_at_once() -> None:
    """Each with key, line and value."""
    data = {
        "policy": "Active: 7\nReservedResources: {CPU: x-y}\nstatic-plus: {}\n",
        "policy.Active": "static",
        "policy.ReservedResources.CPU": "[",
        "policy.static": "\nRelaxedIsolation: perhaps\nPinMem: true\n",
        "policy.static-pools": "{}",
        "policy.stp": "{}",
        "policy.statik": "{}",
        "policy.zzz": "{}",
        "policy.static-plus.PinMemory": "true",
        "policy.static-plus": "]",
        "policy.\x07": "",
    }
    expected = [
        "ConfigMap key 'policy.\\x07': '\\x07' is not a known policy",
        "ConfigMap key policy.static-plus.PinMemory: options belong into the text of the key policy.static-plus",
        "ConfigMap key policy.statik: 'statik' is not a known policy, did you mean policy.static?",
        "ConfigMap key policy.stp: is about the policy static-pools, as policy.static-pools is",
        "ConfigMap key policy.zzz: 'zzz' is not a known policy",
        "ConfigMap key policy line 1: Active: expected none or null or static",
        "ConfigMap key policy line 2: ReservedResources.cpu: 'x-y' is not a list of CPUs: 'x-y' is neither",
        "ConfigMap key policy.ReservedResources.CPU line 2: is not valid YAML",
        "ConfigMap key policy.static line 2: RelaxedIsolation: expected true or false, found text ('perhaps')",
        "ConfigMap key policy.static line 3: PinMem: is not a known key, did you mean PinMemory?",
        "ConfigMap key policy.static-plus line 1: is not valid YAML",
    ]
    found = map_problems(data)
    assert [one for one, start in zip(found, expected, strict=True) if not one.startswith(start)] == []


@pytest.mark.parametrize("node", ["rdt.example.com", "pinmemory-1", "CPUManagerPolicyOptions.x"])
def test_a_node_may_be_called_like_an_option(node: str) -> None:
    """As far as it can be told apart; what may be a mistake is said."""
    found = read_config_map({f"policy.static.{node}": "["}, "n1")
    assert found.options == {}
    said = f"ConfigMap key policy.static.{node}: is taken to be for the node {node}, has no effect on this one"
    assert found.warnings == ((said,) if "." in node else ())


def test_options_are_no_nodes() -> None:
    """Nor are those of a group."""
    keys = ("policy.static.rdt", "policy.static.cpumanagerpolicyoptions.full-pcpus-only")
    assert len(map_problems(dict.fromkeys(keys, "true"))) == 2


def test_options_of_policies_that_are_not_active_are_checked() -> None:
    """As far as that goes without a machine."""
    clash = "{full-pcpus-only: true, distribute-cpus-across-cores: true}"
    where = "ConfigMap key policy.static line 1: CPUManagerPolicyOptions:"
    data = {
        "policy": "Active: none",
        "policy.static": f"CPUManagerPolicyOptions: {clash}",
        "policy.static-pools": "pools: {shared: {cpuLists: []}}",
    }
    assert map_problems(data) == [
        f"{where} distribute-cpus-across-cores and full-pcpus-only cannot both be true",
        "ConfigMap key policy.static-pools line 1: pools.shared.cpuLists: has no CPU lists",
    ]


def test_what_two_keys_say_is_a_problem() -> None:
    """Nobody could tell which of them counts."""
    data = {
        "policy": "Active: static\nstatic: {PinMemory: true}",
        "policy.Active": "none",
        "policy.static": "PinMemory: false",
    }
    assert map_problems(data) == [
        "ConfigMap key policy.Active: Active is in the key policy too",
        "ConfigMap key policy.static: the key policy has options of static too",
    ]


def test_the_meaning_of_a_document_is_known_key_by_key() -> None:
    """What it does not say is at its default, so that two documents can be compared."""
    text = (
        "policy: {Active: stp, ReservedResources: {CPU: 2}, MigrateMemory: true, "
        "stp: {pools: {a: {cpuLists: [{Cpuset: 3, Socket: 0}]}}}}"
    )
    values = dict(policy_values(read_policy_document(parse_document(text, "file x"), "file x")))
    said = {
        "policy.Active": "static-pools",
        "policy.ReservedResources.CPU": "2000m",
        "policy.MigrateMemory": "true",
        "policy.static-pools.pools.a.exclusive": "false",
        "policy.static-pools.pools.a.cpuLists[0]": "3 of socket 0",
    }
    assert values == {**dict(policy_values(PolicyDocument())), **said}
    assert values["policy.static.CPUManagerPolicyOptions.full-pcpus-only"] == "false"
    assert values["policy.static-plus.PinMemory"] == "false"
