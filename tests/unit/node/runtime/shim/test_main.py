"""The beginning and the end of a shim. With real sandboxes: tests/integration/test_shim*.py."""

import subprocess
import sys
from pathlib import Path

import pytest

from interpose.testing.eventually import WAIT_LIMIT

_CODE = """
import sys
from interpose.node.runtime.shim import main
def broken(_options):
    raise {error}
main.start_pause = broken
main._run(sys.argv[1], {{}})
"""


@pytest.mark.parametrize(
    ("error", "told"),
    [("KeyError('x')", ""), ("MemoryError()", ""), ("ValueError('no good')", '{"error": "no good"}\n')],
)
def test_no_shim_ends_without_a_word(tmp_path: Path, error: str, told: str) -> None:
    """What ended it is in its log, whatever it was; what is expected is told to whoever started it, too."""
    command = [sys.executable, "-c", _CODE.format(error=error), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_LIMIT, check=False)
    assert (done.returncode, done.stdout) == (1, told)
    assert f"the shim ends: {error.partition('(')[0]}: " in done.stderr


def test_nothing_of_the_pod_outlives_its_shim() -> None:
    """Neither who left its session and its parents, nor who has just been started by such a one."""
    code = """
import os, subprocess, time
from interpose.node.runtime.shim import main, syscalls
syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
read, write = os.pipe2(0)
script = "(env -i setsid sh -c 'trap \\"\\" TERM HUP; sleep 1000; sleep 1000' &) ; sleep 1000 & echo ready"
subprocess.run(["sh", "-c", script], stdout=write, pass_fds=[write], check=True)
os.close(write)
main.end_children()
rest = b""
while data := os.read(read, 100):  # it ends when nobody has the other end any more
    rest += data
assert rest == b"ready\\n"
main.end_children()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=WAIT_LIMIT, check=False)
    assert (done.returncode, done.stderr) == (0, "")
