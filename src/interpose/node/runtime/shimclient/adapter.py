"""The shims of the service over `ShimClient`: requests from records, errors and values of the service's interfaces."""

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
from interpose.node.runtime.shimclient import client
from interpose.node.runtime.shimclient.launch import find_shims, kill_unreachable_shim
from interpose.node.runtime.shimclient.paths import ShimPaths, kill_shim
from interpose.node.runtime.shimclient.template import ShimTemplate
from interpose.node.runtime.state.paths import RuntimePaths
from interpose.node.runtime.state.records import ContainerRecord, SandboxRecord

_log = logging.getLogger(__name__)
# As in other runtimes: the pause process of a pod is the last to be killed when memory runs out.
_PAUSE_OOM_SCORE: Final = -998


@contextmanager
def _convert_errors() -> Iterator[None]:
    try:
        yield
    except client.ShimClosedError as error:
        raise ShimGoneError(str(error)) from None
    except client.ShimNotRunningError as error:
        raise NotRunningError(str(error)) from None
    except client.ShimError as error:
        raise PartError(str(error)) from None


def _container_exit(exited: client.ShimExit) -> ContainerExit:
    return ContainerExit(code=exited.code, at=exited.at_ns, oom=exited.oom)


class ProcessShimManager:
    """Starts and finds shim processes, which have folders in the state."""

    def __init__(
        self, paths: RuntimePaths, runtime: OciRuntime, bundles: ContainerBundles, cgroups: CgroupDirs, driver: str
    ) -> None:
        self._paths = paths
        self.runtime = runtime
        self.bundles = bundles
        self.cgroups = cgroups
        self.driver = driver
        self._template = ShimTemplate()

    async def close(self) -> None:
        """End the template process; shims go on."""
        await self._template.close()

    async def launch(self, record: SandboxRecord, callbacks: ShimCallbacks) -> "ShimAdapter":
        """Start a shim for a sandbox."""
        own = own_namespaces(record, possible=self.runtime.namespaces)
        sysctls = dict(record.config.linux.sysctls)
        for name in sysctls:
            if problem := sysctl_problem(name, network="network" in own, ipc="ipc" in own):
                raise invalid(f'config.linux.sysctls["{name}"]', problem)
        options = client.SandboxOptions(
            network="network" in own,
            ipc="ipc" in own,
            uts="uts" in own,
            pid="pid" in own,
            hostname=record.config.hostname if "uts" in own else "",
            sysctls=sysctls,
            oom_score_adj=_PAUSE_OOM_SCORE,
        )
        with _convert_errors():
            handlers = _client_callbacks(record.id, callbacks)
            shim = await client.ShimClient.launch(
                self._shim_paths(record.id), options, starter=self._template, **handlers
            )
        return ShimAdapter(shim, self, self._paths)

    async def attach(self, sandbox_id: str, callbacks: ShimCallbacks) -> "ShimAdapter":
        """Connect to the shim of a sandbox. One that runs and cannot be reached is useless, so it is killed."""
        try:
            with _convert_errors():
                shim = await client.ShimClient.attach_to(
                    self._shim_paths(sandbox_id), **_client_callbacks(sandbox_id, callbacks)
                )
        except PartError as error:
            await self._kill(sandbox_id)
            raise ShimGoneError(str(error)) from None
        return ShimAdapter(shim, self, self._paths)

    async def find_orphans(self, known: Collection[str]) -> list[str]:
        """Ids of sandboxes that have a shim and are not in `known`; `attach` kills unreachable shims."""
        living = await asyncio.to_thread(find_shims, self._paths.sandboxes)
        return [sandbox_id for sandbox_id in living if sandbox_id not in known]

    async def _kill(self, sandbox_id: str) -> None:
        paths = self._shim_paths(sandbox_id)
        await asyncio.to_thread(kill_shim, paths)
        try:
            if await asyncio.to_thread(kill_unreachable_shim, paths.folder):
                _log.warning("Killed an unreachable shim", extra=kv(sandbox=sandbox_id))
        except OSError as error:
            _log.error("Shim is unreachable and does not exit", extra=kv(sandbox=sandbox_id, err=str(error)))

    def _shim_paths(self, sandbox_id: str) -> ShimPaths:
        return ShimPaths(folder=self._paths.sandbox(sandbox_id))


def _client_callbacks(sandbox_id: str, callbacks: ShimCallbacks) -> dict[str, Any]:
    return {
        "on_exit": lambda container_id, exited: callbacks.on_exit(container_id, _container_exit(exited)),
        "on_lost": lambda: callbacks.on_lost(sandbox_id),
        "on_died": lambda: callbacks.on_lost(sandbox_id),
    }


class ShimAdapter:
    """The connection to the shim of a sandbox."""

    def __init__(self, shim: client.ShimClient, shims: ProcessShimManager, paths: RuntimePaths) -> None:
        self._shim = shim
        self._shims = shims
        self._paths = paths

    @property
    def pid(self) -> int:
        return self._shim.pid

    @property
    def pause_pid(self) -> int:
        return self._shim.pause_pid

    async def run(self, record: ContainerRecord) -> int:
        """Start a container; returns its pid."""
        config, shims = record.config, self._shims
        request = client.StartRequest(
            id=record.id,
            command=shims.runtime.run_command(record.id, self._paths.bundle(record.id), tty=config.tty),
            log_path=record.log_path,
            exit_file=str(self._paths.exit_file(record.id)),
            stdin=config.stdin,
            stdin_once=config.stdin_once,
            tty=config.tty,
            oom_file=shims.cgroups.oom_file(record.cgroup),
        )
        with _convert_errors():
            return await self._shim.run(request)

    async def signal(self, container_id: str, number: int) -> None:
        """Send a signal; a container that the shim does not know has exited."""
        try:
            with _convert_errors():
                await self._shim.signal(container_id, number)
        except ShimGoneError:
            raise
        except PartError:
            return

    async def exec_sync(self, container_id: str, command: Sequence[str], timeout: int) -> ExecOutput:
        """Run a command to its end."""
        request = await self._exec_request(container_id, command, timeout=timeout)
        with _convert_errors():
            result = await self._shim.exec_sync(request)
        return ExecOutput(stdout=result.stdout, stderr=result.stderr, code=result.code, timed_out=result.timed_out)

    async def exec(self, container_id: str, command: Sequence[str], *, tty: bool, stdin: bool) -> "ShimStreamsAdapter":
        """Run a command with streams."""
        request = await self._exec_request(container_id, command, tty=tty, stdin=stdin)
        with _convert_errors():
            return ShimStreamsAdapter(await self._shim.exec_streams(request))

    async def _exec_request(
        self, container_id: str, command: Sequence[str], *, tty: bool = False, stdin: bool = False, timeout: int = 0
    ) -> client.ExecRequest:
        spec = await self._shims.bundles.read_spec(container_id)
        if not spec:
            raise PartError("the container's configuration is gone")
        return client.ExecRequest(
            container_id=container_id,
            command=self._shims.runtime.exec_command(container_id, tty=tty),
            process=exec_process(spec, list(command), tty=tty),
            tty=tty,
            stdin=stdin,
            timeout=timeout,
        )

    async def attach(self, container_id: str, *, stdin: bool) -> "ShimStreamsAdapter":
        """The streams of the container itself."""
        with _convert_errors():
            return ShimStreamsAdapter(await self._shim.attach(container_id, stdin=stdin))

    async def reopen_log(self, container_id: str) -> None:
        """Write to a new log file."""
        with _convert_errors():
            await self._shim.reopen_log(container_id)

    async def states(self) -> Mapping[str, ShimState]:
        """The states of all containers of the shim, by id."""
        with _convert_errors():
            found = await self._shim.states()
        return {
            name: ShimState(
                pid=state.pid,
                started_at=state.started_at,
                exited=None if state.exited is None else _container_exit(state.exited),
            )
            for name, state in found.items()
        }

    async def forget(self, container_id: str) -> None:
        """Drop an exited container that is being removed; an unknown one is fine."""
        try:
            with _convert_errors():
                await self._shim.forget(container_id)
        except ShimGoneError:
            raise
        except PartError:
            return

    async def stop(self) -> None:
        """End pause process and shim; a shim that is gone is fine."""
        try:
            with _convert_errors():
                await self._shim.stop()
        except ShimGoneError:
            return

    async def wait_closed(self) -> None:
        """Wait for the end of the shim, or of the connection."""
        await self._shim.wait_closed()

    async def disconnect(self) -> None:
        """Close the connection; the shim goes on."""
        await self._shim.close()


class ShimStreamsAdapter:
    """A session with a process."""

    def __init__(self, streams: client.ShimSession) -> None:
        self._streams = streams

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """Channel and bytes until the process has exited."""
        with _convert_errors():
            while (piece := await self._streams.read()) is not None:
                yield piece

    async def write(self, data: bytes) -> None:
        await self._streams.write(data)

    async def write_eof(self) -> None:
        await self._streams.end_stdin()

    async def resize(self, width: int, height: int) -> None:
        await self._streams.resize(width, height)

    async def wait(self) -> int | None:
        """The exit code, after `output` has ended; None without one."""
        ended = self._streams.exit
        return None if ended is None else ended.code

    async def close(self) -> None:
        await self._streams.close()
