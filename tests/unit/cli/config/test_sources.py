"""Files, directories and standard input are read once, and what cannot be read is an error among the others."""

import io
import sys
from pathlib import Path

import pytest

from interpose.cli.config.sources import MAX_BYTES, DocumentSource, is_key, read_source, read_sources
from interpose.errors import ConfigError


def names(path: Path) -> list[str]:
    """What is found at a path, errors in words."""
    found = read_sources(str(path))
    return [one.name if isinstance(one, DocumentSource) else str(one) for one in found]


def test_a_directory_stands_for_its_files(tmp_path: Path) -> None:
    """Those whose names could be ours, also of directories in it; what is hidden is left alone."""
    for name in ("b.yaml", "a.cfg", "readme.md", ".hidden.yaml", "sub/c.json", ".git/d.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert names(tmp_path) == [f"{tmp_path}/{name}" for name in ("a.cfg", "b.yaml", "sub/c.json")]


def test_files_of_a_directory_are_known_to_be_found() -> None:
    """Nobody named them."""
    (first, *_) = read_sources(str(Path(__file__).parents[4] / "samples/hookserver.d"))
    assert isinstance(first, DocumentSource)
    assert first.is_found


def test_files_named_as_keys_are_one_source(tmp_path: Path) -> None:
    """As kubectl takes them from a directory."""
    (tmp_path / "policy").write_text("Active: static")
    (tmp_path / "policy.static.node-1").write_text("PinMemory: true")
    (found,) = read_sources(str(tmp_path))
    assert isinstance(found, DocumentSource)
    assert found.keys == {"policy": "Active: static", "policy.static.node-1": "PinMemory: true"}
    (tmp_path / "policy.stp").write_bytes(b"\xff")
    assert names(tmp_path) == [f"file {tmp_path}/policy.stp: is not UTF-8 text (byte 0)"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("policy", True),
        ("policy.static", True),
        ("policy.STP.node.example.com", True),
        ("policy.yaml", False),
        ("policy.cfg", False),
        ("policy.other", False),
        ("policies", False),
    ],
)
def test_names_of_keys_are_known(name: str, expected: bool) -> None:
    """A policy document may be called policy.yaml."""
    assert is_key(name) is expected


def test_a_single_file_may_be_a_key(tmp_path: Path) -> None:
    """Then its name counts."""
    path = tmp_path / "policy.static"
    path.write_text("PinMemory: true")
    found = read_source(str(path))
    assert isinstance(found, DocumentSource)
    assert found.keys == {"policy.static": "PinMemory: true"}


def test_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    """It names the file and the reason."""
    assert names(tmp_path / "a") == [f"file {tmp_path}/a: cannot be read: No such file or directory"]
    assert isinstance(read_source(str(tmp_path)), ConfigError)


def test_standard_input_has_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """So its name says nothing about what it is."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a: 1")))
    (found,) = read_sources("-")
    assert isinstance(found, DocumentSource)
    assert (found.where, found.document().tag, found.json_only) == ("file <stdin>", "map", False)


def test_a_document_of_a_file_has_a_suffix() -> None:
    """As the programs insist on."""
    with pytest.raises(ConfigError, match=r"must end in \.yaml"):
        DocumentSource(name="relay.conf", data=b"a: 1").document()
    assert DocumentSource(name="relay.json", data=b'{"a": 1}').document().tag == "map"


def test_no_more_is_read_than_a_program_reads() -> None:
    """Each has a limit of its own."""
    source = DocumentSource(name="big.yaml", data=b"x" * 11)
    assert source.text() == "x" * 11
    with pytest.raises(ConfigError, match="is larger than 10 bytes"):
        source.text(10)
    assert MAX_BYTES > 1 << 20


def test_what_cannot_be_looked_at_hides_nothing_else(tmp_path: Path) -> None:
    """One entry is an error, the others are read; a link to nothing is no file."""
    (tmp_path / "b.yaml").write_text("x")
    (tmp_path / "a.yaml").symlink_to("a" * 300)  # nobody can follow it, whatever the permissions are
    (tmp_path / "c.yaml").symlink_to("nowhere")
    (tmp_path / "d.yaml").symlink_to("d.yaml")
    assert names(tmp_path) == [f"file {tmp_path}/a.yaml: cannot be read: File name too long", f"{tmp_path}/b.yaml"]
