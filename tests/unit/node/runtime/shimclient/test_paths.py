"""Who the shim of a folder is."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from interpose.node.runtime.shimclient.paths import ShimPaths, boot_id, kill_shim, living_shim, start_time


def written(folder: Path, **values: object) -> ShimPaths:
    """A folder whose shim is this process, but for what is said otherwise."""
    paths = ShimPaths(folder=folder)
    said = {"pid": os.getpid(), "started": start_time(os.getpid()), "boot": boot_id(), **values}
    paths.process.write_text(json.dumps(said))
    return paths


def test_a_living_shim_is_found(tmp_path: Path) -> None:
    """By pid, start time and boot."""
    assert living_shim(written(tmp_path)) == os.getpid()


@pytest.mark.parametrize("values", [{"started": "1"}, {"boot": "another"}, {"pid": "x"}, {"pid": 4194304}])
def test_another_process_is_not_it(tmp_path: Path, values: dict[str, object]) -> None:
    """A pid is given again, most of all after a reboot."""
    assert living_shim(written(tmp_path, **values)) is None


def test_a_folder_without_a_shim(tmp_path: Path) -> None:
    """Nothing to kill either."""
    paths = ShimPaths(folder=tmp_path)

    assert living_shim(paths) is None
    assert kill_shim(paths) is False


def test_a_boot_that_cannot_be_told(tmp_path: Path) -> None:
    """Is no boot."""
    assert boot_id(tmp_path) == ""


def test_a_shim_can_be_killed(tmp_path: Path) -> None:
    """That very process; one that ended and was not waited for is not alive."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        paths = written(tmp_path, pid=child.pid, started=start_time(child.pid))

        assert kill_shim(paths) is True
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert living_shim(paths) is None
        assert child.wait() == -signal.SIGKILL
