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
    def finished(self, status):
        pass
shim = ShimServer("/nowhere")
"""


def _run(code: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", _SHIM + code], capture_output=True, text=True, timeout=WAIT_LIMIT, check=False
    )
    return done.returncode, done.stderr


def test_strays_are_remembered_for_those_who_may_claim_them() -> None:
    """And no longer, however many starts follow each other without a pause: the number may be another's then."""
    code = """
Launch(10, 1)
shim._child(100, 256)
Launch(11, 2)
shim._child(101, 0)
shim._child(10, 0)
assert set(shim._strays) == {101}
Launch(12, 3)
shim._child(11, 0)
assert set(shim._strays) == set()
shim._child(102, 9)
ended = []
shim._adopt(102, ended.append)
assert ended == [9]
shim._adopt(103, ended.append)
shim._child(103, 1)
assert ended == [9, 1]
shim._child(12, 0)
shim._child(104, 0)
assert shim._strays == {} and not shim._launches
"""
    assert _run(code) == (0, "")
