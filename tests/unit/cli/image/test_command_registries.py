"""The settings file of registries."""

from pathlib import Path

import pytest

from interpose.cli.image.command import read_registries_file
from interpose.errors import ConfigError


def test_a_file_is_read(tmp_path: Path) -> None:
    """YAML or JSON, by its name."""
    path = tmp_path / "r.yaml"
    path.write_text("registries:\n  x.io: {endpoints: ['http://1.2.3.4:5']}\n")
    assert str(read_registries_file(path).of("x.io")[0].server) == "http://1.2.3.4:5"


def test_errors_name_the_file(tmp_path: Path) -> None:
    """One that is wrong and one that is not there."""
    path = tmp_path / "r.yaml"
    path.write_text("x: 1")
    with pytest.raises(ConfigError, match=str(path)):
        read_registries_file(path)
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read"):
        read_registries_file(tmp_path / "none.yaml")
