"""The loop of a shim, in a process of its own: it takes over the signals of the process it is in."""

import subprocess
import sys

from interpose.testing.eventually import WAIT_LIMIT

_LOOP = """
import os, time
from interpose.node.runtime.shim import event_loop as module
from interpose.node.runtime.shim.event_loop import READ, EventLoop, log_line
loop = EventLoop(lambda pid, status: None)
"""


def _run(code: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", _LOOP + code], capture_output=True, text=True, timeout=WAIT_LIMIT, check=False
    )
    return done.returncode, done.stderr


def test_a_timer_that_is_far_away() -> None:
    """Farther than the kernel can count: something else is waited for meanwhile."""
    code = """
loop.later(3_000_000, lambda: None)
loop.later(0.01, loop.end)
loop.run()
kept = loop._wait_time()
reader, writer = os.pipe()
again = EventLoop(lambda pid, status: None)
again.later(2**62, lambda: None)
again.watch(reader, READ, lambda events: again.end())
os.write(writer, b"x")
again.run()
assert kept == again._wait_time() == 3600.0
"""
    assert _run(code) == (0, "")


def test_mistakes_end_nothing() -> None:
    """Neither one of a callback nor one of the loop itself; each is a line in the log."""
    code = """
turns = iter([OverflowError("timeout is too large")])
usual = loop._wait_time
def patience():
    for error in turns:
        raise error
    return usual()
loop._wait_time = patience
loop.later(0, lambda: 1 / 0)
loop.later(0.01, loop.end)
loop.run()
log_line("done")
"""
    code_of_exit, said = _run(code)
    lines = said.splitlines()
    assert code_of_exit == 0
    assert [
        any(word in line for line in lines) for word in ("OverflowError: timeout is too large", "ZeroDivisionError")
    ]
    assert lines[-1].endswith("done")
    assert len(lines) == 3
