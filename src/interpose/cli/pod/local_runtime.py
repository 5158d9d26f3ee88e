"""The built-in runtime for `interpose pod --local`: in this process, or in the process that has its folder already.

While a command with --local lasts, other commands with --local reach the same runtime through a socket in its state
folder.
"""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interpose.config.load import load
from interpose.config.runtime.settings import RuntimeSettings
from interpose.config.runtime.table import RUNTIME
from interpose.cri.caller import Caller
from interpose.cri.remote import RemoteCaller
from interpose.cri.wrappers import LocalCaller
from interpose.host.unix_sockets import bind_unix
from interpose.net.grpc.status import RpcError

_EMBEDDED: Final = "embedded.sock"
_PATIENCE: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltInRuntime:
    """The built-in runtime: its address and its cgroups, and if it is in this process what it does not isolate."""

    caller: Caller
    where: str
    cgroups: str
    not_isolated: tuple[str, ...] = ()


@asynccontextmanager
async def open_built_in_runtime() -> AsyncGenerator[BuiltInRuntime]:
    """The runtime of the environment's settings while the block lasts."""
    settings: RuntimeSettings = load(RUNTIME, flags={}, env=os.environ, path=None).settings
    if (remote := await _connect_running(settings)) is not None:
        try:
            yield BuiltInRuntime(caller=remote, where=remote.path, cgroups=settings.cgroups.root)
        finally:
            await remote.close()
        return
    from interpose.cli.runtime.serve import runtime_options, serve_runtime
    from interpose.node.runtime.service.wiring import open_runtime

    runtime = open_runtime(runtime_options(settings))
    served = None
    try:
        await runtime.start()
        bound = bind_unix(f"{settings.state}/{_EMBEDDED}", mode=0o600)
        served = serve_runtime(bound, runtime, runtime.METHODS, uids=(os.getuid(),), connections=16)
        await served.start()
        yield BuiltInRuntime(
            caller=LocalCaller(runtime),
            where=f"the built-in runtime in {settings.root}",
            cgroups=settings.cgroups.root,
            not_isolated=runtime.not_isolated,
        )
    finally:
        if served is not None:
            await served.close()
        await runtime.close()


async def _connect_running(settings: RuntimeSettings) -> RemoteCaller | None:
    for path in (settings.listen, f"{settings.state}/{_EMBEDDED}"):
        if not await asyncio.to_thread(Path(path).is_socket):
            continue
        remote = RemoteCaller(path, patience=_PATIENCE)
        try:
            await remote.start()
        except RpcError:
            await remote.close()
        else:
            return remote
    return None
