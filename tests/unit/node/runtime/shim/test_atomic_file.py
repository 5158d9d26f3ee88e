"""Atomic replacement of small files in the shim and the plain executor."""

from pathlib import Path

import pytest

from interpose.node.runtime.shim.atomic_file import replace_file


@pytest.mark.parametrize("sync", [False, True])
def test_a_file_is_replaced_in_one_step(tmp_path: Path, sync: bool) -> None:
    """The new content takes the place of the old one, and no other file is left."""
    path = tmp_path / "exit.json"
    path.write_text("old")
    replace_file(str(path), '{"code": 3}', sync=sync)
    assert path.read_text() == '{"code": 3}'
    assert [entry.name for entry in tmp_path.iterdir()] == ["exit.json"]
