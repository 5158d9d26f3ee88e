"""Atomic replacement of small files in the shim and the plain executor."""

import subprocess
import sys
from pathlib import Path

import pytest

from interpose.node.runtime.shim.atomic_file import replace_file
from interpose.testing.eventually import WAIT_LIMIT


@pytest.mark.parametrize("sync", [False, True])
def test_a_file_is_replaced_in_one_step(tmp_path: Path, sync: bool) -> None:
    """The new content takes the place of the old one, and no other file is left."""
    path = tmp_path / "exit.json"
    path.write_text("old")
    replace_file(str(path), '{"code": 3}', sync=sync)
    assert path.read_text() == '{"code": 3}'
    assert [entry.name for entry in tmp_path.iterdir()] == ["exit.json"]


def test_a_part_of_a_file_never_replaces_it(tmp_path: Path) -> None:
    """A disk that becomes full takes the first bytes of a write: the old file stays, and there is an error."""
    path = tmp_path / "exit.json"
    path.write_text("old")
    code = """
import resource, signal, sys
from interpose.node.runtime.shim.atomic_file import replace_file
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4, 4))
replace_file(sys.argv[1], "longer than that")
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=WAIT_LIMIT, check=False
    )
    assert "File too large" in done.stderr
    assert path.read_text() == "old"
