"""A container from its start to its exit: log, watchers, and the exit record.

The record is on the disk before the exit is reported, and all output of the container is in the log before.
"""

import json
import os
import signal
import time

from interpose.node.runtime.shim import protocol
from interpose.node.runtime.shim.atomic_file import replace_file
from interpose.node.runtime.shim.event_loop import EventLoop, log_line
from interpose.node.runtime.shim.launch import Launched
from interpose.node.runtime.shim.log import LogFile, LogLines
from interpose.node.runtime.shim.oom import OomKills
from interpose.node.runtime.shim.streams import InputPipe, OutputPipe, resize_terminal

TYPE_CHECKING = False  # importing typing costs a megabyte
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class Watcher(Protocol):
        """A client that receives the output of a container."""

        def on_output(self, channel: int, data: bytes) -> None: ...

        def on_exit(self, code: int) -> None: ...


_NAMES = {protocol.STDOUT: "stdout", protocol.STDERR: "stderr"}


class ShimContainer:
    """A container. pid 0: it is being started."""

    def __init__(self, loop: EventLoop, *, log: str, exit_file: str, kills: OomKills, stdin_once: bool) -> None:
        self.pid = 0
        self.started_at = 0
        self.exited: dict[str, object] | None = None
        self.stdin_once = stdin_once
        self.input: InputPipe | None = None
        self.watchers: list[Watcher] = []
        self._loop = loop
        self._log_path = log
        self._log: LogFile | None = None
        self._exit_file = exit_file
        self._kills = kills
        self._outputs: list[OutputPipe] = []
        self._pausing = 0
        self._terminal = -1

    @property
    def running(self) -> bool:
        return self.pid > 0 and self.exited is None

    def state(self) -> dict[str, object]:
        """The state of the container for an answer."""
        return {"pid": self.pid, "started_at": self.started_at, "exited": self.exited}

    def on_started(self, launched: Launched) -> None:
        """The container runs: read its output from now on."""
        self.pid = launched.pid
        self._kills.started()
        self.started_at = time.time_ns()
        self._terminal = launched.terminal
        self._log = LogFile(self._log_path)
        if launched.stdin >= 0:
            self.input = InputPipe(self._loop, launched.stdin)
        for channel, fd in ((protocol.STDOUT, launched.stdout), (protocol.STDERR, launched.stderr)):
            if fd >= 0:
                self._follow(channel, fd, self._log)

    def on_exit(self, status: int, report: "Callable[[], None]") -> None:
        """The first process exited: write the exit record, then call `report`."""
        for output in list(self._outputs):
            output.drain()
        code = os.waitstatus_to_exitcode(status)
        self.exited = {
            "code": code if code >= 0 else 128 - code,
            "at_ns": time.time_ns(),
            "oom": self._kills.ended(code if code >= 0 else 128 - code),
        }
        if self.input is not None:
            self.input.close()
        try:
            replace_file(self._exit_file, json.dumps(self.exited), sync=True)
        except OSError as error:
            log_line(f"exit record {self._exit_file} cannot be written: {error}")
        report()
        for watcher in list(self.watchers):
            watcher.on_exit(int(str(self.exited["code"])))

    def signal(self, number: int) -> None:
        """Signal the first process, which is our child: until it is reaped its pid is its own."""
        if self.running:
            os.kill(self.pid, signal.Signals(number) if number in signal.valid_signals() else number)

    def resize(self, width: int, height: int) -> None:
        """Set the size of its terminal, if it has one."""
        if self._terminal >= 0:
            resize_terminal(self._terminal, width, height)

    def reopen_log(self) -> None:
        """Open a new log file; OSError if that fails."""
        if self._log is not None:
            self._log.reopen()

    def pause(self) -> None:
        """Pause the output: a watcher cannot keep up."""
        self._pausing += 1
        for output in self._outputs:
            output.pause()

    def resume(self) -> None:
        """Resume the output, once for each `pause`."""
        self._pausing -= 1
        if self._pausing == 0:
            for output in self._outputs:
                output.resume()

    def close(self) -> None:
        """Close streams, log and terminal of an exited container."""
        for output in list(self._outputs):
            output.close()
        self._outputs.clear()
        if self.input is not None:
            self.input.close()
        if self._log is not None:
            self._log.close()
        if self._terminal >= 0:
            os.close(self._terminal)
        self._terminal = -1

    def _follow(self, channel: int, fd: int, log: LogFile) -> None:
        lines = LogLines(_NAMES[channel])

        def take(data: bytes) -> None:
            log.write(lines.feed(data, time.time_ns()))
            for watcher in list(self.watchers):
                watcher.on_output(channel, data)

        def ended() -> None:
            log.write(lines.end(time.time_ns()))
            self._outputs.remove(output)

        output = OutputPipe(self._loop, fd, take, ended)
        self._outputs.append(output)
