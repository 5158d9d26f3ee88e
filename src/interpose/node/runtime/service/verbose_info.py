"""The `info` of verbose answers: JSON as runtimes in the field write it, for whoever rebuilds state after a restart.

`config` is the create-time request with the field names of the protocol, `runtimeSpec` what is in force now.
"""

import json
from collections.abc import Mapping
from typing import Any

from interpose.cri.message_json import message_to_json
from interpose.node.runtime.service.registry import ContainerEntry, SandboxEntry
from interpose.node.runtime.state.records import ContainerPhase, ContainerRecord, NetworkPlace


def container_info(container: ContainerEntry, spec: Mapping[str, Any], executor: str) -> dict[str, str]:
    """What ContainerStatus adds when asked to be verbose."""
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
    """What PodSandboxStatus adds when asked to be verbose."""
    record, there = sandbox.record, sandbox.shim is not None
    return _info(
        {
            "pid": sandbox.holder,
            "processStatus": "running" if there else "deleted",
            "netNamespaceClosed": record.place is NetworkPlace.POD and not there,
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
    """The configuration is gone with a restart of the machine; where the container belonged is not."""
    return {"annotations": {"io.kubernetes.cri.sandbox-id": record.sandbox_id}}


def _info(document: dict[str, Any]) -> dict[str, str]:
    return {"info": json.dumps(document)}
