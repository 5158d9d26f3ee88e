"""The parts of a runtime that are not tested as a whole. The rest: tests/integration/test_local_runtime.py."""

import errno
from pathlib import Path

import pytest

from interpose.node.runtime.service.wiring import make_folders


def test_the_folder_of_a_log_with_all_that_lead_to_it(tmp_path: Path) -> None:
    """Twice is fine."""
    for _ in range(2):
        make_folders(str(tmp_path / "a/b"))
    assert (tmp_path / "a/b").is_dir()


def test_a_folder_that_is_too_deep(tmp_path: Path) -> None:
    """An error of the system, as for a name that is too long."""
    with pytest.raises(OSError, match="name too long") as caught:
        make_folders(f"{tmp_path}/missing" + "/a" * 1500)
    assert caught.value.errno == errno.ENAMETOOLONG
    assert not (tmp_path / "missing").exists()
