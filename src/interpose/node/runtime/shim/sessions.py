"""Sessions of exec and attach: one connection for one process.

An exec'd process ends with its session: when the other side hangs up its streams are closed, and a while later it is
killed. A container goes on.
"""

import json
import os
import signal
import struct

from interpose.node.runtime.shim import protocol
from interpose.node.runtime.shim.containers import ShimContainer
from interpose.node.runtime.shim.event_loop import EventLoop, LoopTimer
from interpose.node.runtime.shim.launch import Launched
from interpose.node.runtime.shim.peers import ShimPeer
from interpose.node.runtime.shim.streams import InputPipe, OutputPipe, resize_terminal

TYPE_CHECKING = False  # importing typing costs a megabyte
if TYPE_CHECKING:
    from collections.abc import Callable

_SIZE = struct.Struct(">HH")
# The process exited but a child of it holds its output: output within this time belongs to it.
_LINGER = 1.0
_HANGUP = 1.0
# Seconds that a slow watcher may block a container.
_STALL = 5.0


class ExecSession:
    """The session of an exec'd process. It begins when the process runs."""

    def __init__(self, loop: EventLoop, peer: ShimPeer, launched: Launched, deadline: LoopTimer | None) -> None:
        self.pid = launched.pid
        self._loop = loop
        self._peer = peer
        self._deadline = deadline
        self._terminal = launched.terminal
        self._code: int | None = None
        self._timed_out = False
        self._outputs: list[OutputPipe] = []
        self._input = InputPipe(loop, launched.stdin) if launched.stdin >= 0 else None
        for channel, fd in ((protocol.STDOUT, launched.stdout), (protocol.STDERR, launched.stderr)):
            if fd >= 0:
                self._follow(channel, fd)
        peer.on_close = self._on_hang_up
        peer.on_room = self._resume
        if peer.open:
            peer.switch(self._on_frame)
        else:
            self._on_hang_up()

    def on_exit(self, status: int) -> None:
        """The process exited with this wait status."""
        code = os.waitstatus_to_exitcode(status)
        self._code = code if code >= 0 else 128 - code
        if self._deadline is not None:
            self._deadline.cancel()
        if self._input is not None:
            self._input.close()
        if not self._outputs:
            self._finish()
        else:
            self._loop.later(_LINGER, self._linger)

    def expire(self) -> None:
        """Kill the process, whose timeout has expired."""
        self._timed_out = True
        self._kill()

    def _linger(self) -> None:
        if self._code is not None and self._outputs:
            if self._peer.full:  # the client is slow, not the process
                self._loop.later(_LINGER, self._linger)
                return
            self._finish()

    def _finish(self) -> None:
        self._release()
        self._peer.on_close = self._peer.on_room = None
        self._peer.send(result_frame(self._code, timed_out=self._timed_out))
        self._peer.finish()

    def _on_hang_up(self) -> None:
        self._release()
        if self._code is None:
            self._loop.later(_HANGUP, self._kill)

    def _release(self) -> None:
        for output in list(self._outputs):
            output.close()
        self._outputs.clear()
        if self._input is not None:
            self._input.close()
        if self._terminal >= 0:
            os.close(self._terminal)
        self._terminal = -1

    def _kill(self) -> None:
        """Kill the process and its children, as far as they are in its group."""
        if self._code is None:
            for target in (-self.pid, self.pid):
                try:
                    os.kill(target, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):
                    continue

    def _follow(self, channel: int, fd: int) -> None:
        def take(data: bytes) -> None:
            self._peer.send(protocol.frame(channel, data))
            if self._peer.full:
                for pipe in self._outputs:
                    pipe.pause()

        def ended() -> None:
            self._outputs.remove(output)
            if self._code is not None and not self._outputs:
                self._finish()

        output = OutputPipe(self._loop, fd, take, ended)
        self._outputs.append(output)

    def _resume(self) -> None:
        for output in self._outputs:
            output.resume()

    def _on_frame(self, channel: int, data: bytes) -> None:
        if channel == protocol.STDIN and self._input is not None:
            feed(self._peer, self._input, data, ends=self._terminal < 0)
        elif channel == protocol.RESIZE and len(data) == _SIZE.size and self._terminal >= 0:
            resize_terminal(self._terminal, *_SIZE.unpack(data))


class AttachSession:
    """The session of a client that is attached to a container."""

    def __init__(
        self, loop: EventLoop, peer: ShimPeer, container: ShimContainer, *, stdin: bool, on_close: "Callable[[], None]"
    ) -> None:
        self._loop = loop
        self._peer = peer
        self._container = container
        self._writes = stdin
        self._closed = on_close
        self._stalled: LoopTimer | None = None
        container.watchers.append(self)
        peer.on_close = self._on_close
        peer.on_room = self._on_room
        peer.switch(self._on_frame)

    def on_output(self, channel: int, data: bytes) -> None:
        """The container wrote to a stream."""
        self._peer.send(protocol.frame(channel, data))
        if self._peer.full and self._stalled is None:
            self._container.pause()
            self._watch_progress()

    def on_exit(self, code: int) -> None:
        """The container exited with this code."""
        self._peer.send(protocol.frame(protocol.RESULT, json.dumps({"code": code}).encode()))
        self._peer.finish()

    def _watch_progress(self) -> None:
        before = self._peer.pending

        def look() -> None:
            if self._peer.pending >= before:
                self._peer.close()
            else:
                self._watch_progress()

        self._stalled = self._loop.later(_STALL, look)

    def _on_room(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
            self._container.resume()

    def _on_close(self) -> None:
        self._on_room()
        if self in self._container.watchers:
            self._container.watchers.remove(self)
        if self._writes and self._container.stdin_once and self._container.input is not None:
            self._container.input.end()
        self._closed()

    def _on_frame(self, channel: int, data: bytes) -> None:
        if channel == protocol.STDIN and self._writes and self._container.input is not None:
            feed(self._peer, self._container.input, data, ends=self._container.stdin_once)
        elif channel == protocol.RESIZE and len(data) == _SIZE.size:
            self._container.resize(*_SIZE.unpack(data))


def result_frame(code: int | None, *, timed_out: bool) -> bytes:
    """The frame with the exit of an exec'd process."""
    return protocol.frame(protocol.RESULT, json.dumps({"code": code, "timed_out": timed_out}).encode())


def feed(peer: ShimPeer, target: InputPipe, data: bytes, *, ends: bool) -> None:
    """Pass input on; the connection is not read while the process does not read."""
    if not data:
        if ends:
            target.end()
        return
    target.write(data)
    if target.full:
        peer.hold()
        target.when_room(peer.release)
