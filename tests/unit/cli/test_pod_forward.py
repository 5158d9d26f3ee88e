"""`interpose pod port-forward`: ports as they are written."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from interpose.testing.podcommands import PodCommands, pod_commands


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[PodCommands]:
    with pod_commands(tmp_path) as made:
        made.up()
        yield made


@pytest.mark.parametrize("port", ["x", "1:x", "0", "70000", "1:2:3", "80:"])
def test_what_is_no_port_is_refused(commands: PodCommands, port: str) -> None:
    """With the forms there are."""
    result = commands("port-forward", "web", port)
    assert result.exit_code == 2
    assert "none of PORT, LOCAL:PORT and :PORT" in result.stderr


def test_a_pod_that_does_not_run_has_no_ports(commands: PodCommands) -> None:
    """Its network is gone."""
    commands("stop", "web")
    assert "does not run" in commands("port-forward", "web", ":80").stderr
