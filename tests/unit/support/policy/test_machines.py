"""The machines that tests stand on are what they say they are."""

import json
from pathlib import Path

import pytest

from tests.support.policy.machines import NAMED, machine, oracle_topology, read_tar, tar_files

ORACLE = Path(__file__).resolve().parents[3] / "data/cpumanager-oracle.json"
TABLES = json.loads(ORACLE.read_text())["topologies"]
# Its own table contradicts itself: fewer CPUs than it counts, or as many cores as it has CPUs but half the core ids.
ODD = {"topoSingleSocketSingleNumaPerSocketNoSMTSmallUncore", "topoDualSocketMultiNumaPerSocketUncore"}


@pytest.mark.parametrize(
    ("name", "cpus", "cores", "packages", "nodes"),
    [("laptop", 2, 2, 1, 1), ("n4c16", 16, 8, 2, 4), ("big", 256, 128, 4, 8), ("1p1d1n3c", 3, 3, 1, 1)],
)
def test_machines_by_name_or_words(name: str, cpus: int, cores: int, packages: int, nodes: int) -> None:
    """And they go by it."""
    found = machine(name)
    assert (len(found.cpus), len(found.cores), len(found.packages), len(found.numa)) == (cpus, cores, packages, nodes)
    assert found.name == name


def test_the_large_machine_is_numbered_as_servers_are() -> None:
    """One thread of every core first."""
    assert str(machine("big").core_of(0)) == "0,128"


@pytest.mark.parametrize("name", NAMED)
def test_every_named_machine_can_be_made(name: str) -> None:
    """All their words are right."""
    assert machine(name).cpus


def test_a_copy_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """Copies are in the repository, not in the package."""
    with pytest.raises(FileNotFoundError, match=r"server\.tar\.xz"):
        machine("server", tmp_path)
    with pytest.raises(FileNotFoundError):
        tar_files(tmp_path / "no.tar.xz")


def test_a_copy_is_read_once() -> None:
    """It takes long."""
    assert machine("desktop") is machine("desktop")
    assert machine("desktop").by_id[0].max_khz > 0
    assert read_tar.cache_info().hits > 0


@pytest.mark.parametrize("name", sorted(TABLES.keys() - ODD))
def test_tables_of_the_kubelet_are_taken_as_they_are(name: str) -> None:
    """As many of everything as the table says."""
    table = TABLES[name]
    found = oracle_topology(table["cpus"], name)
    counts = (table["NumCPUs"], table["NumCores"], table["NumSockets"])
    assert (len(found.cpus), len(found.cores), len(found.packages)) == counts
    assert len(found.numa) == table["NumNUMANodes"] or not table["NumNUMANodes"]
    assert len(found.l3_groups) == max(table["NumUncoreCache"], 1)
    for groups in (found.cores, found.l3_groups):
        assert all(min(cpus) == first for first, cpus in groups.items())


def test_a_table_with_fewer_core_ids_than_cores_is_kept() -> None:
    """The expected results were made with it."""
    found = oracle_topology(TABLES["topoDualSocketMultiNumaPerSocketUncore"]["cpus"])
    assert (len(found.cpus), len(found.cores)) == (192, 96)
