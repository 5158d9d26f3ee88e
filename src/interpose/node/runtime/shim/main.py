"""The start of a shim: detach, start the pause process, write the identity file, listen.

The parent reads one line from our standard output: that we are ready, or the error.
"""

import json
import os
import signal
import socket
import time

from interpose.node.runtime.shim import syscalls
from interpose.node.runtime.shim.atomic_file import replace_file
from interpose.node.runtime.shim.event_loop import log_exception, log_line
from interpose.node.runtime.shim.pause import PauseError, start_pause
from interpose.node.runtime.shim.server import ShimServer

TYPE_CHECKING = False  # importing typing costs a megabyte
if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_FD = 1 << 20


def main(folder: str, options: str) -> None:
    """Entry point of a process that was started as a shim."""
    run_detached(folder, json.loads(options))


def run_detached(folder: str, options: "Mapping[str, object]") -> None:
    """Fork the shim and exit: the shim is no child of the runtime."""
    os.closerange(3, MAX_FD)  # not every event loop closes descriptors for its children
    if os.fork() == 0:
        _run(folder, options)
    os._exit(0)


def _run(folder: str, options: "Mapping[str, object]") -> None:
    code = 1
    try:
        os.setsid()
        os.umask(0o022)
        os.chdir(folder)
        syscalls.prctl(syscalls.PR_SET_NAME, b"interpose-shim")
        syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
        pause_pid, lifeline = start_pause(dict(options))
        _write_identity(pause_pid)
        listener = _listener()
        shim = ShimServer(folder)
        shim.pause_pid = pause_pid
        shim.listen(listener)
        _report_ready({"pid": os.getpid(), "holder": pause_pid})
        shim.loop.run()
        os.close(lifeline)
        end_children()
        _remove_files()
        code = 0
    except (PauseError, OSError, ValueError) as error:
        log_exception("the shim ends: ")
        _report_ready({"error": str(error)})
    except BaseException:
        log_exception("the shim ends: ")  # the log is the only witness
    finally:
        os._exit(code)


def _report_ready(document: dict[str, object]) -> None:
    os.write(1, json.dumps(document).encode() + b"\n")
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    os.dup2(null, 1)
    os.close(null)


def _write_identity(pause_pid: int) -> None:
    with open("/proc/self/stat", "rb") as file:  # noqa: PTH123
        started = file.read().rpartition(b")")[2].split()[19].decode()
    with open("/proc/sys/kernel/random/boot_id") as file:  # noqa: PTH123
        boot = file.read().strip()
    document = {"pid": os.getpid(), "started": started, "boot": boot, "holder": pause_pid}
    replace_file("shim.json", json.dumps(document))


def _listener() -> socket.socket:
    # By its name alone: the path of a socket has 107 characters at most.
    if os.path.lexists("shim.sock"):
        os.unlink("shim.sock")  # noqa: PTH108
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    mask = os.umask(0o177)
    listener.bind("shim.sock")
    os.umask(mask)
    return listener


def end_children(timeout: float = 5.0) -> None:
    """Kill all processes that are left of the pod. Orphans are our children, so none can escape this."""
    deadline = time.monotonic() + timeout
    while _reap_some():
        if time.monotonic() > deadline:
            log_line("processes of the pod were killed and do not end")
            return
        for pid in _children():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:  # it has exited, or changed to a user that we may not kill
                continue
        time.sleep(0.01)


def _reap_some() -> bool:
    """Reap exited children; True if some still run."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _children() -> list[int]:
    found, own = [], str(os.getpid()).encode()
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                    parent = file.read().rpartition(b")")[2].split()[1]
            except (OSError, IndexError):
                continue
            if parent == own:
                found.append(int(name))
    return found


def _remove_files() -> None:
    for name in ("shim.sock", "shim.json", "interpose-hold"):
        try:
            os.unlink(name)  # noqa: PTH108
        except OSError:
            continue
