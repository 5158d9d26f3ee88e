"""Points tried on any runtime: `python -m conformance SOCKET [WORD ...]`.

Words choose points: those whose ids have one of them. The images must be there; `--images FILE` writes an archive to
import. Pods appear and go on that runtime, so it should be nobody's node.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

try:
    from conformance.checks.images import write_archive
    from conformance.judge import judge_all
    from conformance.points import Kind
    from conformance.registry import open_shelf
    from conformance.table import named_points
    from conformance.world import World
    from tests.support.lab.cri import CriClient
except ModuleNotFoundError as error:
    sys.exit(
        f"error: {error.name} is not installed: it comes with `pip install '.[dev]'`, and with the .venv of `make`"
    )


def main(arguments: list[str]) -> int:
    """Print what every point comes to; 1 if one is not as the interface says."""
    parser = argparse.ArgumentParser(prog="conformance", description="Try points of the CRI on a runtime.")
    parser.add_argument("socket", nargs="?", type=Path, help="of the runtime")
    parser.add_argument("words", nargs="*", help="parts of ids of points")
    parser.add_argument("--images", type=Path, metavar="FILE", help="write the images that points need, and end")
    parser.add_argument("--api", default="v1", choices=("v1", "v1alpha2"), help="version of the API")
    parser.add_argument("--systemd", action="store_true", help="the runtime has systemd make its cgroups")
    given = parser.parse_args(arguments)
    if given.images is not None:
        write_archive(given.images)
        return 0
    if given.socket is None:
        parser.error("the socket of a runtime is missing")
    points = {
        name: point for name, point in named_points() if not given.words or any(word in name for word in given.words)
    }
    with tempfile.TemporaryDirectory() as folder, open_shelf() as shelf, CriClient(given.socket, given.api) as client:
        Path(folder).chmod(0o755)
        world = World(socket=given.socket, client=client, folder=Path(folder), shelf=shelf, systemd=given.systemd)
        findings = judge_all(points, world)
    for name, finding in findings.items():
        print(f"{finding.kind.value:10} {name}  {finding.code} {finding.words}".rstrip())
    counts = Counter(finding.kind for finding in findings.values())
    print(f"{len(findings)} points: " + ", ".join(f"{kind.value} {counts[kind]}" for kind in Kind))
    return 0 if all(finding.kind in (Kind.PASSES, Kind.UNTRIED) for finding in findings.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
