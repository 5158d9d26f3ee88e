"""The text check finds paths of one machine and package registries, and leaves harmless lines alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# In pieces, or the check would find them here.
HOME = "/ro" + "ot/x"
CHECKOUT = "/srv/" + "builds/project"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (f"open('{HOME}/file')", "names a path of one machine"),
        (f"see {CHECKOUT}/notes", "names a path of one machine"),
        ("index https://py" + "pi.org/" + "simple", "names a package registry"),
    ],
)
def test_what_should_not_be_there_is_found(tool: Callable[[str], Any], line: str, reason: str) -> None:
    """Each kind is reported with its line."""
    found = list(tool("check_text").complaints(f"fine\n{line}\n", CHECKOUT))

    assert found == [(2, reason)]


@pytest.mark.parametrize(
    "line", ["/var/run/interpose/cri.sock", "root = $D/root/x", "a/home/b/c", "/opt/interpose/bin"]
)
def test_harmless_lines_pass(tool: Callable[[str], Any], line: str) -> None:
    """System paths and relative ones are no machine's own."""
    assert list(tool("check_text").complaints(line, CHECKOUT)) == []


def test_caches_are_skipped(tool: Callable[[str], Any], tmp_path: Path) -> None:
    """Only files of the project count, hidden ones included."""
    for name in (".venv/a", "src/__pycache__/b", ".ci/run", "README.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")

    names = [path.relative_to(tmp_path).as_posix() for path in tool("check_text").files(tmp_path)]
    assert names == [".ci/run", "README.md"]
