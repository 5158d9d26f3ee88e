"""The service's shims over the real ones: requests made from records, errors and values in the service's words."""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from interpose.log import kv
from interpose.node.runtime.cgroups.cgroups import CgroupDirs
from interpose.node.runtime.fs.bundles import ContainerBundles
from interpose.node.runtime.fs.sandbox_files import own_namespaces
from interpose.node.runtime.oci.runc import OciRuntime
from interpose.node.runtime.oci.spec import exec_process
from interpose.node.runtime.service.errors import invalid
from interpose.node.runtime.service.interfaces import (
    ContainerExit,
    ExecOutput,
    NotRunningError,
    PartError,
    ShimCallbacks,
    ShimGoneError,
    ShimState,
)
from interpose.node.runtime.shim.sysctls import sysctl_problem
from interpose.node.runtime.shimclient import client as shimclient
from interpose.node.runtime.shimclient.launch import find_shims, kill_unreachable_shim
from interpose.node.runtime.shimclient.paths import ShimPaths, kill_shim
from interpose.node.runtime.shimclient.template import ShimTemplate
from interpose.node.runtime.state.paths import RuntimePaths
from interpose.node.runtime.state.records import ContainerRecord, SandboxRecord

_log = logging.getLogger(__name__)
# As other runtimes: what holds a pod is the last thing to be killed for want of memory.
_HOLDER_SCORE: Final = -998


@contextmanager
def _in_our_words() -> Iterator[None]:
    try:
        yield
    except shimclient.ShimClosedError as error:
        raise ShimGoneError(str(error)) from None
    except shimclient.ShimNotRunningError as error:
        raise NotRunningError(str(error)) from None
    except shimclient.ShimError as error:
        raise PartError(str(error)) from None


def _exit(said: shimclient.ShimExit) -> ContainerExit:
    return ContainerExit(code=said.code, at=said.at_ns, oom=said.oom)


class ProcessShimManager:
    """Shims with folders in the state."""

    def __init__(
        self, places: RuntimePaths, runtime: OciRuntime, bundles: ContainerBundles, cgroups: CgroupDirs, driver: str
    ) -> None:
        self._places = places
        self.runtime = runtime
        self.bundles = bundles
        self.cgroups = cgroups
        self.driver = driver
        self._template = ShimTemplate()

    async def close(self) -> None:
        """End what shims are made from; they go on."""
        await self._template.close()

    async def launch(self, record: SandboxRecord, callbacks: ShimCallbacks) -> "ShimAdapter":
        """A new shim for a sandbox."""
        own = own_namespaces(record, possible=self.runtime.namespaces)
        sysctls = dict(record.config.linux.sysctls)
        for name in sysctls:
            if problem := sysctl_problem(name, network="network" in own, ipc="ipc" in own):
                raise invalid(f'config.linux.sysctls["{name}"]', problem)
        options = shimclient.SandboxOptions(
            network="network" in own,
            ipc="ipc" in own,
            uts="uts" in own,
            pid="pid" in own,
            hostname=record.config.hostname if "uts" in own else "",
            sysctls=sysctls,
            oom_score_adj=_HOLDER_SCORE,
        )
        with _in_our_words():
            calls = _calls(record.id, callbacks)
            shim = await shimclient.ShimClient.launch(self._paths(record.id), options, starter=self._template, **calls)
        return ShimAdapter(shim, self, self._places)

    async def attach(self, sandbox_id: str, callbacks: ShimCallbacks) -> "ShimAdapter":
        """The shim that is there. One that lives and cannot be reached is as good as dead, so it is killed."""
        try:
            with _in_our_words():
                shim = await shimclient.ShimClient.attach_to(self._paths(sandbox_id), **_calls(sandbox_id, callbacks))
        except PartError as error:
            await self._end(sandbox_id)
            raise ShimGoneError(str(error)) from None
        return ShimAdapter(shim, self, self._places)

    async def find_orphans(self, known: Collection[str]) -> list[str]:
        """Sandboxes that have a shim and are not known; `attach` ends those that cannot be reached."""
        living = await asyncio.to_thread(find_shims, self._places.sandboxes)
        return [one for one in living if one not in known]

    async def _end(self, sandbox_id: str) -> None:
        paths = self._paths(sandbox_id)
        await asyncio.to_thread(kill_shim, paths)
        try:
            if await asyncio.to_thread(kill_unreachable_shim, paths.folder):
                _log.warning("Killed an unreachable shim", extra=kv(sandbox=sandbox_id))
        except OSError as error:
            _log.error("Shim is unreachable and does not exit", extra=kv(sandbox=sandbox_id, err=str(error)))

    def _paths(self, sandbox_id: str) -> ShimPaths:
        return ShimPaths(folder=self._places.sandbox(sandbox_id))


def _calls(sandbox_id: str, callbacks: ShimCallbacks) -> dict[str, Any]:
    return {
        "on_exit": lambda container_id, said: callbacks.on_exit(container_id, _exit(said)),
        "on_lost": lambda: callbacks.on_lost(sandbox_id),
        "on_died": lambda: callbacks.on_lost(sandbox_id),
    }


class ShimAdapter:
    """One shim."""

    def __init__(self, shim: shimclient.ShimClient, shims: ProcessShimManager, places: RuntimePaths) -> None:
        self._shim = shim
        self._shims = shims
        self._places = places

    @property
    def pid(self) -> int:
        return self._shim.pid

    @property
    def pause_pid(self) -> int:
        return self._shim.pause_pid

    async def run(self, record: ContainerRecord) -> int:
        """Start a container."""
        config, shims = record.config, self._shims
        request = shimclient.StartRequest(
            id=record.id,
            command=shims.runtime.run_command(record.id, self._places.bundle(record.id), tty=config.tty),
            log_path=record.log_path,
            exit_file=str(self._places.exit_file(record.id)),
            stdin=config.stdin,
            stdin_once=config.stdin_once,
            tty=config.tty,
            oom_file=shims.cgroups.oom_file(record.cgroup),
        )
        with _in_our_words():
            return await self._shim.run(request)

    async def signal(self, container_id: str, number: int) -> None:
        """Send a signal; one that the shim does not have (any more) has ended."""
        try:
            with _in_our_words():
                await self._shim.signal(container_id, number)
        except ShimGoneError:
            raise
        except PartError:
            return

    async def exec_sync(self, container_id: str, command: Sequence[str], timeout: int) -> ExecOutput:
        """Run a command to its end."""
        request = await self._exec_request(container_id, command, timeout=timeout)
        with _in_our_words():
            said = await self._shim.exec_sync(request)
        return ExecOutput(stdout=said.stdout, stderr=said.stderr, code=said.code, timed_out=said.timed_out)

    async def exec(self, container_id: str, command: Sequence[str], *, tty: bool, stdin: bool) -> "ShimStreamsAdapter":
        """Run a command with streams."""
        request = await self._exec_request(container_id, command, tty=tty, stdin=stdin)
        with _in_our_words():
            return ShimStreamsAdapter(await self._shim.exec_streams(request))

    async def _exec_request(
        self, container_id: str, command: Sequence[str], *, tty: bool = False, stdin: bool = False, timeout: int = 0
    ) -> shimclient.ExecRequest:
        spec = await self._shims.bundles.read_spec(container_id)
        if not spec:
            raise PartError("the container's configuration is gone")
        return shimclient.ExecRequest(
            container_id=container_id,
            command=self._shims.runtime.exec_command(container_id, tty=tty),
            process=exec_process(spec, list(command), tty=tty),
            tty=tty,
            stdin=stdin,
            timeout=timeout,
        )

    async def attach(self, container_id: str, *, stdin: bool) -> "ShimStreamsAdapter":
        """The streams of the container itself."""
        with _in_our_words():
            return ShimStreamsAdapter(await self._shim.attach(container_id, stdin=stdin))

    async def reopen_log(self, container_id: str) -> None:
        """Write to a new log file."""
        with _in_our_words():
            await self._shim.reopen_log(container_id)

    async def states(self) -> Mapping[str, ShimState]:
        """All containers that it has."""
        with _in_our_words():
            found = await self._shim.states()
        return {
            name: ShimState(
                pid=one.pid, started_at=one.started_at, exited=None if one.exited is None else _exit(one.exited)
            )
            for name, one in found.items()
        }

    async def forget(self, container_id: str) -> None:
        """A container that ended and is being removed; one it never had is fine."""
        try:
            with _in_our_words():
                await self._shim.forget(container_id)
        except ShimGoneError:
            raise
        except PartError:
            return

    async def stop(self) -> None:
        """End holder and shim."""
        try:
            with _in_our_words():
                await self._shim.stop()
        except ShimGoneError:
            return

    async def wait_closed(self) -> None:
        """Wait for its end."""
        await self._shim.wait_closed()

    async def disconnect(self) -> None:
        """Let go of it."""
        await self._shim.close()


class ShimStreamsAdapter:
    """A session with a process."""

    def __init__(self, streams: shimclient.ShimSession) -> None:
        self._streams = streams

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """Until the process has ended."""
        with _in_our_words():
            while (piece := await self._streams.read()) is not None:
                yield piece

    async def write(self, data: bytes) -> None:
        await self._streams.write(data)

    async def write_eof(self) -> None:
        await self._streams.end_stdin()

    async def resize(self, width: int, height: int) -> None:
        await self._streams.resize(width, height)

    async def wait(self) -> int | None:
        """After `output` has ended."""
        ended = self._streams.exit
        return None if ended is None else ended.code

    async def close(self) -> None:
        await self._streams.close()
