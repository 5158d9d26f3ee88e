"""Where a relay in Docker mode spends its time: one load through it under Python's profiler.

The profiler makes small functions look dearer than they are; use it to find what is called, how often, and then measure
with bench/docker.py before and after.
"""

from __future__ import annotations

import argparse
import contextlib
import pstats
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

# Started as a script: the modules beside it are found from the project's folder.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.contestants import CACHED_BYTECODE
from bench.docker import BIG_IMAGE, STREAMING, big_archive, choose, prepare
from bench.docker_contestants import docker_contestants
from bench.docker_measure import DockerBench
from bench.docker_workloads import MEGABYTES
from bench.run import say
from tests.support.lab.docker.dockerd import Dockerd
from tests.support.lab.load import h2load
from tests.support.lab.processes import Child
from tests.support.lab.relay import relay_argv

if TYPE_CHECKING:
    from collections.abc import Sequence

SHOWN = 45


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench/docker_profile.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("load", help="a workload of bench/docker.py, like ping-16 or load")
    parser.add_argument("--sort", default="tottime", help="as pstats sorts: tottime (default), cumulative, ncalls")
    parser.add_argument("--keep", type=Path, help="write the profile to this file")
    args = parser.parse_args(argv)
    if reason := Dockerd.missing() or h2load.missing():
        say(f"the profile can not be made here: {reason}")
        return 1
    plan = choose(args.load, 1.0)
    ours = next(one for one in docker_contestants() if one.name == "interpose")
    with tempfile.TemporaryDirectory(prefix="interpose-profile-") as scratch, contextlib.ExitStack() as stack:
        folder = Path(scratch)
        big = big_archive(MEGABYTES)
        dockerd = stack.enter_context(Dockerd(folder / "d"))
        prepare(dockerd, folder, big)
        bench = DockerBench(folder, archive=big, image=BIG_IMAGE, container=STREAMING)
        listen, found = folder / "relay.sock", args.keep or folder / "profile"
        options = ("--backend", "docker", "--hooks-dir", str(folder / "hooks.d"))
        relay = [sys.executable, "-m", "cProfile", "-o", str(found)]
        relay += relay_argv(listen, dockerd.socket, folder / "admin.sock", *options)
        with Child(relay, log=folder / "relay.log", env=CACHED_BYTECODE) as child:
            child.wait_listening(listen)
            for load in (*plan.requests, *plan.bulk):
                run = bench.bulk if load in plan.bulk else bench.requests
                sample = run(ours, child, listen, load, 0)
                say(f"{load.name}: {sample.rate:.0f} a second, {sample.cpu or 0:.1f} us CPU each, with the profiler")
        pstats.Stats(str(found)).strip_dirs().sort_stats(args.sort).print_stats(SHOWN)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
