"""Machines by folder, file or words."""

import json
from pathlib import Path

import pytest

from interpose.cli.policy.topology import load_topology
from interpose.core.topology.document import topology_document
from interpose.errors import ConfigError
from tests.support.policy.machines import machine


def refused(source: str) -> str:
    """Why."""
    with pytest.raises(ConfigError) as caught:
        load_topology(source)
    return str(caught.value)


@pytest.mark.parametrize("suffix", [".json", ".yaml"])
def test_a_file(tmp_path: Path, suffix: str) -> None:
    """In either form of text."""
    path = tmp_path / f"machine{suffix}"
    path.write_text(json.dumps(topology_document(machine("n4c16"))))
    assert load_topology(str(path)) == machine("n4c16")


def test_a_large_machine_fits_into_a_file(tmp_path: Path) -> None:
    """The largest there is, nicely indented."""
    path = tmp_path / "machine.json"
    largest = machine("8p8n64c2t")
    path.write_text(json.dumps(topology_document(largest), indent=2))
    assert load_topology(str(path)) == largest


def test_a_folder(tmp_path: Path) -> None:
    """Named by it."""
    (tmp_path / "devices/system/cpu").mkdir(parents=True)
    (tmp_path / "devices/system/cpu/online").write_text("0-2\n")
    found = load_topology(str(tmp_path))
    assert (str(found.online), found.name) == ("0-2", str(tmp_path))


def test_words() -> None:
    """If there is nothing of that name."""
    assert len(load_topology("2 sockets x 4 cores").cpus) == 8


def test_what_is_nothing_at_all_says_what_was_tried(tmp_path: Path) -> None:
    """Folder, file, words."""
    source = f"{tmp_path}/no"
    assert refused(source).startswith(f"machine '{source}': there is no such folder and no such file, and as a desc")
    assert "'3 wheels' is not a part of a machine" in refused("2 cores x 3 wheels")


@pytest.mark.parametrize("source", ["x" * 5000, "a\0b", ""])
def test_what_cannot_be_a_name_is_refused_like_any_other(source: str) -> None:
    """In one short line."""
    said = refused(source)
    assert "there is no such folder" in said
    assert said.isprintable()
    assert len(said) < 1000


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    """Nobody meant words."""
    assert refused(str(tmp_path)) == f"machine {tmp_path}: cannot be read: there is no devices/system/cpu in it"


def test_a_folder_with_garbage_is_refused_with_the_file(tmp_path: Path) -> None:
    """And its text."""
    (tmp_path / "devices/system/cpu").mkdir(parents=True)
    (tmp_path / "devices/system/cpu/online").write_text("many\n")
    assert refused(str(tmp_path)).startswith(
        f"machine {tmp_path}: file devices/system/cpu/online: 'many' is not a list"
    )


def test_files_that_are_no_machines_are_refused(tmp_path: Path) -> None:
    """Missing, of another kind, or with another content."""
    other = tmp_path / "machine.txt"
    other.write_text("2 cores")
    empty = tmp_path / "machine.yaml"
    empty.write_text("kind: Pod\n")
    assert refused(f"{tmp_path}/no.json") == f"file {tmp_path}/no.json: cannot be read: No such file or directory"
    assert refused(str(other)) == f"file {other}: the name must end in .yaml, .yml or .json"
    assert "kind: expected Topology, found 'Pod'" in refused(str(empty))
