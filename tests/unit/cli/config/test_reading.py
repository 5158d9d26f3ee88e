"""What was read is known key by key, and files that would not be believed are doubted."""

import os
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pytest

from interpose.cli.config.reading import flatten, trust_warnings
from interpose.cli.config.sources import DocumentSource


class Colour(Enum):
    """Of nothing."""

    RED = "red"


@dataclass(frozen=True)
class Part:
    """A value with values."""

    on: bool
    colours: tuple[Colour, ...]
    names: frozenset[str]
    nothing: None = None


def test_values_have_their_places() -> None:
    """Groups and dataclasses are gone into, absent values are left out."""
    value = {"b": Part(True, (Colour.RED,), frozenset(("y", "x"))), "a": 1}
    assert [(row.key, row.value, row.origin) for row in flatten(value, "", "here")] == [
        ("a", "1", "here"),
        ("b.on", "true", "here"),
        ("b.colours", "red", "here"),
        ("b.names", "x, y", "here"),
    ]


def test_files_that_anybody_can_write_are_doubted(tmp_path: Path) -> None:
    """As a relay refuses them; what has no file has no owner."""
    path = tmp_path / "policy.yaml"
    path.write_text("x")
    path.chmod(0o666)
    (doubt,) = trust_warnings(DocumentSource(name=str(path)), "the relay")
    assert doubt == f"file {path}: has mode 0666, everybody may write to it (chmod o-w), the relay refuses it"
    assert trust_warnings(DocumentSource(name="<stdin>", is_file=False), "the relay") == ()
    assert trust_warnings(DocumentSource(name=str(tmp_path / "gone")), "the relay") == ()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_files_of_others_are_doubted(tmp_path: Path) -> None:
    """Whoever owns it can write it."""
    path = tmp_path / "policy.yaml"
    path.write_text("x")
    os.chown(path, 12345, 0)
    assert "belongs to uid 12345" in trust_warnings(DocumentSource(name=str(path)), "the relay")[0]
