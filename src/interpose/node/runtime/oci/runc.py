"""The OCI runtime as a command line: runc, crun, or our plain executor with the same verbs.

Starting (`run`, `exec`) is the shim's to do, which is the parent of containers: for these only the command lines are
made here. The other verbs are called here. An error is in the runtime's own words.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import interpose
from interpose.core.model.cgroup import CGROUP_ROOT
from interpose.errors import ConfigError
from interpose.node.runtime.plain.isolation import not_isolated
from interpose.node.runtime.shim import protocol as wire
from interpose.node.runtime.shim.oci_errors import reason
from interpose.node.runtime.shim.syscalls import may_isolate

PLAIN: Final = "plain"
_INSTALLED: Final = ("runc", "crun")
_SOURCES: Final = str(Path(interpose.__file__).resolve().parent.parent)
_PLAIN_BOOT: Final = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from interpose.node.runtime.plain.main import main; main()"
)
_TIMEOUT: Final = 30.0
# How runc and crun say that there is nothing left to do.
_GONE: Final = ("does not exist", "no such file or directory")
_ENDED: Final = ("container not running", "process already finished", "no such process", "not running", *_GONE)


class OciError(Exception):
    """The OCI runtime refused; the text is its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OciRuntime:
    """One executor. `root` is where it keeps its state; `command` is how it is called, without flags of ours."""

    name: str
    version: str
    command: Sequence[str]
    root: Path
    systemd: bool = False
    not_isolated: tuple[str, ...] = ()
    namespaces: bool = True  # False: sandboxes can have none of their own

    def run_command(self, container_id: str, bundle: Path, *, tty: bool = False) -> list[str]:
        """Starts a container and ends; for a `StartRequest`."""
        return [
            *self._flags(log=wire.LOG_FILE),
            *("run", "--detach", "--bundle", str(bundle), "--pid-file", wire.PID_FILE),
            *(("--console-socket", wire.CONSOLE_SOCKET) if tty else ()),
            container_id,
        ]

    def exec_command(self, container_id: str, *, tty: bool = False) -> list[str]:
        """Starts a process in a container and ends; for an `ExecRequest`."""
        return [
            *self._flags(log=wire.LOG_FILE),
            *("exec", "--detach", "--process", wire.PROCESS_FILE, "--pid-file", wire.PID_FILE),
            *(("--console-socket", wire.CONSOLE_SOCKET) if tty else ()),
            container_id,
        ]

    async def kill(self, container_id: str, signal: int, *, all: bool = False) -> None:  # noqa: A002
        """Signal the first process, or every one. Nothing if it has ended."""
        await self._do("kill", *(("--all",) if all else ()), container_id, str(int(signal)), fine=_ENDED)

    async def delete(self, container_id: str, *, force: bool = False) -> None:
        """Remove what the runtime has of an ended container; with `force` end it first. Nothing if it has none."""
        await self._do("delete", *(("--force",) if force else ()), container_id, fine=_GONE)

    async def update(self, container_id: str, resources: Mapping[str, Any]) -> None:
        """Change limits; `resources` is `linux.resources` of the runtime specification."""
        await self._do("update", "--resources", "-", container_id, stdin=json.dumps(resources).encode())

    async def state(self, container_id: str) -> dict[str, Any] | None:
        """The runtime's own document about a container; None if it has none."""
        said = await self._do("state", container_id, fine=_GONE)
        if said is None:
            return None
        value: dict[str, Any] = json.loads(said)
        return value

    def _flags(self, *, log: str | None = None) -> list[str]:
        return [
            *self.command,
            *("--root", str(self.root)),
            *(("--log", log, "--log-format", "json") if log else ()),
            *(("--systemd-cgroup",) if self.systemd else ()),
        ]

    async def _do(self, verb: str, *words: str, stdin: bytes = b"", fine: Sequence[str] = ()) -> bytes | None:
        """Output of a verb; None if it failed with a text that is fine."""
        with _as_file(stdin) as source:
            process = await asyncio.create_subprocess_exec(
                *self._flags(),
                verb,
                *words,
                stdin=source,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={"PATH": os.environ.get("PATH", os.defpath)},
            )
        try:
            async with asyncio.timeout(_TIMEOUT):
                out, err = await process.communicate()
        except BaseException as error:
            if process.returncode is None:
                process.kill()
                await process.wait()
            if isinstance(error, TimeoutError):
                raise OciError(f"{self.name} {verb} took longer than {_TIMEOUT:g} seconds") from None
            raise
        if process.returncode == 0:
            return out
        said = reason(err.decode(errors="replace"), f"{self.name} {verb} ended with {process.returncode}")
        if any(text in said.lower() for text in fine):
            return None
        raise OciError(said)


@contextmanager
def _as_file(content: bytes) -> Iterator[int]:
    """What a child reads from its stdin. crun opens that by its name, which cannot be done with uvloop's sockets."""
    if not content:
        yield asyncio.subprocess.DEVNULL
        return
    with os.fdopen(os.memfd_create("stdin"), "w+b", buffering=0) as file:
        file.write(content)
        file.seek(0)
        yield file.fileno()


def find_executor(
    wanted: str, root: Path, *, systemd: bool = False, cgroup_root: str = CGROUP_ROOT, rights: bool | None = None
) -> OciRuntime:
    """The executor of this name or path. `auto`: runc or crun for root where installed, else plain.

    `rights` is whether we may isolate at all, which is found out if it is not said.

    ConfigError names what was asked for and where it was looked for.
    """
    rights = may_isolate() if rights is None else rights
    if wanted == "auto":
        found = next((path for name in _INSTALLED if (path := shutil.which(name))), None) if rights else None
        if found is None:
            return _plain(root, cgroup_root, rights=rights)
        return _installed(found, root, systemd=systemd)
    if wanted == PLAIN:
        return _plain(root, cgroup_root, rights=rights)
    path = shutil.which(wanted)
    if path is None:
        where = "no such program" if "/" in wanted else f"not found in {os.environ.get('PATH', os.defpath)}"
        raise ConfigError(f"executor {wanted!r}: {where}; installed ones, auto, or plain can be used")
    if not rights:
        raise ConfigError(f"executor {wanted!r} needs root (with CAP_SYS_ADMIN); plain does not")
    return _installed(path, root, systemd=systemd)


def _plain(root: Path, cgroup_root: str, *, rights: bool) -> OciRuntime:
    return OciRuntime(
        name=PLAIN,
        version=interpose.__version__,
        command=(sys.executable, "-I", "-S", "-c", _PLAIN_BOOT, _SOURCES, "--cgroup-root", cgroup_root),
        root=root,
        not_isolated=not_isolated(rights),
        namespaces=rights,
    )


def _installed(path: str, root: Path, *, systemd: bool) -> OciRuntime:
    absolute = str(Path(path).absolute())
    try:
        done = subprocess.run(  # noqa: S603
            [absolute, "--version"], capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"executor {path!r} cannot be used: {error}") from None
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines:
        said = reason(done.stderr, f"--version ended with {done.returncode}")
        raise ConfigError(f"executor {path!r} cannot be used: {said}")
    return OciRuntime(
        name=Path(path).name, version=lines[0].rpartition(" ")[2], command=(absolute,), root=root, systemd=systemd
    )
