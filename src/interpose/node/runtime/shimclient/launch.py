"""Launching shims, connecting to them, and killing those that cannot be reached.

A shim lives as long as its pod, with or without its folder. One whose folder was removed has no socket any more and
would hold the pod's namespaces and cgroup until the machine is restarted: it is found by its command line.
"""

import asyncio
import json
import os
import socket
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import interpose
from interpose.node.runtime.shim import protocol
from interpose.node.runtime.shimclient.paths import SOCKET, ShimPaths
from interpose.node.runtime.shimclient.types import SandboxOptions, ShimClosedError, ShimError
from interpose.node.runtime.state import orphans
from interpose.node.runtime.state.ids import is_id

_SOURCES: Final = str(Path(interpose.__file__).resolve().parent.parent)
_BOOT: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from interpose.node.runtime.shim.main import main; main(sys.argv[2], sys.argv[3])"
)
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_RETRY: Final = 0.01


def shim_command(folder: str, options: Mapping[str, object]) -> list[str]:
    """The command line that starts a shim."""
    return [*python_command(_BOOT), folder, json.dumps(options)]


def python_command(code: str) -> list[str]:
    """A command line of Python with the standard library and our sources (its first argument) alone."""
    return [sys.executable, "-I", "-S", "-c", code, _SOURCES]


def shim_environment() -> dict[str, str]:
    """The environment of shims: no variable of ours may reach containers (runc passes NOTIFY_SOCKET on)."""
    return {"PATH": os.environ.get("PATH", _PATH)}


class ShimStarter(Protocol):
    """Starts shims, as programs or by a fork of the template."""

    async def start(self, folder: str, options: Mapping[str, object], ready_fd: int, log: int) -> None:
        """Start a shim, which reports readiness over `ready_fd`. OSError if it cannot be started."""

    def give_up(self) -> None:
        """A shim was not ready in time: the process that forks shims may hang, and is not used again."""


class CommandStarter:
    """Starts each shim as a program of its own."""

    async def start(self, folder: str, options: Mapping[str, object], ready_fd: int, log: int) -> None:
        """Start a shim, and wait for the exit of the process that forked it."""
        starter = await asyncio.create_subprocess_exec(
            *shim_command(folder, options),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=ready_fd,
            stderr=log,
            env=shim_environment(),
            start_new_session=True,
        )
        try:
            await starter.wait()
        finally:
            if starter.returncode is None:
                starter.kill()

    def give_up(self) -> None:
        """Nothing to do: each shim has a process of its own that starts it."""


async def launch(paths: ShimPaths, options: SandboxOptions, timeout: float, starter: ShimStarter | None = None) -> None:
    """Start a shim and wait until it listens; ShimError with its reason if it does not."""
    line = await _first_line(paths, options, timeout, starter or CommandStarter())
    if not line:  # the process that was to start it took the request and died
        line = await _first_line(paths, options, timeout, starter or CommandStarter())
    try:
        answer = json.loads(line)
    except ValueError:
        raise ShimError(f"the shim ended before it was ready; its log: {_tail(paths.log)}") from None
    if "error" in answer:
        raise ShimError(str(answer["error"]))


async def _first_line(paths: ShimPaths, options: SandboxOptions, timeout: float, starter: ShimStarter) -> bytes:
    """The first line of a shim, when it is ready. If it is not read, the shim ends."""
    shim_options = {
        **{name: getattr(options, name) for name in ("network", "ipc", "uts", "pid", "hostname", "oom_score_adj")},
        "sysctls": dict(options.sysctls),
    }
    log = os.open(paths.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    # Not a pipe: uvloop closes the descriptor of a pipe twice, and the second time it may be that of another thread.
    ours, theirs = socket.socketpair()
    try:
        ours.setblocking(False)
        async with asyncio.timeout(timeout):
            reader, writer = await asyncio.open_unix_connection(sock=ours)
            try:
                try:
                    await starter.start(str(paths.folder.absolute()), shim_options, theirs.fileno(), log)
                finally:
                    theirs.close()
                return await reader.readline()
            finally:
                writer.close()
    except TimeoutError:
        starter.give_up()
        raise ShimError(f"the shim was not ready within {timeout:g} seconds") from None
    finally:
        theirs.close()
        os.close(log)


def _tail(path: Path) -> str:
    try:
        lines = path.read_text(errors="replace").strip().splitlines()
    except OSError:
        return "(none)"
    return lines[-1] if lines else "(empty)"


async def connect(paths: ShimPaths) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the shim of this folder; ShimClosedError if there is none."""
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        connection.setblocking(False)
        try:
            _connect(connection, paths.folder)
            break
        except BlockingIOError:  # more are waiting than the shim has room for
            connection.close()
            await asyncio.sleep(_RETRY)
        except OSError as error:
            connection.close()
            raise ShimClosedError(f"no shim in {paths.folder}: {error.strerror}") from None
    return await asyncio.open_unix_connection(sock=connection, limit=4 * protocol.FRAME_LIMIT)


def _connect(connection: socket.socket, folder: Path) -> None:
    # The path of a socket has 107 characters at most, the name of a folder many more.
    opened = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        connection.connect(f"/proc/self/fd/{opened}/{SOCKET}")
    finally:
        os.close(opened)


async def read_document(reader: asyncio.StreamReader) -> dict[str, Any]:
    """Read the next document; ShimClosedError at the end."""
    try:
        head = await reader.readexactly(4)
        (length,) = struct.unpack(">I", head)
        if length > protocol.DOCUMENT_LIMIT:
            raise protocol.ProtocolError(f"a document of {length} bytes")
        body = await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        raise ShimClosedError("the shim closed the connection") from None
    value: dict[str, Any] = json.loads(body)
    return value


# Arguments of all shims; a shell with the folder in its command line does not have them.
_INTERPRETER: Final = frozenset({b"-I", b"-S", b"-c"})


def find_shims(sandboxes: Path, *, proc: Path = orphans.PROC) -> list[str]:
    """The ids of sandboxes below this folder that have a shim, whether their folder exists or not."""
    above = str(sandboxes.absolute())
    found: set[str] = set()
    for _, words in orphans.command_lines(proc):
        if _INTERPRETER.issubset(words):
            places = (word.decode(errors="replace").rpartition("/") for word in words)
            found.update(name for folder, _, name in places if folder == above and is_id(name))
    return sorted(found)


def kill_unreachable_shim(folder: Path) -> bool:
    """Kill the shim of this folder by its command line, and with it its pause process; True if there was one."""
    words = (*(option.decode() for option in _INTERPRETER), str(folder.absolute()))
    return orphans.kill_all(lambda: orphans.with_words(words)) > 0
