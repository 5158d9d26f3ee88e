"""Fuzz the reader of documents about the node: bytes of all kinds are read or refused, and nothing else happens.

    python tests/fuzz/fuzz_nodeslo.py --seconds 60 [--seed 7] [--crashes FOLDER]
    python tests/fuzz/fuzz_nodeslo.py --replay crash-nodeslo-0123abcd.yaml

Inputs are mutations of the samples, from a seed that is printed. A broken promise is written to a file, named, and the
exit code is 1.
"""

import logging
import sys
import tempfile
from pathlib import Path

from interpose.hooks.server.node.node_file import NodeFile
from tests.support.fuzz.text import Target, run

SAMPLES = Path(__file__).resolve().parents[2] / "samples/nodeslo"
# Pieces that mean something to the reader, whole and broken.
PIECES = [
    *("apiVersion: interpose/v1\n", "kind: NodeState\n", '"kind": "NodeSLO", ', "spec:\n", '"nodeSLO": null, '),
    *("enable: true", "enable: maybe", "groupIdentity: 3", "groupIdentity: -1", "schedIdle: 1e3", "coreExpeller: on"),
    *("cpuPolicy: coreSched", "cpuSuppressPolicy: cfsQuota", "hostApplications:\n", "- name: a\n", "qos: LS\n"),
    *("cgroupPath: {}", "relativePath: ../..", "base: Kubepods", "labels: {a: b}", "hostApplications: [{name: a}]"),
    *("&a ", "*a", "<<: *a", "!!python/object:x ", "!t ", "---\n", "...\n", "? ", "| \n", "> \n", "%YAML 9\n", "\t"),
    *("{", "}", "[", "]", ",", ":", "\n", "\n  ", "null", "~", "true", "NaN", "-Infinity", "1e999", "0x1", "0o7"),
    *("9" * 5000, "[" * 3000, "{a: " * 3000, "\ufeff", '"\\ud800"', '"\\u0000"', "\0", "\x1b[2J", "\x85", "x" * 300),
]


class Promises:
    """Reads documents from files of its own folder, as the program does."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def check(self, data: bytes, suffix: str) -> None:
        """The promises: a document, or problems that name the file and are short; never both, never an exception."""
        path = self._folder / f"node{suffix}"
        path.write_bytes(data)
        path.chmod(0o644)
        file = NodeFile(str(path), lambda document: None)
        assert file.load() is (file.document is not None)
        assert bool(file.problems) is (file.document is None), "neither used nor refused with a reason, or both"
        for line in file.problems:
            assert line.startswith(f"file {path}"), f"does not name the file: {line!r:.200}"
            assert line.isprintable(), f"would move the cursor: {line!r:.200}"
            assert len(line) < 1000, f"is {len(line)} characters long: {line!r:.200}"


def main() -> int:
    """Fuzz it."""
    logging.disable()  # every refusal would be a line
    with tempfile.TemporaryDirectory() as scratch:
        check = Promises(Path(scratch)).check
        return run(Target(name="nodeslo", check=check, samples=[*SAMPLES.iterdir()], pieces=PIECES), __doc__ or "")


if __name__ == "__main__":
    sys.exit(main())
