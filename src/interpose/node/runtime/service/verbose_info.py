"""The `info` of verbose answers: JSON as containerd writes it, for clients that rebuild state after a restart.

`config` is the create-time request with the field names of the protocol, `runtimeSpec` what is in force now.
"""

import json
from collections.abc import Mapping
from typing import Any

from interpose.cri.message_json import message_to_json
from interpose.node.runtime.service.registry import ContainerEntry, SandboxEntry
from interpose.node.runtime.state.records import ContainerPhase, ContainerRecord, NetworkMode


def container_info(container: ContainerEntry, spec: Mapping[str, Any], executor: str) -> dict[str, str]:
    """The `info` of a verbose ContainerStatus."""
    record = container.record
    return _info(
        {
            "sandboxID": record.sandbox_id,
            "pid": record.pid,
            "removing": record.phase is ContainerPhase.REMOVING,
            "snapshotKey": record.id,
            "runtimeType": executor,
            "config": message_to_json(record.config),
            "runtimeSpec": dict(spec) or _minimal_spec(record),
        }
    )


def sandbox_info(sandbox: SandboxEntry, executor: str, cgroup: str) -> dict[str, str]:
    """The `info` of a verbose PodSandboxStatus."""
    record, has_shim = sandbox.record, sandbox.shim is not None
    return _info(
        {
            "pid": sandbox.pause_pid,
            "processStatus": "running" if has_shim else "deleted",
            "netNamespaceClosed": record.place is NetworkMode.POD and not has_shim,
            "network": record.place.value,
            "runtimeHandler": record.runtime_handler,
            "runtimeType": executor,
            "shim": sandbox.shim.pid if sandbox.shim is not None else 0,
            "config": message_to_json(record.config),
            "resources": message_to_json(record.resources),
            "overhead": message_to_json(record.overhead),
            "runtimeSpec": {
                "annotations": {"io.kubernetes.cri.container-type": "sandbox"},
                "linux": {"cgroupsPath": cgroup},
            },
        }
    )


def _minimal_spec(record: ContainerRecord) -> dict[str, Any]:
    """After a restart of the machine the configuration is gone, but the container's sandbox is known."""
    return {"annotations": {"io.kubernetes.cri.sandbox-id": record.sandbox_id}}


def _info(document: dict[str, Any]) -> dict[str, str]:
    return {"info": json.dumps(document)}
