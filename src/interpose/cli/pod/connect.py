"""Reaching a runtime for `interpose pod`: a socket that is named or found, or the built-in runtime in this process."""

import asyncio
import stat
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import uvloop

from interpose.cli.pod.options import Reach
from interpose.config.endpoint import WELL_KNOWN_RUNTIMES
from interpose.cri.caller import Caller
from interpose.cri.client import RuntimeClient
from interpose.cri.remote import RemoteCaller
from interpose.errors import ConfigError
from interpose.log import LogControl, setup
from interpose.net.grpc.status import Code, RpcError
from interpose.node.pods.status.reader import PodReader
from interpose.node.pods.volumes.pod_folders import PodFolders

_T = TypeVar("_T")

_PATIENCE: Final = 3.0
_PAUSE: Final = 1.0


def _as_it_is(caller: Caller) -> Caller:
    return caller


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRuntime:
    """A runtime that answers. `where` names it for people. `not_isolated` is what the built-in runtime does not keep
    apart, if it was started here."""

    services: RuntimeClient
    pods: PodReader
    where: str
    cgroup_mount: str
    not_isolated: tuple[str, ...] = ()


@asynccontextmanager
async def pod_runtime(
    reach: Reach,
    *,
    waits: Callable[[str], None] | None = None,
    through: Callable[[Caller], Caller] = _as_it_is,
) -> AsyncGenerator[PodRuntime]:
    """A runtime while the block lasts. With `waits` it is waited for, and that function hears why, once. Calls go
    `through` what that makes of the caller."""
    if reach.local:
        from interpose.cli.pod.local_runtime import local_caller

        async with local_caller() as local:
            found = _pod_runtime(through(local.caller), local.where, reach, local.cgroups)
            yield replace(found, not_isolated=local.not_isolated)
        return
    endpoint = reach.endpoint or (found_endpoint() if waits is None else await _awaited_endpoint(waits))
    remote = RemoteCaller(endpoint, reach.image_endpoint, patience=_PATIENCE)
    try:
        await _connect(remote, waits)
        yield _pod_runtime(through(remote), remote.path, reach, reach.cgroup_mount)
    finally:
        await remote.close()


def _pod_runtime(caller: Caller, where: str, reach: Reach, cgroup_mount: str) -> PodRuntime:
    services = RuntimeClient(caller)
    pods = PodReader(services, dirs=PodFolders(reach.root), where=where)
    return PodRuntime(services=services, pods=pods, where=where, cgroup_mount=cgroup_mount)


async def _connect(remote: RemoteCaller, waits: Callable[[str], None] | None) -> None:
    if waits is None and (why := await asyncio.to_thread(_missing, remote.path)):
        raise click.ClickException(f"runtime {remote.path} is not reachable: {why}")
    try:
        await remote.start()
    except RpcError as error:
        if waits is None:
            raise
        waits(words_of(error))
    else:
        return
    while True:
        await asyncio.sleep(_PAUSE)
        with suppress(RpcError):
            await RuntimeClient(remote).version()
            return


async def _awaited_endpoint(waits: Callable[[str], None]) -> str:
    """The socket that is there, as soon as one is: who starts with the machine may be the first."""
    said = False
    while True:
        try:
            return await asyncio.to_thread(found_endpoint)
        except ConfigError as error:
            if not said:
                waits(str(error))
            said = True
        await asyncio.sleep(_PAUSE)


def _missing(path: str) -> str:
    """Why there is nothing; empty if there is something."""
    try:
        Path(path).stat()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def found_endpoint() -> str:
    """The socket that is there, in the order of who should be asked first; ConfigError if there is none."""
    from interpose.config.relay.settings import RelaySettings
    from interpose.config.runtime.settings import RuntimeSettings

    candidates = [RelaySettings().listen, RuntimeSettings().listen, *WELL_KNOWN_RUNTIMES]
    hidden = []
    for path in candidates:
        try:
            if stat.S_ISSOCK(Path(path).stat().st_mode):
                return path
        except PermissionError:  # of the folder: what is in it is not for us
            hidden.append(path)
        except OSError:
            continue
    looked = f"(looked for {', '.join(candidates)}"
    raise ConfigError(
        "no runtime was found: name its socket with --runtime-endpoint, or use the built-in one with --local "
        + (f"{looked}; permission denied: {', '.join(hidden)})" if hidden else f"{looked})")
    )


def run_with(
    reach: Reach,
    work: Callable[[PodRuntime], Awaitable[_T]],
    *,
    waits: Callable[[str], None] | None = None,
    log_level: str = "error",
    beside: Callable[[LogControl], AbstractAsyncContextManager[None]] | None = None,
    through: Callable[[Caller], Caller] = _as_it_is,
) -> _T:
    """Open the runtime, do the work, close it. What the runtime says no to is an error message and exit code 1.

    `beside` is there from before the runtime is waited for until all is over."""
    # Also for commands that log nothing themselves: warnings of what they use would be bare words on the screen.
    log = setup(log_level, "text")

    async def main() -> _T:
        with_it = beside(log) if beside is not None else nullcontext()
        async with with_it, pod_runtime(reach, waits=waits, through=through) as runtime:
            return await work(runtime)

    try:
        return run_async(main)
    finally:
        log.close()


def run_async(main: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    """Run to its end. SIGINT ends it at once."""
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main())
    except RpcError as error:
        raise click.ClickException(words_of(error)) from None
    except KeyboardInterrupt:
        # As a shell reports it.
        raise SystemExit(130) from None


def words_of(error: RpcError) -> str:
    """An error of the runtime for people; that nobody answers is nothing it says."""
    return error.message if error.code is Code.UNAVAILABLE else f"the runtime says: {error}"
