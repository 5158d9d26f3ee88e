"""The check of the tree finds what people would stumble over."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Tool = Callable[[str], Any]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A package with one folder."""
    (tmp_path / "src/interpose/net").mkdir(parents=True)
    return tmp_path


def test_a_folder_has_twenty_modules_at_most(tool: Tool, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The package's own file and generated classes do not count."""
    check, folder = tool("check_tree"), root / "src/interpose/net"
    for name in ("__init__", "cri_pb2", *(f"m{number}" for number in range(20))):
        (folder / f"{name}.py").write_text("")
    assert check.main([], root) == 0
    (folder / "m20.py").write_text("")
    assert check.main([], root) == 1
    assert "src/interpose/net has 21 modules" in capsys.readouterr().out


def test_a_module_has_six_hundred_lines_at_most(tool: Tool, root: Path) -> None:
    """Named with its length."""
    module = root / "src/interpose/net/long.py"
    module.write_text("\n" * 600)
    assert tool("check_tree").long_modules(root) == []
    module.write_text("\n" * 601)
    assert tool("check_tree").long_modules(root) == [
        "src/interpose/net/long.py has 601 lines, more than 600 are more than one thought"
    ]


def test_public_classes_have_names_of_their_own(tool: Tool, root: Path) -> None:
    """Private ones may repeat."""
    for name in ("a", "b"):
        (root / f"src/interpose/net/{name}.py").write_text(f"class Link: ...\nclass _Row: ...\nclass Of{name}: ...\n")
    (found,) = tool("check_tree").shared_names(root)
    assert found == "class Link is in src/interpose/net/a.py, src/interpose/net/b.py"


def test_a_docstring_says_something(tool: Tool, root: Path) -> None:
    """Four words at least, of a class as of a function; none at all is fine."""
    text = """
class A:
    "Decides."

    def run(self) -> None: ...

    def stop(self) -> None:
        "End the task, once."
"""
    (root / "src/interpose/net/a.py").write_text(text)
    assert tool("check_tree").short_docstrings(root) == [
        "src/interpose/net/a.py:2 A has the docstring 'Decides.': a noun and a contract, or none"
    ]
