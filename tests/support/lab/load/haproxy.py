"""HAProxy with one thread as an HTTP/2 proxy between two unix sockets: the yardstick of the benchmarks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.lab.processes import Child, missing_programs

if TYPE_CHECKING:
    from pathlib import Path

# More streams than any workload has in flight, or 128 streams would silently be its default of 100.
CONFIG = """\
global
  nbthread 1
  maxconn 1000
  tune.h2.max-concurrent-streams 1000
defaults
  mode http
  timeout connect 5s
  timeout client 5m
  timeout server 5m
frontend in
  bind unix@{listen} proto h2
  default_backend out
backend out
  server runtime unix@{backend} proto h2
"""


def missing() -> str | None:
    """Why it can not run here, or None."""
    return missing_programs("haproxy")


def start(folder: Path, listen: Path, backend: Path) -> Child:
    """Start it; ready when `listen` accepts."""
    config = folder / f"{listen.name}.haproxy.cfg"
    config.write_text(CONFIG.format(listen=listen, backend=backend))
    child = Child(["haproxy", "-db", "-f", str(config)], log=folder / f"{listen.name}.haproxy.log")
    child.wait_listening(listen)
    return child
