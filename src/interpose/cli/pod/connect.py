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

from interpose.cli.pod.options import ConnectionOptions
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


def _unwrapped(caller: Caller) -> Caller:
    return caller


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRuntime:
    """A runtime that answers. `where` names it for people. `not_isolated` is what the built-in runtime does not
    isolate, if it was started here."""

    services: RuntimeClient
    pods: PodReader
    where: str
    cgroup_mount: str
    not_isolated: tuple[str, ...] = ()


@asynccontextmanager
async def pod_runtime(
    connection: ConnectionOptions,
    *,
    on_wait: Callable[[str], None] | None = None,
    wrap: Callable[[Caller], Caller] = _unwrapped,
) -> AsyncGenerator[PodRuntime]:
    """A runtime while the block lasts. With `on_wait` it is waited for, and that function gets the reason, once. `wrap`
    makes the caller that is used of the one that was opened."""
    if connection.local:
        from interpose.cli.pod.local_runtime import open_built_in_runtime

        async with open_built_in_runtime() as local:
            found = _pod_runtime(wrap(local.caller), local.where, connection, local.cgroups)
            yield replace(found, not_isolated=local.not_isolated)
        return
    endpoint = connection.endpoint or (find_endpoint() if on_wait is None else await _wait_for_endpoint(on_wait))
    remote = RemoteCaller(endpoint, connection.image_endpoint, patience=_PATIENCE)
    try:
        await _connect(remote, on_wait)
        yield _pod_runtime(wrap(remote), remote.path, connection, connection.cgroup_mount)
    finally:
        await remote.close()


def _pod_runtime(caller: Caller, where: str, connection: ConnectionOptions, cgroup_mount: str) -> PodRuntime:
    services = RuntimeClient(caller)
    pods = PodReader(services, dirs=PodFolders(connection.root), where=where)
    return PodRuntime(services=services, pods=pods, where=where, cgroup_mount=cgroup_mount)


async def _connect(remote: RemoteCaller, on_wait: Callable[[str], None] | None) -> None:
    if on_wait is None and (why := await asyncio.to_thread(_find_missing, remote.path)):
        raise click.ClickException(f"runtime {remote.path} is not reachable: {why}")
    try:
        await remote.start()
    except RpcError as error:
        if on_wait is None:
            raise
        on_wait(describe_error(error))
    else:
        return
    while True:
        await asyncio.sleep(_PAUSE)
        with suppress(RpcError):
            await RuntimeClient(remote).version()
            return


async def _wait_for_endpoint(on_wait: Callable[[str], None]) -> str:
    """The socket that exists, as soon as one does: a manager that starts with the machine may be the first."""
    is_reported = False
    while True:
        try:
            return await asyncio.to_thread(find_endpoint)
        except ConfigError as error:
            if not is_reported:
                on_wait(str(error))
            is_reported = True
        await asyncio.sleep(_PAUSE)


def _find_missing(path: str) -> str:
    """Why the file cannot be found; empty if it exists."""
    try:
        Path(path).stat()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def find_endpoint() -> str:
    """The first socket that exists, a relay's before those of runtimes; ConfigError if there is none."""
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


def run_with_runtime(
    connection: ConnectionOptions,
    work: Callable[[PodRuntime], Awaitable[_T]],
    *,
    on_wait: Callable[[str], None] | None = None,
    log_level: str = "error",
    service: Callable[[LogControl], AbstractAsyncContextManager[None]] | None = None,
    wrap: Callable[[Caller], Caller] = _unwrapped,
) -> _T:
    """Open the runtime, do the work, close it. What the runtime says no to is an error message and exit code 1.

    `service` is open from before the runtime is waited for until all is over."""
    # Also for commands that log nothing themselves: warnings of what they use would be bare words on the screen.
    log = setup(log_level, "text")

    async def main() -> _T:
        opened = service(log) if service is not None else nullcontext()
        async with opened, pod_runtime(connection, on_wait=on_wait, wrap=wrap) as runtime:
            return await work(runtime)

    try:
        return run_async(main)
    finally:
        log.close()


def run_async(main: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    """Run a coroutine to its end in an event loop; SIGINT ends it at once."""
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main())
    except RpcError as error:
        raise click.ClickException(describe_error(error)) from None
    except KeyboardInterrupt:
        # As a shell reports it.
        raise SystemExit(130) from None


def describe_error(error: RpcError) -> str:
    """An error of the runtime as a sentence for people."""
    return error.message if error.code is Code.UNAVAILABLE else f"the runtime says: {error}"
