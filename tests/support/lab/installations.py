"""Which containerd the lab runs: that of the machine, or one that `tools/e2e_runtimes.sh` unpacked below `build`.

`LAB_RUNTIME` names the one that every test is to run on; without it that is the one of the machine.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interpose.testing.eventually import WAIT_LIMIT
from tests.support.lab.processes import LabError, missing_programs

VARIABLE: Final = "LAB_RUNTIME"
RUNTIMES: Final = Path(__file__).parents[3] / "build" / "runtimes"
_OCI: Final = "oci"
_PROGRAMS: Final = ("containerd", "containerd-shim-runc-v2", "ctr")


@dataclass(frozen=True, kw_only=True)
class Installation:
    """A containerd, and the OCI runtime below it."""

    name: str
    folder: str = ""
    """Below `RUNTIMES`; empty: containerd is that of the machine."""
    oci: str = ""
    """The OCI runtime among those that were unpacked; empty: the runc of the machine."""

    def missing(self) -> str | None:
        """Why it can not run here, or None."""
        machine = ["busybox", *(() if self.oci else ("runc",)), *(() if self.folder else _PROGRAMS)]
        return (
            missing_programs(*machine, root=True)
            or (_not_unpacked(self.folder) if self.folder else None)
            or (oci_missing() if self.oci else None)
        )

    @property
    def path(self) -> str:
        """Where programs are looked up: containerd finds its shim there, and the shim runc."""
        machine = os.environ["PATH"]
        return f"{RUNTIMES / self.folder / 'usr' / 'bin'}:{machine}" if self.folder else machine

    @property
    def oci_runtime(self) -> str:
        """The program that makes containers; empty: runc, wherever it is."""
        return oci_program(self.oci) if self.oci else ""

    def program(self, name: str) -> str:
        """Where it is."""
        found = shutil.which(name, path=self.path)
        if found is None:
            raise LabError(f"{self.name} has no {name}")
        return found

    def version(self) -> tuple[int, ...]:
        """Of containerd."""
        return tuple(int(part) for part in _said_version(self.program("containerd")).split("."))

    def words(self) -> str:
        """For people: the versions of all that is in it."""
        programs = {
            "containerd": self.program("containerd"),
            self.oci or "runc": self.oci_runtime or self.program("runc"),
        }
        return " with ".join(f"{name} {_said_version(file)}" for name, file in programs.items())


MACHINE: Final = Installation(name="containerd")
INSTALLATIONS: Final = {
    one.name: one
    for one in (
        MACHINE,
        Installation(name="containerd-1.7", folder="containerd-1.7"),
        Installation(name="containerd-2", folder="containerd-2", oci="runc"),
        Installation(name="containerd-2-crun", folder="containerd-2", oci="crun"),
    )
}


def oci_missing() -> str | None:
    """Why there are no OCI runtimes besides the machine's, or None."""
    return _not_unpacked(_OCI)


def oci_program(name: str) -> str:
    """runc or crun of today."""
    return str(RUNTIMES / _OCI / "bin" / name)


def chosen() -> Installation:
    """The one that this run of the tests is about."""
    name = os.environ.get(VARIABLE) or MACHINE.name
    if name not in INSTALLATIONS:
        raise LabError(f"{VARIABLE}: {name!r} is none of {', '.join(INSTALLATIONS)}")
    return INSTALLATIONS[name]


def candidates(others: tuple[str, ...] = ()) -> tuple[str, ...]:
    """What a short story runs on, by name: all of them and others, unless this run of the tests is about one."""
    return (chosen().name,) if os.environ.get(VARIABLE) else (*others, *INSTALLATIONS)


def _not_unpacked(name: str) -> str | None:
    if (RUNTIMES / name / "complete").exists():
        return None
    reason = RUNTIMES / f"{name}.missing"
    return reason.read_text().strip() if reason.exists() else f"tools/e2e_runtimes.sh did not run: no {name}"


def _said_version(program: str) -> str:
    """The first version in what a program says of itself."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=WAIT_LIMIT, check=True)
    found = re.search(r"\d+(\.\d+)+", done.stdout)
    if found is None:
        raise LabError(f"{program} --version says {done.stdout!r}")
    return found[0]
