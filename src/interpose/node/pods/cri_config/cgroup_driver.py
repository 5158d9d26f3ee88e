"""Who makes cgroups for a runtime: what it says itself.

CRI has a call for that since 1.28. containerd has it from 2.0 on; before, its configuration is in its verbose status.
"""

import json
from collections.abc import Mapping
from typing import Any

from interpose.cri.client import RuntimeClient
from interpose.cri.messages import cri
from interpose.host.cgroup.paths import Driver
from interpose.net.grpc.status import RpcError


async def detect_cgroup_driver(services: RuntimeClient) -> Driver:
    """The driver of a runtime; one that does not say it makes cgroups itself."""
    try:
        answer = await services.runtime_config()
    except RpcError:
        return await _configured(services)
    return Driver.SYSTEMD if answer.linux.cgroup_driver == cri.SYSTEMD else Driver.CGROUPFS


async def _configured(services: RuntimeClient) -> Driver:
    try:
        info = (await services.status(verbose=True)).info
    except RpcError:
        return Driver.CGROUPFS
    return configured_driver(info)


def configured_driver(info: Mapping[str, str]) -> Driver:
    """What containerd's configuration says of the handler that is used if none is asked for."""
    try:
        config = json.loads(info.get("config", ""))
    except ValueError:
        return Driver.CGROUPFS
    containerd = _part(config, "containerd")
    name = containerd.get("defaultRuntimeName")
    handler = _part(containerd, "runtimes", name if isinstance(name, str) else "")
    systemd = _part(config).get("systemdCgroup") is True or _part(handler, "options").get("SystemdCgroup") is True
    return Driver.SYSTEMD if systemd else Driver.CGROUPFS


def _part(document: Any, *keys: str) -> dict[str, Any]:
    """A part of a document; empty if there is none, or it is something else."""
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else {}
