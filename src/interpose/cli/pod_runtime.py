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

from interpose.cli.pod_options import Reach
from interpose.config.endpoint import WELL_KNOWN_RUNTIMES
from interpose.config.runtime_settings import RuntimeSettings
from interpose.config.settings import RelaySettings
from interpose.cri.calls import Caller
from interpose.errors import ConfigError
from interpose.host.cgroup.paths import Driver
from interpose.instrumentation.logging import LogControl, setup
from interpose.kuberuntime.drivers import told_driver
from interpose.kuberuntime.instrumented import InstrumentedCaller
from interpose.kuberuntime.manager import RuntimeManager
from interpose.kuberuntime.nodereading import read_node
from interpose.kuberuntime.poddirs import PodDirs
from interpose.kuberuntime.remote import RemoteCaller
from interpose.kuberuntime.services import Services
from interpose.rpc.status import Code, RpcError

_T = TypeVar("_T")

_PATIENCE: Final = 3.0
_PAUSE: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A runtime that answers, and a manager for it. `where` names it for people. `not_isolated` is what the built-in
    runtime does not keep apart, if it was started here."""

    services: Services
    manager: RuntimeManager
    where: str
    calls: InstrumentedCaller
    not_isolated: tuple[str, ...] = ()


@asynccontextmanager
async def opened(reach: Reach, *, waits: Callable[[str], None] | None = None, **node: Any) -> AsyncGenerator[Opened]:
    """A runtime while the block lasts. With `waits` it is waited for, and that function hears why, once. `node` is what
    is said about the node by hand, for `read_node`."""
    if reach.local:
        from interpose.cli.pod_local import local_caller

        async with local_caller() as local:
            found = await _managed(local.caller, local.where, reach, {"cgroup_mount": local.cgroups, **node})
            yield replace(found, not_isolated=local.not_isolated)
        return
    endpoint = reach.endpoint or (found_endpoint() if waits is None else await _awaited_endpoint(waits))
    remote = RemoteCaller(endpoint, reach.image_endpoint, patience=_PATIENCE)
    try:
        await _connect(remote, waits)
        yield await _managed(remote, remote.path, reach, {"cgroup_mount": reach.cgroup_mount, **node})
    finally:
        await remote.close()


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
            await Services(remote).version()
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


async def _managed(caller: Caller, where: str, reach: Reach, given: dict[str, Any]) -> Opened:
    calls = InstrumentedCaller(caller)
    services = Services(calls)
    asked = reach.cgroup_driver == "auto"
    given = {**given, "cgroup_driver": await told_driver(services) if asked else Driver(reach.cgroup_driver)}
    if "recursive_read_only" not in given:
        given = {**given, "recursive_read_only": await _recursive_read_only(services)}
    facts = await asyncio.to_thread(_node, given)
    manager = RuntimeManager(
        services,
        node=facts,
        dirs=PodDirs(reach.root, log_root=reach.log_root),
        log_root=reach.log_root,
        cgroup_mount=given["cgroup_mount"],
        where=where,
    )
    return Opened(services=services, manager=manager, where=where, calls=calls)


def _node(given: dict[str, Any]) -> Any:
    return read_node(**given)


async def _recursive_read_only(services: Services) -> bool:
    """Whether mounts can be made read-only to their leaves; older runtimes do not say so, and cannot."""
    try:
        handlers = (await services.status()).runtime_handlers
    except RpcError:
        return False
    return any(one.features.recursive_read_only_mounts for one in handlers if not one.name)


def run_with(
    reach: Reach,
    work: Callable[[Opened], Awaitable[_T]],
    *,
    waits: Callable[[str], None] | None = None,
    log_level: str = "error",
    beside: Callable[[LogControl], AbstractAsyncContextManager[None]] | None = None,
    **node: Any,
) -> _T:
    """Open the runtime, do the work, close it. What the runtime says no to is an error message and exit code 1.

    `beside` is there from before the runtime is waited for until all is over."""
    # Also for commands that log nothing themselves: warnings of what they use would be bare words on the screen.
    log = setup(log_level, "text")

    async def main() -> _T:
        with_it = beside(log) if beside is not None else nullcontext()
        async with with_it, opened(reach, waits=waits, **node) as runtime:
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
