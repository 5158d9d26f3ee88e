"""The runtime that points are tried on: its socket, the images that are there, a registry, a network for pods."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.lab.cri import message_classes

if TYPE_CHECKING:
    from conformance.bench import Pod
    from conformance.registry import Shelf
    from tests.support.lab.cri import CriClient

GROUP = "interpose-conformance"
DEADLINE = 120.0
"""Seconds for a call. Points are about answers and not about speed, and machines that test are busy."""


@dataclass(frozen=True, kw_only=True)
class World:
    """A runtime and what stands around it. `folder` is for files that containers see, `home` a pod for all points."""

    socket: Path
    client: CriClient
    folder: Path
    shelf: Shelf
    home: Pod | None = None
    cgroup: str = field(default_factory=lambda: f"/{GROUP}-{uuid.uuid4().hex[:8]}")
    systemd: bool = False
    """Whether the runtime has systemd make its cgroups."""

    def call(self, method: str, **fields: Any) -> Any:
        """The reply of a call; grpc.RpcError otherwise."""
        return self.client.call(method, message_classes(method)[0](**fields), timeout=DEADLINE)

    def pod_cgroup(self, uid: str) -> str:
        """A cgroup parent for a pod, as the runtime's driver wants it; also its directory."""
        if not self.systemd:
            return f"{self.cgroup}/{uid}"
        top = self.cgroup.strip("/").replace("-", "_")  # a dash would be another slice
        return f"/{top}.slice/{top}-{uid}.slice"


def write_network(folder: Path, subnet: str) -> None:
    """A CNI configuration for pods: an address each from the subnet, ports of the node mapped, no masquerading."""
    ipam = {"type": "host-local", "ranges": [[{"subnet": subnet}]], "dataDir": str(folder.parent / "ipam")}
    plugins = [
        {"type": "ptp", "ipMasq": False, "ipam": {**ipam, "routes": [{"dst": "0.0.0.0/0"}]}},
        {"type": "portmap", "snat": False, "capabilities": {"portMappings": True}},
    ]
    folder.mkdir(parents=True, exist_ok=True)
    document = {"name": "conformance", "cniVersion": "0.4.0", "plugins": plugins}
    (folder / "10-conformance.conflist").write_text(json.dumps(document))
