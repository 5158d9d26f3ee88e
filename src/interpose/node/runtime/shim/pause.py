"""The pause process, which keeps the namespaces of a sandbox alive, and does nothing else.

It is a child of the shim and dies with it: by the kernel's signal, and because its pipe from the shim ends. In a
process namespace of its own it is process 1; the kernel reaps what is left to it because it ignores SIGCHLD.

There is one per pod, so it does not stay Python: it becomes a `sleep`, which needs a tenth of the memory, wherever the
kernel keeps the signal for that.
"""

import os
import select
import signal
import socket

from interpose.node.runtime.shim import syscalls
from interpose.node.runtime.shim.sysctls import sysctl_path, sysctl_problem

TYPE_CHECKING = False  # importing typing costs a megabyte
if TYPE_CHECKING:
    from collections.abc import Callable

_FLAGS = {
    "network": syscalls.CLONE_NEWNET,
    "ipc": syscalls.CLONE_NEWIPC,
    "uts": syscalls.CLONE_NEWUTS,
    "pid": syscalls.CLONE_NEWPID,
}
_READY = b"+"
_SLEEP = ("/bin/sleep", "/usr/bin/sleep")
_FOREVER = "2147483647"  # seconds; every implementation knows a number
_NAME = "interpose-hold"


class PauseError(Exception):
    """The pause process cannot be started with these options."""


def start_pause(options: dict[str, object]) -> tuple[int, int]:
    """Fork a pause process and wait until it is ready: its pid, and the pipe that it lives by, to be kept open.

    PauseError gives the reason of a failure; nothing is left then.
    """
    life, lifeline = os.pipe2(os.O_CLOEXEC)
    result_read, result_write = os.pipe2(os.O_CLOEXEC)
    first = os.fork()
    if first == 0:
        _child(lambda: _enter_namespaces(options, life, lifeline, result_read, result_write), result_write)
    os.close(result_write)
    os.close(life)
    line = _read_line(result_read)
    os.waitpid(first, 0)  # from here on the pause process is our child
    os.close(result_read)
    if not line.startswith(_READY):
        os.close(lifeline)
        raise PauseError(line.decode(errors="replace") or "the holder ended before it was ready")
    os.write(lifeline, _READY)
    return int(line[1:]), lifeline


def _read_line(result_read: int) -> bytes:
    line = b""
    while chunk := os.read(result_read, 4096):
        line += chunk
        if line.endswith(b"\n"):
            break
    return line.strip()


def _child(work: "Callable[[], None]", result_write: int) -> None:
    code = 1
    try:
        work()
        code = 0
    except (OSError, PauseError, ValueError) as error:
        os.write(result_write, f"{error}\n".encode())
    finally:
        os._exit(code)


def _enter_namespaces(
    options: dict[str, object], life: int, lifeline: int, result_read: int, result_write: int
) -> None:
    """Enter new namespaces and fork once more: only a child is in a new PID namespace."""
    os.close(lifeline)
    os.close(result_read)
    flags = 0
    for name, flag in _FLAGS.items():
        flags |= flag if options.get(name) else 0
    if flags:
        syscalls.unshare(flags)
    if options.get("network"):
        syscalls.loopback_up()
    if options.get("uts") and options.get("hostname"):
        socket.sethostname(str(options["hostname"]))
    _set_sysctls(options)
    pause_pid = os.fork()
    if pause_pid == 0:
        _child(lambda: _pause(options, life, result_write), result_write)
    os.write(result_write, _READY + f"{pause_pid}\n".encode())


def _set_sysctls(options: dict[str, object]) -> None:
    sysctls = options.get("sysctls") or {}
    if not isinstance(sysctls, dict):
        raise PauseError("sysctls are no table")
    for name, value in sysctls.items():
        problem = sysctl_problem(name, network=bool(options.get("network")), ipc=bool(options.get("ipc")))
        if problem is not None:
            raise PauseError(problem)
        try:
            with open(f"/proc/sys/{sysctl_path(name)}", "w") as file:  # noqa: PTH123
                file.write(str(value))
        except OSError as error:
            raise PauseError(f"sysctl {name!r} cannot be set to {value!r}: {error.strerror}") from None


def _pause(options: dict[str, object], life: int, result_write: int) -> None:
    os.close(result_write)
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    for standard in (0, 1, 2):
        os.dup2(null, standard)  # a reader of the shim's streams must not wait for us
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN)
    syscalls.prctl(syscalls.PR_SET_NAME, _NAME.encode())
    folder = os.getcwd()  # noqa: PTH109
    os.chdir("/")
    score = options.get("oom_score_adj")
    if isinstance(score, int):
        _set_oom_score(score)
    os.read(life, 1)  # now the shim is our parent, and no sooner
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    if not select.select([life], [], [], 0)[0]:  # the shim was there when the signal was ordered
        _exec_sleep(folder)
    os.read(life, 1)  # until the shim is gone


def _exec_sleep(folder: str) -> None:
    """Exec a `sleep` under our own name; returns if there is none. Ignored signals stay ignored."""
    program = next((path for path in _SLEEP if os.access(path, os.X_OK)), None)
    if program is None or not _signal_survives():
        return
    link = f"{folder}/{_NAME}"
    try:
        if not os.path.islink(link):  # noqa: PTH114
            os.symlink(program, link)  # noqa: PTH211
        os.execve(link, ["sleep", _FOREVER], {})  # noqa: S606
    except OSError:
        return


def _signal_survives() -> bool:
    """Whether the parent-death signal survives an exec: not if that would give us more capabilities."""
    held = {}
    with open("/proc/self/status") as file:  # noqa: PTH123
        for line in file:
            name, _, value = line.partition(":")
            if name in ("CapInh", "CapPrm", "CapBnd"):
                held[name] = int(value, 16)
    return os.geteuid() != 0 or (held["CapInh"] | held["CapBnd"]) & ~held["CapPrm"] == 0


def _set_oom_score(score: int) -> None:
    """Set our oom_score_adj; it stays where lowering it is not allowed."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
            file.write(str(score))
    except OSError:
        return
