"""Where a shim begins: leave whoever started us, make the holder, write down who we are, listen.

Whoever started us reads one line from our standard output: that we are ready, or why not.
"""

import json
import os
import signal
import socket
import time

from interpose.node.runtime.shim import syscalls as kernel
from interpose.node.runtime.shim.event_loop import say, say_error
from interpose.node.runtime.shim.pause import PauseError, start_pause
from interpose.node.runtime.shim.server import ShimServer

TYPE_CHECKING = False  # importing typing costs a megabyte
if TYPE_CHECKING:
    from collections.abc import Mapping

MANY = 1 << 20


def main(folder: str, options: str) -> None:
    """For a process that was started to be a shim."""
    become(folder, json.loads(options))


def become(folder: str, options: "Mapping[str, object]") -> None:
    """This process ends here at once; its child goes on as a shim, with no tie to anybody."""
    os.closerange(3, MANY)  # not every event loop closes what is none of a child's business
    if os.fork() == 0:
        _detached(folder, options)
    os._exit(0)


def _detached(folder: str, options: "Mapping[str, object]") -> None:
    code = 1
    try:
        os.setsid()
        os.umask(0o022)
        os.chdir(folder)
        kernel.prctl(kernel.PR_SET_NAME, b"interpose-shim")
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        holder, lifeline = start_pause(dict(options))
        _write_down(holder)
        listener = _listener()
        shim = ShimServer(folder)
        shim.holder = holder
        shim.listen(listener)
        _ready({"pid": os.getpid(), "holder": holder})
        shim.loop.run()
        os.close(lifeline)
        end_children()
        _leave()
        code = 0
    except (PauseError, OSError, ValueError) as error:
        say_error("the shim ends: ")
        _ready({"error": str(error)})
    except BaseException:
        say_error("the shim ends: ")  # nobody else will hear of it
    finally:
        os._exit(code)


def _ready(said: dict[str, object]) -> None:
    os.write(1, json.dumps(said).encode() + b"\n")
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    os.dup2(null, 1)
    os.close(null)


def _write_down(holder: int) -> None:
    with open("/proc/self/stat", "rb") as file:  # noqa: PTH123
        started = file.read().rpartition(b")")[2].split()[19].decode()
    with open("/proc/sys/kernel/random/boot_id") as file:  # noqa: PTH123
        boot = file.read().strip()
    said = {"pid": os.getpid(), "started": started, "boot": boot, "holder": holder}
    with open("shim.json.tmp", "w") as file:  # noqa: PTH123
        json.dump(said, file)
    os.rename("shim.json.tmp", "shim.json")  # noqa: PTH104


def _listener() -> socket.socket:
    # By its name alone: the path of a socket has 107 characters at most.
    if os.path.lexists("shim.sock"):
        os.unlink("shim.sock")  # noqa: PTH108
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    mask = os.umask(0o177)
    listener.bind("shim.sock")
    os.umask(mask)
    return listener


def end_children(patience: float = 5.0) -> None:
    """Kill all that is left of the pod. Who has lost its parent is our child, so nothing can hide from this."""
    deadline = time.monotonic() + patience
    while _reap_some():
        if time.monotonic() > deadline:
            say("processes of the pod were killed and do not end")
            return
        for pid in _children():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:  # it has ended, or become somebody whom we may not kill
                continue
        time.sleep(0.01)


def _reap_some() -> bool:
    """Whether there are children that have not ended."""
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


def _leave() -> None:
    for name in ("shim.sock", "shim.json", "interpose-hold"):
        try:
            os.unlink(name)  # noqa: PTH108
        except OSError:
            continue
