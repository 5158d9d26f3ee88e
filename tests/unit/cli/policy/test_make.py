"""A policy of flags and a document."""

from pathlib import Path

import pytest

from interpose.cli.policy.make import make_policy
from interpose.errors import ConfigError
from tests.support.policy.machines import machine

MACHINE = machine("n4c16")


def test_a_policy_is_made_of_flags() -> None:
    """An alias is as good as its name."""
    chosen = make_policy(MACHINE, "static", reserved="cpu=cpuset:0-1", available="cpu=0-7")
    assert {name: str(cpus) for name, cpus in chosen.pools().items()}["shared"] == "0-7"
    assert make_policy(MACHINE, "null").name == "none"


def test_a_document_counts_where_no_flag_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What it says in vain is a warning."""
    document = tmp_path / "policy.yaml"
    document.write_text("policy: {Active: static, ReservedResources: {CPU: 2}}\nlogger: {}\n")
    assert make_policy(MACHINE, None, policy_config=str(document)).name == "static"
    assert "logger" in capsys.readouterr().err
    assert make_policy(MACHINE, "none", policy_config=str(document)).name == "none"
    assert "flag --policy counts before it" in capsys.readouterr().err


def test_pools_are_read_from_their_file(tmp_path: Path) -> None:
    """One that is not there is named."""
    pools = tmp_path / "pools.yaml"
    pools.write_text("pools: {shared: {exclusive: false, cpuLists: [{Cpuset: '4-7', Socket: 0}]}}\n")
    chosen = make_policy(MACHINE, "static-pools", pools_file=str(pools))
    assert str(chosen.pools()["shared"]) == "4-7"
    with pytest.raises(ConfigError, match=r"none\.yaml"):
        make_policy(MACHINE, "static-pools", pools_file=str(tmp_path / "none.yaml"))


def test_what_cannot_be_is_an_error() -> None:
    """With the flag it came by."""
    with pytest.raises(ConfigError, match="flag --reserved-resources"):
        make_policy(MACHINE, "static", reserved="cpu=x")


def test_cpus_are_excluded_of_what_the_machine_has(tmp_path: Path) -> None:
    """Available: what is online without the list. Reserved: what is available without the list."""
    document = tmp_path / "policy.yaml"
    document.write_text(
        "policy: {Active: static, AvailableResources: {CPU: 'exclude-cpuset:8-15'},"
        " ReservedResources: {CPU: 'exclude-cpuset:1-7'}}\n"
    )
    assert str(make_policy(MACHINE, None, policy_config=str(document)).pools()["reserved"]) == "0"
    with pytest.raises(ConfigError, match="leaves none of the available CPUs 8-9"):
        make_policy(MACHINE, "static", available="cpu=8-9", reserved="cpu=exclude-cpuset:8-9")
