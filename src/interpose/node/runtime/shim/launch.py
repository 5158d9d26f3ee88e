"""Starts a process by a command that exits once it runs: `runc run --detach`, `runc exec --detach`.

The command gets the streams of the process. We are the parent of the process afterwards, because we are the nearest
subreaper. Until the command has exited nothing is read from the streams: if it fails, the output there is its own.
"""

import errno
import json
import os
import signal
import socket

from interpose.node.runtime.shim import protocol
from interpose.node.runtime.shim.event_loop import EventLoop, LoopTimer
from interpose.node.runtime.shim.oci_errors import reason

TYPE_CHECKING = False  # importing typing costs a megabyte
if TYPE_CHECKING:
    from collections.abc import Callable

_ENDINGS = {
    protocol.PID_FILE: "pid",
    protocol.LOG_FILE: "log",
    protocol.PROCESS_FILE: "json",
    protocol.CONSOLE_SOCKET: "sock",
}
# Ignored here or by Python, and what is ignored stays so across exec.
_DEFAULTS = [
    *(signal.SIGPIPE, signal.SIGTERM, signal.SIGINT, signal.SIGHUP),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD, signal.SIGXFSZ),
]


class LaunchError(Exception):
    """A process did not start; the text is for the client."""


class Launched:
    """A started process: its pid and our ends of its streams (-1: none). With a terminal both ends are the terminal."""

    __slots__ = ("pid", "stderr", "stdin", "stdout", "terminal")

    def __init__(self, *, pid: int, stdin: int, stdout: int, stderr: int, terminal: int = -1) -> None:
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.terminal = terminal

    def close(self) -> None:
        """Close our ends of all streams."""
        for fd in (self.stdin, self.stdout, self.stderr, self.terminal):
            if fd >= 0:
                os.close(fd)


class Launch:
    """A start that is under way. `done` is called once, with the process or with the error."""

    def __init__(
        self,
        loop: EventLoop,
        *,
        prefix: str,
        command: list[str],
        process: dict[str, object] | None,
        stdin: bool,
        tty: bool,
        timeout: float,
        done: "Callable[[Launched | LaunchError], None]",
    ) -> None:
        """Spawn the command; OSError if that fails. `prefix` is a unique path in our folder."""
        self.pid = 0
        self.number = 0  # which start this is
        self._loop = loop
        self._prefix = prefix
        self._done = done
        self._timer: LoopTimer | None = None
        self._timed_out = False
        self._listener: socket.socket | None = None
        self._ours: list[int] = []
        theirs: list[int] = []
        try:
            if process is not None:
                self._write_process(process)
            if tty:
                self._listen()
            for number in range(3):
                self._stream(number, theirs, wanted=not tty and (number > 0 or stdin))
            words = [self._word(word) for word in command]
            actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(theirs)]
            # A process group, to kill it by; not a session, which many kernels schedule as a new one.
            self.pid = os.posix_spawn(
                words[0], words, os.environ, file_actions=actions, setpgroup=0, setsigdef=_DEFAULTS, setsigmask=[]
            )
        except OSError:
            self._close_streams()
            self._clean()
            raise
        finally:
            for fd in theirs:
                os.close(fd)
        self._timer = loop.later(timeout, self.give_up)

    def on_exit(self, status: int) -> None:
        """The command has exited."""
        if self._timer is not None:
            self._timer.cancel()
        try:
            result: Launched | LaunchError = self._result(status)
        except (OSError, ValueError) as error:
            result = LaunchError(f"the runtime left nothing to work with: {error}")
        if isinstance(result, LaunchError):
            self._close_streams()
        self._clean()
        self._done(result)

    def _result(self, status: int) -> "Launched | LaunchError":
        code = os.waitstatus_to_exitcode(status)
        if self._timed_out:
            return LaunchError("the runtime took too long and was killed")
        if code != 0:
            return LaunchError(self._reason(code))
        with open(self._path("pid")) as file:  # noqa: PTH123
            pid = int(file.read())
        if self._listener is not None:
            terminal = self._terminal(self._listener)
            return Launched(pid=pid, stdin=os.dup(terminal), stdout=os.dup(terminal), stderr=-1, terminal=terminal)
        stdin, stdout, stderr = self._ours
        return Launched(pid=pid, stdin=stdin, stdout=stdout, stderr=stderr)

    def _reason(self, code: int) -> str:
        text = ""
        try:
            with open(self._path("log"), errors="replace") as file:  # noqa: PTH123
                text = file.read(protocol.FRAME_LIMIT)
        except OSError:
            text = ""
        if not text and len(self._ours) > 2 and self._ours[2] >= 0:
            os.set_blocking(self._ours[2], False)
            try:
                text = os.read(self._ours[2], protocol.FRAME_LIMIT).decode(errors="replace")
            except OSError:
                text = ""
        return reason(text, f"the runtime ended with {code}")

    def _stream(self, number: int, theirs: list[int], *, wanted: bool) -> None:
        """Open a stream: a pipe, or /dev/null if it is not wanted."""
        if not wanted:
            theirs.append(os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC))
            self._ours.append(-1)
            return
        reading, writing = os.pipe2(os.O_CLOEXEC)
        theirs.append(reading if number == 0 else writing)
        self._ours.append(writing if number == 0 else reading)

    def _listen(self) -> None:
        """Listen for the terminal. The path goes through /proc: a socket's path has 107 characters at most."""
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._listener.setblocking(False)
        self._listener.bind(self._word(protocol.CONSOLE_SOCKET))
        self._listener.listen(1)

    def _terminal(self, listener: socket.socket) -> int:
        # The runtime has sent it before it exited: it is in the queue.
        connection, _ = listener.accept()
        with connection:
            connection.setblocking(False)
            _, fds, _, _ = socket.recv_fds(connection, 4096, 1)
        if not fds:
            raise OSError(errno.EBADMSG, "no terminal came over the console socket")
        os.set_inheritable(fds[0], False)
        return fds[0]

    def _write_process(self, process: dict[str, object]) -> None:
        fd = os.open(self._path("json"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w") as file:
            json.dump(process, file)

    def _word(self, word: str) -> str:
        if word == protocol.CONSOLE_SOCKET:
            return f"/proc/{os.getpid()}/cwd/{self._path('sock').rpartition('/')[2]}"
        return self._path(_ENDINGS[word]) if word in _ENDINGS else word

    def _path(self, ending: str) -> str:
        return f"{self._prefix}.{ending}"

    def give_up(self) -> None:
        """Kill the command, whose client is gone or whose timeout expired; `done` is called after its exit."""
        self._timed_out = True
        for target in (-self.pid, self.pid):
            try:
                os.kill(target, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def _close_streams(self) -> None:
        for fd in self._ours:
            if fd >= 0:
                os.close(fd)
        self._ours.clear()

    def _clean(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for ending in _ENDINGS.values():
            try:
                os.unlink(self._path(ending))  # noqa: PTH108
            except OSError:
                continue
