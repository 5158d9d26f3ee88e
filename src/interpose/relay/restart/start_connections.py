"""Starts that outlive a relay which is killed: the runtime does not lose its caller.

A runtime cancels what a caller had asked for whose connection ends. containerd gives a StartContainer up half-way then:
the container ends with StartError, or stays created and can neither be started nor removed for a while; the kubelet
replaces it. So StartContainer has a connection of its own, and a shell holds a copy of its descriptor. It does nothing
while the relay lives. When the relay is gone the connection stays open for as long as a start may take; the reply is
lost, but the container runs, as the kubelet finds when it looks.

Other calls are cancelled with the relay, as they should be: a create that nobody waits for any more would leave a
container behind, and a stream of events somebody who does not read it.
"""

import asyncio
import logging
import os
import socket
from contextlib import suppress
from typing import Final

from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)

_SHELL: Final = "/bin/sh"
# Our end of its input closes when this process ends, however it does. Seconds: longer than a start takes.
_SCRIPT: Final = "read -r _; exec sleep 60"


class _KeptConnection:
    """A connection, and the shell that holds a copy of it; None before it runs, and if it cannot."""

    __slots__ = ("shell", "sock")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.shell: asyncio.subprocess.Process | None = None

    @property
    def is_over(self) -> bool:
        """Whether our end was closed, for whatever reason."""
        return self.sock.fileno() < 0

    def end(self) -> None:
        """Nothing is left of the connection to be kept."""
        if self.shell is not None:
            with suppress(ProcessLookupError):
                self.shell.kill()


class StartConnectionKeeper:
    """One shell for each connection. What `Upstream` calls `vet` and `reports`; nothing here fails a connection."""

    def __init__(self) -> None:
        self._all: list[_KeptConnection] = []
        self._tasks = TaskBag()
        self._told = False

    @property
    def pids(self) -> list[int]:
        """Of the shells."""
        return [one.shell.pid for one in self._all if one.shell is not None]

    def keep(self, sock: socket.socket) -> None:
        """There is a connection: it shall outlive us."""
        try:
            descriptor = os.dup(sock.fileno())
        except OSError as error:
            self._tell(error)
            return
        self._tasks.spawn(self._hold(_KeptConnection(sock), descriptor), name="keep the connection for starts")

    async def _hold(self, one: _KeptConnection, descriptor: int) -> None:
        try:
            one.shell = await asyncio.create_subprocess_exec(
                _SHELL,
                "-c",
                _SCRIPT,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                pass_fds=(descriptor,),
                start_new_session=True,
            )
        except OSError as error:
            self._tell(error)
            return
        finally:
            os.close(descriptor)
        self._all.append(one)
        self.tick()
        await one.shell.wait()
        self._all.remove(one)

    def _tell(self, error: OSError) -> None:
        if not self._told:
            self._told = True
            kv = {"program": _SHELL, "err": str(error)}
            _log.warning("Starts in flight are lost if this process is killed", extra={"kv": kv})

    def tick(self) -> None:
        """End the shells of connections that are over: also of those that never came to be of use."""
        for one in self._all:
            if one.is_over:
                one.end()

    def unreachable(self, path: str, error: str) -> None:
        """The other connection of the same runtime tells of it."""

    def connected(self, path: str, connections: int) -> None:
        """It is kept already."""

    def lost(self, path: str, fault: str | None) -> None:
        """A connection is over; its socket is closed when everybody was told."""
        asyncio.get_running_loop().call_soon(self.tick)

    async def close(self, *, busy: bool) -> None:
        """We end. With starts in flight the shells stay for as long as those may take."""
        for one in list(self._all):
            if not busy and one.shell is not None:
                one.end()
                await one.shell.wait()
        await self._tasks.cancel()
