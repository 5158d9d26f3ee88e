"""The folder with configurations."""

import logging
from pathlib import Path

import pytest

from interpose.node.runtime.network.conf_dir import CniConfDir


def _write(folder: Path, name: str, network: str) -> None:
    (folder / name).write_text(f'{{"name": "{network}", "type": "ptp"}}')


def _name(folder: CniConfDir) -> str | None:
    network, _ = folder.current()
    return None if network is None else network.name


def test_no_folder_is_no_network(tmp_path: Path) -> None:
    """It may come later."""
    folder = CniConfDir(str(tmp_path / "later"))
    assert folder.current() == (None, ())
    (tmp_path / "later").mkdir()
    _write(tmp_path / "later", "a.conf", "one")
    assert _name(folder) == "one"


def test_the_first_file_counts(tmp_path: Path) -> None:
    """Also when it comes after the second, and goes."""
    folder = CniConfDir(str(tmp_path))
    _write(tmp_path, "20.conf", "twenty")
    assert _name(folder) == "twenty"
    _write(tmp_path, "10.conf", "ten")
    assert _name(folder) == "ten"
    (tmp_path / "10.conf").unlink()
    assert _name(folder) == "twenty"


def test_a_bad_file_is_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is told once, not at every look; so is a link to nothing."""
    folder = CniConfDir(str(tmp_path))
    (tmp_path / "05.conf").symlink_to("nowhere")
    (tmp_path / "10.conf").write_text("{")
    _write(tmp_path, "20.conf", "twenty")
    with caplog.at_level(logging.WARNING):
        assert _name(folder) == "twenty"
        assert "10.conf: no JSON" in folder.current()[1][0]
    assert len(caplog.records) == 1


def test_a_file_that_went_bad_stays_in_force(tmp_path: Path) -> None:
    """With its last good content, until it is good again or gone."""
    folder = CniConfDir(str(tmp_path))
    _write(tmp_path, "10.conf", "ten")
    _write(tmp_path, "20.conf", "twenty")
    assert _name(folder) == "ten"
    (tmp_path / "10.conf").write_text("{")
    assert _name(folder) == "ten"
    assert folder.current()[1]
    (tmp_path / "10.conf").unlink()
    assert _name(folder) == "twenty"
    (tmp_path / "10.conf").write_text("{")
    assert _name(folder) == "twenty"


def test_nothing_but_bad_files(tmp_path: Path) -> None:
    """No network, and a reason."""
    (tmp_path / "10.conf").write_text("[]")
    network, problems = CniConfDir(str(tmp_path)).current()
    assert network is None
    assert len(problems) == 1
