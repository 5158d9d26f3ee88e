"""What runtimes and pods left on this machine: mounts, cgroups, processes, addresses, leases, files.

Everything is found by where it was put (a scratch folder, a cgroup, a subnet), never by who ought to have removed it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from interpose.testing.eventually import WAIT_LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

CGROUPS: Final = Path("/sys/fs/cgroup")


class Leftovers:
    """What is left below a folder, below a cgroup (by name, in all hierarchies), and in a subnet (`10.1.2.`)."""

    def __init__(self, folder: Path, cgroup: str, subnet: str = "", *, fine: Collection[Path] = ()) -> None:
        """`fine`: files and folders that may be there, with all that is in them."""
        self._folder = folder
        self._cgroup = cgroup.strip("/")
        self._subnet = subnet
        self._fine = frozenset(fine)

    def found(self, *, apart: Collection[int] = ()) -> dict[str, list[str]]:
        """By kind; empty if all is well. Processes in `apart` do not count."""
        looks: Mapping[str, Callable[[], Iterable[str]]] = {
            "mounts": self._mounts,
            "cgroups": self._cgroups,
            "processes": lambda: self._processes({os.getpid(), *apart}),
            "addresses": self._addresses,
            "files": self._files,
        }
        found = {kind: sorted(look()) for kind, look in looks.items()}
        return {kind: what for kind, what in found.items() if what}

    def _mounts(self) -> Iterable[str]:
        places = (line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines())
        return [place for place in places if place.startswith(f"{self._folder}/")]

    def _cgroups(self) -> Iterable[str]:
        places = (CGROUPS, *(one for one in CGROUPS.iterdir() if one.is_dir()))
        for place in places:
            if (place / self._cgroup).is_dir():
                for path, _, _ in os.walk(place / self._cgroup):
                    yield path

    def _processes(self, apart: Collection[int]) -> Iterable[str]:
        """Those that name the folder on their command line, and those that are in our cgroups."""
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) in apart:
                continue
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                groups = (entry / "cgroup").read_text()
                if f"{self._folder}/" in words or f":/{self._cgroup}/" in groups:
                    state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                    yield f"{entry.name} {state} {words or groups}"

    def _addresses(self) -> Iterable[str]:
        """The host's end of a connection to a pod has the gateway's address."""
        if not self._subnet:
            return []
        argv = ["ip", "-oneline", "address"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=WAIT_LIMIT, check=True)
        return [line for line in done.stdout.splitlines() if f" {self._subnet}" in line]

    def _files(self) -> Iterable[str]:
        """All but empty folders."""
        for path, folders, names in os.walk(self._folder):
            here = Path(path)
            folders[:] = [name for name in folders if here / name not in self._fine]
            yield from (str(here / name) for name in names if here / name not in self._fine)
