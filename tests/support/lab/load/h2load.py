"""h2load as a CRI client: run it, and read its per-request log.

Its own summary has no percentiles, so rate and percentiles both come from the log: start in microseconds, status,
duration in microseconds.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from tests.support.lab.load.raw_load import EMPTY_MESSAGE, VERSION_PATH, Timing
from tests.support.lab.processes import LabError, missing_programs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def missing() -> str | None:
    """Why it can not run here, or None."""
    return missing_programs("h2load")


def run(
    folder: Path, socket: Path, *, count: int, streams: int, timeout: float = 120.0, options: Sequence[str] = ()
) -> Timing:
    """`count` calls of Version over one connection with this many streams in flight; any failed call is an error."""
    body, log = folder / "h2load.body", folder / "h2load.log"
    body.write_bytes(EMPTY_MESSAGE)
    log.unlink(missing_ok=True)
    argv = [
        "h2load",
        "-n",
        str(count),
        "-c",
        "1",
        "-m",
        str(streams),
        "-t",
        "1",
        "-d",
        str(body),
        "-B",
        f"unix:{socket}",
    ]
    argv += ["--log-file", str(log), "-H", "content-type: application/grpc", "-H", "te: trailers"]
    argv += [*options, f"http://localhost{VERSION_PATH.decode()}"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode != 0 or f"{count} succeeded" not in done.stdout:
        raise LabError(f"{' '.join(argv)}\n{done.stdout[-800:]}{done.stderr}")
    return read_log(log.read_text())


def read_log(text: str) -> Timing:
    """The timing of a run, from the log that h2load wrote."""
    rows = [line.split("\t") for line in text.splitlines()]
    if not rows or any(len(row) != 3 for row in rows):
        raise LabError(f"not a log of h2load: {text[:200]!r}")
    starts = [int(row[0]) for row in rows]
    durations = [float(row[2]) for row in rows]
    span = max(start + duration for start, duration in zip(starts, durations, strict=True)) - min(starts)
    return Timing(seconds=span / 1e6, durations=durations)
