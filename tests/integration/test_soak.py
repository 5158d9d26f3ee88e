"""A soak of seconds: the tool itself works, and no call fails in a mix of everything."""

import subprocess
import sys
from pathlib import Path

from interpose.testing.eventually import WAIT_LIMIT

TOOL = Path(__file__).parents[2] / "tools/soak.py"


def test_a_short_soak_ends_well() -> None:
    """Thousands of mixed calls through a relay process: none fails, memory is sampled and judged."""
    done = subprocess.run(
        [sys.executable, TOOL, "--minutes", "0.05", "--every", "0.5"],
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_LIMIT,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "; 0 failed; " in done.stdout
    assert done.stdout.count(" MB\n") >= 3
