"""Forks the process of a bundle or of an exec, and waits until its program runs.

Two forks: the first child joins and creates namespaces, the second is in them and becomes the program. The nearest
subreaper becomes the parent of the second, because the first one and we exit.
"""

import fcntl
import os
import signal
import socket
import stat
import termios

from interpose.node.runtime.plain import credentials
from interpose.node.runtime.plain.cgroup import Cgroup
from interpose.node.runtime.plain.scoped_path import find_program, inside
from interpose.node.runtime.plain.state import MARK
from interpose.node.runtime.shim import syscalls

TYPE_CHECKING = False  # importing typing costs more than this program does
if TYPE_CHECKING:
    from collections.abc import Callable

_PR_SET_DUMPABLE = 4
_KINDS = {
    "network": syscalls.CLONE_NEWNET,
    "ipc": syscalls.CLONE_NEWIPC,
    "uts": syscalls.CLONE_NEWUTS,
    "pid": syscalls.CLONE_NEWPID,
    "mount": syscalls.CLONE_NEWNS,
}
_FILES = {"network": "net", "ipc": "ipc", "uts": "uts", "pid": "pid", "mount": "mnt"}


class PlainStartError(Exception):
    """The process did not start; the text is for the client."""


class StartPlan:
    """A process to start, with its namespaces, root file system and cgroup."""

    def __init__(
        self, *, container: str, process: dict[str, object], rootfs: str, cgroup: Cgroup, console: str
    ) -> None:
        self.container = container
        self.process = process
        self.rootfs = rootfs
        self.cgroup = cgroup
        self.console = console
        self.isolated = syscalls.may_isolate()
        self.join: list[tuple[str, int]] = []  # namespaces to join: file, kind
        self.make = 0  # namespaces to create: flags
        self.enter: Callable[[], None] | None = None  # sets up the file system; None: it exists


def parse_namespaces(config: dict[str, object]) -> tuple[list[tuple[str, int]], int]:
    """Namespaces of a bundle: those to join and those to create. PlainStartError for an unsupported kind."""
    linux = config.get("linux")
    listed = linux.get("namespaces") if isinstance(linux, dict) else None
    join, make = [], 0
    for entry in listed if isinstance(listed, list) else []:
        kind = str(entry.get("type"))
        if kind == "cgroup":
            continue  # nothing is isolated by leaving it out
        if kind not in _KINDS:
            raise PlainStartError(f"linux.namespaces: {kind!r} is not supported by the plain executor")
        if entry.get("path"):
            join.append((str(entry["path"]), _KINDS[kind]))
        else:
            make |= _KINDS[kind]
    return join, make


def namespaces_of_process(pid: int) -> list[tuple[str, int]]:
    """The namespaces of a process; the mount namespace last, because the others are opened by paths in ours."""
    return [(f"/proc/{pid}/ns/{_FILES[kind]}", flag) for kind, flag in _KINDS.items()]


def start(plan: StartPlan) -> int:
    """Start the program; returns its pid once it runs. PlainStartError if it does not; nothing is left of it then."""
    slave = _terminal(plan) if plan.process.get("terminal") else -1
    result_read, result_write = os.pipe2(os.O_CLOEXEC)
    first = os.fork()
    if first == 0:
        os.close(result_read)
        _run_child(lambda: _first(plan, slave, result_write), result_write)
    os.close(result_write)
    if slave >= 0:
        os.close(slave)
    result = b""
    while chunk := os.read(result_read, 4096):
        result += chunk
    os.close(result_read)
    os.waitpid(first, 0)
    number, _, error = result.partition(b"\n")
    if error or not number.isdigit():
        reason = (error or number).decode(errors="replace").strip() or "it ended before it ran"
        raise PlainStartError(f"unable to start container process: {reason}")
    return int(number)


def _run_child(work: "Callable[[], None]", result_write: int) -> None:
    try:
        work()
    except (OSError, PlainStartError, ValueError, KeyError, TypeError) as error:
        os.write(result_write, f"\n{error}".encode())
    finally:
        os._exit(1)


def _first(plan: StartPlan, slave: int, result_write: int) -> None:
    opened = [(os.open(path, os.O_RDONLY | os.O_CLOEXEC), kind) for path, kind in plan.join]
    plan.cgroup.join()
    credentials.set_oom_score(plan.process.get("oomScoreAdj"))
    for fd, kind in opened:
        syscalls.setns(fd, kind)
    if plan.make:
        syscalls.unshare(plan.make)
    pid = os.fork()
    if pid == 0:
        _run_child(lambda: _second(plan, slave, result_write), result_write)
    os.write(result_write, str(pid).encode() + b"\n")
    os._exit(0)


def _second(plan: StartPlan, slave: int, result_write: int) -> None:
    os.setsid()
    process = plan.process
    if slave >= 0:
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        for standard in (0, 1, 2):
            os.dup2(slave, standard)
    if plan.enter is not None:
        plan.enter()
    args, env = _words(process.get("args")), _words(process.get("env"))
    cwd = str(process.get("cwd") or "/")
    if not args:
        raise PlainStartError("process.args is empty")
    if plan.isolated:
        syscalls.prctl(_PR_SET_DUMPABLE, 0)  # processes in the container cannot reach our files through /proc
        program = _as_root(process, args, env, cwd)
    else:
        program = _as_user(plan, args, env, cwd)
    environment = dict(entry.split("=", 1) for entry in env if "=" in entry)
    environment[MARK] = plan.container
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # Python ignores them, and what is ignored stays so
    os.set_inheritable(result_write, False)
    try:
        os.execve(program, args, environment)  # noqa: S606
    except OSError as error:
        raise PlainStartError(f'exec: "{args[0]}": {error.strerror}') from None


def _as_root(process: dict[str, object], args: list[str], env: list[str], cwd: str) -> str:
    if not os.path.isdir(cwd):  # noqa: PTH112
        os.makedirs(cwd, 0o755, exist_ok=True)  # noqa: PTH103
    for fd in (0, 1, 2):
        if stat.S_ISFIFO(os.fstat(fd).st_mode):
            os.fchown(fd, _uid(process), -1)  # so that the program can open /dev/stdout
    program = find_program(args[0], env, cwd)
    credentials.become(process)
    os.chdir(cwd)
    return program


def _as_user(plan: StartPlan, args: list[str], env: list[str], cwd: str) -> str:
    """Prepare a start in the host's file system: the image's program if it has one of that name, else the host's."""
    credentials.set_limits(plan.process)
    try:
        program = find_program(args[0], env, cwd, plan.rootfs)
    except OSError:
        program = find_program(args[0], env, cwd)
    here = inside(plan.rootfs, cwd)
    os.chdir(here if os.path.isdir(here) else plan.rootfs)  # noqa: PTH112
    return program


def _terminal(plan: StartPlan) -> int:
    """Open a terminal of the host; its master goes to the console socket, the slave is for the program."""
    master, slave = os.openpty()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(plan.console)
        socket.send_fds(connection, [b"pty"], [master])
    os.close(master)
    if plan.isolated:
        os.fchown(slave, _uid(plan.process), -1)
    return slave


def _uid(process: dict[str, object]) -> int:
    user = process.get("user")
    return int(user.get("uid", 0)) if isinstance(user, dict) else 0


def _words(value: object) -> list[str]:
    return [str(word) for word in value] if isinstance(value, list) else []
