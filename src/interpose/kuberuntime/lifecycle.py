"""What a container wants done after its start and before its end."""

from collections.abc import Sequence
from typing import Final

from interpose.kuberuntime.asking import AskError, http_get, port_of, tcp_connect
from interpose.kuberuntime.clocks import Clocks
from interpose.kuberuntime.labels import Hook
from interpose.kuberuntime.pod import Container, ExecAction, HttpAction, SleepAction, TcpAction
from interpose.kuberuntime.runtime import ContainerManager
from interpose.rpc.status import RpcError

# A hook over the network that was given no time: as long as nobody would mind.
_NETWORK: Final = 60.0
_SHOWN: Final = 256


class HookError(Exception):
    """The hook failed; the text says how."""


class Hooks:
    """Runs hooks. `address` is where pods without an address of their own are reached."""

    def __init__(self, runtime: ContainerManager, clocks: Clocks, *, address: str = "127.0.0.1") -> None:
        self._runtime = runtime
        self._clocks = clocks
        self._address = address

    async def run(self, hook: Hook, container_id: str, container: Container, ips: Sequence[str]) -> None:
        """Run it to its end, however long that takes. HookError if it fails."""
        match hook:
            case ExecAction():
                await self._exec(hook, container_id)
            case HttpAction():
                await self._http(hook, container, ips)
            case TcpAction():
                await self._tcp(hook, container, ips)
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

    async def _http(self, hook: HttpAction, container: Container, ips: Sequence[str]) -> None:
        try:
            port = port_of(hook, container)
            # Any answer will do: the hook has arrived.
            await http_get(
                self._host(hook.host, ips), port, hook.path, scheme=hook.scheme, headers=hook.headers, timeout=_NETWORK
            )
        except AskError as error:
            raise HookError(str(error)) from None

    async def _tcp(self, hook: TcpAction, container: Container, ips: Sequence[str]) -> None:
        try:
            await tcp_connect(self._host(hook.host, ips), port_of(hook, container), _NETWORK)
        except AskError as error:
            raise HookError(str(error)) from None

    def _host(self, host: str, ips: Sequence[str]) -> str:
        return host or next(iter(ips), self._address)
