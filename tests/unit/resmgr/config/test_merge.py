"""Settings that somebody gave beat the document, key by key; defaults beat nothing."""

from typing import Any

import pytest

from interpose.config.documents.amounts import CpuAmount
from interpose.config.documents.policy import PolicyDocument
from interpose.config.relay.settings import PolicySettings
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.static.options import StaticOptions, StaticPlusOptions
from interpose.core.policy.static_pools.options import Pool, PoolCpuList, PoolsOptions
from interpose.core.policy.topology_aware.options import TopologyAwareOptions
from interpose.errors import ConfigError
from interpose.resmgr.config.merge import Draft, combine

NOTHING = PolicyDocument()
POOLS = {"shared": Pool(exclusive=False, lists=(PoolCpuList(cpus=CpuSet.of([1]), text="1", socket=0),))}


def cpus(text: str) -> CpuAmount:
    return CpuAmount(cpus=CpuSet.parse(text))


def combined(document: PolicyDocument = NOTHING, **given: Any) -> Draft:
    """With these settings on the command line."""
    origins = {f"policy.{key}": f"flag --{key}" for key in given}
    return combine(PolicySettings(**given), origins, document)


def test_nothing_said_is_no_policy() -> None:
    """Without settings and document the policy is none, without options."""
    assert combined() == Draft(policy="none", available=None, reserved=None, options=None)


def test_a_document_alone_counts() -> None:
    """Every key of the document is in the draft."""
    document = PolicyDocument(
        active="static",
        available=cpus("1-7"),
        reserved=CpuAmount(milli=1500),
        options={"static": StaticOptions(pin_memory=True), "static-plus": StaticPlusOptions()},
        migrate_memory=True,
    )
    assert combined(document) == Draft(
        policy="static",
        available=cpus("1-7"),
        reserved=CpuAmount(milli=1500),
        options=StaticOptions(pin_memory=True),
        migrate_memory=True,
    )


def test_settings_alone_count() -> None:
    """With the default options of the policy."""
    assert combined(name="static-plus", available="cpu=0,2-3,memory=1Gi", reserved="cpu=cgroup:/system") == Draft(
        policy="static-plus",
        available=cpus("0,2-3"),
        reserved=CpuAmount(cgroup="/system"),
        options=StaticPlusOptions(),
    )


def test_settings_beat_a_document_key_by_key() -> None:
    """What only the document says stays; options are those of the policy that counts."""
    document = PolicyDocument(
        active="static-plus",
        available=cpus("1-7"),
        reserved=CpuAmount(milli=1500),
        options={"static": StaticOptions(pin_memory=True)},
    )
    found = combined(document, name="static", reserved="cpu=2")
    assert found == Draft(
        policy="static",
        available=cpus("1-7"),
        reserved=CpuAmount(milli=2000),
        options=StaticOptions(pin_memory=True),
        notes=(
            "document: policy.Active: has no effect, flag --name counts before it",
            "document: policy.ReservedResources.CPU: has no effect, flag --reserved counts before it",
        ),
    )


def test_nothing_is_said_where_both_say_the_same() -> None:
    """Or the document says nothing."""
    document = PolicyDocument(active="static", reserved=CpuAmount(milli=2000), options={"static": StaticOptions()})
    assert combined(document, name="static", reserved="cpu=2", static_relaxed_isolation=True).notes == ()


def test_options_that_are_overridden_are_said() -> None:
    """By the name they have in documents."""
    document = PolicyDocument(active="static", options={"static": StaticOptions(relaxed_isolation=True)})
    found = combine(
        PolicySettings(static_relaxed_isolation=False), {"policy.static_relaxed_isolation": "env X"}, document, "file f"
    )
    assert found.options == StaticOptions()
    assert found.notes == ("file f: policy.static.RelaxedIsolation: has no effect, env X counts before it",)


def test_the_policy_none_can_be_given() -> None:
    """It is not the same as giving none."""
    assert combined(PolicyDocument(active="static"), name="none").policy == "none"


def test_resources_without_cpus_say_nothing_about_them() -> None:
    """Then the document's CPUs count."""
    found = combined(PolicyDocument(reserved=CpuAmount(milli=1)), reserved="memory=1Gi")
    assert found.reserved == CpuAmount(milli=1)


@pytest.mark.parametrize("origin", ["default", "default of cri-resmgr"])
def test_defaults_do_not_count(origin: str) -> None:
    """Ours, and those of a program whose name we go by."""
    origins = {"policy.name": origin, "policy.static_relaxed_isolation": origin}
    document = PolicyDocument(active="static", options={"static": StaticOptions(relaxed_isolation=True)})
    assert combine(PolicySettings(), origins, document).options == StaticOptions(relaxed_isolation=True)
    assert combine(PolicySettings(), {}, document).policy == "static"


@pytest.mark.parametrize("said", [True, False])
def test_relaxed_isolation_is_of_static(said: bool) -> None:
    """A switch that was turned off counts as well; other policies do not mind."""
    options = {"static": StaticOptions(relaxed_isolation=not said, pin_memory=True)}
    document = PolicyDocument(active="static", options=options)
    found = combined(document, static_relaxed_isolation=said)
    assert found.options == StaticOptions(relaxed_isolation=said, pin_memory=True)
    assert combined(document, name="static-plus", static_relaxed_isolation=said).options == StaticPlusOptions()


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({}, PoolsOptions(conf_file="/f", conf_dir="/d")),
        ({"pools_file": "", "pools_dir": ""}, PoolsOptions(conf_file="/f", conf_dir="/d")),
        ({"pools_file": "/x"}, PoolsOptions(conf_file="/x", conf_dir="/d")),
        ({"pools_dir": "/y"}, PoolsOptions(conf_dir="/y")),
        ({"pools_file": "/x", "pools_dir": "/y"}, PoolsOptions(conf_file="/x", conf_dir="/y")),
        (
            {"pools_label_node": True, "pools_taint_node": True},
            PoolsOptions(conf_file="/f", conf_dir="/d", label_node=True, taint_node=True),
        ),
    ],
)
def test_who_says_where_pools_are_means_no_others(given: dict[str, Any], options: PoolsOptions) -> None:
    """A file or a directory on the command line, not those of the document."""
    of_document = PoolsOptions(conf_file="/f", conf_dir="/d")
    document = PolicyDocument(active="static-pools", options={"static-pools": of_document})
    assert combined(document, **given).options == options


def test_pools_of_a_document_count_before_files_and_directories() -> None:
    """Whoever names these; what else flags say about the policy counts."""
    document = PolicyDocument(active="static-pools", options={"static-pools": PoolsOptions(pools=POOLS)})
    found = combined(document, pools_file="/x", pools_dir="/y", pools_label_node=True)
    assert found.options == PoolsOptions(pools=POOLS, label_node=True)
    assert found.notes == (
        "flag --pools_dir: has no effect, document has pools itself",
        "flag --pools_file: has no effect, document has pools itself",
    )


def test_places_of_pools_that_are_overridden_are_said() -> None:
    """Those of the document, not those of another flag."""
    document = PolicyDocument(active="static-pools", options={"static-pools": PoolsOptions(conf_file="/f")})
    found = combined(document, pools_file="/x", pools_dir="/y")
    assert found.notes == (
        "document: policy.static-pools.ConfFilePath: has no effect, flag --pools_dir counts before it",
    )


def test_every_problem_is_known_at_once() -> None:
    """With where it was said, and the value."""
    with pytest.raises(ConfigError) as caught:
        combined(available="gpu=1", reserved="cpu=x:1")
    assert len(caught.value.problems) == 2
    assert caught.value.problems[0].startswith("flag --available: ")
    assert "'gpu=1'" in caught.value.problems[0]
    assert caught.value.problems[1].startswith("flag --reserved: ")


def test_an_amount_does_not_say_which_cpus_are_available() -> None:
    """An amount as available CPUs is refused by its name."""
    with pytest.raises(ConfigError, match=r"available CPUs: 2000m is an amount, it must say which CPUs"):
        combined(PolicyDocument(available=CpuAmount(milli=2000)))


def test_flags_of_topology_aware_beat_a_document() -> None:
    """Each by itself; what no flag says is as in the document."""
    document = PolicyDocument(
        active="topology-aware",
        options={"topology-aware": TopologyAwareOptions(pin_cpu=False, colocate_pods=True)},
    )
    found = combined(
        document,
        topology_pin_cpu=True,
        topology_pin_memory=False,
        topology_prefer_isolated=False,
        topology_prefer_shared=True,
    )
    assert found.options == TopologyAwareOptions(
        pin_memory=False, prefer_isolated=False, prefer_shared=True, colocate_pods=True
    )
    assert found.notes == (
        "document: policy.topology-aware.PinCPU: has no effect, flag --topology_pin_cpu counts before it",
    )
