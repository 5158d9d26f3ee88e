"""The network of pods: set up when a sandbox is created, torn down when it is stopped.

With a CNI configuration plugins do it; without one pods share the host's network, which status and metrics show. A
network is torn down with the configuration it was set up with, also after a restart of the runtime.
"""

import asyncio
import logging
import socket
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final

from interpose.node.runtime.network.capability_args import capability_args, cni_args
from interpose.node.runtime.network.conf import at_least, plugin_input
from interpose.node.runtime.network.conf_dir import CniConfDir
from interpose.node.runtime.network.plugins import CONTAINER_ID, TIMEOUT, Attachment, CniPlugins
from interpose.node.runtime.network.result_cache import CachedAttachment, CniResultCache
from interpose.node.runtime.network.results import net_result
from interpose.node.runtime.network.types import NetResult, NetworkError, NetworkList, Readiness
from interpose.node.runtime.state import orphans

_log = logging.getLogger(__name__)
_NOT_READY: Final = "NetworkPluginNotReady"
_HOST: Final = "HostNetwork"
_RESULT_IN_DEL: Final = (0, 4, 0)
# Documentation addresses: no host has them, but a default route leads there.
_ROUTED: Final = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
_DISCARD_PORT: Final = 9


class CniNetwork:
    """Networks for sandboxes. Calls for different sandboxes may run at the same time."""

    def __init__(self, conf_dir: str, bin_dirs: Sequence[str], cache_dir: Path, *, timeout: float = TIMEOUT) -> None:
        self._folder = CniConfDir(conf_dir)
        self._plugins = CniPlugins(bin_dirs, timeout=timeout)
        self._cache = CniResultCache(cache_dir)

    @property
    def configured(self) -> bool:
        """Whether a pod gets a network of its own; True also for an invalid configuration."""
        network, problems = self._folder.current()
        return network is not None or bool(problems)

    @property
    def ready(self) -> Readiness:
        """Whether the next pod can get a network, and the reason if not."""
        network, problems = self._folder.current()
        if network is None:
            if problems:
                return Readiness(ready=False, reason=_NOT_READY, message="; ".join(problems))
            message = f"no CNI configuration in {self._folder.folder}: pods share the host's network"
            return Readiness(ready=True, reason=_HOST, message=message)
        try:
            for plugin in network.plugins:
                self._plugins.find(plugin["type"])
        except NetworkError as error:
            return Readiness(ready=False, reason=_NOT_READY, message=str(error))
        return Readiness(ready=True)

    def node_address(self) -> str:
        """The address of the host, and of pods in its network; empty if it has none."""
        return node_address()

    async def setup(self, sandbox_id: str, netns: str, config: Any) -> NetResult:
        """Connect a sandbox. NetworkError if that fails; it is undone then, as far as the plugins can."""
        network, problems = self._folder.current()
        if network is None:
            raise NetworkError("; ".join(problems) or f"no CNI configuration in {self._folder.folder}")
        entry = CachedAttachment(
            network=network, arguments=cni_args(sandbox_id, config), offered=capability_args(config)
        )
        await asyncio.to_thread(self._cache.write, sandbox_id, entry)
        attachment = Attachment(sandbox_id=sandbox_id, netns=netns, arguments=entry.arguments)
        try:
            result = await self._add(entry, attachment)
        except NetworkError:
            await self._undo_quietly(sandbox_id, entry, attachment)
            raise
        done = CachedAttachment(
            network=network, arguments=entry.arguments, offered=entry.offered, result=result.document
        )
        await asyncio.to_thread(self._cache.write, sandbox_id, done)
        return result

    async def teardown(self, sandbox_id: str, netns: str, config: Any = None) -> None:
        """Disconnect a sandbox; one that is in no network is fine. An empty `netns` means that it is gone.

        NetworkError if a plugin failed: the call may be repeated.
        """
        entry = await asyncio.to_thread(self._cache.read, sandbox_id)
        if entry is None:
            network, _ = self._folder.current()
            if network is None or config is None or not netns:
                await asyncio.to_thread(self._cache.remove, sandbox_id)
                return
            entry = CachedAttachment(
                network=network, arguments=cni_args(sandbox_id, config), offered=capability_args(config)
            )
        await self._delete(entry, Attachment(sandbox_id=sandbox_id, netns=netns, arguments=entry.arguments))
        await asyncio.to_thread(self._cache.remove, sandbox_id)

    async def kill_orphan_plugins(self, ready: Collection[str]) -> None:
        """Kill plugins that the previous process started; their work will be undone or repeated.

        `ready` sandboxes are connected: a process that a plugin left running for one of them (a DHCP server, say) is
        part of its network.
        """
        sandboxes = await self.find_orphans(ready)
        if not sandboxes:
            return
        try:
            killed = await asyncio.to_thread(
                orphans.kill_all, lambda: orphans.with_environment(CONTAINER_ID, sandboxes)
            )
        except OSError as error:
            raise NetworkError(str(error)) from None
        if killed:
            _log.warning("Killed abandoned CNI plugins", extra={"kv": {"count": killed}})

    async def find_orphans(self, known: Collection[str]) -> list[str]:
        """Ids of sandboxes that are connected by the result cache, and not in `known`."""
        cached = await asyncio.to_thread(self._cache.sandboxes)
        return [sandbox_id for sandbox_id in cached if sandbox_id not in known]

    # -- chains

    async def _add(self, entry: CachedAttachment, attachment: Attachment) -> NetResult:
        network, result = entry.network, None
        for plugin in network.plugins:
            document = plugin_input(network, plugin, entry.offered, result)
            result = await self._plugins.run("ADD", plugin["type"], document, attachment)
        try:
            return net_result(result or {})
        except ValueError as error:
            raise NetworkError(f"network {network.name!r}: {error}") from None

    async def _delete(self, entry: CachedAttachment, attachment: Attachment) -> None:
        network: NetworkList = entry.network
        previous = entry.result if at_least(network.version, _RESULT_IN_DEL) else None
        for plugin in reversed(network.plugins):
            document = plugin_input(network, plugin, entry.offered, previous)
            await self._plugins.run("DEL", plugin["type"], document, attachment)

    async def _undo_quietly(self, sandbox_id: str, entry: CachedAttachment, attachment: Attachment) -> None:
        try:
            await self._delete(entry, attachment)
        except NetworkError as error:
            _log.warning(
                "Failed to tear down a partial pod network; retried when the sandbox is stopped",
                extra={"kv": {"sandbox": sandbox_id, "error": str(error)}},
            )
        else:
            await asyncio.to_thread(self._cache.remove, sandbox_id)


def node_address() -> str:
    """The address this machine uses towards others; the loopback if it knows no others."""
    for family, far in _ROUTED:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((far, _DISCARD_PORT))
                address: str = probe.getsockname()[0]
        except OSError:
            continue
        if address not in ("0.0.0.0", "::"):  # noqa: S104 - not bound to, asked about
            return address
    return _resolve_own_name()


def _resolve_own_name() -> str:
    try:
        found = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_DGRAM)
    except OSError:
        return "127.0.0.1"
    addresses = [str(entry[4][0]) for entry in found]
    return next((address for address in addresses if not address.startswith("127.") and address != "::1"), "127.0.0.1")
