"""What a round of the hook server costs when nothing has changed: 500 pods, cgroup v1 and v2, files in memory.

A fake node and the hook server are processes of their own. Rounds come by themselves; what each cost is in its status.
Progress goes to stderr, the table to stdout.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Started as a script: the modules beside it are found from the project's folder.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.contestants import CACHED_BYTECODE
from tests.support.hooks.node import node_document, write_boot, write_cpus
from tests.support.lab.hookserver import HookServer
from tests.support.lab.processes import Child, LabError

if TYPE_CHECKING:
    from collections.abc import Sequence

PODS = 500
ROUNDS = 15
CPU_LIMIT = 0.250  # seconds, for so many pods
VERSIONS = ("v1", "v2")
MEMORY = Path("/dev/shm")
INTERVAL = "500ms"
NODES = ("0-31", "32-63")  # the CPUs of the fake node


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """Rounds of one hook server in which nothing had to be done; seconds each."""

    version: str
    pods: int
    values: int
    cpu: Sequence[float]
    wall: Sequence[float]

    @property
    def met(self) -> bool:
        """Whether the median is within the limit; it is for the usual number of pods."""
        return statistics.median(self.cpu) <= CPU_LIMIT


def measure(folder: Path, version: str, pods: int, rounds: int) -> Rounds:
    """Start both in a folder, and note rounds."""
    runtime, cgroups, sys_root = folder / "runtime.sock", folder / "cgroup", folder / "sys"
    write_cpus(sys_root, NODES)
    write_boot(folder / "proc")
    argv = [sys.executable, "-m", "interpose.testing.fakenode", "--socket", str(runtime), "--cgroups", str(cgroups)]
    argv += ["--pods", str(pods), "--version", version]
    options = ["--mode", "standalone", "--reconcile-interval", INTERVAL]
    options += ["--cgroup-root", str(cgroups), "--sys-root", str(sys_root), "--proc-root", str(folder / "proc")]
    with Child(argv, log=folder / "node.log", env=CACHED_BYTECODE) as node:
        node.wait_listening(runtime)
        server = HookServer(folder, runtime, kubepods="kubepods", options=options)
        server.tell(node_document(identity=True, ratio=1.2))
        with server:
            return _watch(server, version, pods, rounds)


def _watch(server: HookServer, version: str, pods: int, rounds: int) -> Rounds:
    seen: dict[tuple[float, float], dict[str, Any]] = {}

    def another() -> bool:
        before, last = len(seen), server.status()["round"]
        if last["reason"] == "tick" and not last["written"]:
            seen[last["seconds"], last["cpu_seconds"]] = last
        return len(seen) > before

    # Each look costs the server a little, so there are few of them.
    for _ in range(rounds):
        server.child.wait_until(another, what="another round with nothing to do", every=0.3)
    last = next(reversed(seen.values()))
    if last["as_wanted"] != last["wanted"] or last["pods"] != pods:
        raise LabError(f"{last['as_wanted']} of {last['wanted']} values are as wanted, {last['pods']} of {pods} pods")
    return Rounds(
        version=version,
        pods=pods,
        values=last["wanted"],
        cpu=[cpu for _, cpu in seen],
        wall=[wall for wall, _ in seen],
    )


def as_text(found: Sequence[Rounds]) -> str:
    """A table."""
    lines = [f"{'cgroup':<8}{'pods':>6}{'values':>8}{'CPU ms':>9}{'(worst)':>9}{'wall ms':>9}  target"]
    for one in found:
        cpu, wall = statistics.median(one.cpu) * 1000, statistics.median(one.wall) * 1000
        verdict = f"CPU <= {CPU_LIMIT * 1000:.0f} ms {'met' if one.met else 'MISSED'}" if one.pods == PODS else ""
        worst = f"({max(one.cpu) * 1000:.0f})"
        lines.append(
            f"{one.version:<8}{one.pods:>6}{one.values:>8}{cpu:>9.0f}{worst:>9}{wall:>9.0f}  {verdict}".rstrip()
        )
    return "\n".join(lines)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench/hookserver_reconcile.py", description=__doc__.splitlines()[0])
    parser.add_argument("--pods", type=int, default=PODS, help=f"with one container each ({PODS})")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"that are measured, per version ({ROUNDS})")
    args = parser.parse_args(argv)
    found = []
    for version in VERSIONS:
        print(f"{version}: {args.pods} pods, {args.rounds} rounds", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="ip-", dir=MEMORY if MEMORY.is_dir() else None) as folder:
            try:
                found.append(measure(Path(folder), version, args.pods, args.rounds))
            except LabError as error:
                print(f"the benchmark stopped: {error}", file=sys.stderr)
                return 1
    print(as_text(found))
    return 0 if all(one.met for one in found if one.pods == PODS) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
