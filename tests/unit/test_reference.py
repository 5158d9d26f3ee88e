"""The committed reference pages are what the tables in the code say today."""

import subprocess
import sys
from pathlib import Path

import pytest

from interpose.cli.dump.command import SUBCOMMANDS as DUMP_COMMANDS
from interpose.cli.image.command import image
from interpose.cli.pod.command import SUBCOMMANDS as POD_COMMANDS
from interpose.cri.methods import METHODS
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.dispatch.fields import CONTAINER_FIELDS, POD_FIELDS

ROOT = Path(__file__).parents[2]


def run(tool: Path, *flags: str) -> "subprocess.CompletedProcess[str]":
    """Run the generator on the tree it stands in."""
    return subprocess.run([sys.executable, tool, *flags], capture_output=True, text=True, check=False)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with the generator and no pages yet."""
    (tmp_path / "tools").mkdir()
    for tool in (ROOT / "tools").glob("*.py"):
        (tmp_path / "tools" / tool.name).write_text(tool.read_text())
    return tmp_path


def test_committed_pages_are_up_to_date() -> None:
    """gen_reference --check finds nothing to do."""
    result = run(ROOT / "tools/gen_reference.py", "--check")
    assert result.returncode == 0, result.stderr


def test_check_names_a_stale_page(tree: Path) -> None:
    """A page that was edited by hand is named with the difference, and stays as it is."""
    page = tree / "docs/reference/cri-methods.md"
    page.parent.mkdir(parents=True)
    edited = (ROOT / "docs/reference/cri-methods.md").read_text().replace("| `Status` |", "| `Stratus` |")
    page.write_text(edited)

    result = run(tree / "tools/gen_reference.py", "--check")

    assert result.returncode == 1
    assert "docs/reference/cri-methods.md" in result.stderr
    assert "Stratus" in result.stderr
    assert page.read_text() == edited


def test_a_missing_page_is_written(tree: Path) -> None:
    """Without --check the generator writes what is missing, says so, and has nothing to do the second time."""
    first = run(tree / "tools/gen_reference.py")
    second = run(tree / "tools/gen_reference.py")

    name = "docs/reference/cri-methods.md"
    assert (first.returncode, second.returncode) == (0, 0)
    assert f"wrote {name}\n" in first.stdout
    assert second.stdout == ""
    assert (tree / name).read_text() == (ROOT / name).read_text()


def test_every_method_has_its_line() -> None:
    """The page about methods lists each method once."""
    page = (ROOT / "docs/reference/cri-methods.md").read_text()
    assert [name for name in METHODS if page.count(f"| `{name}` |") != 1] == []


def test_every_hook_point_and_field_has_its_line() -> None:
    """The page about hook points lists each hook point and each field of an answer once."""
    page = (ROOT / "docs/reference/hook-points.md").read_text()
    names = [*(point.value for point in HookPoint), *POD_FIELDS, *CONTAINER_FIELDS]
    assert [name for name in names if page.count(f"\n| `{name}` |") != 1] == []


def test_every_command_of_a_group_has_its_help() -> None:
    """Also those that are loaded only when they are called."""
    page = (ROOT / "docs/reference/flags.md").read_text()
    assert [name for name in DUMP_COMMANDS if page.count(f"\n## `interpose dump {name}`\n") != 1] == []


def test_every_command_about_pods_and_images_has_its_help() -> None:
    """The flags of `pod`, `image` and `runtime` stand on no other page."""
    page = (ROOT / "docs/reference/flags.md").read_text()
    names = ["runtime", *(f"pod {name}" for name in POD_COMMANDS), *(f"image {name}" for name in image.commands)]
    assert [name for name in names if page.count(f"\n## `interpose {name}`\n") != 1] == []


def test_metrics_of_the_runtime_are_listed() -> None:
    """Those of its own, with their labels."""
    page = (ROOT / "docs/reference/metrics.md").read_text()
    assert "| `interpose_runtime_operations_errors_total` | counter | `code` `method` |" in page
    assert "| `interpose_runtime_containers` | gauge | `state` |" in page


def test_metrics_of_dumps_are_listed() -> None:
    """They are there although no relay dumps while the page is made."""
    page = (ROOT / "docs/reference/metrics.md").read_text()
    assert "| `interpose_dump_frames_dropped_total` | counter | `reader` |" in page
