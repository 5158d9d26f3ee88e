"""A soak of hooks: thousands of pods come and go, a hook server is asked about each step, and nothing is left."""

import re
import subprocess
import sys
from pathlib import Path

from interpose.testing.eventually import WAIT_LIMIT

TOOL = Path(__file__).parents[2] / "tools/soak.py"
PODS = 3000
# On a busy machine the soak ends with fewer pods rather than late.
MINUTES = 0.6
FEWEST = 300


def test_lives_of_pods_leave_nothing_behind() -> None:
    """No call fails, the relay's memory stays flat, and its store is empty when all pods are gone."""
    done = subprocess.run(
        [sys.executable, TOOL, "--part", "hooks", "--cycles", str(PODS), "--minutes", str(MINUTES), "--every", "0.25"],
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_LIMIT,
    )

    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    assert "; 0 failed; " in told
    assert "left in the store: pods 0, containers 0, pending 0, diverging_containers 0" in told
    lived = re.search(r"^(\d+) pods; ", done.stdout, re.MULTILINE)
    assert lived is not None, told
    assert int(lived[1]) >= FEWEST, told
