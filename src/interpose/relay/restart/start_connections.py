"""Starts that outlive a relay which is killed: the runtime does not lose its caller.

A runtime cancels the calls of a connection that ends. containerd gives a StartContainer up half-way then:
the container ends with StartError, or stays created and can neither be started nor removed for a while; the kubelet
replaces it. So StartContainer has a connection of its own, and a shell holds a copy of its descriptor. It does nothing
while the relay lives. When the relay is gone the connection stays open for as long as a start may take; the reply is
lost, but the container runs, as the kubelet finds when it looks.

Other calls are cancelled with the relay, as they should be: a create without a waiting caller would leave a
container behind, and a stream of events a client that does not read it.
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


class _HeldConnection:
    """A connection, and the shell with a copy of its descriptor; None before it runs, and if it cannot."""

    __slots__ = ("shell", "sock")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.shell: asyncio.subprocess.Process | None = None

    @property
    def is_closed(self) -> bool:
        """Whether our end was closed, for whatever reason."""
        return self.sock.fileno() < 0

    def end(self) -> None:
        """Kill the shell: the connection is closed."""
        if self.shell is not None:
            with suppress(ProcessLookupError):
                self.shell.kill()


class StartConnectionKeeper:
    """One shell for each connection. What `Upstream` calls `vet` and `reports`; nothing here fails a connection."""

    def __init__(self) -> None:
        self._all: list[_HeldConnection] = []
        self._tasks = TaskBag()
        self._warned = False

    @property
    def pids(self) -> list[int]:
        """Process ids of the shells."""
        return [kept.shell.pid for kept in self._all if kept.shell is not None]

    def keep(self, sock: socket.socket) -> None:
        """Make a new connection outlive this process."""
        try:
            descriptor = os.dup(sock.fileno())
        except OSError as error:
            self._warn(error)
            return
        self._tasks.spawn(self._hold(_HeldConnection(sock), descriptor), name="keep the connection for starts")

    async def _hold(self, kept: _HeldConnection, descriptor: int) -> None:
        try:
            kept.shell = await asyncio.create_subprocess_exec(
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
            self._warn(error)
            return
        finally:
            os.close(descriptor)
        self._all.append(kept)
        self.tick()
        await kept.shell.wait()
        self._all.remove(kept)

    def _warn(self, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            kv = {"program": _SHELL, "err": str(error)}
            _log.warning("Starts in flight are lost if this process is killed", extra={"kv": kv})

    def tick(self) -> None:
        """Kill the shells of closed connections, also of those that were never used."""
        for kept in self._all:
            if kept.is_closed:
                kept.end()

    def unreachable(self, path: str, error: str) -> None:
        """Nothing to do: the other connection to the same runtime logs it."""

    def connected(self, path: str, connections: int) -> None:
        """Nothing to do: `keep` was called with the connection."""

    def lost(self, path: str, fault: str | None) -> None:
        """Called when a connection ended; its socket is closed after all callbacks."""
        asyncio.get_running_loop().call_soon(self.tick)

    async def close(self, *, busy: bool) -> None:
        """Kill the shells, unless starts are in flight: then they stay for as long as a start may take."""
        for kept in list(self._all):
            if not busy and kept.shell is not None:
                kept.end()
                await kept.shell.wait()
        await self._tasks.cancel()
