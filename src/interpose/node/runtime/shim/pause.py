"""The process that keeps the namespaces of a sandbox alive by being in them, and does nothing else.

It is a child of the shim and dies with it: by the kernel's signal, and because its pipe from the shim ends. In a
process namespace of its own it is process 1; the kernel reaps what is left to it because it ignores SIGCHLD.

There is one per pod, so it does not stay Python: it becomes a `sleep`, which needs a tenth of the memory, wherever the
kernel keeps the signal for that.
"""

import os
import select
import signal
import socket

from interpose.node.runtime.shim import syscalls as kernel
from interpose.node.runtime.shim.sysctls import sysctl_path, sysctl_problem

TYPE_CHECKING = False  # importing typing costs a megabyte
if TYPE_CHECKING:
    from collections.abc import Callable

_FLAGS = {
    "network": kernel.CLONE_NEWNET,
    "ipc": kernel.CLONE_NEWIPC,
    "uts": kernel.CLONE_NEWUTS,
    "pid": kernel.CLONE_NEWPID,
}
_READY = b"+"
_SLEEP = ("/bin/sleep", "/usr/bin/sleep")
_FOREVER = "2147483647"  # seconds; every implementation knows a number
_NAME = "interpose-hold"


class PauseError(Exception):
    """The sandbox cannot be made as asked for."""


def start_pause(options: dict[str, object]) -> tuple[int, int]:
    """Fork a holder and wait until it is ready: its pid, and the pipe that it lives by (never close it before its end).

    PauseError says what could not be done; nothing is left then.
    """
    life, lifeline = os.pipe2(os.O_CLOEXEC)
    told, teller = os.pipe2(os.O_CLOEXEC)
    first = os.fork()
    if first == 0:
        _child(lambda: _first(options, life, lifeline, told, teller), teller)
    os.close(teller)
    os.close(life)
    said = _line_of(told)
    os.waitpid(first, 0)  # from here on the holder is our child
    os.close(told)
    if not said.startswith(_READY):
        os.close(lifeline)
        raise PauseError(said.decode(errors="replace") or "the holder ended before it was ready")
    os.write(lifeline, _READY)
    return int(said[1:]), lifeline


def _line_of(told: int) -> bytes:
    said = b""
    while chunk := os.read(told, 4096):
        said += chunk
        if said.endswith(b"\n"):
            break
    return said.strip()


def _child(work: "Callable[[], None]", teller: int) -> None:
    code = 1
    try:
        work()
        code = 0
    except (OSError, PauseError, ValueError) as error:
        os.write(teller, f"{error}\n".encode())
    finally:
        os._exit(code)


def _first(options: dict[str, object], life: int, lifeline: int, told: int, teller: int) -> None:
    """Enter new namespaces and fork once more: only a child is in a new process namespace."""
    os.close(lifeline)
    os.close(told)
    flags = 0
    for name, flag in _FLAGS.items():
        flags |= flag if options.get(name) else 0
    if flags:
        kernel.unshare(flags)
    if options.get("network"):
        kernel.loopback_up()
    if options.get("uts") and options.get("hostname"):
        socket.sethostname(str(options["hostname"]))
    _set_sysctls(options)
    holder = os.fork()
    if holder == 0:
        _child(lambda: _hold(options, life, teller), teller)
    os.write(teller, _READY + f"{holder}\n".encode())


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


def _hold(options: dict[str, object], life: int, teller: int) -> None:
    os.close(teller)
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    for standard in (0, 1, 2):
        os.dup2(null, standard)  # whoever waits for the shim's own must not wait for us
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN)
    kernel.prctl(kernel.PR_SET_NAME, _NAME.encode())
    folder = os.getcwd()  # noqa: PTH109
    os.chdir("/")
    score = options.get("oom_score_adj")
    if isinstance(score, int):
        _set_oom_score(score)
    os.read(life, 1)  # now the shim is our parent, and no sooner
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    if not select.select([life], [], [], 0)[0]:  # the shim was there when the signal was ordered
        _sleep_instead(folder)
    os.read(life, 1)  # until the shim is gone


def _sleep_instead(folder: str) -> None:
    """Become a program that sleeps, with our own name; nothing if there is none here. Ignored signals stay ignored."""
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
    """Whether the signal at the shim's end outlives an exec: not if we had more rights after it than before."""
    held = {}
    with open("/proc/self/status") as file:  # noqa: PTH123
        for line in file:
            name, _, value = line.partition(":")
            if name in ("CapInh", "CapPrm", "CapBnd"):
                held[name] = int(value, 16)
    return os.geteuid() != 0 or (held["CapInh"] | held["CapBnd"]) & ~held["CapPrm"] == 0


def _set_oom_score(score: int) -> None:
    """Make the kernel kill us later than others; where lowering the value is not allowed ours stays."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
            file.write(str(score))
    except OSError:
        return
