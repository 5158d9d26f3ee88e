"""The runtime's side of the template process, which forks shims: started on first use, and again after its exit."""

import asyncio
import json
import os
import socket
from collections.abc import Mapping
from typing import Final

from interpose.node.runtime.shimclient.launch import python_command, shim_environment

_BOOT: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); from interpose.node.runtime.shim.template import main; main()"
)
_RETRY: Final = 0.005
_TRIES: Final = 3
_EXIT_TIMEOUT: Final = 5.0


class ShimTemplate:
    """A `ShimStarter` that lets the template process fork shims. It ends with `close`, or with us; shims do not."""

    def __init__(self) -> None:
        self._requests: socket.socket | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._sending = asyncio.Lock()

    @property
    def pid(self) -> int:
        """The pid of the template process; 0 if there is none."""
        return 0 if self._process is None else self._process.pid

    async def start(self, folder: str, options: Mapping[str, object], ready_fd: int, log: int) -> None:
        """Let the template fork a shim. OSError if it cannot be reached."""
        request = json.dumps({"folder": folder, "options": dict(options)}).encode()
        async with self._sending:
            for number in range(_TRIES):
                try:
                    await self._send(await self._ensure_running(len(os.fsencode(folder))), request, [ready_fd, log])
                    return
                except ConnectionError:  # it has exited: start another one
                    await self._end()
                    if number == _TRIES - 1:
                        raise

    def give_up(self) -> None:
        """Kill the template; the next start makes another one."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    async def close(self) -> None:
        """End the template; may be repeated."""
        async with self._sending:
            await self._end()

    async def _send(self, requests: socket.socket, request: bytes, fds: list[int]) -> None:
        while True:
            try:
                socket.send_fds(requests, [request], fds)
                return
            except BlockingIOError:  # the queue of the socket is full
                await asyncio.sleep(_RETRY)

    async def _ensure_running(self, room: int) -> socket.socket:
        """The socket of a running template. `room`: bytes for a folder name in the command line of a shim."""
        if self._requests is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            ours.setblocking(False)
            with theirs:
                try:
                    self._process = await asyncio.create_subprocess_exec(
                        *python_command(_BOOT),
                        f"shims of runtime {os.getpid()}".ljust(room),
                        stdin=theirs.fileno(),
                        stdout=asyncio.subprocess.DEVNULL,
                        env=shim_environment(),
                        start_new_session=True,
                    )
                except BaseException:
                    ours.close()
                    raise
            self._requests = ours
        return self._requests

    async def _end(self) -> None:
        requests, self._requests = self._requests, None
        process, self._process = self._process, None
        if requests is not None:
            requests.close()
        if process is None:
            return
        try:
            async with asyncio.timeout(_EXIT_TIMEOUT):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
