"""The built-in runtime in the relay's own process: `interpose relay --embedded`. Imported with that setting only.

It is served on a socket in its state folder, for us alone, and the relay treats it as any backend: hooks, policies,
store and dump see no difference. Its settings are those of `interpose runtime`, from the environment and the file that
is named there.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from interpose.config.load import load
from interpose.config.runtime.settings import RuntimeSettings
from interpose.config.runtime.table import RUNTIME

if TYPE_CHECKING:
    from interpose.net.grpc.served_socket import ServedSocket
    from interpose.node.runtime.service.runtime import LocalRuntime


class EmbeddedRuntime:
    """The built-in runtime behind a socket of its own."""

    def __init__(self, settings: RuntimeSettings) -> None:
        self.path = f"{settings.state}/embedded.sock"
        self._settings = settings
        self._runtime: LocalRuntime | None = None
        self._served: ServedSocket | None = None

    async def start(self) -> None:
        """Put pods of an earlier process in order, then answer calls."""
        from interpose.cli.runtime.serve import runtime_options, serve_runtime, warn_not_isolated
        from interpose.host.unix_sockets import bind_unix
        from interpose.node.runtime.service.wiring import open_runtime

        runtime = self._runtime = open_runtime(runtime_options(self._settings))
        bound = bind_unix(self.path, mode=0o600)
        self._served = serve_runtime(bound, runtime, runtime.METHODS, uids=(os.getuid(),), connections=16)
        await runtime.start()
        await self._served.start()
        warn_not_isolated(runtime.not_isolated)

    def tick(self) -> None:
        """Called once a second: time-outs of connections."""
        if self._served is not None:
            self._served.tick()

    async def close(self) -> None:
        """Answer no more; containers go on."""
        if self._served is not None:
            await self._served.close()
        if self._runtime is not None:
            await self._runtime.close()


def embedded_runtime(environ: Mapping[str, str]) -> EmbeddedRuntime:
    """The runtime of the environment's settings; ConfigError if they cannot be used."""
    return EmbeddedRuntime(load(RUNTIME, flags={}, env=environ, path=None).settings)
