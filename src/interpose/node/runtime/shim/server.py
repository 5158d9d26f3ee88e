"""The server of a shim: its operations and its processes."""

import os
import signal
import socket

from interpose.node.runtime.shim import protocol
from interpose.node.runtime.shim.containers import ShimContainer
from interpose.node.runtime.shim.event_loop import READ, EventLoop, LoopTimer, log_line
from interpose.node.runtime.shim.launch import Launch, Launched, LaunchError
from interpose.node.runtime.shim.oom import OomKills, PodKills
from interpose.node.runtime.shim.peers import ShimPeer
from interpose.node.runtime.shim.sessions import AttachSession, ExecSession, result_frame

TYPE_CHECKING = False  # importing typing costs a megabyte
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_BACKLOG = 128
_ACCEPT_AGAIN = 0.1
_LAUNCH_LIMIT = 120.0
_NOT_RUNNING = "not-running"


class RequestRefusedError(Exception):
    """A request that is refused; `kind` is the error kind in the answer."""

    def __init__(self, message: str, kind: str = "failed") -> None:
        super().__init__(message)
        self.kind = kind


class ShimServer:
    """A shim: one pause process, containers, processes in them, connections."""

    def __init__(self, folder: str) -> None:
        self.loop = EventLoop(self._on_child_exit)
        self.pause_pid = 0
        self._folder = folder
        self._containers: dict[str, ShimContainer] = {}
        self._kills = PodKills()
        self._peers: set[ShimPeer] = set()
        self._launches: dict[int, Launch] = {}
        self._children: dict[int, Callable[[int], None]] = {}
        # Exited during a start, and perhaps the started process: status, and the number of starts so far.
        self._unclaimed: dict[int, tuple[int, int]] = {}
        self._count = 0
        self._stopping = False
        self._ops: dict[str, Callable[[ShimPeer, dict[str, Any]], dict[str, object] | None]] = {
            "hello": self._hello,
            "run": self._run,
            "exec": self._exec,
            "attach": self._attach,
            "signal": self._signal,
            "resize": self._resize,
            "reopen": self._reopen,
            "states": self._states,
            "forget": self._forget,
            "stop": self._stop,
        }

    def listen(self, listener: socket.socket) -> None:
        """Accept connections from now on."""
        listener.setblocking(False)
        listener.listen(_BACKLOG)
        self.loop.watch(listener.fileno(), READ, lambda _events: self._accept(listener))

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except BlockingIOError:
            return
        except OSError as error:  # no descriptors left: retried later
            log_line(f"no connection taken: {error}")
            self.loop.unwatch(listener.fileno())
            self.loop.later(_ACCEPT_AGAIN, lambda: self.listen(listener))
            return
        peer = ShimPeer(self.loop, connection, self._on_request)
        peer.on_close = lambda: self._peers.discard(peer)
        self._peers.add(peer)

    def _on_request(self, peer: ShimPeer, request: "dict[str, Any]") -> None:
        number = request.get("id")
        try:
            answer = self._ops[str(request["op"])](peer, request)
        except RequestRefusedError as error:
            peer.send_document({"id": number, "error": {"kind": error.kind, "message": str(error)}})
        except (KeyError, TypeError, ValueError, OSError) as error:
            peer.send_document(
                {"id": number, "error": {"kind": "failed", "message": f"{type(error).__name__}: {error}"}}
            )
        else:
            if answer is not None:
                peer.send_document({"id": number, "ok": answer})

    def _hello(self, peer: ShimPeer, _request: "dict[str, Any]") -> dict[str, object]:
        peer.wants_events = True
        return {"protocol": protocol.PROTOCOL, "pid": os.getpid(), "holder": self.pause_pid}

    def _states(self, _peer: ShimPeer, _request: "dict[str, Any]") -> dict[str, object]:
        return {"containers": {name: container.state() for name, container in self._containers.items()}}

    def _run(self, peer: ShimPeer, request: "dict[str, Any]") -> None:
        name, number = str(request["container"]), request.get("id")
        if name in self._containers:
            raise RequestRefusedError(f"container {name} was started already")
        if self._stopping or not self.pause_pid:
            raise RequestRefusedError("the sandbox has ended", _NOT_RUNNING)
        container = ShimContainer(
            self.loop,
            log=str(request["log"]),
            exit_file=str(request["exit_file"]),
            kills=OomKills(self._kills, request.get("oom_file")),
            stdin_once=bool(request.get("stdin_once")),
        )

        def done(result: Launched | LaunchError) -> None:
            if isinstance(result, LaunchError):
                del self._containers[name]
                peer.send_document({"id": number, "error": {"kind": "failed", "message": str(result)}})
                self._end_if_done()
                return
            container.on_started(result)
            peer.send_document({"id": number, "ok": {"pid": result.pid}})
            self._register(result.pid, lambda status: self._container_ended(name, container, status))

        self._launch(request, done)
        self._containers[name] = container

    def _container_ended(self, name: str, container: ShimContainer, status: int) -> None:
        container.on_exit(
            status, lambda: self._announce({"event": "exit", "container": name, "exit": container.exited})
        )
        self._end_if_done()

    def _exec(self, peer: ShimPeer, request: "dict[str, Any]") -> None:
        container = self._running(request)
        number, timeout = request.get("id"), float(request.get("timeout") or 0)
        session: ExecSession | None = None
        expired = False
        self._peers.discard(peer)  # it gets no events

        def expire() -> None:
            nonlocal expired
            expired = True
            if session is not None:
                session.expire()
            else:
                launch.give_up()

        deadline: LoopTimer | None = self.loop.later(timeout, expire) if timeout > 0 else None

        def done(result: Launched | LaunchError) -> None:
            nonlocal session
            if isinstance(result, LaunchError):
                if expired:
                    peer.send_document({"id": number, "ok": {"pid": 0}})
                    peer.send(result_frame(128 + signal.SIGKILL, timed_out=True))
                else:
                    kind = "failed" if container.running else _NOT_RUNNING  # it exited meanwhile
                    peer.send_document({"id": number, "error": {"kind": kind, "message": str(result)}})
                peer.finish()
                return
            peer.send_document({"id": number, "ok": {"pid": result.pid}})
            session = ExecSession(self.loop, peer, result, deadline)
            self._register(result.pid, session.on_exit)
            if expired:
                session.expire()

        launch = self._launch(request, done)

    def _attach(self, peer: ShimPeer, request: "dict[str, Any]") -> None:
        container = self._running(request)
        peer.send_document({"id": request.get("id"), "ok": {"pid": container.pid}})
        AttachSession(
            self.loop, peer, container, stdin=bool(request.get("stdin")), on_close=lambda: self._peers.discard(peer)
        )

    def _signal(self, _peer: ShimPeer, request: "dict[str, Any]") -> dict[str, object]:
        container = self._find(request)
        container.signal(int(request["signal"]))
        return {}

    def _resize(self, _peer: ShimPeer, request: "dict[str, Any]") -> dict[str, object]:
        self._running(request).resize(int(request["width"]), int(request["height"]))
        return {}

    def _reopen(self, _peer: ShimPeer, request: "dict[str, Any]") -> dict[str, object]:
        self._running(request).reopen_log()
        return {}

    def _forget(self, _peer: ShimPeer, request: "dict[str, Any]") -> dict[str, object]:
        name = str(request["container"])
        container = self._containers.get(name)
        if container is not None:
            if container.exited is None:
                raise RequestRefusedError(f"container {name} has not ended")
            container.close()
            del self._containers[name]
        return {}

    def _stop(self, _peer: ShimPeer, _request: "dict[str, Any]") -> dict[str, object]:
        self._stopping = True
        if self.pause_pid:
            os.kill(self.pause_pid, signal.SIGKILL)
        self._end_if_done()
        return {}

    def _find(self, request: "dict[str, Any]") -> ShimContainer:
        name = str(request["container"])
        container = self._containers.get(name)
        if container is None:
            raise RequestRefusedError(f"container {name} does not run in this sandbox", _NOT_RUNNING)
        return container

    def _running(self, request: "dict[str, Any]") -> ShimContainer:
        container = self._find(request)
        if not container.running:
            raise RequestRefusedError(f"container {request['container']} does not run", _NOT_RUNNING)
        return container

    def _launch(self, request: "dict[str, Any]", done: "Callable[[Launched | LaunchError], None]") -> Launch:
        self._count += 1
        launch = Launch(
            self.loop,
            prefix=f"{self._folder}/start-{self._count}",
            command=[str(word) for word in request["command"]],
            process=request.get("process"),
            stdin=bool(request.get("stdin")),
            tty=bool(request.get("tty")),
            timeout=float(request.get("timeout") or _LAUNCH_LIMIT) if request["op"] == "run" else _LAUNCH_LIMIT,
            done=done,
        )
        launch.number = self._count
        self._launches[launch.pid] = launch
        return launch

    def _register(self, pid: int, ended: "Callable[[int], None]") -> None:
        """Register the exit callback of a started process, which may have exited already."""
        unclaimed = self._unclaimed.pop(pid, None)
        if unclaimed is None:
            self._children[pid] = ended
        else:
            ended(unclaimed[0])

    def _on_child_exit(self, pid: int, status: int) -> None:
        if pid == self.pause_pid:
            self.pause_pid = 0
            self._announce({"event": "died"})
            self._end_if_done()
        elif (launch := self._launches.pop(pid, None)) is not None:
            launch.on_exit(status)
            self._drop_unclaimed()
        elif (ended := self._children.pop(pid, None)) is not None:
            ended(status)
        elif self._launches:
            self._unclaimed[pid] = (status, self._count)

    def _drop_unclaimed(self) -> None:
        """Drop exits that no start can claim any more: their pid may soon be that of another process."""
        oldest = min((launch.number for launch in self._launches.values()), default=self._count + 1)
        self._unclaimed = {pid: unclaimed for pid, unclaimed in self._unclaimed.items() if unclaimed[1] >= oldest}

    def _announce(self, event: dict[str, object]) -> None:
        for peer in list(self._peers):
            if peer.wants_events:
                peer.send_document(event)

    def _end_if_done(self) -> None:
        busy = any(container.exited is None for container in self._containers.values())
        if self._stopping and not self.pause_pid and not busy:
            self.loop.end()
