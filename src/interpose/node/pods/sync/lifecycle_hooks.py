"""What a container wants done after its start and before its end."""

import logging
from collections.abc import Sequence
from typing import Final

from interpose.cri.services import ContainerManager
from interpose.net.grpc.status import RpcError
from interpose.node.pods.clock import Clocks
from interpose.node.pods.labels import Hook
from interpose.node.pods.prober.client import NoTlsError, ProbeError, http_get, port_of, tcp_connect
from interpose.node.pods.spec import ContainerSpec, ExecAction, HttpAction, SleepAction, TcpAction

_log = logging.getLogger(__name__)

# A hook over the network that was given no time: as long as nobody would mind.
_NETWORK: Final = 60.0
_SHOWN: Final = 256


class HookError(Exception):
    """The hook failed; the text says how."""


class LifecycleHookRunner:
    """Runs postStart and preStop hooks of containers."""

    def __init__(self, runtime: ContainerManager, clocks: Clocks) -> None:
        self._runtime = runtime
        self._clocks = clocks

    async def run(self, hook: Hook, container_id: str, container: ContainerSpec, reach: Sequence[str]) -> None:
        """Run it to its end, however long that takes. HookError if it fails. `reach` is where the pod is reached."""
        match hook:
            case ExecAction():
                await self._exec(hook, container_id)
            case HttpAction():
                await self._http(hook, container, reach)
            case TcpAction():
                await self._tcp(hook, container, reach)
            case SleepAction():
                await self._clocks.sleep(hook.seconds)

    async def _exec(self, hook: ExecAction, container_id: str) -> None:
        try:
            answer = await self._runtime.exec_sync(container_id, hook.command)
        except RpcError as error:
            raise HookError(f"command could not be run: {error}") from None
        if answer.exit_code:
            said = (answer.stdout + answer.stderr)[:_SHOWN].decode("utf-8", "replace").strip()
            raise HookError(f"command ended with exit code {answer.exit_code}" + (f": {said}" if said else ""))

    async def _http(self, hook: HttpAction, container: ContainerSpec, reach: Sequence[str]) -> None:
        try:
            port, host = port_of(hook, container), _host(hook.host, reach)
            try:
                # Any answer will do: the hook has arrived.
                await http_get(host, port, hook.path, scheme=hook.scheme, headers=hook.headers, timeout=_NETWORK)
            except NoTlsError as error:
                # Once, kubelets did not look at the scheme: manifests of that time mean HTTP, and still work.
                open_ones = [header for header in hook.headers if header[0].lower() != "authorization"]
                await http_get(host, port, hook.path, headers=open_ones, timeout=_NETWORK)
                about = {"container": container.name, "err": str(error)}
                _log.warning(
                    "HTTPS lifecycle hook got an HTTP response, retry with HTTP succeeded", extra={"kv": about}
                )
        except ProbeError as error:
            raise HookError(str(error)) from None

    async def _tcp(self, hook: TcpAction, container: ContainerSpec, reach: Sequence[str]) -> None:
        try:
            await tcp_connect(_host(hook.host, reach), port_of(hook, container), _NETWORK)
        except ProbeError as error:
            raise HookError(str(error)) from None


def _host(host: str, reach: Sequence[str]) -> str:
    """Never anybody else's address: what tells one pod to drain must not tell the node to."""
    if not host and not reach:
        raise HookError("the pod has no address")
    return host or reach[0]
