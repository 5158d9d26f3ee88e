"""One attack beside one neighbour, each a process of its own: what became of both."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.hostile.attackrun import AttackOutcome
from tests.support.hostile.attacks import AttackRow
from tests.support.hostile.neighbour import PATIENCE, Account
from tests.support.lab.processes import Child, LabError

# A second for the calls of a neighbour who makes one connection for each, and for one who keeps his.
FRESH_RATE, RATE = 50, 200
# What a helper process may take to end; on a busy machine far more than it should.
_LIMIT = PATIENCE + 100


def module(name: str, *arguments: object) -> list[str]:
    """The command line of a helper process."""
    return [sys.executable, "-m", f"tests.support.hostile.{name}", *map(str, arguments)]


@contextmanager
def backend(folder: Path) -> Iterator[Path]:
    """The socket of a backend that does what paths say."""
    path = folder / "backend.sock"
    with Child(module("backend", path), log=folder / "backend.log") as child:
        child.wait_listening(path)
        yield path


@dataclass(kw_only=True)
class NeighbourRun:
    """A neighbour at work; `account` is there behind the block."""

    account: Account | None = None


@contextmanager
def neighbour(listen: Path, *, fresh: bool = False) -> Iterator[NeighbourRun]:
    """A neighbour who calls inside the block, after his first calls were answered."""
    argv = module("neighbour", listen, FRESH_RATE if fresh else RATE, *(["fresh"] if fresh else []))
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    found = NeighbourRun()
    try:
        assert process.stdout is not None
        process.stdout.readline()  # at work
        yield found
        found.account = Account(**_told(process))
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def attack(listen: Path, row: AttackRow, *, connections: int, seconds: float, processes: int = 1) -> AttackOutcome:
    """Run one attack to its end, in each of so many processes."""
    argv = module("attackrun", listen, row.name, connections, seconds)
    total = AttackOutcome()
    with ExitStack() as stack:
        running = [stack.enter_context(subprocess.Popen(argv, stdout=subprocess.PIPE)) for _ in range(processes)]
        for process in running:
            one = AttackOutcome(**_told(process))
            total.connections += one.connections
            total.cut += one.cut
            total.sent += one.sent
    return total


def _told(process: "subprocess.Popen[bytes]") -> dict[str, Any]:
    """What a helper process says at its end."""
    out, _ = process.communicate(timeout=_LIMIT)
    if process.returncode:
        raise LabError(f"{process.args!r} ended with {process.returncode}")
    found: dict[str, Any] = json.loads(out)
    return found
