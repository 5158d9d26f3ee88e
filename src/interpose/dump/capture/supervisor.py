"""The relay's end of the dump worker: starts the process, feeds it, starts it again if it died, and lets it finish.

What it does not take in time is dropped and counted by its queue. If it dies, frames are dropped until it is back; the
relay goes on as if nobody had ever listened.
"""

import asyncio
import json
import logging
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any, Final

from interpose.core.backoff import Backoff
from interpose.dump.capture.queue import FrameQueue
from interpose.dump.capture.tap import DumpTap
from interpose.dump.capture.worker_config import WorkerConfig
from interpose.dump.model.frames import Header, encode
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0
# To write what is left: files on a disk that works take milliseconds.
_CLOSE_TIMEOUT: Final = 5.0
_LONGEST_LINE: Final = 1 << 16
_LOOK_AGAIN: Final = 0.02
_MODULE: Final = "interpose.dump.capture.worker"


class WorkerSupervisor:
    """Keeps a dump worker at work."""

    def __init__(
        self, tap: DumpTap, config: WorkerConfig, header: Mapping[str, Any], make_queue: Callable[[], FrameQueue]
    ) -> None:
        self._tap = tap
        self._config = config
        self._header = header
        self._make_queue = make_queue
        self._tasks = TaskBag()
        self._keep_task: asyncio.Task[None] | None = None
        self._queue: FrameQueue | None = None
        self._closing = asyncio.Event()
        self.pid = 0
        self.starts = 0
        self.report: Mapping[str, Any] = {}

    def start(self) -> None:
        """From now on everything that passes is seen: the process reads it from its queue once it is there."""
        self._attach()
        self._keep_task = self._tasks.spawn(self._keep_running(), name="dump worker")

    @property
    def queue(self) -> FrameQueue | None:
        """Its queue, if it has one now."""
        return self._queue

    async def close(self) -> None:
        """Let it write what is left, for a while, and end."""
        self._closing.set()
        if self._queue is not None:
            self._tap.detach(self._queue)
            self._queue.finish()
        if self._keep_task is not None:
            await asyncio.wait([self._keep_task], timeout=_CLOSE_TIMEOUT)
            if not self._keep_task.done():
                _log.warning(
                    "Dump writer still has output to write, leaving it running", extra={"kv": {"pid": self.pid}}
                )
        await self._tasks.cancel()

    def _attach(self) -> FrameQueue:
        queue = self._queue = self._make_queue()
        queue.put(encode(Header(facts=self._header)))
        self._tap.attach(queue)
        return queue

    def _spawn(self) -> tuple["subprocess.Popen[bytes]", socket.socket]:
        ours, theirs = socket.socketpair()
        with theirs:
            config = self._config if not self.starts else replace(self._config, empty_file=False)
            command = [sys.executable, "-P", "-m", _MODULE, str(theirs.fileno()), config.text()]
            try:
                process = subprocess.Popen(  # noqa: S603 - our own program
                    command,
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,  # Ctrl-C is meant for the relay, which lets it finish
                )
            except BaseException:
                ours.close()
                raise
        ours.setblocking(False)
        self.starts += 1
        self.pid = process.pid
        return process, ours

    async def _keep_running(self) -> None:
        loop = asyncio.get_running_loop()
        backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        while True:
            began = loop.time()
            queue = self._queue or self._attach()
            try:
                process, sock = await asyncio.to_thread(self._spawn)
                with sock:
                    await self._exchange(sock, queue)
                why = f"exit code {await _exit_code(process)}"
            except OSError as error:
                why = str(error)
            if self._closing.is_set():
                return
            self._tap.detach(queue)
            self._queue = None
            if loop.time() - began > _LONGEST_PAUSE:
                backoff.reset()
            pause = backoff.next()
            _log.error(
                "Dump writer exited, restarting; nothing is dumped or recorded until then",
                extra={"kv": {"reason": why, "pause_seconds": pause}},
            )
            if await self._closes_within(pause):
                return

    async def _closes_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                return await self._closing.wait()
        except TimeoutError:
            return False

    async def _exchange(self, sock: socket.socket, queue: FrameQueue) -> None:
        """Until it is gone, or was told everything and has said that it is done."""
        writing = self._tasks.spawn(_quietly(queue.run(sock)), name="frames for the dump worker")
        listening = self._tasks.spawn(_quietly(self._read_reports(sock)), name="reports of the dump worker")
        try:
            await asyncio.wait([writing, listening], return_when=asyncio.FIRST_COMPLETED)
            if not listening.done() and self._closing.is_set():
                sock.shutdown(socket.SHUT_WR)
                await listening
        finally:
            writing.cancel()
            listening.cancel()
            await asyncio.wait([writing, listening])

    async def _read_reports(self, sock: socket.socket) -> None:
        """Its reports; returns when it is gone."""
        loop = asyncio.get_running_loop()
        line = b""
        troubled = ""
        while data := await loop.sock_recv(sock, 4096):
            *lines, line = (line + data)[-_LONGEST_LINE:].split(b"\n")
            if lines:
                self.report = _read(lines[-1]) or self.report
                trouble = str(self.report.get("error", ""))
                if trouble != troubled:
                    troubled = trouble
                    if trouble:
                        _log.error("Dump writer cannot write, frames are lost", extra={"kv": {"err": trouble}})
                    else:
                        _log.info("Dump writer writes again")


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    """One of both sides is gone: that is an end like any other."""
    try:
        await work
    except OSError as error:
        _log.debug("Dump writer does not respond", extra={"kv": {"err": str(error)}})


async def _exit_code(process: "subprocess.Popen[bytes]") -> int:
    while (code := process.poll()) is None:  # noqa: ASYNC110 - it ends in its own time and tells nobody
        await asyncio.sleep(_LOOK_AGAIN)
    return code


def _read(line: bytes) -> Mapping[str, Any] | None:
    try:
        report = json.loads(line)
    except ValueError:
        return None
    return report if isinstance(report, dict) else None
