"""Credentials from a program: it is run, and what it prints is kept until it expires.

One run serves all who wait, and its failure too. Whoever gives up waiting does not end it: a slow program is of use to
the next who asks. Invariants: a run ends in time and costs little memory, whatever the program does; what it said is in
no message, only in the log of who asks for every detail.
"""

import asyncio
import json
import logging
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, cast

from interpose.core.backoff import Backoff
from interpose.errors import ConfigError
from interpose.kube.client.access import ExecPlugin
from interpose.kube.client.exec_credential import ExecCredential, read_credential
from interpose.net.http.errors import shortened

_log = logging.getLogger(__name__)
# Such programs ask a cloud; they may be slow, but one that waits for a person never ends.
_TIMEOUT: Final = 60.0
# A token that ends while it travels is no use.
_MARGIN: Final = 10.0
# After a failure everybody gets that one for a while: a program costs more than a request.
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 30.0
# Bytes: certificates with their chains have some KiB; of complaints the last ones count.
_MAX_STDOUT: Final = 1 << 20
_MAX_STDERR: Final = 4096
# Seconds for the rest of the output after the end of the program; its children may keep the pipe for ever.
_OUTPUT_GRACE: Final = 1.0


class PluginRunner:
    """Runs the program when its credentials are needed and the last ones are of no use any more."""

    def __init__(
        self,
        plugin: ExecPlugin,
        *,
        timeout: float = _TIMEOUT,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._plugin = plugin
        self._timeout = timeout
        self._wall = wall
        self._clock = clock
        self._where = f"credential program {plugin.command}"
        self._held: ExecCredential | None = None
        self._run: _Run | None = None
        self._last: _Run | None = None
        self._pause = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, random=chance)
        self._problem = ""
        self._paused_until = clock()

    async def credential(self, *, refused: ExecCredential | None = None) -> ExecCredential:
        """Usable credentials, other ones than those that were `refused`; ConfigError says why there are none."""
        held = self._held
        if held is not None and held is not refused and not self._is_expired(held):
            return held
        run = self._run
        if run is None:
            if self._clock() < self._paused_until:
                raise ConfigError(self._problem)
            run = self._run = self._last = _Run(self._on_end)
            await self._start(run)
        outcome = await asyncio.shield(run.outcome)
        if isinstance(outcome, str):
            raise ConfigError(outcome)
        return outcome

    @property
    def held(self) -> ExecCredential | None:
        """The last credentials of the program."""
        return self._held

    async def close(self) -> None:
        """End the program if it runs, and wait for its end."""
        if self._last is not None:
            await self._last.close()

    def _is_expired(self, held: ExecCredential) -> bool:
        return held.expires is not None and held.expires - _MARGIN <= self._wall()

    async def _start(self, run: "_Run") -> None:
        plugin = self._plugin
        spec: dict[str, Any] = {"interactive": False}
        if plugin.cluster:
            spec["cluster"] = json.loads(plugin.cluster)
        info = json.dumps({"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec})
        try:
            await asyncio.get_running_loop().subprocess_exec(
                lambda: run,
                plugin.command,
                *plugin.args,
                env={**dict(plugin.environment), "KUBERNETES_EXEC_INFO": info},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # so that its children can be ended too
            )
        except (OSError, ValueError) as error:
            hint = f" ({shortened(plugin.hint.encode())})" if plugin.hint else ""
            reason = getattr(error, "strerror", None) or str(error)
            run.end(f"cannot be run: {reason}{hint}")
        except BaseException:
            run.end("was cancelled before it started")
            raise
        else:
            run.limit(self._timeout)

    def _on_end(self, run: "_Run", problem: str) -> ExecCredential | str:
        """What a run means for all who wait for it."""
        self._run = None
        try:
            if problem:
                raise ConfigError(f"{self._where}: {problem}")
            if run.code != 0:
                last = shortened(b" ".join(run.stderr.strip().splitlines()[-1:])) or "nothing"
                _log.debug("Credential program failed", extra={"kv": {"program": self._plugin.command, "said": last}})
                raise ConfigError(f"{self._where}: failed with exit code {run.code}; level debug logs what it said")
            held = read_credential(bytes(run.stdout), self._plugin.api_version, self._where)
        except ConfigError as error:
            self._problem = str(error)
            self._paused_until = self._clock() + self._pause.next()
            return self._problem
        self._pause.reset()
        self._held = held
        return held


class _Run(asyncio.SubprocessProtocol):
    """One run. No task belongs to it: bytes, the end of the program and a timer move it on."""

    def __init__(self, on_end: "Callable[[_Run, str], ExecCredential | str]") -> None:
        loop = asyncio.get_running_loop()
        self.outcome: asyncio.Future[ExecCredential | str] = loop.create_future()
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.code: int | None = None
        self._loop = loop
        self._on_end = on_end
        self._transport: asyncio.SubprocessTransport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._gone: asyncio.Future[None] = loop.create_future()

    def limit(self, seconds: float) -> None:
        """Limit the run to so many seconds from now on."""
        if not self.outcome.done() and self._timer is None:
            self._timer = self._loop.call_later(seconds, self.end, f"did not end within {seconds:g} s")

    def end(self, problem: str) -> None:
        """Settle the outcome, unless it is; what still runs is killed, with its children."""
        if self.outcome.done():
            return
        if self._timer is not None:
            self._timer.cancel()
        self.outcome.set_result(self._on_end(self, problem))
        if self._transport is None:
            return
        if self.code is None:
            with suppress(ProcessLookupError):
                os.killpg(self._transport.get_pid(), signal.SIGKILL)
        for number in (1, 2):
            # Not the transport as a whole before the program is gone: that would be a second to wait for it.
            if (pipe := self._transport.get_pipe_transport(number)) is not None:
                pipe.close()
        if self.code is not None:
            self._transport.close()

    async def close(self) -> None:
        """End it, and wait for that for a moment."""
        self.end("was ended")
        if self._transport is not None:
            await asyncio.wait([self._gone], timeout=_OUTPUT_GRACE)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called when the program was started."""
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Called with output of the program, stdout or stderr."""
        if fd == 2:
            self.stderr += data
            del self.stderr[:-_MAX_STDERR]
            return
        self.stdout += data
        if len(self.stdout) > _MAX_STDOUT:
            self.stdout.clear()
            self.end(f"printed more than {_MAX_STDOUT} bytes")

    def process_exited(self) -> None:
        """Called when the program ended; the rest of its output may follow."""
        if self._transport is None:
            return  # nobody was made who could end
        self.code = self._transport.get_returncode()
        self._gone.set_result(None)
        if self.outcome.done():
            self._transport.close()
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(_OUTPUT_GRACE, self.end, "")

    def connection_lost(self, _exc: Exception | None) -> None:
        """Called when the program ended and all output was read."""
        self.end("")
