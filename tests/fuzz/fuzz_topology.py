"""Fuzz the readers of machines: documents, words and files of the kernel are read or refused, and nothing else happens.

    python tests/fuzz/fuzz_topology.py --seconds 60 [--seed 7] [--crashes FOLDER]
    python tests/fuzz/fuzz_topology.py --replay crash-topology-0123abcd.words

Inputs are mutations of samples, from a seed that is printed. A broken promise is written to a file, named, and the exit
code is 1.
"""

import json
import sys
import tempfile
from pathlib import Path

from interpose.config.documents.topology import read_topology_document
from interpose.config.documents.yaml import parse_document
from interpose.core.topology.document import topology_document
from interpose.core.topology.parse import CPUS, NODES, parse_sysfs
from interpose.core.topology.synthetic import parse_text
from interpose.core.topology.topology import Topology
from interpose.errors import ConfigError
from tests.support.fuzz.text import Target, run
from tests.support.policy.machines import NAMED, machine

GROUPS = [
    {"mem": "2G", "cores": 2, "nodes": 2, "packages": 2, "nvmem": "8G"},
    {"nvmem": "8G", "dimm": "plugged", "node-dist": {"0": 17}, "dist-same-die": 11},
    {"cores": 1, "threads": 1, "dies": 2, "dist-all": [[10, 20], [20, 10]]},
]
# A line is a file: its path, then its text.
FILES = f"""\
{CPUS}/online 0-3
{CPUS}/present 0-5
{CPUS}/isolated 2
{CPUS}/cpu0/topology/physical_package_id 0
{CPUS}/cpu0/topology/thread_siblings_list 0,2
{CPUS}/cpu1/topology/core_id 1
{CPUS}/cpu1/cache/index3/level 3
{CPUS}/cpu1/cache/index3/shared_cpu_list 0-3
{CPUS}/cpu2/node1
{NODES}/node0/cpulist 0-1
{NODES}/node0/distance 10 21
{NODES}/node1/distance 21 10
{NODES}/node1/meminfo Node 1 MemTotal: 4096 kB
devices/cpu_core/cpus 0-1
devices/cpu_atom/cpus 2-3
"""
PIECES = [
    *("2 sockets", " x ", "×", "3 cores", "2t", "; ", "isolated 1", "offline 0", "memory 4Gi", "l3 2 cores", "99999"),
    *(
        '{"id": 1}',
        '"cores": 0, ',
        '"core": 7',
        '"l3": -1',
        '"distances": {}',
        '"kind": "Topology"',
        "null",
        "[]",
        "-1",
    ),
    *("0-8191", "0-99999", "1-", "(null)", "10 255", "MemTotal: 0 kB", "\n", "/", "cpu9999/", "node1024/", "8191"),
    *("[" * 3000, "9" * 5000, "\0", "\x1b[2J", "\x85", "²", "\ufeff", "x" * 300, "{", "}", ",", ":", '"'),
]


def check(data: bytes, suffix: str) -> None:
    """The promises: a machine whose parts fit and whose document comes back, or problems that are short lines."""
    text = data.decode("utf-8", "replace")
    try:
        topology = _read(text, suffix)
    except ConfigError as error:
        problems = error.problems
        assert all(problem.startswith("file x") for problem in problems), problems[0][:200]
    except ValueError as error:
        assert suffix != ".json", "a document is refused with another error"
        problems = [str(error)]
    else:
        assert topology.online
        assert all(min(cpus) == core for core, cpus in topology.cores.items())
        again = parse_document(json.dumps(topology_document(topology)), "file y", json_only=True)
        assert read_topology_document(again, "file y") == topology
        return
    for line in problems:
        assert line.isprintable(), f"would move the cursor: {line!r:.200}"
        assert len(line) < 1000, f"is {len(line)} characters long: {line!r:.200}"


def _read(text: str, suffix: str) -> Topology:
    if suffix == ".words":
        return parse_text(text)
    if suffix == ".json":
        return read_topology_document(parse_document(text, "file x", json_only=True), "file x")
    lines = (line.partition(" ") for line in text.split("\n"))
    return parse_sysfs({path: content for path, _, content in lines})


def main() -> int:
    """Fuzz them."""
    samples = {
        **{f"{name}.words": text for name, text in NAMED.items()},
        "groups.json": json.dumps(GROUPS),
        "small.json": json.dumps(topology_document(machine("2p2n1c2t; offline 3; isolated 1"))),
        "files.sysfs": FILES,
    }
    with tempfile.TemporaryDirectory() as scratch:
        for name, text in samples.items():
            Path(scratch, name).write_text(text)
        paths = [*Path(scratch).iterdir()]
        return run(Target(name="topology", check=check, samples=paths, pieces=PIECES), __doc__ or "")


if __name__ == "__main__":
    sys.exit(main())
