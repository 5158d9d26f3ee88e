"""The OCI runtime as a command line: runc, crun, or our plain executor with the same verbs.

The shim, which is the parent of containers, runs `run` and `exec`: for these only the command lines are made here. The
other verbs are called here. An error has the runtime's own text.
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
from interpose.node.runtime.shim import protocol
from interpose.node.runtime.shim.oci_errors import reason
from interpose.node.runtime.shim.syscalls import may_isolate

PLAIN: Final = "plain"
_INSTALLED: Final = ("runc", "crun")
_SOURCES: Final = str(Path(interpose.__file__).resolve().parent.parent)
_PLAIN_BOOT: Final = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from interpose.node.runtime.plain.main import main; main()"
)
_TIMEOUT: Final = 30.0
# Errors of runc and crun that mean there is nothing left to do.
_GONE: Final = ("does not exist", "no such file or directory")
_ENDED: Final = ("container not running", "process already finished", "no such process", "not running", *_GONE)


class OciError(Exception):
    """The OCI runtime refused; the text is its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OciRuntime:
    """An OCI runtime. `root` is its state folder; `command` its program, without our flags."""

    name: str
    version: str
    command: Sequence[str]
    root: Path
    systemd: bool = False
    not_isolated: tuple[str, ...] = ()
    namespaces: bool = True  # False: sandboxes cannot have namespaces of their own

    def run_command(self, container_id: str, bundle: Path, *, tty: bool = False) -> list[str]:
        """The command line that starts a container, for a `StartRequest`."""
        return [
            *self._flags(log=protocol.LOG_FILE),
            *("run", "--detach", "--bundle", str(bundle), "--pid-file", protocol.PID_FILE),
            *(("--console-socket", protocol.CONSOLE_SOCKET) if tty else ()),
            container_id,
        ]

    def exec_command(self, container_id: str, *, tty: bool = False) -> list[str]:
        """The command line that starts a process in a container, for an `ExecRequest`."""
        return [
            *self._flags(log=protocol.LOG_FILE),
            *("exec", "--detach", "--process", protocol.PROCESS_FILE, "--pid-file", protocol.PID_FILE),
            *(("--console-socket", protocol.CONSOLE_SOCKET) if tty else ()),
            container_id,
        ]

    async def kill(self, container_id: str, signal: int, *, all: bool = False) -> None:  # noqa: A002
        """Signal the first process, or all; nothing happens if the container has exited."""
        await self._run("kill", *(("--all",) if all else ()), container_id, str(int(signal)), ignore=_ENDED)

    async def delete(self, container_id: str, *, force: bool = False) -> None:
        """Delete an exited container, with `force` a running one; nothing happens if it is unknown."""
        await self._run("delete", *(("--force",) if force else ()), container_id, ignore=_GONE)

    async def update(self, container_id: str, resources: Mapping[str, Any]) -> None:
        """Change limits; `resources` is `linux.resources` of the runtime specification."""
        await self._run("update", "--resources", "-", container_id, stdin=json.dumps(resources).encode())

    async def state(self, container_id: str) -> dict[str, Any] | None:
        """The runtime's own document about a container; None if it has none."""
        output = await self._run("state", container_id, ignore=_GONE)
        if output is None:
            return None
        value: dict[str, Any] = json.loads(output)
        return value

    def _flags(self, *, log: str | None = None) -> list[str]:
        return [
            *self.command,
            *("--root", str(self.root)),
            *(("--log", log, "--log-format", "json") if log else ()),
            *(("--systemd-cgroup",) if self.systemd else ()),
        ]

    async def _run(self, verb: str, *words: str, stdin: bytes = b"", ignore: Sequence[str] = ()) -> bytes | None:
        """Run a verb and return its output; None if it failed with one of the `ignore` texts."""
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
        message = reason(err.decode(errors="replace"), f"{self.name} {verb} ended with {process.returncode}")
        if any(text in message.lower() for text in ignore):
            return None
        raise OciError(message)


@contextmanager
def _as_file(content: bytes) -> Iterator[int]:
    """A file for the stdin of a child. crun opens stdin by its name, which fails with uvloop's sockets."""
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

    `rights`: whether we may isolate; detected by default.

    ConfigError names a missing executor and the searched path.
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
        message = reason(done.stderr, f"--version ended with {done.returncode}")
        raise ConfigError(f"executor {path!r} cannot be used: {message}")
    return OciRuntime(
        name=Path(path).name, version=lines[0].rpartition(" ")[2], command=(absolute,), root=root, systemd=systemd
    )
