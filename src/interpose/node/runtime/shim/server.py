"""What the runtime can ask a shim for, and the shim as a whole."""

import os
import signal
import socket

from interpose.node.runtime.shim import protocol
from interpose.node.runtime.shim.containers import ShimContainer
from interpose.node.runtime.shim.event_loop import READ, EventLoop, LoopTimer, say
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
    """The request cannot be met; `kind` tells the runtime what to make of it."""

    def __init__(self, message: str, kind: str = "failed") -> None:
        super().__init__(message)
        self.kind = kind


class ShimServer:
    """Everything there is: one holder, containers, processes in them, connections."""

    def __init__(self, folder: str) -> None:
        self.loop = EventLoop(self._child)
        self.holder = 0
        self._folder = folder
        self._containers: dict[str, ShimContainer] = {}
        self._kills = PodKills()
        self._peers: set[ShimPeer] = set()
        self._launches: dict[int, Launch] = {}
        self._children: dict[int, Callable[[int], None]] = {}
        # Ended while something was being started, which they may be: status, and how many starts there were then.
        self._strays: dict[int, tuple[int, int]] = {}
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
        """Take connections from now on."""
        listener.setblocking(False)
        listener.listen(_BACKLOG)
        self.loop.watch(listener.fileno(), READ, lambda _events: self._accept(listener))

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except BlockingIOError:
            return
        except OSError as error:  # no descriptors left: others have to end first
            say(f"no connection taken: {error}")
            self.loop.unwatch(listener.fileno())
            self.loop.later(_ACCEPT_AGAIN, lambda: self.listen(listener))
            return
        peer = ShimPeer(self.loop, connection, self._heard)
        peer.gone = lambda: self._peers.discard(peer)
        self._peers.add(peer)

    def _heard(self, peer: ShimPeer, said: "dict[str, Any]") -> None:
        number = said.get("id")
        try:
            answer = self._ops[str(said["op"])](peer, said)
        except RequestRefusedError as error:
            peer.tell({"id": number, "error": {"kind": error.kind, "message": str(error)}})
        except (KeyError, TypeError, ValueError, OSError) as error:
            peer.tell({"id": number, "error": {"kind": "failed", "message": f"{type(error).__name__}: {error}"}})
        else:
            if answer is not None:
                peer.tell({"id": number, "ok": answer})

    def _hello(self, peer: ShimPeer, _said: "dict[str, Any]") -> dict[str, object]:
        peer.wants_events = True
        return {"protocol": protocol.PROTOCOL, "pid": os.getpid(), "holder": self.holder}

    def _states(self, _peer: ShimPeer, _said: "dict[str, Any]") -> dict[str, object]:
        return {"containers": {name: container.state() for name, container in self._containers.items()}}

    def _run(self, peer: ShimPeer, said: "dict[str, Any]") -> None:
        name, number = str(said["container"]), said.get("id")
        if name in self._containers:
            raise RequestRefusedError(f"container {name} was started already")
        if self._stopping or not self.holder:
            raise RequestRefusedError("the sandbox has ended", _NOT_RUNNING)
        container = ShimContainer(
            self.loop,
            log=str(said["log"]),
            exit_file=str(said["exit_file"]),
            kills=OomKills(self._kills, said.get("oom_file")),
            stdin_once=bool(said.get("stdin_once")),
        )

        def done(result: Launched | LaunchError) -> None:
            if isinstance(result, LaunchError):
                del self._containers[name]
                peer.tell({"id": number, "error": {"kind": "failed", "message": str(result)}})
                self._leave_if_done()
                return
            container.started(result)
            peer.tell({"id": number, "ok": {"pid": result.pid}})
            self._adopt(result.pid, lambda status: self._container_ended(name, container, status))

        self._launch(said, done)
        self._containers[name] = container

    def _container_ended(self, name: str, container: ShimContainer, status: int) -> None:
        container.ended(status, lambda: self._announce({"event": "exit", "container": name, "exit": container.exited}))
        self._leave_if_done()

    def _exec(self, peer: ShimPeer, said: "dict[str, Any]") -> None:
        container = self._running(said)
        number, timeout = said.get("id"), float(said.get("timeout") or 0)
        session: ExecSession | None = None
        expired = False
        self._peers.discard(peer)  # events are not for it

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
                    peer.tell({"id": number, "ok": {"pid": 0}})
                    peer.send(result_frame(128 + signal.SIGKILL, timed_out=True))
                else:
                    kind = "failed" if container.running else _NOT_RUNNING  # it ended meanwhile
                    peer.tell({"id": number, "error": {"kind": kind, "message": str(result)}})
                peer.finish()
                return
            peer.tell({"id": number, "ok": {"pid": result.pid}})
            session = ExecSession(self.loop, peer, result, deadline)
            self._adopt(result.pid, session.ended)
            if expired:
                session.expire()

        launch = self._launch(said, done)

    def _attach(self, peer: ShimPeer, said: "dict[str, Any]") -> None:
        container = self._running(said)
        peer.tell({"id": said.get("id"), "ok": {"pid": container.pid}})
        AttachSession(self.loop, peer, container, stdin=bool(said.get("stdin")), left=lambda: self._peers.discard(peer))

    def _signal(self, _peer: ShimPeer, said: "dict[str, Any]") -> dict[str, object]:
        container = self._known(said)
        container.signal(int(said["signal"]))
        return {}

    def _resize(self, _peer: ShimPeer, said: "dict[str, Any]") -> dict[str, object]:
        self._running(said).resize(int(said["width"]), int(said["height"]))
        return {}

    def _reopen(self, _peer: ShimPeer, said: "dict[str, Any]") -> dict[str, object]:
        self._running(said).reopen_log()
        return {}

    def _forget(self, _peer: ShimPeer, said: "dict[str, Any]") -> dict[str, object]:
        name = str(said["container"])
        container = self._containers.get(name)
        if container is not None:
            if container.exited is None:
                raise RequestRefusedError(f"container {name} has not ended")
            container.close()
            del self._containers[name]
        return {}

    def _stop(self, _peer: ShimPeer, _said: "dict[str, Any]") -> dict[str, object]:
        self._stopping = True
        if self.holder:
            os.kill(self.holder, signal.SIGKILL)
        self._leave_if_done()
        return {}

    def _known(self, said: "dict[str, Any]") -> ShimContainer:
        name = str(said["container"])
        container = self._containers.get(name)
        if container is None:
            raise RequestRefusedError(f"container {name} does not run in this sandbox", _NOT_RUNNING)
        return container

    def _running(self, said: "dict[str, Any]") -> ShimContainer:
        container = self._known(said)
        if not container.running:
            raise RequestRefusedError(f"container {said['container']} does not run", _NOT_RUNNING)
        return container

    def _launch(self, said: "dict[str, Any]", done: "Callable[[Launched | LaunchError], None]") -> Launch:
        self._count += 1
        launch = Launch(
            self.loop,
            prefix=f"{self._folder}/start-{self._count}",
            command=[str(word) for word in said["command"]],
            process=said.get("process"),
            stdin=bool(said.get("stdin")),
            tty=bool(said.get("tty")),
            timeout=float(said.get("timeout") or _LAUNCH_LIMIT) if said["op"] == "run" else _LAUNCH_LIMIT,
            done=done,
        )
        launch.number = self._count
        self._launches[launch.pid] = launch
        return launch

    def _adopt(self, pid: int, ended: "Callable[[int], None]") -> None:
        """A process became ours; it may have ended before we knew it."""
        stray = self._strays.pop(pid, None)
        if stray is None:
            self._children[pid] = ended
        else:
            ended(stray[0])

    def _child(self, pid: int, status: int) -> None:
        if pid == self.holder:
            self.holder = 0
            self._announce({"event": "died"})
            self._leave_if_done()
        elif (launch := self._launches.pop(pid, None)) is not None:
            launch.finished(status)
            self._forget_strays()
        elif (ended := self._children.pop(pid, None)) is not None:
            ended(status)
        elif self._launches:
            self._strays[pid] = (status, self._count)

    def _forget_strays(self) -> None:
        """Those that nobody can claim any more: their number may soon be that of another process."""
        oldest = min((launch.number for launch in self._launches.values()), default=self._count + 1)
        self._strays = {pid: stray for pid, stray in self._strays.items() if stray[1] >= oldest}

    def _announce(self, event: dict[str, object]) -> None:
        for peer in list(self._peers):
            if peer.wants_events:
                peer.tell(event)

    def _leave_if_done(self) -> None:
        busy = any(container.exited is None for container in self._containers.values())
        if self._stopping and not self.holder and not busy:
            self.loop.end()
