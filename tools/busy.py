"""Run a command while other processes keep all CPUs busy, several times if wanted: a test that needs a quiet machine
fails then. `make test-busy` is this with all tests.

The busy processes hold one end of a pipe and end with whoever holds the other, however that one ends. A command that
takes too long is interrupted, as with Ctrl-C, and killed if that does not help.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final, NoReturn

_TURNS: Final = 100_000  # of a loop between two looks at the pipe, some milliseconds
_FAREWELL: Final = 120.0  # seconds for whatever the command has started to be stopped in order


def main(arguments: Sequence[str]) -> int:
    """The exit code of the first round that fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=8, help="how many are busy (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=1, help="how often the command has to succeed")
    parser.add_argument("--minutes", type=float, default=180.0, help="how long one round may take")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(arguments)
    with busy(options.processes):
        for number in range(1, options.rounds + 1):
            began = time.monotonic()
            code = run(options.command, options.minutes * 60)
            how = "passed" if code == 0 else f"FAILED with {code}"
            took = time.monotonic() - began
            print(
                f"== round {number} of {options.rounds} beside {options.processes} busy processes {how} "
                f"after {took:.0f} s",
                flush=True,
            )
            if code != 0:
                return code
    return 0


@contextlib.contextmanager
def busy(processes: int) -> Iterator[list[int]]:
    """So many processes that compute, by pid, inside of the block."""
    alive, ours = os.pipe()
    pids = []
    for _ in range(processes):
        pid = os.fork()
        if pid == 0:
            os.close(ours)
            _compute(alive)
        pids.append(pid)
    os.close(alive)
    try:
        yield pids
    finally:
        os.close(ours)
        for pid in pids:
            os.waitpid(pid, 0)


def _compute(alive: int) -> NoReturn:
    """Until the other end of the pipe is closed."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    os.set_blocking(alive, False)
    while True:
        for _ in range(_TURNS):
            pass
        with contextlib.suppress(BlockingIOError):
            if not os.read(alive, 1):
                os._exit(0)


def run(command: Sequence[str], seconds: float) -> int:
    """Its exit code; what is left of it after that time, or when we are told to end, is stopped."""
    told: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    process = subprocess.Popen(command, start_new_session=True)
    try:
        # From here on there is somebody to be stopped.
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
        return process.wait(0 if told else seconds)
    except subprocess.TimeoutExpired:
        print(f"== still running after {seconds:g} s", flush=True)
        return 1
    finally:
        for number, patience in ((signal.SIGINT, _FAREWELL), (signal.SIGTERM, 10.0), (signal.SIGKILL, 10.0)):
            if process.poll() is None:
                os.killpg(process.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(patience)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # whoever stayed behind
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
