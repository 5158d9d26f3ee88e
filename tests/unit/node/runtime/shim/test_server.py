"""What a shim remembers, in a process of its own: it takes over the signals of the process it is in."""

import subprocess
import sys

from interpose.testing.eventually import WAIT_LIMIT

_SHIM = """
from interpose.node.runtime.shim.server import ShimServer
class Launch:
    def __init__(self, pid, number):
        self.pid, self.number = pid, number
        shim._count = number
        shim._launches[pid] = self
    def on_exit(self, status):
        pass
shim = ShimServer("/nowhere")
"""


def _run(code: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", _SHIM + code], capture_output=True, text=True, timeout=WAIT_LIMIT, check=False
    )
    return done.returncode, done.stderr


def test_unclaimed_exits_are_kept_for_starts_that_may_claim_them() -> None:
    """And no longer, however many starts follow each other without a pause: the number may be another's then."""
    code = """
Launch(10, 1)
shim._on_child_exit(100, 256)
Launch(11, 2)
shim._on_child_exit(101, 0)
shim._on_child_exit(10, 0)
assert set(shim._unclaimed) == {101}
Launch(12, 3)
shim._on_child_exit(11, 0)
assert set(shim._unclaimed) == set()
shim._on_child_exit(102, 9)
ended = []
shim._register(102, ended.append)
assert ended == [9]
shim._register(103, ended.append)
shim._on_child_exit(103, 1)
assert ended == [9, 1]
shim._on_child_exit(12, 0)
shim._on_child_exit(104, 0)
assert shim._unclaimed == {} and not shim._launches
"""
    assert _run(code) == (0, "")
