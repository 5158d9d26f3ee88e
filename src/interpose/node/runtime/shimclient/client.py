"""The runtime's side of a shim: launches it, reconnects to it, sends it requests and receives the exits of containers.

A `ShimClient` is a connection, not the process: closing it or dying with it changes nothing for the sandbox. When the
shim itself is gone (ShimClosedError, `on_lost`), its pause process is gone with it, but containers may live on without
a parent that knows them: whoever catches it kills them by their cgroup, deletes them with the OCI runtime by force, and
takes the exit record if there is one, else 255.
"""

import asyncio
import itertools
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, Self

from interpose.node.runtime.shim import protocol as wire
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
# Seconds for an answer. The second time is for ourselves: held up for long, we may have the answer and not know it.
PATIENCE: Final = 15.0
LAST_CHANCE: Final = 5.0
# Seconds that a shim gives the OCI runtime to start a process in a container.
_EXEC_START: Final = 120.0
# Without an answer to these nobody could tell what became of containers, or end them.
_VITAL: Final = frozenset({"run", "signal", "states", "stop"})

_log = logging.getLogger(__name__)


class ShimClient:
    """A connection to one shim. Callbacks are called on the loop, one at a time, in the order things happened.

    `on_exit(id, exit)`: a container ended. `on_died()`: the holder did, and the sandbox with it. `on_lost()`: the shim
    did; never after `stop` or `close`. What happened before `attach_to` is only in `states`.
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
        self._leaving = False
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
        """Start a shim and its holder; both are there when this returns, or neither is (ShimError says why).

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
        """Find the shim of this folder. ShimError if it speaks another protocol.

        ShimGoneError if there is none, or none that answers: `shimpaths.kill_shim` makes sure of it.
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
                said = await shim._ask("hello")
        except BaseException as error:
            await shim.close()
            if isinstance(error, TimeoutError):
                raise ShimClosedError(f"the shim of {paths.folder} does not answer") from None
            raise
        if said["protocol"] != wire.PROTOCOL:
            await shim.close()
            raise ShimError(f"the shim of {paths.folder} speaks protocol {said['protocol']}, not {wire.PROTOCOL}")
        shim.pid, shim.pause_pid = int(said["pid"]), int(said["holder"])
        return shim

    async def run(self, request: StartRequest) -> int:
        """Start a container; its pid. ShimError with the OCI runtime's own words if it does not start."""
        said = await self._ask(
            "run",
            PATIENCE + request.timeout,
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
        return int(said["pid"])

    async def signal(self, container_id: str, number: int) -> None:
        """Send a signal to the first process of a container: by its parent, so it is never another process."""
        await self._ask("signal", container=container_id, signal=int(number))

    async def exec_sync(self, request: ExecRequest, *, limit: int = OUTPUT_LIMIT) -> ShimExecResult:
        """Run a command in a container to its end. Output beyond the limit (per stream) is thrown away.

        If we are cancelled the command is killed. One that should have been killed and did not end has timed out.
        """
        streams = await self.exec_streams(request)
        late = False
        kept = {wire.STDOUT: bytearray(), wire.STDERR: bytearray()}
        truncated = False
        try:
            async with asyncio.timeout(request.timeout + PATIENCE if request.timeout > 0 else None):
                while (piece := await streams.read()) is not None:
                    channel, data = piece
                    room = limit - len(kept[channel])
                    truncated = truncated or len(data) > room
                    kept[channel] += data[: max(room, 0)]
        except TimeoutError:
            late = True
        finally:
            await streams.close()
        ended = streams.exit or StreamExit(code=255)
        return ShimExecResult(
            stdout=bytes(kept[wire.STDOUT]),
            stderr=bytes(kept[wire.STDERR]),
            code=ended.code,
            timed_out=ended.timed_out or late,
            truncated=truncated,
        )

    async def exec_streams(self, request: ExecRequest) -> ShimSession:
        """Start a process in a container and stay with it."""
        return await self._session(
            "exec",
            PATIENCE + _EXEC_START,
            container=request.container_id,
            command=list(request.command),
            process=dict(request.process),
            stdin=request.stdin,
            tty=request.tty,
            timeout=request.timeout,
        )

    async def attach(self, container_id: str, *, stdin: bool = True) -> ShimSession:
        """See what a container writes from now on, and write to its stdin if it has one."""
        return await self._session("attach", PATIENCE, container=container_id, stdin=stdin)

    async def resize(self, container_id: str, width: int, height: int) -> None:
        """Change the size of a container's terminal."""
        await self._ask("resize", container=container_id, width=width, height=height)

    async def reopen_log(self, container_id: str) -> None:
        """Write to a new file of the same name from now on. ShimError if it cannot be opened."""
        await self._ask("reopen", container=container_id)

    async def states(self) -> dict[str, ShimContainerState]:
        """Every container that was started here and not forgotten."""
        said = await self._ask("states")
        return {container_id: parse_state(state) for container_id, state in said["containers"].items()}

    async def forget(self, container_id: str) -> None:
        """An ended container is of no interest any more. Nothing if it is not known; ShimError if it runs."""
        await self._ask("forget", container=container_id)

    async def stop(self, timeout: float = 10.0) -> None:
        """End the holder now, and the shim as soon as no container runs; wait for that. ShimError if it takes longer.

        Nothing if the shim is gone already.
        """
        self._leaving = True
        try:
            await self._ask("stop")
            async with asyncio.timeout(timeout):
                await self._lost.wait()
        except ShimClosedError:
            pass
        except TimeoutError:
            self._leaving = False
            raise ShimError(f"the shim of {self.paths.folder} waits for containers that still run") from None
        await self.close()

    async def wait_closed(self) -> None:
        """Wait until the shim is gone, or we have left."""
        await self._lost.wait()

    async def close(self) -> None:
        """Leave; the shim goes on. May be repeated."""
        self._leaving = True
        self._writer.close()
        await self._tasks.cancel()

    async def _ask(self, op: str, patience: float | None = None, **values: object) -> dict[str, Any]:
        if self._lost.is_set() or self._writer.is_closing():
            raise ShimClosedError(f"the shim of {self.paths.folder} is gone")
        number = next(self._numbers)
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            self._writer.write(wire.document({"id": number, "op": op, **values}))
            said = await self._answer(op, future, PATIENCE if patience is None else patience)
        finally:
            del self._waiting[number]
        if "error" in said:
            raise parse_error(said["error"])
        answer: dict[str, Any] = said["ok"]
        return answer

    async def _answer(self, op: str, future: "asyncio.Future[dict[str, Any]]", patience: float) -> dict[str, Any]:
        for seconds in (patience, LAST_CHANCE):
            done, _ = await asyncio.wait({future}, timeout=seconds)
            if done:
                return future.result()
        if op not in _VITAL:
            raise ShimError(self._silent)
        _log.error("Shim does not respond; killing it", extra={"kv": {"folder": str(self.paths.folder), "asked": op}})
        await asyncio.to_thread(kill_shim, self.paths)
        self._writer.transport.abort()  # should it not even die
        raise ShimClosedError(self._silent)

    @property
    def _silent(self) -> str:
        return f"the shim of {self.paths.folder} does not answer"

    async def _session(self, op: str, patience: float, **values: object) -> ShimSession:
        try:
            async with asyncio.timeout(patience):
                return await self._begin(op, values)
        except TimeoutError:
            raise ShimError(self._silent) from None

    async def _begin(self, op: str, values: Mapping[str, object]) -> ShimSession:
        reader, writer = await connect(self.paths)
        try:
            writer.write(wire.document({"id": 0, "op": op, **values}))
            said = await read_document(reader)
            if "error" in said:
                raise parse_error(said["error"])
        except BaseException:
            writer.close()
            raise
        return ShimSession(reader, writer, pid=int(said["ok"]["pid"]))

    async def _listen(self) -> None:
        try:
            while True:
                said = await read_document(self._reader)
                if "event" in said:
                    self._heard(said)
                elif (future := self._waiting.get(said["id"])) is not None and not future.done():
                    future.set_result(said)
        except (ShimClosedError, wire.WireError) as error:
            reason = str(error)
        finally:
            self._lost.set()
            self._writer.close()
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(ShimClosedError(f"the shim of {self.paths.folder} is gone"))
        if not self._leaving:
            _log.warning("Shim lost", extra={"kv": {"folder": str(self.paths.folder), "why": reason}})
            if self.on_lost is not None:
                self.on_lost()

    def _heard(self, said: dict[str, Any]) -> None:
        if said["event"] == "exit" and self.on_exit is not None:
            self.on_exit(said["container"], parse_exit(said["exit"]))
        elif said["event"] == "died":
            self.pause_pid = 0
            if self.on_died is not None and not self._leaving:
                self.on_died()
