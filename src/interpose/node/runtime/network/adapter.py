"""The network of pods over CNI: holders become paths of namespaces, errors are in the service's words."""

import asyncio
from collections.abc import Collection

from interpose.node.runtime.network import netns_connect as connecting
from interpose.node.runtime.network.cni import CniNetwork
from interpose.node.runtime.network.types import NetworkError
from interpose.node.runtime.service.interfaces import PartError, PodAddresses
from interpose.node.runtime.state.records import SandboxRecord


async def connect(netns: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to a port of this machine inside a network namespace ("" for our own)."""
    try:
        return await connecting.connect(netns, port)
    except NetworkError as error:
        raise PartError(str(error)) from None


class PodNetworkAdapter:
    """Sets up and tears down; without namespaces there is nothing to set up."""

    def __init__(self, network: CniNetwork, *, namespaces: bool) -> None:
        self._network = network
        self._namespaces = namespaces

    @property
    def configured(self) -> bool:
        """Whether pods get a network of their own."""
        return self._namespaces and self._network.configured

    def condition(self) -> tuple[bool, str, str]:
        """Ready, reason, message."""
        found = self._network.ready
        return found.ready, found.reason, found.message

    def node_address(self) -> str:
        """The address of the node."""
        return self._network.node_address()

    async def setup(self, record: SandboxRecord, pause_pid: int) -> PodAddresses:
        """Connect the namespace of a holder."""
        try:
            found = await self._network.setup(record.id, f"/proc/{pause_pid}/ns/net", record.config)
        except NetworkError as error:
            raise PartError(f"set up the network: {error}") from None
        return PodAddresses(ip=found.ip, additional=tuple(found.additional))

    async def teardown(self, record: SandboxRecord, pause_pid: int) -> None:
        """Disconnect it; what is gone is fine."""
        try:
            await self._network.teardown(record.id, f"/proc/{pause_pid}/ns/net" if pause_pid else "", record.config)
        except NetworkError as error:
            raise PartError(f"tear down the network: {error}") from None

    async def kill_orphan_plugins(self, ready: Collection[str]) -> None:
        """End what a process before us had under way for sandboxes that are not settled."""
        try:
            await self._network.kill_orphan_plugins(ready)
        except NetworkError as error:
            raise PartError(str(error)) from None

    async def find_orphans(self, known: Collection[str]) -> list[str]:
        """Sandboxes that are in a network and not known."""
        return await self._network.leftovers(list(known))

    async def remove_orphan(self, sandbox_id: str) -> None:
        """Disconnect such a one."""
        try:
            await self._network.teardown(sandbox_id, "")
        except NetworkError as error:
            raise PartError(f"tear down the network: {error}") from None
