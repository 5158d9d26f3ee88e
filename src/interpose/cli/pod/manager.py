"""The manager of pods on a runtime that was reached, for commands that act on pods."""

import asyncio
from typing import Any

from interpose.cli.pod.connect import PodRuntime
from interpose.cli.pod.options import ConnectionOptions
from interpose.cri.client import RuntimeClient
from interpose.host.cgroup.paths import Driver
from interpose.net.grpc.status import RpcError
from interpose.node.pods.cri_config.cgroup_driver import detect_cgroup_driver
from interpose.node.pods.node_probe import read_node
from interpose.node.pods.sync.manager import RuntimeManager
from interpose.node.pods.volumes.pod_dirs import PodDirs


async def open_manager(runtime: PodRuntime, connection: ConnectionOptions, **node: Any) -> RuntimeManager:
    """A manager of pods. `node` are facts about the node from the command line, for `read_node`."""
    services = runtime.services
    is_auto = connection.cgroup_driver == "auto"
    detected: dict[str, Any] = {
        "cgroup_mount": runtime.cgroup_mount,
        "cgroup_driver": await detect_cgroup_driver(services) if is_auto else Driver(connection.cgroup_driver),
        "recursive_read_only": await _recursive_read_only(services),
    }
    facts = await asyncio.to_thread(lambda: read_node(**{**detected, **node}))
    return RuntimeManager(
        services,
        node=facts,
        dirs=PodDirs(connection.root, log_root=connection.log_root),
        log_root=connection.log_root,
        cgroup_mount=runtime.cgroup_mount,
        where=runtime.where,
    )


async def _recursive_read_only(services: RuntimeClient) -> bool:
    """Whether mounts can be made read-only to their leaves; older runtimes do not say so, and cannot."""
    try:
        handlers = (await services.status()).runtime_handlers
    except RpcError:
        return False
    return any(handler.features.recursive_read_only_mounts for handler in handlers if not handler.name)
