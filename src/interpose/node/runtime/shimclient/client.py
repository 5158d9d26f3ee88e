"""The runtime's side of a shim: launches it, reconnects to it, sends it requests and receives the exits of containers.

A `ShimClient` is a connection, not the process: closing it or dying with it changes nothing for the sandbox. When the
shim itself is gone (ShimClosedError, `on_lost`), its pause process is gone with it, but containers may live on without
a parent that knows them: the caller kills them by their cgroup, deletes them with the OCI runtime by force, and takes
the exit record if there is one, else 255.
"""

import asyncio
import itertools
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, Self

from interpose.node.runtime.shim import protocol
from interpose.node.runtime.shimclient.launch import ShimStarter, connect, launch, read_document
from interpose.node.runtime.shimclient.paths import ShimPaths, kill_shim
from interpose.node.runtime.shimclient.streams import ShimSession
from interpose.node.runtime.shimclient.types import (
    ExecRequest,
    SandboxOptions,
    ShimClosedError,
    ShimContainerState,
    ShimError,
    ShimExecResult,
    ShimExit,
    ShimNotRunningError,
    StartRequest,
    StreamExit,
    parse_error,
    parse_exit,
    parse_state,
)
from interpose.tasks import TaskBag

__all__ = [
    "ExecRequest",
    "SandboxOptions",
    "ShimClient",
    "ShimClosedError",
    "ShimContainerState",
    "ShimError",
    "ShimExecResult",
    "ShimExit",
    "ShimNotRunningError",
    "ShimSession",
    "StartRequest",
    "StreamExit",
]

OUTPUT_LIMIT: Final = 16 << 20
# Seconds for an answer. The second timeout is for ourselves: after a long delay the answer may be there unread.
TIMEOUT: Final = 15.0
SECOND_TIMEOUT: Final = 5.0
# Seconds that a shim gives the OCI runtime to start a process in a container.
_EXEC_START: Final = 120.0
# Without an answer to these the state of containers would be unknown, and they could not be ended.
_VITAL: Final = frozenset({"run", "signal", "states", "stop"})

_log = logging.getLogger(__name__)


class ShimClient:
    """A connection to a shim. Callbacks are called on the loop, one at a time, in the order of events.

    `on_exit(id, exit)`: a container exited. `on_died()`: the pause process died, and the sandbox with it. `on_lost()`:
    the shim died; never after `stop` or `close`. Events before `attach_to` are only in `states`.
    """

    def __init__(
        self,
        paths: ShimPaths,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        on_exit: Callable[[str, ShimExit], None] | None,
        on_lost: Callable[[], None] | None,
        on_died: Callable[[], None] | None,
    ) -> None:
        self.paths = paths
        self.pid = 0
        self.pause_pid = 0
        self.on_exit = on_exit
        self.on_lost = on_lost
        self.on_died = on_died
        self._reader = reader
        self._writer = writer
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._lost = asyncio.Event()
        self._closing = False
        self._tasks = TaskBag()

    @classmethod
    async def launch(
        cls,
        paths: ShimPaths,
        options: SandboxOptions,
        *,
        on_exit: Callable[[str, ShimExit], None] | None = None,
        on_lost: Callable[[], None] | None = None,
        on_died: Callable[[], None] | None = None,
        timeout: float = 20.0,
        starter: ShimStarter | None = None,
    ) -> Self:
        """Start a shim and its pause process; both run when this returns, or neither (ShimError gives the reason).

        Without a `starter` it is started as a program of its own.
        """
        await launch(paths, options, timeout, starter)
        return await cls.attach_to(paths, on_exit=on_exit, on_lost=on_lost, on_died=on_died, timeout=timeout)

    @classmethod
    async def attach_to(
        cls,
        paths: ShimPaths,
        *,
        on_exit: Callable[[str, ShimExit], None] | None = None,
        on_lost: Callable[[], None] | None = None,
        on_died: Callable[[], None] | None = None,
        timeout: float = 10.0,
    ) -> Self:
        """Connect to the shim of this folder. ShimError if it speaks another protocol.

        ShimClosedError if there is none, or it does not answer: call `paths.kill_shim` then.
        """
        try:
            async with asyncio.timeout(timeout):
                reader, writer = await connect(paths)
        except TimeoutError:
            raise ShimClosedError(f"the shim of {paths.folder} does not answer") from None
        shim = cls(paths, reader, writer, on_exit=on_exit, on_lost=on_lost, on_died=on_died)
        shim._tasks.spawn(shim._listen(), name=f"shim {paths.folder.name[:12]}")
        try:
            async with asyncio.timeout(timeout):
                message = await shim._request("hello")
        except BaseException as error:
            await shim.close()
            if isinstance(error, TimeoutError):
                raise ShimClosedError(f"the shim of {paths.folder} does not answer") from None
            raise
        if message["protocol"] != protocol.PROTOCOL:
            await shim.close()
            raise ShimError(
                f"the shim of {paths.folder} speaks protocol {message['protocol']}, not {protocol.PROTOCOL}"
            )
        shim.pid, shim.pause_pid = int(message["pid"]), int(message["holder"])
        return shim

    async def run(self, request: StartRequest) -> int:
        """Start a container; returns its pid. ShimError with the OCI runtime's own text if it does not start."""
        message = await self._request(
            "run",
            TIMEOUT + request.timeout,
            container=request.id,
            command=list(request.command),
            log=request.log_path,
            exit_file=request.exit_file,
            oom_file=request.oom_file,
            stdin=request.stdin,
            stdin_once=request.stdin_once,
            tty=request.tty,
            timeout=request.timeout,
        )
        return int(message["pid"])

    async def signal(self, container_id: str, number: int) -> None:
        """Send a signal to the first process of a container; its parent sends it, so it never hits another process."""
        await self._request("signal", container=container_id, signal=int(number))

    async def exec_sync(self, request: ExecRequest, *, limit: int = OUTPUT_LIMIT) -> ShimExecResult:
        """Run a command in a container to its end. Output beyond the limit (per stream) is dropped.

        A cancellation kills the command. A command that was to be killed and did not exit has timed out.
        """
        streams = await self.exec_streams(request)
        timed_out = False
        kept = {protocol.STDOUT: bytearray(), protocol.STDERR: bytearray()}
        truncated = False
        try:
            async with asyncio.timeout(request.timeout + TIMEOUT if request.timeout > 0 else None):
                while (piece := await streams.read()) is not None:
                    channel, data = piece
                    room = limit - len(kept[channel])
                    truncated = truncated or len(data) > room
                    kept[channel] += data[: max(room, 0)]
        except TimeoutError:
            timed_out = True
        finally:
            await streams.close()
        ended = streams.exit or StreamExit(code=255)
        return ShimExecResult(
            stdout=bytes(kept[protocol.STDOUT]),
            stderr=bytes(kept[protocol.STDERR]),
            code=ended.code,
            timed_out=ended.timed_out or timed_out,
            truncated=truncated,
        )

    async def exec_streams(self, request: ExecRequest) -> ShimSession:
        """Start a process in a container, with a session for its streams."""
        return await self._session(
            "exec",
            TIMEOUT + _EXEC_START,
            container=request.container_id,
            command=list(request.command),
            process=dict(request.process),
            stdin=request.stdin,
            tty=request.tty,
            timeout=request.timeout,
        )

    async def attach(self, container_id: str, *, stdin: bool = True) -> ShimSession:
        """Receive the output of a container from now on, and write to its stdin if it has one."""
        return await self._session("attach", TIMEOUT, container=container_id, stdin=stdin)

    async def resize(self, container_id: str, width: int, height: int) -> None:
        """Change the size of a container's terminal."""
        await self._request("resize", container=container_id, width=width, height=height)

    async def reopen_log(self, container_id: str) -> None:
        """Let the shim write to a new log file of the same name. ShimError if it cannot be opened."""
        await self._request("reopen", container=container_id)

    async def states(self) -> dict[str, ShimContainerState]:
        """The states of all containers that were started and not forgotten, by id."""
        message = await self._request("states")
        return {container_id: parse_state(state) for container_id, state in message["containers"].items()}

    async def forget(self, container_id: str) -> None:
        """Drop the state of an exited container; an unknown one is fine. ShimError if it runs."""
        await self._request("forget", container=container_id)

    async def stop(self, timeout: float = 10.0) -> None:
        """End the pause process now, and the shim once no container runs; wait for that. ShimError after `timeout`.

        Nothing happens if the shim is gone already.
        """
        self._closing = True
        try:
            await self._request("stop")
            async with asyncio.timeout(timeout):
                await self._lost.wait()
        except ShimClosedError:
            pass
        except TimeoutError:
            self._closing = False
            raise ShimError(f"the shim of {self.paths.folder} waits for containers that still run") from None
        await self.close()

    async def wait_closed(self) -> None:
        """Wait until the shim is gone, or `close` was called."""
        await self._lost.wait()

    async def close(self) -> None:
        """Close the connection; the shim goes on. May be repeated."""
        self._closing = True
        self._writer.close()
        await self._tasks.cancel()

    async def _request(self, op: str, answer_timeout: float | None = None, **values: object) -> dict[str, Any]:
        if self._lost.is_set() or self._writer.is_closing():
            raise ShimClosedError(f"the shim of {self.paths.folder} is gone")
        number = next(self._numbers)
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            self._writer.write(protocol.document({"id": number, "op": op, **values}))
            message = await self._wait_for_answer(op, future, TIMEOUT if answer_timeout is None else answer_timeout)
        finally:
            del self._waiting[number]
        if "error" in message:
            raise parse_error(message["error"])
        answer: dict[str, Any] = message["ok"]
        return answer

    async def _wait_for_answer(
        self, op: str, future: "asyncio.Future[dict[str, Any]]", timeout: float
    ) -> dict[str, Any]:
        for seconds in (timeout, SECOND_TIMEOUT):
            done, _ = await asyncio.wait({future}, timeout=seconds)
            if done:
                return future.result()
        if op not in _VITAL:
            raise ShimError(self._no_answer_message)
        _log.error(
            "Shim does not respond; killing it", extra={"kv": {"folder": str(self.paths.folder), "operation": op}}
        )
        await asyncio.to_thread(kill_shim, self.paths)
        self._writer.transport.abort()  # in case it does not even die
        raise ShimClosedError(self._no_answer_message)

    @property
    def _no_answer_message(self) -> str:
        return f"the shim of {self.paths.folder} does not answer"

    async def _session(self, op: str, answer_timeout: float, **values: object) -> ShimSession:
        try:
            async with asyncio.timeout(answer_timeout):
                return await self._begin(op, values)
        except TimeoutError:
            raise ShimError(self._no_answer_message) from None

    async def _begin(self, op: str, values: Mapping[str, object]) -> ShimSession:
        reader, writer = await connect(self.paths)
        try:
            writer.write(protocol.document({"id": 0, "op": op, **values}))
            message = await read_document(reader)
            if "error" in message:
                raise parse_error(message["error"])
        except BaseException:
            writer.close()
            raise
        return ShimSession(reader, writer, pid=int(message["ok"]["pid"]))

    async def _listen(self) -> None:
        try:
            while True:
                message = await read_document(self._reader)
                if "event" in message:
                    self._on_event(message)
                elif (future := self._waiting.get(message["id"])) is not None and not future.done():
                    future.set_result(message)
        except (ShimClosedError, protocol.ProtocolError) as error:
            reason = str(error)
        finally:
            self._lost.set()
            self._writer.close()
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(ShimClosedError(f"the shim of {self.paths.folder} is gone"))
        if not self._closing:
            _log.warning("Shim lost", extra={"kv": {"folder": str(self.paths.folder), "why": reason}})
            if self.on_lost is not None:
                self.on_lost()

    def _on_event(self, message: dict[str, Any]) -> None:
        if message["event"] == "exit" and self.on_exit is not None:
            self.on_exit(message["container"], parse_exit(message["exit"]))
        elif message["event"] == "died":
            self.pause_pid = 0
            if self.on_died is not None and not self._closing:
                self.on_died()
