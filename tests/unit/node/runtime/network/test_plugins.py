"""Finding plugins. Running them: test_pods.py."""

from pathlib import Path

import pytest

from interpose.node.runtime.network.plugins import CniPlugins
from interpose.node.runtime.network.types import NetworkError


def test_the_first_folder_that_has_it(tmp_path: Path) -> None:
    """A file that can be run; a folder of that name is none."""
    for folder in ("a", "b", "c"):
        (tmp_path / folder).mkdir()
    (tmp_path / "a/ptp").mkdir()
    for folder in ("b", "c"):
        (tmp_path / folder / "ptp").touch()
    (tmp_path / "c/ptp").chmod(0o755)
    plugins = CniPlugins([str(tmp_path / folder) for folder in ("a", "b", "c")])
    assert plugins.find("ptp") == str(tmp_path / "c/ptp")
    with pytest.raises(NetworkError, match="'bridge' is not in"):
        plugins.find("bridge")
