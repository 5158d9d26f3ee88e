"""The pod network of the service over CNI: pause processes become namespace paths, errors PartErrors."""

import asyncio
from collections.abc import Collection

from interpose.node.runtime.network import netns_connect
from interpose.node.runtime.network.cni import CniNetwork
from interpose.node.runtime.network.types import NetworkError
from interpose.node.runtime.service.interfaces import PartError, PodAddresses
from interpose.node.runtime.state.records import SandboxRecord


async def connect(netns: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to a port of this machine inside a network namespace ("" for our own)."""
    try:
        return await netns_connect.connect(netns, port)
    except NetworkError as error:
        raise PartError(str(error)) from None


class PodNetworkAdapter:
    """The pod network over CNI; without namespaces no pod has a network of its own."""

    def __init__(self, network: CniNetwork, *, namespaces: bool) -> None:
        self._network = network
        self._namespaces = namespaces

    @property
    def configured(self) -> bool:
        """Whether pods get a network of their own."""
        return self._namespaces and self._network.configured

    def condition(self) -> tuple[bool, str, str]:
        """The NetworkReady condition: ready, reason, message."""
        found = self._network.ready
        return found.ready, found.reason, found.message

    def node_address(self) -> str:
        """The address of the node; empty without one."""
        return self._network.node_address()

    async def setup(self, record: SandboxRecord, pause_pid: int) -> PodAddresses:
        """Connect the network namespace of a pause process."""
        try:
            found = await self._network.setup(record.id, f"/proc/{pause_pid}/ns/net", record.config)
        except NetworkError as error:
            raise PartError(f"set up the network: {error}") from None
        return PodAddresses(ip=found.ip, additional=tuple(found.additional))

    async def teardown(self, record: SandboxRecord, pause_pid: int) -> None:
        """Disconnect a sandbox; one that is not connected is fine."""
        try:
            await self._network.teardown(record.id, f"/proc/{pause_pid}/ns/net" if pause_pid else "", record.config)
        except NetworkError as error:
            raise PartError(f"tear down the network: {error}") from None

    async def kill_orphan_plugins(self, ready: Collection[str]) -> None:
        """Kill CNI plugins of the previous process that work for sandboxes not in `ready`."""
        try:
            await self._network.kill_orphan_plugins(ready)
        except NetworkError as error:
            raise PartError(str(error)) from None

    async def find_orphans(self, known: Collection[str]) -> list[str]:
        """Ids of sandboxes that are connected and not in `known`."""
        return await self._network.find_orphans(list(known))

    async def remove_orphan(self, sandbox_id: str) -> None:
        """Disconnect an unknown sandbox."""
        try:
            await self._network.teardown(sandbox_id, "")
        except NetworkError as error:
            raise PartError(f"tear down the network: {error}") from None
