"""Memory that is given back; in a process of its own, which it is for good."""

import subprocess
import sys

from interpose.testing.eventually import WAIT_LIMIT

# The first block makes glibc keep the second one when it is freed.
KEEPS = """
import sys
from interpose.host.malloc import give_back_blocks
if sys.argv[1] == "told":
    assert give_back_blocks(1 << 20)

def size():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

def block():
    made = bytearray(24 << 20)
    made[::4096] = b"x" * len(made[::4096])
    return made

block()
before = size()
large = block()
small = [bytearray(100_000) for _ in range(20)]
del large
print((size() - before) >> 20)
"""


def grown(how: str) -> int:
    """Megabytes that are still there after the large blocks are freed."""
    done = subprocess.run(
        [sys.executable, "-c", KEEPS, how], capture_output=True, text=True, check=True, timeout=WAIT_LIMIT
    )
    return int(done.stdout)


def test_large_blocks_are_given_back() -> None:
    """Whatever small ones came after them."""
    assert grown("told") < 4 < grown("untold")
